"""The commands ``ebm fit`` and ``ebm demo``: from data to a model and a report."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ebm import datasets
from ebm._text import wrapped
from ebm.cli import drawing
from ebm.cli.options import (
    add_options,
    check_outputs,
    codes,
    count,
    cut,
    items_in_options,
    name_list,
    non_negative,
    penalty,
    positive,
    probability,
    report_in_options,
    say,
    tell,
    three_names,
    write_figure,
)
from ebm.cli.reading import reading_options
from ebm.cli.results import write_record
from ebm.cli.talk import says_notes, shows_progress
from ebm.ensembles import IncompleteEnsemble
from ebm.errors import (
    CodingError,
    ConstantUnitError,
    EbmError,
    MissingValueError,
)
from ebm.inversion import EdgePrior
from ebm.inversion.edge_posterior import MOST_UNITS, require_affordable
from ebm.io import save
from ebm.learning import Penalty
from ebm.plotting import edge_posterior, items_figure, report_figure
from ebm.report import (
    MAX_UNITS_EXACT,
    MAX_UNITS_SAMPLED,
    ItemReport,
    Report,
    analyze,
    analyze_items,
)
from ebm.report._edges import with_edges
from ebm.report._json_keys import REASONS
from ebm.spaces import Binary, Spins
from ebm.tables import Table, read_table
from ebm.tables.binarize import codes_doubt
from ebm.tables.table import KEPT

_CONVERGED, _NOT_CONVERGED, _INTERRUPTED = 0, 1, 130
#: Smallest numbers of units for which a fit shows its iterations, and takes minutes.
_SLOW_UNITS, _VERY_SLOW_UNITS = 22, 29

#: Constant columns are named one by one up to this number of them.
_MOST_NAMED = 40
_HOW_TO_DRAW = "To see these numbers drawn: ebm demo --figure report.png"

EXIT_CODES = (
    "Exit codes: 0 the fit converged, or there was none to make (above "
    f"{MAX_UNITS_SAMPLED} columns, or fewer rows than more than {MAX_UNITS_EXACT} columns and no "
    "penalty); 1 it did not converge; 2 an error; 130 interrupted by Ctrl-C."
)

DATA_FILES = ".csv .tsv .txt (.gz) .npy .npz .mat .xlsx .sav .parquet .feather"
_READING = (
    ("--columns A,B,C", name_list, "columns to take, by name; 1,2,3 are positions counted from 0, "
     "and 3-7 a range of them, where no column has that name"),
    ("--exclude A,B", name_list, "columns to leave out, named as for --columns"),
    ("--missing 9,99", name_list, "values that mean 'no answer', besides empty cells, NA, ? and a "
     "point"),
    ("--threshold T", cut, "1 where a value is above T, 0 elsewhere; T is a number, mean or median "
     "of each column, or such for columns by name as in a=1.5,b=mean"),
    ("--part NAME", str, "the sheet of a workbook, or the array of a .npz or .mat file"),
    ("--yes WORD", name_list, "words that mean 1, such as yes,y or ja; needs --no"),
    ("--no WORD", name_list, "words that mean 0"),
)  # fmt: skip
INCOMPLETE = (
    ("--drop-missing", None, "leave out incomplete rows"),
    ("--missing-at-random", None, "keep incomplete rows: the likelihood sums over what their "
     "missing cells might hold, which is right if a cell is missing for no reason but the cells "
     f"seen in its row; up to {MAX_UNITS_EXACT} columns"),
)  # fmt: skip
_LAYOUTS = (
    ("--transpose", None, "rows are units"),
    ("--long ID,ITEM,RESP", three_names, "each row holds one value: the columns of the sample, the "
     "unit and the value"),
)  # fmt: skip
PENALTIES = (
    ("--l2 X", penalty, "penalty on couplings, X/2 times the sum of their squares; 1/rows is a "
     "mild one"),
    ("--l2-biases X", penalty, "the same for biases; needed if a column never changes"),
)  # fmt: skip
_EDGES = (
    ("--edge-posterior", None, "probability of every edge of the network, up to "
     f"{MOST_UNITS} columns"),
    ("--edge-probability P", probability, "its prior probability of an edge (default 0.5)"),
    ("--coupling-width S", positive, "its prior deviation of a coupling that is there, in units of "
     "-1 and 1 (default 0.5)"),
    ("--max-seconds S", count, "refuse it if it would take longer (default 300)"),
    ("--edge-figure edges.png", Path, "draw these probabilities"),
)  # fmt: skip
_OUTPUTS = (
    ("-o --out model.npz", Path, "write the model"),
    ("--figure report.png", Path, "draw the report"),
    ("--report report.html", Path, "write the report as one page with figures, sortable tables and "
     "averages against temperature; opens in any browser, without a network"),
    ("--json report.json", Path, "write the numbers"),
    ("--samples N", count, "draw N rows from the fitted model; needs --samples-out"),
    ("--samples-out draws.csv", Path, "file for these rows (.csv .tsv .npy .npz); by default as "
     "many rows as the data have"),
    ("--seed N", non_negative, "seed of all draws from the model (default 0)"),
    ("--checkpoint fit.npz", Path, "keep the state of the fit here, and go on from it if it is "
     "there"),
    ("--force", None, "overwrite output files"),
)  # fmt: skip


def add_fit(commands: Any) -> None:
    """Add the command ``fit`` to those of a parser."""
    fit = commands.add_parser(
        "fit",
        help="fit a data file",
        description=f"Fit a data file: exactly up to {MAX_UNITS_EXACT} columns, which takes "
        f"minutes from {_VERY_SLOW_UNITS} on, by Markov chains up to {MAX_UNITS_SAMPLED}, by the "
        "first-order inversion above.",
        epilog=EXIT_CODES,
    )
    fit.add_argument("data", type=Path, metavar="DATA", help=DATA_FILES)
    add_reading(fit)
    add_options(fit.add_mutually_exclusive_group(), INCOMPLETE)
    add_options(fit.add_mutually_exclusive_group(), _LAYOUTS)
    add_coding(fit)
    _add_settings(fit)
    fit.set_defaults(run=_fit, missing=[])


def add_reading(command: Any) -> None:
    """Add the options of every command that reads a table of data."""
    add_options(command, _READING)
    headers = command.add_mutually_exclusive_group()
    said = "the first line holds names; as the file shows it by default"
    headers.add_argument("--header", action="store_const", const=True, help=said)
    said = "the first line holds data"
    headers.add_argument("--no-header", action="store_const", const=False, dest="header", help=said)


def add_coding(command: Any) -> None:
    """Add the options that say what the numbers of a table are."""
    codings = command.add_mutually_exclusive_group()
    codings.add_argument("--spins", action="store_true", help="data are coded -1 and 1")
    said = (
        "data are ordered categories: their first and last code, and those of columns with other "
        "codes by name, as in 1-5,q3=0-3"
    )
    codings.add_argument("--ordinal", type=codes, metavar="1-5", help=said)


def add_demo(commands: Any) -> None:
    """Add the command ``demo`` to those of a parser."""
    said = "fit the bundled spikes of ten cells"
    demo = commands.add_parser(
        "demo", help=said, description=f"{said.capitalize()}.", epilog=EXIT_CODES
    )
    _add_settings(demo)
    demo.set_defaults(run=_fit, data=None, ordinal=None)


def _add_settings(command: argparse.ArgumentParser) -> None:
    """Options of a fit that do not depend on where its data come from."""
    add_options(command, PENALTIES)
    said = "center of the model that is written; changes no probability"
    text = "fit the distribution of the number of active units as well, beside the pairwise model"
    command.add_argument("--k-pairwise", action="store_true", help=text)
    add_options(command, _EDGES)
    command.add_argument("--center", choices=["none", "mean"], default="none", help=said)
    add_options(command, _OUTPUTS)
    command.set_defaults(l2=0.0, l2_biases=0.0, seed=0, max_seconds=300)


def _fit(arguments: argparse.Namespace) -> int:
    """Fit, report and write; the exit code."""
    if arguments.samples and not arguments.samples_out:
        raise EbmError("--samples needs a file to write to: --samples-out draws.csv")
    arguments.edge_posterior |= bool(
        arguments.edge_probability or arguments.coupling_width or arguments.edge_figure
    )
    figures = (arguments.figure, arguments.edge_figure)
    check_outputs(
        (arguments.out, *figures, arguments.report, arguments.json, arguments.samples_out),
        arguments.data,
        force=arguments.force,
        figures=figures,
        page=arguments.report,
        table=arguments.samples_out,
        kept=arguments.checkpoint,
    )
    with _told_of(arguments.checkpoint):
        report = _fit_demo(arguments) if arguments.data is None else _fit_file(arguments)
    how = () if arguments.data or arguments.figure or arguments.report else ("", _HOW_TO_DRAW)
    try:
        say(report, *how)
    finally:
        # Files are written even if the output is no longer read.
        _write(report, arguments)
    if report.interrupted:
        return _INTERRUPTED
    fits = (report.fit, getattr(report, "populations", None))
    return _CONVERGED if all(fit is None or fit.converged for fit in fits) else _NOT_CONVERGED


@contextmanager
def _told_of(checkpoint: Path | None) -> Iterator[None]:
    """Say that a fit goes on from a file, and whether there was anything left to do."""
    written = _written(checkpoint)
    if written is not None:
        tell(f"the fit goes on from {checkpoint}")
    yield
    if written is not None and _written(checkpoint) == written:
        tell(
            f"the fit had been finished in {checkpoint}: remove it, or name another, to begin anew"
        )


def _written(path: Path | None) -> tuple[int, int] | None:
    """Which file has this name now, and since when; each one that is written is new."""
    if path is None or not path.exists():
        return None
    state = path.stat()
    return state.st_ino, state.st_mtime_ns


def _fit_file(arguments: argparse.Namespace) -> Report | ItemReport:
    layout = arguments.long or ("transposed" if arguments.transpose else "wide")
    needs_complete_rows = _refuse_contradictions(arguments)
    try:
        table = read_table(arguments.data, layout=layout, **reading_options(arguments))
    except MissingValueError as error:
        if not needs_complete_rows:
            raise
        raise MissingValueError(str(error).replace(KEPT, "")) from error
    if table.doubt:
        tell(table.doubt)
    if arguments.ordinal is not None:
        return _fit_items(table, arguments)
    seen = (column[~np.isnan(column)] for column in table.states.T)
    changes = [len(column) > 0 and np.ptp(column) != 0 for column in seen]
    constant = [name for name, change in zip(table.names, changes, strict=True) if not change]
    if constant:
        table = replace(table, notes=(*table.notes, _constant_columns(constant, table)))
    try:
        return _analyzed(table, arguments, Spins if arguments.spins else Binary)
    except CodingError as error:
        advice = _advice(table, arguments.spins)
        raise CodingError(f"{error} ({advice})" if advice else str(error)) from error
    except ConstantUnitError as error:
        advice = f" (exclude={constant})" if len(constant) <= _MOST_NAMED else ""
        raise ConstantUnitError(f"{error}{advice}") from error


def _constant_columns(constant: Sequence[str], table: Table) -> str:
    """That columns never change, in words that can be pasted where they are few."""
    if len(constant) <= _MOST_NAMED:
        return f"Columns that never change: exclude={constant}"
    shown = ", ".join(map(repr, constant[:3]))
    return (
        f"{len(constant)} of {len(table.names)} columns never change: {shown}, … ; "
        "leave them out with exclude=, or take others with columns="
    )


def _refuse_contradictions(arguments: argparse.Namespace) -> bool:
    """Refuse options that do not go together; whether the others need complete rows."""
    if arguments.ordinal is not None:
        others = {
            "threshold": arguments.threshold,
            "center": arguments.center,
            "k-pairwise": arguments.k_pairwise or None,
            "edge-posterior": arguments.edge_posterior or None,
        }
        for name, given in others.items():
            if given not in (None, "none"):
                raise EbmError(f"--{name} is for two-valued data: leave it out beside --ordinal")
        return False
    if not arguments.k_pairwise:
        return bool(arguments.edge_posterior)
    if arguments.missing_at_random:
        raise EbmError(
            "--k-pairwise counts the active units of complete rows: give --drop-missing instead of "
            "--missing-at-random"
        )
    if arguments.spins:
        raise EbmError(
            "--k-pairwise counts active units, coded 1 beside 0: give --threshold 0, which turns "
            "spins into these, instead of --spins"
        )
    return True


def _fit_items(table: Table, arguments: argparse.Namespace) -> ItemReport:
    """Fit ordered categories, whose codes are those that were declared."""
    report = analyze_items(
        table,
        arguments.ordinal,
        penalty=Penalty(arguments.l2, arguments.l2_biases),
        rng=arguments.seed,
        checkpoint=arguments.checkpoint,
        progress=shows_progress(),
        missing_at_random=arguments.missing_at_random,
    )
    return items_in_options(report)


def _advice(table: Table, is_spins: bool) -> str:
    """Advice on data in another coding, beyond the message of the state space."""
    values = np.unique(table.states[~np.isnan(table.states)])
    if is_spins and np.isin(values, (0, 1)).all():
        return ""
    if len(values) == 2 and values[0] != -1:
        low, high = values
        cut_in_two = f"threshold={low:g} turns {low:g} into 0 and {high:g} into 1"
        return cut_in_two + (", which are no spins: leave out --spins" if is_spins else "")
    doubt = codes_doubt(table.states, table.names)
    return (f"{doubt}; or " if doubt else "") + (
        "choose columns with columns=, leave some out with exclude=, name values that mean no "
        "answer with missing=, cut numbers in two with threshold=, or say space=ebm.Spins for -1 "
        "and 1, or --ordinal 1-5 for ordered categories from 1 to 5"
    )


def _fit_demo(arguments: argparse.Namespace) -> Report:
    data = datasets.spikes()
    say(*wrapped(data.description, ""), *wrapped(f"Source: {data.source}", ""), "")
    return _analyzed(Table(data.states, data.names, len(data.states)), arguments, Binary)


def _analyzed(
    table: Table, arguments: argparse.Namespace, space: type[Binary] | type[Spins]
) -> Report:
    n = len(table.names)
    if _VERY_SLOW_UNITS <= n <= MAX_UNITS_EXACT:
        tell(
            f"an exact fit of {n} columns sums over 2^{n} states many times and may take minutes; "
            "Ctrl-C ends it with what it has"
        )
    if MAX_UNITS_EXACT < n <= MAX_UNITS_SAMPLED:
        tell(
            f"{n} columns are too many for an exact fit; Markov chains take their place, for a "
            "minute or more; Ctrl-C ends it with what it has"
        )
    data: Any = table
    notes: tuple[str, ...] = ()
    if np.isnan(table.states).any():
        for option, verb in (("figure", "draws"), ("edge_posterior", "needs")):
            if getattr(arguments, option):
                raise EbmError(
                    f"--{option.replace('_', '-')} {verb} statistics of complete rows: leave it "
                    "out, or give --drop-missing instead of --missing-at-random"
                )
        # The notes of a table of complete rows are known to the report.
        data, notes = IncompleteEnsemble.from_data(table, space=space), table.notes
    if arguments.edge_posterior:
        n_fits, seconds = require_affordable(n, arguments.max_seconds)
        tell(
            f"probabilities of {n * (n - 1) // 2} edges take up to {n_fits:.0f} exact fits, about "
            f"{max(1.0, seconds):.0f} s, after the fit of the model"
        )
    report = analyze(
        data,
        space=space,
        penalty=Penalty(arguments.l2, arguments.l2_biases),
        center="mean" if arguments.center == "mean" else 0.0,
        rng=arguments.seed,
        checkpoint=arguments.checkpoint,
        progress=shows_progress(n >= _SLOW_UNITS),
        k_pairwise=arguments.k_pairwise,
    )
    report = report_in_options(replace(report, warnings=(*notes, *report.warnings)))
    if not arguments.edge_posterior:
        return report
    given = {
        "edge_probability": arguments.edge_probability,
        "coupling_width": arguments.coupling_width,
    }
    prior = EdgePrior(**{name: value for name, value in given.items() if value is not None})
    how = {"max_seconds": arguments.max_seconds, "progress": says_notes()}
    return with_edges(report, prior, arguments.seed, **how)


def _write(report: Report | ItemReport, arguments: argparse.Namespace) -> None:
    if arguments.out is not None and report.model is not None:
        save(report.model, arguments.out, overwrite=arguments.force)
    if arguments.json is not None:
        entries, path = report.to_dict(), arguments.json
        write_record(arguments.command, entries, path, force=arguments.force, reasons=REASONS)
    if arguments.report is not None:
        report.save_report(
            arguments.report,
            title="spikes of ten cells" if arguments.data is None else arguments.data.name,
            note=arguments.written,
            overwrite=arguments.force,
        )
    if arguments.figure is not None:
        draw = items_figure if isinstance(report, ItemReport) else report_figure
        write_figure(draw(report), arguments.figure, force=arguments.force)
    posterior = getattr(report, "posterior", None)
    if arguments.edge_figure is not None and posterior is not None:
        write_figure(edge_posterior(posterior), arguments.edge_figure, force=arguments.force)
    # The other files are written first.
    for path in (arguments.out, arguments.samples_out):
        if path is not None and report.model is None:
            raise EbmError(f"there is no model to write to {path}: see the warnings above")
    if arguments.samples_out is not None:
        n_rows = arguments.samples or report.summary.n_rows
        draws = drawing.draw(report.model, n_rows, arguments.seed)
        if isinstance(report, ItemReport):
            # In the codes of the data.
            first = np.array([codes[0] for codes in report.summary.codes])
            draws = replace(draws, states=draws.states.astype(np.int64) + first)
        drawing.write(draws, arguments.samples_out, force=arguments.force)
