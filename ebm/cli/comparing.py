"""The command ``ebm compare-groups``: which couplings differ between groups of rows."""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._text import wrapped
from ebm.cli.fitting import DATA_FILES, INCOMPLETE, PENALTIES, add_coding, add_reading
from ebm.cli.options import (
    add_options,
    check_outputs,
    count,
    in_options,
    non_negative,
    say,
    tell,
    write_figure,
)
from ebm.cli.reading import reading_options
from ebm.cli.results import JSON, require_text, write_record, write_rows
from ebm.cli.talk import shows_progress
from ebm.comparison import GroupComparison, ResampledTests, compare_groups
from ebm.comparison._grouped_rows import of_group, sorted_labels
from ebm.comparison.group_comparison import EXACT_UNITS, is_summed
from ebm.errors import EbmError, EbmWarning
from ebm.inversion import Pseudolikelihood
from ebm.learning import Penalty
from ebm.models import OrdinalModel
from ebm.report.items import flat_model, require_chosen
from ebm.spaces import Binary, FiniteSpace, Spins
from ebm.tables import Table, as_levels, read_labelled_table

#: Smallest number of units for which exact fits of groups take minutes.
_SLOW_UNITS = 20
#: Advice of the library, and the options that follow it.
_AS_OPTIONS = (
    ("loss=ebm.inversion.Pseudolikelihood()", "--pseudolikelihood"),
    ("max_seconds=", "--max-seconds "),
    ("raise max_seconds and give an executor", "raise --max-seconds"),
    ("take permutation_tests", "take --permutations"),
    ("by has ", "--by has "),
    (
        "recode it first, for example (column > threshold).astype(int)",
        "cut numbers in two with --threshold, or give the codes of categories with --ordinal 1-5",
    ),
    (
        "leave the others out, or sum over what cells might hold with loss=ebm.Likelihood(), which "
        "takes about 28 two-valued units",
        "leave the others out with --drop-missing, or sum over what cells might hold, up to "
        f"{EXACT_UNITS} columns and without --pseudolikelihood",
    ),
)
_TESTS = (
    ("--permutations B", count, "test couplings by B permutations of rows between groups, such as "
     "999"),
    ("--parametric B", count, "test couplings by B draws from the fit with equal couplings"),
    ("--seed N", non_negative, "seed of both (default 0)"),
    ("--max-seconds S", count, "refuse draws that would take longer (default 600)"),
)  # fmt: skip
_OUTPUTS = (
    ("--figure differences.png", Path, "draw the differences with their intervals"),
    ("--table differences.csv", Path, "write all differences with errors and p-values (.csv .tsv)"),
    JSON,
    ("--force", None, "overwrite output files"),
)  # fmt: skip
#: Keys of JSON in place of names of columns, tests of all couplings, and why values are null.
_KEYS = {"difference": "difference_kT", "standard_error": "difference_kT_standard_error"}
_GLOBAL = ("structure", "strength")
_REASONS = {
    "log_likelihood_nats_per_row": "pseudo-likelihood knows no likelihood",
    "log_likelihood_nats": "pseudo-likelihood knows no likelihood",
    "statistic": "this test needs fits without a penalty, and more rows than parameters",
    "p": "this test needs fits without a penalty, and more rows than parameters",
}


def add_compare_groups(commands: Any) -> None:
    """Add the command ``compare-groups`` to those of a parser."""
    command = commands.add_parser(
        "compare-groups",
        help="compare the couplings of groups of rows",
        description="Fit each group of rows by itself and with parameters in common, test whether "
        "biases, couplings or both are equal, and list the differences of couplings. Up to "
        f"{EXACT_UNITS} columns, or as many states, likelihoods are exact; beyond, estimates are "
        "those of pseudo-likelihood.",
        epilog="Exit codes: 0 success; 2 an error; 130 interrupted by Ctrl-C.",
    )
    command.add_argument("data", type=Path, metavar="DATA", help=DATA_FILES)
    said = "column that says to which group a row belongs, by name or position"
    command.add_argument("--by", required=True, metavar="COLUMN", help=said)
    add_reading(command)
    add_options(command.add_mutually_exclusive_group(), INCOMPLETE)
    add_coding(command)
    said = "what is tested for equality; each in turn by default"
    command.add_argument("--equal", choices=["biases", "couplings", "all"], help=said)
    said = "fit by pseudo-likelihood whatever the number of columns"
    command.add_argument("--pseudolikelihood", action="store_true", help=said)
    add_options(command, PENALTIES)
    add_options(command, _TESTS)
    add_options(command, _OUTPUTS)
    command.set_defaults(
        run=_compare, missing=[], l2=0.0, l2_biases=0.0, seed=0, max_seconds=600, long=None
    )


def _compare(arguments: argparse.Namespace) -> int:
    """Compare, print and write."""
    check_outputs(
        (arguments.figure, arguments.table, arguments.json),
        arguments.data,
        force=arguments.force,
        figures=[arguments.figure],
    )
    require_text(arguments.table, "--table")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbmWarning)
        try:
            notes, comparison, tests = _compared(arguments)
        except EbmError as error:
            raise type(error)(_as_options(str(error))) from error
    notes += [_as_options(str(warning.message)) for warning in caught]
    parts = ["\n".join(wrapped(in_options(note), "  - ")) for note in dict.fromkeys(notes)]
    try:
        say(
            *(text + "\n" for text in map(str, (comparison, *tests))),
            *(["Warnings", *parts] if parts else []),
        )
    finally:
        _write(comparison, tests, arguments)
    return 0


