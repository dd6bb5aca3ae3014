"""The function :func:`ebm.landscape`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ebm._arrays import as_integer
from ebm._jobs import Engine, require_engine
from ebm._landscape._complete import BYTES_PER_STATE, LabelledStates, seconds_of_valleys
from ebm._landscape._energies import finite_space, seconds_of_energies
from ebm._landscape._quenches import (
    Quenched,
    affordable,
    bounds_on_passes,
    given_draws,
    quench,
    tempered_draws,
)
from ebm._landscape._tree import ValleyEdges
from ebm._landscape.valleys import Landscape
from ebm._randomness import RandomSource, generator
from ebm._types import Array, Indices
from ebm.ensembles import Estimate
from ebm.enumeration._limits import Limits, describe_size, number_of_states
from ebm.errors import EbmError, EnumerationLimitError
from ebm.model import EnergyModel
from ebm.spaces import FiniteSpace

__all__ = ["landscape"]

METHODS = ("auto", "complete", "quenches")


def landscape(
    model: EnergyModel,
    *,
    method: str = "auto",
    samples: Any = None,
    n_quenches: int = 4000,
    rng: RandomSource = None,
    max_seconds: float = 60.0,
    max_memory: float = 2 * 2.0**30,
    executor: Engine | None = None,
) -> Landscape:
    """Minima of the energy, their basins, and the lowest passes; [EBM] Theorem 4.

    States are neighbors that differ in one unit. A minimum is a state, or a connected plateau of
    states of equal energy (up to 1e-12 of the largest), without a lower neighbor. Its basin is
    what steepest descent leads to it: to the lowest neighbor, the one that is numbered first among
    ties; plateaus with a way down are left by the nearest. The lowest pass between two minima is
    the least, over all paths of neighbors, of the highest energy on the path; it does not depend
    on these rules.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space. Units of more than two values may change to any other.
    method : str
        ``"complete"``: all states, up to about 2^26. ``"quenches"``: steepest descent from draws
        of the model and from states drawn uniformly, with estimates of what was missed; passes are
        then upper bounds from paths between minima. ``"auto"``: complete within the limits, else
        quenches.
    samples : Samples or array_like, (m, n), optional
        Draws from which quenches start: chains, or independent rows. By default 128 chains of
        parallel tempering are drawn.
    n_quenches : int
        Number of uniform states, and of draws if none are given.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of quenches.
    max_seconds, max_memory : float
        Work that would take more seconds or bytes is refused before it begins. Of quenches, those
        that complete the list and paths beyond one from each minimum take what time is left.
    executor : object with submit, optional
        Runs quenches and paths as jobs, of about a second each where units interact in pairs: a
        pool of :mod:`concurrent.futures`, or of another engine. The result does not depend on it,
        nor is the time that ``max_seconds`` counts divided by the number of workers.

    Returns
    -------
    Landscape
        Minima from the deepest on, basins and passes.

    Raises
    ------
    ModelError
        If the space is not finite.
    EbmError
        If ``method`` is none of the three, or samples or an executor are given and not used.
    EnumerationLimitError
        If a limit would be exceeded.
    LimitError
        If states of equal energy form plateaus that are too large for quenches.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0.2, 0, 0])
    >>> print(ebm.landscape(ring))
    2 minima; complete: all 2^3 states
         state   energy  basin  weight  joins    pass  barrier
      0  111    -3.2000      4  0.5953
      1  000    -2.8000      4  0.4047      0  0.8000   3.6000
    """
    space = finite_space(model, "landscape")
    if method not in METHODS:
        raise EbmError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if samples is not None and method != "quenches":
        raise EbmError('samples are the starts of quenches: give method="quenches", too')
    require_engine(executor)
    if executor is not None and method != "quenches":
        raise EbmError('an executor runs quenches: give method="quenches", too')
    n_quenches, source = as_integer(n_quenches, "n_quenches", least=10), generator(rng)
    size, limits = number_of_states(space), Limits(max_seconds, max_memory)
    if method != "quenches":
        try:
            limits.require(
                f"the valleys of {describe_size(space)}",
                seconds_of_energies(model, space) + seconds_of_valleys(space),
                BYTES_PER_STATE * size,
                'take method="quenches"',
            )
        except EnumerationLimitError:
            if method == "complete":
                raise
        else:
            return _complete(model, space)
    draws = None if samples is None else given_draws(space, samples)
    n_starts = 2 * n_quenches if draws is None else n_quenches + draws[..., 0].size
    n_rounds, n_paths = affordable(model, space, n_starts, n_quenches, max_seconds)
    if draws is None:
        draws = tempered_draws(model, space, n_quenches, max_seconds, source)
    quenched = quench(model, space, draws, n_quenches, n_rounds, source, executor)
    return _quenched(model, space, quenched, n_quenches, n_paths)


def _complete(model: EnergyModel, space: FiniteSpace) -> Landscape:
    valleys = LabelledStates.of(model, space)
    k, edges = len(valleys.minima), valleys.edges()
    parents, passes, crossings = edges.tree(k)
    none, zeros = Estimate(0.0, 0.0), np.zeros(k)
    return Landscape(
        model,
        f"complete: all {describe_size(space)}",
        space.states_at(valleys.minima),
        valleys.energies[valleys.minima],
        valleys.degeneracies,
        Estimate(valleys.sizes / len(valleys.energies), zeros),
        Estimate(valleys.weights(1.0), zeros),
        parents,
        passes,
        _states_of_passes(crossings, edges, space.states_at(edges.tops)),
        none,
        none,
        valleys,
    )


def _quenched(
    model: EnergyModel, space: FiniteSpace, quenched: Quenched, n_uniform: int, n_paths: int
) -> Landscape:
    edges, tops = bounds_on_passes(quenched, n_paths)
    parents, passes, crossings = edges.tree(len(quenched.minima))
    n_draws = quenched.n_draws
    return Landscape(
        model,
        f"quenches of {n_uniform} uniform states and {n_draws} draws",
        space.states(quenched.minima),
        quenched.energies,
        quenched.degeneracies,
        quenched.shares,
        quenched.weights,
        parents,
        passes,
        _states_of_passes(crossings, edges, space.states(tops[edges.tops])),
        quenched.missed_share,
        quenched.missed_weight,
        # Its executor may end before the landscape does.
        quenched._replace(descent=replace(quenched.descent, executor=None)),
    )


def _states_of_passes(crossings: Indices, edges: ValleyEdges, tops: Array) -> Array:
    """The state at the pass of each minimum, from those of all edges, (k, n)."""
    states = np.full((len(crossings), tops.shape[1]), np.nan)
    is_joined = crossings >= 0
    states[is_joined] = tops[crossings[is_joined]]
    return states
