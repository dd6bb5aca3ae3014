"""Averages over the model for learning: chains that follow it, chains from the data, or no chains.

A stateful average has two members: ``start(model, data, rng)`` gives its state, and ``step(model,
batch, state)`` an ensemble that stands for the model, and the next state. A state is an array, or a
dictionary, tuple or dataclass of arrays: it is what a checkpoint holds. It is never changed in
place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_integer, as_number
from ebm._types import Words
from ebm.ensembles import Ensemble, Moments
from ebm.errors import EbmError, ModelError
from ebm.learning._allowed_rows import draw_allowed, require_drawn
from ebm.learning._answers import checked_ensemble
from ebm.learning._batches import Batch, IndexedRows
from ebm.learning._families import joint_model
from ebm.model import EnergyModel, checked_space
from ebm.sampling import ChainState, Gibbs
from ebm.sampling._chains import advance, is_allowed, with_copies
from ebm.sampling._streams import block_slices, new_streams, require_chains
from ebm.sampling.gibbs import Sampler, checked_sampler
from ebm.sampling.sweeper import uniforms
from ebm.spaces import Binary, Spins, StateSpace

__all__ = [
    "ContrastiveDivergence",
    "PersistentChains",
    "StatefulAverage",
    "as_stateful",
    "has_memory",
]


class StatefulAverage(Protocol):
    """What the training loop asks of an average."""

    def start(self, model: Any, data: Any, rng: np.random.Generator) -> Any:
        """The state before the first update."""
        ...

    def step(self, model: Any, batch: Any, state: Any) -> tuple[Any, Any]:
        """An ensemble in place of the model, and the next state."""
        ...


@dataclass(frozen=True)
class PersistentChains:
    """Chains that go on from update to update: persistent contrastive divergence.

    As long as the learning rate is small against the mixing of the chains, they sample the model,
    and the gradient is that of the likelihood :cite:`tieleman2008,younes1999`. The chains start at
    rows of the data. Those of a marginal are chains of its joint model, whose other units start at
    random.

    Parameters
    ----------
    n_chains : int
        Number of chains.
    sweeps : int
        Number of sweeps between updates.
    sampler : Sampler, optional
        The kernel of the chains, by default ``ebm.Gibbs()``.
    restarts : float
        Probability, at each update, that a chain begins again at a row of the batch. Chains that
        never do can leave a mode of the data for good, with nothing to be seen in the updates; a
        few in a hundred that do bias the gradient towards that of contrastive divergence.

    Raises
    ------
    EbmError
        If a number is not a positive integer, ``restarts`` is not between 0 and 1, or ``sampler``
        is not a sampler.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> family = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> chains = ebm.Likelihood(ebm.PersistentChains(1000))
    >>> result = ebm.fit(family, rows * 1000, loss=chains, rng=0)
    >>> result.converged, bool(abs(result.model.weights[0, 1] - 1.3863) < 0.1)
    (True, True)
    """

    n_chains: int = 100
    sweeps: int = 1
    sampler: Sampler | None = None
    restarts: float = 0.0

    #: Its draws follow the model, not the rows.
    completes_rows = False

    def __post_init__(self) -> None:
        if not 0 <= as_number(self.restarts, "restarts") < 1:
            raise EbmError(f"restarts must be a probability below 1, got {self.restarts!r}")
        as_integer(self.n_chains, "n_chains")
        as_integer(self.sweeps, "sweeps")
        checked_sampler(self.sampler)

    def start(self, model: EnergyModel, data: Any, rng: np.random.Generator) -> ChainState:
        """Chains at rows of the data, or at independent units where there are only moments.

        Parameters
        ----------
        model : EnergyModel
            A model over a finite space.
        data : Ensemble or Moments
            The data from which the first states are drawn.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ChainState
            The states and random streams of the chains.
        """
        require_chains(self.n_chains, _sampled_model(model).space.n)
        states = _starting_states(checked_space(model), data, self.n_chains, rng)
        joint = _sampled_model(model)
        if joint is not model:
            kept, states = states, joint.space.random(self.n_chains, rng)
            units = list(cast(Any, model).keep)
            states[:, units] = kept
            is_free = np.ones(states.shape, dtype=bool)
            is_free[:, units] = False
            require_drawn(joint, draw_allowed(joint, states, is_free, rng), kept)
            model = joint
        chains = ChainState(states, new_streams(rng, len(block_slices(self.n_chains))))
        n_copies = (self.sampler or Gibbs()).sweeper(model, self.n_chains).n_copies
        return with_copies(chains, model, n_copies, rng)

    def step(
        self, model: EnergyModel, batch: Any, state: ChainState
    ) -> tuple[Ensemble, ChainState]:
        """The chains after ``sweeps`` more sweeps.

        Parameters
        ----------
        model : EnergyModel
            The model at the present parameters.
        batch : Batch or Any
            Rows of the update, on which the chains depend if ``restarts`` is positive.
        state : ChainState
            The states and random streams of the chains.

        Returns
        -------
        (Ensemble, ChainState)
            The states after the sweeps with equal weights, and the next state.

        Raises
        ------
        ModelError
            If chains are to begin again at rows, and ``batch`` has none.
        """
        if self.restarts:
            state = _restarted(state, model, batch, self.restarts)
        model = _sampled_model(model)
        moved = advance(model, self.sampler or Gibbs(), state, self.sweeps)
        n = len(moved.states)
        return Batch(checked_space(model), moved.states, np.full(n, 1 / n), float(n)), moved


@dataclass(frozen=True)
class ContrastiveDivergence:
    """Chains of k sweeps from the rows of each batch: contrastive divergence, CD-k.

    Its fixed point differs from the maximum of the likelihood, by an amount that decreases with k
    :cite:`hinton2002` and that the moments of its chains do not show.

    Parameters
    ----------
    k : int
        Number of sweeps.
    sampler : Sampler, optional
        The kernel of the chains, by default ``ebm.Gibbs()``.

    Raises
    ------
    EbmError
        If ``k`` is not a positive integer, ``sampler`` is not a sampler, or it simulates copies at
        other temperatures, as :class:`ebm.ParallelTempering` does.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1]] * 10
    >>> start = ebm.RestrictedBoltzmannMachine.for_data(rows, 2, rng=0)
    >>> steps = ebm.GradientSteps(n_epochs=20)
    >>> result = ebm.fit(
    ...     start, rows, loss=ebm.Likelihood(ebm.ContrastiveDivergence(1)), solver=steps, rng=0
    ... )
    >>> len(result.history)
    20
    """

    k: int = 1
    sampler: Sampler | None = None

    #: The moments of its chains are not those of the model.
    follows_model = False
    completes_rows = False

    def __post_init__(self) -> None:
        as_integer(self.k, "k")
        # Copies would start at the rows, too: chains from exact draws would leave the distribution.
        checked_sampler(self.sampler, carries_copies=False)

    def start(self, model: EnergyModel, data: Any, rng: np.random.Generator) -> Mapping[str, Words]:
        """The first random streams, and the seed from which larger batches derive more.

        Parameters
        ----------
        model : EnergyModel
            A model over a finite space.
        data : Ensemble
            The rows, which the streams do not depend on.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        dict of ndarray
            The state.
        """
        seed = rng.integers(0, 2**64, 4, dtype=np.uint64)
        return {"seed": seed, "streams": _streams(seed, 1)}

    def step(
        self, model: EnergyModel, batch: Any, state: Mapping[str, Words]
    ) -> tuple[Ensemble, Mapping[str, Words]]:
        """The states after k sweeps from the rows of a batch.

        Parameters
        ----------
        model : EnergyModel
            The model at the present parameters.
        batch : Batch
            Rows and their weights.
        state : dict of ndarray
            The random streams and their seed.

        Returns
        -------
        (Ensemble, dict of ndarray)
            The states after the sweeps with the weights of the rows, and the next state.

        Raises
        ------
        ModelError
            If ``batch`` has no rows.
        """
        if not isinstance(batch, Batch):
            raise ModelError(
                "ContrastiveDivergence starts from rows, these data are moments: give rows, or "
                "loss=ebm.Likelihood(ebm.PersistentChains())"
            )
        streams, needed = state["streams"], len(block_slices(len(batch.states)))
        if needed > len(streams):
            more = _streams(state["seed"], needed)[len(streams) :]
            streams = np.concatenate([streams, more])
        start = ChainState(batch.states, streams)
        moved = advance(model, self.sampler or Gibbs(), start, self.k)
        ensemble = Batch(checked_space(model), moved.states, batch.weights, batch.sample_size)
        return ensemble, {"seed": state["seed"], "streams": moved.streams}


@dataclass(frozen=True)
class Memoryless:
    """A function from a model to an ensemble, such as ``ebm.exact``, without a state."""

    average: Callable[[Any], Any]

    def start(self, model: Any, data: Any, rng: np.random.Generator) -> tuple[()]:
        """Nothing to remember."""
        return ()

    def step(self, model: Any, batch: Any, state: tuple[()]) -> tuple[Any, tuple[()]]:
        """The ensemble of the model."""
        return checked_ensemble(self.average(model), self.average), ()


def has_memory(average: Any) -> bool:
    """Whether an average has ``start`` and ``step``."""
    return callable(getattr(average, "start", None)) and callable(getattr(average, "step", None))


def as_stateful(average: Any) -> StatefulAverage:
    """An average with ``start`` and ``step``, or an error that says what an average is."""
    if isinstance(average, type):
        raise ModelError(f"average must be an object, got the class: write {average.__name__}()")
    if getattr(average, "completes_rows", False):
        raise ModelError(
            f"{type(average).__name__} samples what was not seen of rows, which is no average over "
            f"the model: give completion={average!r}, beside ebm.PersistentChains()"
        )
    if has_memory(average):
        stateful: StatefulAverage = average
        return stateful
    if not callable(average):
        raise ModelError(
            "average must be a function from a model to an ensemble, such as ebm.exact, or have "
            f"start and step, as ebm.PersistentChains(); got {average!r}"
        )
    return Memoryless(average)


def _restarted(chains: ChainState, model: Any, batch: Any, share: float) -> ChainState:
    """Chains of which about a share has the units of the model at rows drawn by their weights."""
    if not isinstance(batch, Batch):
        raise ModelError("restarts begin chains again at rows, these data are moments: give rows")
    states, streams = chains.states.copy(), chains.streams.copy()
    u, place = uniforms(streams[0], (2, len(states)))
    chosen = u < share
    rows = np.searchsorted(np.cumsum(batch.weights)[:-1], place[chosen])
    units = list(getattr(model, "keep", range(checked_space(model).n)))
    begun = states[chosen]
    begun[:, units] = batch.states[rows]
    # Beside a row the other units of a chain may be forbidden: this one then goes on.
    is_possible = is_allowed(_sampled_model(model), begun)
    states[np.flatnonzero(chosen)[is_possible]] = begun[is_possible]
    return replace(chains, states=states, streams=streams)


def _sampled_model(model: Any) -> Any:
    """The model that chains are of: the joint model of a marginal, whose sweeps are compiled."""
    joint = joint_model(model)
    return model if joint is None or joint.space.n == model.space.n else joint


def _streams(seed: Words, n_blocks: int) -> Words:
    """The first streams of a seed: asking for more gives the same ones first."""
    return new_streams(np.random.SeedSequence([int(word) for word in seed]), n_blocks)


def _starting_states(
    space: StateSpace, data: Any, n_chains: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Rows drawn with their weights; independent units with the means where there are no rows."""
    if isinstance(data, Moments):
        if not isinstance(space, Binary | Spins):
            raise ModelError(f"chains over {space!r} cannot start from moments: give rows")
        ones = rng.random((n_chains, space.n)) < data.to(Binary).mean
        low, high = space.values
        return np.asarray(np.where(ones, high, low), dtype=np.int8)
    rows = data if isinstance(data, IndexedRows) else IndexedRows.of(data)
    drawn = rng.choice(len(rows), n_chains, p=rows.weights)
    states: NDArray[Any] = rows.take(drawn).states
    return states