def _as_options(text: str) -> str:
    for advice, option in _AS_OPTIONS:
        text = text.replace(advice, option)
    return text


def _compared(
    arguments: argparse.Namespace,
) -> tuple[list[str], GroupComparison, list[ResampledTests]]:
    """Notes on the table, the comparison, and its tests by draws."""
    if arguments.ordinal and arguments.threshold is not None:
        raise EbmError("--threshold is for two-valued data: leave it out beside --ordinal")
    options = reading_options(arguments)
    table, labels = read_labelled_table(arguments.data, arguments.by, **options)
    if table.doubt:
        tell(table.doubt)
    table, labels = _labelled(table, labels)
    kind = Spins if arguments.spins else Binary
    coding: dict[str, Any] = {"space": kind}
    space: FiniteSpace = kind(len(table.names))
    if arguments.ordinal:
        table, model = _items(table, labels, arguments)
        coding, space = {"model": model}, model.space
    if not arguments.pseudolikelihood and is_summed(space) and space.size >= 2**_SLOW_UNITS:
        tell(
            f"exact fits of {space.n} columns sum over {space.size_as_powers} states many "
            "times and may take minutes; --pseudolikelihood takes seconds"
        )
    comparison = compare_groups(
        table,
        by=labels,
        equal=arguments.equal,
        loss=Pseudolikelihood() if arguments.pseudolikelihood else None,
        penalty=Penalty(arguments.l2, arguments.l2_biases),
        missing_at_random=arguments.missing_at_random,
        **coding,
    )
    settings = {
        "rng": arguments.seed,
        "max_seconds": arguments.max_seconds,
        "progress": shows_progress(),
    }
    kinds = (
        (arguments.permutations, comparison.permutation_tests),
        (arguments.parametric, comparison.parametric_tests),
    )
    tests = [test(n_draws, **settings) for n_draws, test in kinds if n_draws]
    return list(table.notes), comparison, tests


def _labelled(table: Table, labels: NDArray[Any]) -> tuple[Table, NDArray[Any]]:
    """The rows that have a label, which incomplete rows may lack."""
    lack = np.array([label is None or label != label for label in labels], dtype=bool)
    if not lack.any():
        return table, labels
    note = f"{lack.sum()} of {len(lack)} rows have no label and were left out."
    return replace(table, states=table.states[~lack], notes=(*table.notes, note)), labels[~lack]


def _items(
    table: Table, labels: NDArray[Any], arguments: argparse.Namespace
) -> tuple[Table, OrdinalModel]:
    """The levels of ordered categories in place of their codes, and their model."""
    is_kept = arguments.missing_at_random
    levels, ranges = as_levels(table.states, table.names, arguments.ordinal, keep_missing=is_kept)
    if not arguments.l2_biases:
        different, group = sorted_labels(labels)
        for k, label in enumerate(different):
            with of_group(label):
                require_chosen(levels[group == k], ranges, table.names)
    return replace(table, states=levels), flat_model(ranges, table.names)


def _write(
    comparison: GroupComparison, tests: list[ResampledTests], arguments: argparse.Namespace
) -> None:
    header, rows = _table(comparison, tests)
    if arguments.table is not None:
        cells = [[*names, *(f"{value:.6g}" for value in numbers)] for names, numbers in rows]
        write_rows(arguments.table, header, cells, force=arguments.force)
    keys = [_KEYS.get(name, name) for name in header]
    record = {
        "groups": {
            label: {
                "n_rows": rows_of.sample_size,
                "log_likelihood_nats_per_row": fit.log_likelihood,
            }
            for label, rows_of, fit in zip(
                comparison.groups, comparison.data, comparison.fits, strict=True
            )
        },
        "equalities": [
            {
                "equal": test.equal,
                "method": test.method,
                "statistic": test.statistic,
                "degrees_of_freedom": test.degrees_of_freedom,
                "p": test.p_value,
                "log_likelihood_nats": test.log_likelihood,
            }
            for test in comparison.equalities
        ],
        "differences": [
            dict(zip(keys, (*names, *numbers), strict=True)) for names, numbers in rows
        ],
        "tests_by_draws": [
            {"null": test.null, "n_draws": test.n_draws, "n_failed": test.n_failed}
            | {f"{name}_statistic": getattr(test, name).statistic for name in _GLOBAL}
            | {f"{name}_p": getattr(test, name).p_value for name in _GLOBAL}
            for test in tests
        ],
    }
    path, force = arguments.json, arguments.force
    write_record("compare-groups", record, path, force=force, reasons=_REASONS)
    if arguments.figure is not None:
        write_figure(comparison.plot().figure, arguments.figure, force=arguments.force)


def _table(
    comparison: GroupComparison, tests: list[ResampledTests]
) -> tuple[list[str], list[tuple[list[str], list[float]]]]:
    """All differences from the first group; tests by draws are of all groups together."""
    names = "difference standard_error z p p_holm p_benjamini_hochberg".split()
    of_tests = [f"{kind} ({test.null})" for test in tests for kind in ("p", "p_max", "p_holm")]
    by_draws = [column for test in tests for column in (test.p_values, test.p_max, test.p_holm)]
    rows = []
    for each in comparison.differences:
        columns = (
            each.values,
            each.standard_errors,
            each.z,
            each.p_values,
            each.p_holm,
            each.p_benjamini_hochberg,
            *by_draws,
        )
        for name, *numbers in zip(each.names, *columns, strict=True):
            rows.append(([name, each.reference, each.group], [float(value) for value in numbers]))
    return ["coupling", "reference", "group", *names, *of_tests], rows
