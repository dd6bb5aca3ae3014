"""The command ``ebm sample``: draws of a saved model as a table."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.cli.options import (
    add_options,
    check_outputs,
    count,
    non_negative,
    tell,
    told,
    write_bytes,
)
from ebm.cli.results import JSON, by_name, write_record
from ebm.cli.talk import is_standard_output, shows_progress
from ebm.enumeration import exact
from ebm.errors import EbmError, LimitError
from ebm.io import load
from ebm.sampling import Samples, SamplingRun, sample
from ebm.sampling.chain_estimate import FEWEST_DRAWS, LARGEST_R_HAT
from ebm.tables import write_table
from ebm.tables._columns import default_names
from ebm.tables.write_table import text_blocks

_MIXED, _NOT_MIXED, _INTERRUPTED = 0, 1, 130
#: An enumeration that takes longer is replaced by chains.
_SECONDS = 5.0
_CHAINS, _BURN_IN, _THIN = 4, 100, 1
#: Why diagnostics have no value.
_REASONS = {
    "r_hat": "fewer than 4 draws of each chain, or a unit that never changes",
    "effective_sample_size": "fewer than 4 draws of each chain, or a unit that never changes",
}

_OPTIONS = (
    ("-n --n-draws N", count, "rows to draw (default 1000)"),
    ("-o --out draws.csv", Path, "file for the draws (.csv .tsv .npy .npz); CSV to the standard "
     "output without it"),
    JSON,
    ("--n-chains C", count, f"number of chains (default {_CHAINS})"),
    ("--burn-in S", non_negative, f"sweeps before the first draw (default {_BURN_IN})"),
    ("--thin S", count, f"sweeps from one draw of a chain to the next (default {_THIN})"),
    ("--seed N", non_negative, "seed of the random numbers; random by default, and printed"),
    ("--force", None, "overwrite the output file"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Draws:
    """Rows (n_rows, n) in the coding of a model, and what the command exits with."""

    states: NDArray[Any]
    names: tuple[str, ...]
    code: int = _MIXED
    #: How they were made and how far they can be trusted, by the keys of ``--json``.
    record: Mapping[str, Any] = field(default_factory=dict)


def add_sample(commands: Any) -> None:
    """Add the command ``sample`` to those of a parser."""
    command = commands.add_parser(
        "sample",
        help="draw from a saved model",
        description="Draw from a model written by ebm fit --out or ebm.save. The draws are "
        f"independent and exact where an enumeration takes less than about {_SECONDS:g} seconds; "
        "otherwise, or with options of chains, they come from Gibbs chains.",
        epilog=f"Exit codes: 0 success; 1 chains have not mixed (R-hat above "
        f"{LARGEST_R_HAT}); 2 an error; 130 interrupted by Ctrl-C.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="the .npz file of a model")
    add_options(command, _OPTIONS)
    command.set_defaults(run=_sample, n_draws=1000)


def _sample(arguments: argparse.Namespace) -> int:
    out = arguments.out
    check_outputs([out, arguments.json], arguments.model, force=arguments.force, table=out)
    if out is None and arguments.json is not None and is_standard_output(arguments.json):
        raise EbmError(
            "the draws and --json - cannot both go to the standard output: name a file for one of "
            "them, as with --out draws.csv"
        )
    model = load(arguments.model)
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    settings = {
        "n_chains": arguments.n_chains,
        "burn_in": arguments.burn_in,
        "thin": arguments.thin,
    }
    draws = draw(model, arguments.n_draws, seed, **settings)
    write(draws, out, force=arguments.force)
    entries = {"n_draws": len(draws.states), "seed": seed, **draws.record}
    write_record("sample", entries, arguments.json, force=arguments.force, reasons=_REASONS)
    return draws.code


def draw(model: Any, n_rows: int, seed: int, **settings: int | None) -> Draws:
    """Rows of a model, from an enumeration where it is quick, from chains elsewhere.

    Any of ``n_chains``, ``burn_in`` and ``thin`` selects chains. The method is printed on the
    standard error stream.
    """
    asked_for = {name: value for name, value in settings.items() if value is not None}
    names = tuple(model.space.names or default_names(model.space.n))
    if not asked_for:
        try:
            states = exact(model, max_seconds=_SECONDS).sample(n_rows, rng=seed)
        except LimitError:
            pass
        else:
            tell(f"{n_rows} independent draws by exact enumeration (seed {seed})")
            small = states.astype(np.min_scalar_type(-int(states.max()) - 1))
            return Draws(small, names, record={"method": "independent exact draws"})
    chains: dict[str, Any] = {"n_chains": _CHAINS, "burn_in": _BURN_IN, "thin": _THIN} | asked_for
    chains["n_chains"] = min(chains["n_chains"], n_rows)
    sizes, n_draws = dict(chains), -(-n_rows // chains["n_chains"])
    run = SamplingRun(thin=chains.pop("thin"), progress=shows_progress())
    with told():
        samples = sample(model, n_draws=n_draws, rng=seed, run=run, **chains)
    # Ctrl-C leaves fewer.
    is_cut, n_rows = samples.chains.shape[1] < n_draws, min(n_rows, samples.chains[..., 0].size)
    tell(
        f"{n_rows} draws of {chains['n_chains']} Gibbs chains, {chains['burn_in']} sweeps before "
        f"the first draw and {run.thin} from one to the next (seed {seed})"
    )
    states = samples.chains.reshape(-1, model.space.n)[:n_rows]
    is_mixed, diagnostics = _mixed(samples, names)
    code = _INTERRUPTED if is_cut else _MIXED if is_mixed else _NOT_MIXED
    return Draws(states, names, code, {"method": "Gibbs chains", **sizes, **diagnostics})


def _mixed(samples: Samples, names: tuple[str, ...]) -> tuple[bool, dict[str, Any]]:
    """Whether the chains agree; R-hat and effective sample size, which are printed."""
    if samples.chains.shape[1] < 4:
        tell("fewer than 4 draws of each chain: whether the chains agree cannot be said")
        return True, {"r_hat": None, "effective_sample_size": None}
    with told():
        r_hat, ess = samples.r_hat, samples.ess
    diagnostics = {"r_hat": by_name(names, r_hat), "effective_sample_size": by_name(names, ess)}
    if np.isnan(r_hat).all():
        return False, diagnostics
    worst, least = int(np.nanargmax(r_hat)), int(np.nanargmin(ess))
    tell(
        f"R-hat at most {r_hat[worst]:.3f} ({names[worst]}); the draws are worth at least "
        f"{ess[least]:.0f} independent ones ({names[least]})"
    )
    if ess[least] < FEWEST_DRAWS:
        tell(
            f"fewer than {FEWEST_DRAWS}: an error of a mean of these draws is not to be trusted, "
            "raise -n or --thin"
        )
    if r_hat[worst] <= LARGEST_R_HAT:
        return True, diagnostics
    tell(f"R-hat above {LARGEST_R_HAT}: the chains do not agree, raise --burn-in and --thin")
    return False, diagnostics


def write(draws: Draws, path: Path | None, *, force: bool) -> None:
    """Write draws to a file, or as CSV to the standard output."""
    if path is None:
        write_bytes(text_blocks(draws.states, draws.names))
    else:
        write_table(path, draws.states, draws.names, overwrite=force)
