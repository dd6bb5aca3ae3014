"""Where a search for self-consistent means begins, and the solutions of many such searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from ebm._arrays import as_integer
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.errors import ConvergenceError, EbmError, ModelError
from ebm.models._couplings import vector
from ebm.spaces import Binary, FiniteSpace

__all__ = ["distinct_solutions", "first_log_odds"]


#: Solutions whose means differ by less are one.
SAME = 1e-6
#: Distance of the first means from 0 and 1.
MARGIN = 1e-15


class Solution(Protocol):
    """What solutions are told apart and ordered by."""

    @property
    def settled(self) -> tuple[float, Array]:
        """ln Z and means, (n,), without a word about their errors."""


Found = TypeVar("Found", bound=Solution)


def first_log_odds(start: Any, space: FiniteSpace, rng: RandomSource) -> Array:
    """Log-odds of the means to begin with.

    Parameters
    ----------
    start : "uniform", "random" or array_like, (n,)
        Uniform units, random means, or these means.
    space : FiniteSpace
        The coding of such means.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of a random start.

    Returns
    -------
    ndarray, (n,)
        Finite.

    Raises
    ------
    EbmError
        If ``start`` is an unknown word.
    ModelError
        If a mean is beyond the values of a unit.

    Examples
    --------
    >>> import ebm
    >>> from ebm.perturbation._starts import first_log_odds
    >>> first_log_odds([0.0, 0.6], ebm.Spins(2), None).round(6)
    array([0.      , 1.386294])
    """
    if isinstance(start, str) and start == "uniform":
        return np.zeros(space.n)
    if isinstance(start, str) and start == "random":
        mean = generator(rng).uniform(0, 1, space.n)
    elif start is None or isinstance(start, str):
        raise EbmError(f'start must be "uniform", "random" or means, got {start!r}')
    else:
        given = vector(start, space.n, "start", space.names)
        mean = given if isinstance(space, Binary) else (1 + given) / 2
    if ((mean < 0) | (mean > 1)).any():
        low, high = space.values
        raise ModelError(f"start must hold means of units, from {low:g} to {high:g}")
    mean = np.clip(mean, MARGIN, 1 - MARGIN)
    return np.asarray(np.log(mean / (1 - mean)))


def distinct_solutions(
    solve: Callable[[str, np.random.Generator], Found], n_starts: Any, rng: RandomSource
) -> tuple[Found, ...]:
    """Different solutions from the uniform start and from random ones.

    Parameters
    ----------
    solve : callable
        From ``"uniform"`` or ``"random"`` and a source of randomness to a solution, or a
        :class:`ebm.errors.ConvergenceError`.
    n_starts : int
        How many random starts.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    tuple
        The largest ln Z first.

    Raises
    ------
    ConvergenceError
        If no start converged.
    """
    stream, n_starts = generator(rng), as_integer(n_starts, "n_starts", least=0)
    found: list[Found] = []
    failure = None
    for start in ["uniform", *["random"] * n_starts]:
        try:
            solution = solve(start, stream)
        except ConvergenceError as error:
            failure = error
            continue
        mean = solution.settled[1]
        if all(np.abs(mean - other.settled[1]).max() > SAME for other in found):
            found.append(solution)
    if failure is not None and not found:
        raise failure
    return tuple(sorted(found, key=_rank))


def _rank(solution: Solution) -> tuple[float, ...]:
    """Largest ln Z first; equal ones, as of states that mirror each other, in a fixed order."""
    log_partition, mean = solution.settled
    return (-round(log_partition, 8), *(-mean.round(6)).tolist())
