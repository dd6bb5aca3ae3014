"""The command ``ebm compare``: models and estimators against the moments of data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ebm import inversion
from ebm.cli.fitting import DATA_FILES, PENALTIES, add_reading
from ebm.cli.options import (
    add_options,
    check_outputs,
    in_options,
    name_list,
    positive,
    say,
    tell,
    told,
    write_figure,
)
from ebm.cli.reading import rows_of
from ebm.cli.results import JSON, require_text, write_record, write_rows
from ebm.cli.talk import named, shows_progress
from ebm.comparison import Comparison, compare
from ebm.comparison.routes import Route
from ebm.ensembles import Ensemble, WeightedStates
from ebm.enumeration import exact
from ebm.errors import EbmError, LimitError, NamesError
from ebm.forms import QuadraticForm
from ebm.io import load
from ebm.learning import Penalty, fit
from ebm.models._library import model_of
from ebm.report import MAX_UNITS_EXACT
from ebm.spaces import Binary, Spins

#: Estimators from rows, which take a penalty, and from moments, by the names of their functions.
_FROM_ROWS = ("fit", "pseudolikelihood")
_FROM_MOMENTS = (
    "mean_field",
    "naive_mean_field",
    "tap",
    "independent_pair",
    "bethe",
    "sessak_monasson",
)
#: Units from which on the sums are announced.
_SLOW_UNITS = 24
_DEFAULT = ("fit", "pseudolikelihood", "mean_field", "tap", "sessak_monasson")
_OPTIONS = (
    ("-o --out differences.csv", Path, "write the differences of all routes (.csv .tsv)"),
    ("--figure differences.png", Path, "draw means, covariances and correlations"),
    JSON,
    ("--max-seconds S", positive, "longest time of the sums over all states of one model (default "
     "60)"),
    ("--force", None, "overwrite output files"),
)  # fmt: skip
_REASONS = {
    "sample_size": "the moments are exact",
    "log_partition_nats": "data have no ln Z",
    "log_partition_difference_nats": "data have no ln Z",
    "largest_z": "neither route has a sampling error, or this is the reference",
    "rms_z": "neither route has a sampling error, or this is the reference",
    "covariances": "there is only one unit",
    "correlations": "no pair of units changes",
    "relative_covariance_error": "the covariances of the reference are zero",
}


def add_compare(commands: Any) -> None:
    """Add the command ``compare`` to those of a parser."""
    command = commands.add_parser(
        "compare",
        help="compare estimators, and saved models, with data",
        description="Infer a pairwise model from a table of two-valued data by several estimators, "
        "and compare the exact moments of each with those of the data; saved models of the same "
        "units are compared as well. For up to "
        f"{MAX_UNITS_EXACT} columns, as all states are summed.",
        epilog="Exit codes: 0 success; 1 a fit did not converge; 2 an error; 130 interrupted by "
        "Ctrl-C.",
    )
    command.add_argument("data", type=Path, metavar="DATA", help=DATA_FILES)
    said = "the .npz files of models to compare as well"
    command.add_argument("models", type=Path, nargs="*", metavar="MODEL", help=said)
    said = (
        f"those of {', '.join((*_FROM_ROWS, *_FROM_MOMENTS))} that are compared (default "
        f"{','.join(_DEFAULT)}); 'none' with saved models alone"
    )
    command.add_argument("--estimators", type=estimators, metavar="A,B", help=said)
    add_reading(command)
    command.add_argument("--drop-missing", action="store_true", help="leave out incomplete rows")
    command.add_argument("--spins", action="store_true", help="data are coded -1 and 1")
    add_options(command, PENALTIES)
    add_options(command, _OPTIONS)
    command.set_defaults(run=_compare, missing=[], l2=0.0, l2_biases=0.0, max_seconds=60.0)


def estimators(text: str) -> list[str]:
    """Names of estimators, or none."""
    names = [] if text.strip() == "none" else name_list(text)
    known = (*_FROM_ROWS, *_FROM_MOMENTS)
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"must be of {', '.join(known)}; got {name!r}")
    return names


def _compare(arguments: argparse.Namespace) -> int:
    check_outputs(
        (arguments.out, arguments.figure, arguments.json),
        arguments.data,
        force=arguments.force,
        figures=[arguments.figure],
    )
    require_text(arguments.out, "--out")
    if arguments.estimators == [] and not arguments.models:
        raise EbmError("--estimators none leaves nothing to compare: name a saved model")
    kind = Spins if arguments.spins else Binary
    data = Ensemble.from_data(rows_of(arguments.data, arguments), space=kind)
    _require_few(data.space.n)
    penalty = Penalty(arguments.l2, arguments.l2_biases)
    routes: dict[str, Any] = {"data": data}
    left_out: dict[str, str] = {}
    has_converged = True
    with told():
        estimators_asked = _DEFAULT if arguments.estimators is None else arguments.estimators
        for path in arguments.models:
            is_taken = path.stem in routes or path.stem in estimators_asked
            name = named(str(path)) if is_taken else path.stem
            if name in routes:
                raise NamesError(f"{name} is named twice: name every model once")
            routes[name] = exact(load(path), max_seconds=arguments.max_seconds)
        for name in estimators_asked:
            try:
                model, converged = _estimated(name, data, penalty)
            except EbmError as error:
                if arguments.estimators is not None:
                    raise
                left_out[name] = in_options(str(error))
                continue
            has_converged &= converged
            routes[name] = exact(model, max_seconds=arguments.max_seconds)
        comparison = compare(*routes.values(), names=list(routes))
    for name, reason in left_out.items():
        tell(f"{name} is left out: {reason}")
    say(comparison)
    _write(comparison, left_out, arguments)
    return 0 if has_converged else 1


def _require_few(n: int) -> None:
    """Refuse units whose states are too many to be summed, and announce what takes minutes."""
    if n > MAX_UNITS_EXACT:
        raise LimitError(
            f"{n} columns have 2^{n} states, and exact moments are taken of at most "
            f"{MAX_UNITS_EXACT}: choose some with --columns"
        )
    if n >= _SLOW_UNITS:
        tell(f"sums over 2^{n} states for every estimator may take minutes")


def _estimated(name: str, data: WeightedStates, penalty: Penalty) -> tuple[Any, bool]:
    """The model that an estimator infers, and whether its iterations converged."""
    if name in _FROM_MOMENTS:
        return getattr(inversion, name)(data), True
    if name == "pseudolikelihood":
        result = inversion.pseudolikelihood(data, penalty=penalty)
    else:
        n = data.space.n
        start = model_of(QuadraticForm(np.zeros((n, n)), np.zeros(n), 0.0), data.space)
        result = fit(start, data, penalty=penalty, progress=shows_progress(usual=False))
    if result.message.startswith("interrupted"):
        raise KeyboardInterrupt
    if not result.converged:
        tell(f"{name} did not converge: {result.message}")
    return result.model, bool(result.converged)


def _write(comparison: Comparison, left_out: dict[str, str], arguments: argparse.Namespace) -> None:
    records = [_record(route, route is comparison.routes[0]) for route in comparison.routes]
    if arguments.out is not None:
        rows = [_flat(record) for record in records]
        header = max(rows, key=len)
        cells = [[row.get(key, "") for key in header] for row in rows]
        write_rows(arguments.out, list(header), cells, force=arguments.force)
    entries = {
        "n_units": comparison.space.n,
        "reference": comparison.names[0],
        "routes": records,
        "left_out": left_out,
    }
    write_record("compare", entries, arguments.json, force=arguments.force, reasons=_REASONS)
    if arguments.figure is not None:
        write_figure(comparison.plot(), arguments.figure, force=arguments.force)


def _record(route: Route, is_reference: bool) -> dict[str, Any]:
    """The numbers of a route, with units in the keys of those that have one."""
    numbers = asdict(route)
    for kind in ("means", "covariances", "correlations") if is_reference else ():
        if numbers[kind] is not None:
            numbers[kind] |= {"largest_z": None, "rms_z": None}
    return {
        "name": numbers.pop("name"),
        "sample_size": numbers.pop("sample_size"),
        "log_partition_nats": numbers.pop("log_partition"),
        "log_partition_difference_nats": numbers.pop("log_partition_difference"),
        **numbers,
    }


def _flat(record: dict[str, Any]) -> dict[str, object]:
    """A route in one row, a cell for each number of its differences."""
    row: dict[str, object] = {}
    for key, value in record.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, cell in parts:
            text = " - ".join(cell) if isinstance(cell, Sequence) and part else cell
            row[f"{key}_{part}" if part else key] = "" if text is None else text
    return row
