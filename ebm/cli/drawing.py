"""The command ``ebm sample``: draws of a saved model as a table."""

from __future__ import annotations

import argparse
import errno
import secrets
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.cli.arguments import count, non_negative
from ebm.cli.options import in_options
from ebm.cli.outputs import check_outputs, write_bytes
from ebm.enumeration import exact
from ebm.errors import EbmWarning, FileFormatError, LimitError
from ebm.io import load
from ebm.sampling import Run, Samples, sample
from ebm.tables import write_table
from ebm.tables.columns import default_names
from ebm.tables.written import SUFFIXES, text_blocks

__all__ = ["Draws", "add_sample", "check_table", "draw", "write"]

_MIXED, _NOT_MIXED = 0, 1
#: Chains whose R-hat is above this have not forgotten where they started.
_LARGEST_R_HAT = 1.1
#: An enumeration that takes longer gives way to chains.
_SECONDS = 5.0
_CHAINS, _BURN_IN, _THIN = 4, 100, 1


@dataclass(frozen=True, eq=False)
class Draws:
    """Rows drawn from a model.

    Parameters
    ----------
    states : ndarray, (n_rows, n)
        In the coding of the model.
    names : tuple of str
        Of its units, or of their columns.
    mixed : bool
        False where the chains say that they have not run long enough.
    """

    states: NDArray[Any]
    names: tuple[str, ...]
    mixed: bool = True


def add_sample(commands: Any) -> None:
    """Add the command ``sample`` to those of a parser."""
    command = commands.add_parser(
        "sample",
        help="draw from a saved model",
        description="Draw from a model that ebm fit --out, or ebm.save, has written. The draws are "
        f"independent and exact where an enumeration takes less than about {_SECONDS:g} seconds, "
        "and those of Gibbs chains elsewhere, or where options of chains are given.",
        epilog=f"Exit codes: 0 all went well; 1 chains have not mixed (R-hat above "
        f"{_LARGEST_R_HAT}); 2 an error; 130 interrupted by Ctrl-C.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="the .npz file of a model")
    command.add_argument(
        "-n", type=count, default=1000, metavar="N", help="rows to draw (default 1000)"
    )
    command.add_argument(
        "-o", "--out", type=Path, metavar="draws.csv",
        help="where to write them (.csv .tsv .npy .npz); CSV to the standard output without it",
    )  # fmt: skip
    command.add_argument(
        "--chains", type=count, metavar="C", help=f"number of chains (default {_CHAINS})"
    )
    command.add_argument(
        "--burn-in", type=non_negative, metavar="S",
        help=f"sweeps before the first draw (default {_BURN_IN})",
    )  # fmt: skip
    command.add_argument(
        "--thin", type=count, metavar="S",
        help=f"sweeps from one draw of a chain to the next (default {_THIN})",
    )  # fmt: skip
    command.add_argument(
        "--seed", type=non_negative, metavar="N",
        help="of the random numbers; a fresh one, which is said, without it",
    )  # fmt: skip
    command.add_argument("--force", action="store_true", help="overwrite the output file")
    command.set_defaults(run=_sample)


def _sample(arguments: argparse.Namespace) -> int:
    check_outputs([arguments.out], arguments.model, force=arguments.force)
    if arguments.out is not None:
        check_table(arguments.out)
    elif sys.__stdout__ is None:
        raise OSError(errno.EBADF, "is closed, name a file with --out", "the standard output")
    model = load(arguments.model)
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    settings = {"n_chains": arguments.chains, "burn_in": arguments.burn_in, "thin": arguments.thin}
    draws = draw(model, arguments.n, seed, **settings)
    write(draws, arguments.out, force=arguments.force)
    return _MIXED if draws.mixed else _NOT_MIXED


def draw(model: Any, n_rows: int, seed: int, **settings: int | None) -> Draws:
    """Rows of a model, and a sentence to the standard error stream on how they were drawn.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space.
    n_rows : int
        How many.
    seed : int
        Of the random numbers.
    **settings : int or None
        ``n_chains``, ``burn_in`` and ``thin``; chains are taken where one of them is not None.

    Returns
    -------
    Draws
        From an enumeration where it is quick, from chains elsewhere.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    names = tuple(model.space.names or default_names(model.space.n))
    if not given:
        try:
            states = exact(model, max_seconds=_SECONDS).sample(n_rows, rng=seed)
        except LimitError:
            pass
        else:
            _say(f"{n_rows} independent draws by exact enumeration (seed {seed})")
            return Draws(states.astype(np.min_scalar_type(-int(states.max()) - 1)), names)
    chosen: dict[str, Any] = {"n_chains": _CHAINS, "burn_in": _BURN_IN, "thin": _THIN} | given
    chosen["n_chains"] = min(chosen["n_chains"], n_rows)
    n_draws = -(-n_rows // chosen["n_chains"])
    run = Run(thin=chosen.pop("thin"), progress=sys.stderr.isatty())
    samples = sample(model, n_draws=n_draws, rng=seed, run=run, **chosen)
    _say(
        f"{n_rows} draws of {chosen['n_chains']} Gibbs chains, {chosen['burn_in']} sweeps before "
        f"the first draw and {run.thin} from one to the next (seed {seed})"
    )
    states = samples.chains.reshape(-1, model.space.n)[:n_rows]
    return Draws(states, names, _mixed(samples, names))


def _mixed(samples: Samples, names: tuple[str, ...]) -> bool:
    """Whether the chains agree, with a sentence on how well."""
    if samples.chains.shape[1] < 4:
        _say("fewer than 4 draws of each chain: whether the chains agree cannot be said")
        return True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EbmWarning)
        r_hat, ess = samples.r_hat, samples.ess
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        _say(text)
    if np.isnan(r_hat).all():
        return False
    worst, least = int(np.nanargmax(r_hat)), int(np.nanargmin(ess))
    _say(
        f"R-hat at most {r_hat[worst]:.3f} ({names[worst]}); the draws are worth at least "
        f"{ess[least]:.0f} independent ones ({names[least]})"
    )
    if r_hat[worst] <= _LARGEST_R_HAT:
        return True
    _say(f"R-hat above {_LARGEST_R_HAT}: the chains do not agree, raise --burn-in and --thin")
    return False


def check_table(path: Path) -> None:
    """Refuse, before any work, a file of a kind that draws are not written to."""
    if path.suffix.lower() not in SUFFIXES:
        raise FileFormatError(
            f"{path} has the suffix {path.suffix or 'none'}, wanted {', '.join(SUFFIXES)}"
        )


def write(draws: Draws, path: Path | None, *, force: bool) -> None:
    """Write draws to a file, or as CSV to the standard output.

    Parameters
    ----------
    draws : Draws
        The rows.
    path : Path or None
        The file; None for the standard output.
    force : bool
        Replace a file that is there.
    """
    if path is None:
        write_bytes(text_blocks(draws.states, draws.names))
    else:
        write_table(path, draws.states, draws.names, overwrite=force)


def _say(text: str) -> None:
    print(f"ebm: {in_options(text)}", file=sys.stderr)
