"""The data's side of the learning rule where hidden units are too many to be summed: chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_integer
from ebm._types import Flags, Indices
from ebm.ensembles import Ensemble
from ebm.errors import ModelError
from ebm.forms import offered_form
from ebm.learning._allowed_rows import draw_allowed, require_drawn
from ebm.learning._batches import Batch, IndexedRows
from ebm.learning._families import joint_model
from ebm.model import EnergyModel
from ebm.sampling import ChainState, Gibbs
from ebm.sampling._chains import advance
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.gibbs import Sampler, checked_sampler

__all__ = ["ClampedChains"]


@dataclass(frozen=True)
class ClampedChains:
    """Units that nobody saw, sampled beside the rows: E_D E_{h|v}, [EBM] eq 11.

    They are the units that a marginal sums out, and cells that are missing
    (:class:`ebm.IncompleteEnsemble`). Every row of the data has one chain of them, with all cells
    seen clamped. It goes on from visit to visit of this row, so that after a few epochs it follows
    p(h|v) as slowly as the parameters change :cite:`younes1999,salakhutdinov2009`. The draws stand
    for the sums over hidden units in the first term of the learning rule; they add to its gradient
    the noise of one draw a row.

    Parameters
    ----------
    sweeps : int
        Number of sweeps at each visit of a row.
    sampler : Sampler, optional
        The kernel of the chains, by default ``ebm.Gibbs()``; it needs ``partial_sweeper``.

    Raises
    ------
    EbmError
        If ``sweeps`` is not a positive integer, ``sampler`` is not a sampler, or it simulates
        copies at other temperatures, as :class:`ebm.ParallelTempering` does.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [1, 1], [0, 0], [1, 0]] * 20
    >>> joint = ebm.BoltzmannMachine([[0, 0, 1], [0, 0, 1], [1, 1, 0]], [0, 0, -1])
    >>> sampled = ebm.Likelihood(ebm.PersistentChains(), completion=ebm.ClampedChains())
    >>> steps = ebm.GradientSteps(ebm.Adam(0.02), n_epochs=200, batch_size=20)
    >>> result = ebm.fit(ebm.marginalize(joint, [0, 1]), rows, loss=sampled, solver=steps, rng=0)
    >>> bool(ebm.exact(result.model).moments().covariance[0, 1] > 0.1)
    True
    """

    sweeps: int = 5
    sampler: Sampler | None = None

    #: Its draws follow the rows, and stand for the data's side of the learning rule alone.
    completes_rows = True

    def __post_init__(self) -> None:
        as_integer(self.sweeps, "sweeps")
        checked_sampler(self.sampler, carries_copies=False)

    def start(self, model: EnergyModel, data: Any, rng: np.random.Generator) -> Mapping[str, Any]:
        """What was not seen of every row at random.

        Parameters
        ----------
        model : EnergyModel
            A marginal of a model with parameters, as :func:`ebm.marginalize` makes it; of rows with
            missing cells any model.
        data : Ensemble
            The rows.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        dict of ndarray
            The units that some row lacks, their values beside each row, and random streams for one
            batch of all rows.

        Raises
        ------
        ModelError
            If there is nothing to sample, or a row is forbidden whatever was not seen.
        """
        joint, kept, traced = _joint_of(model)
        rows = data if isinstance(data, IndexedRows) else IndexedRows.of(data)
        if not len(traced) and rows.missing is None:
            raise ModelError(
                "completion samples units that are summed out and cells that are missing, and "
                f"{type(model).__name__} and these rows have none: leave completion out, or give a "
                "marginal, ebm.marginalize(model, keep=…)"
            )
        states = joint.space.random(len(rows), rng)
        if offered_form(joint) is None:
            # A form has finite energies; elsewhere chains cannot leave states that are forbidden.
            batch = rows.everything()
            unseen = _unseen(batch, traced, kept, joint.space.n)
            states[:, kept] = np.where(unseen[:, kept], states[:, kept], batch.states)
            require_drawn(joint, draw_allowed(joint, states, unseen, rng), batch.states)
        streams = new_streams(rng, len(block_slices(len(rows))))
        lacking = kept[:0] if rows.missing is None else kept[rows.missing.any(axis=0)]
        units = np.union1d(traced, lacking)
        drawn = states[:, units].astype(joint.space.dtype)
        return {"units": units, "states": drawn, "streams": streams}

    def step(
        self, model: EnergyModel, batch: Any, state: Mapping[str, Any]
    ) -> tuple[Ensemble, Mapping[str, Any]]:
        """The rows of a batch, completed after ``sweeps`` more sweeps of what was not seen.

        Parameters
        ----------
        model : EnergyModel
            The model at the present parameters.
        batch : Batch
            Rows, their weights, and which rows of the data they are.
        state : dict of ndarray
            What :meth:`start` or the step before gave.

        Returns
        -------
        (Ensemble, dict of ndarray)
            Joint states with the weights of the rows, and the next state.
        """
        joint, kept, traced = _joint_of(model)
        units, drawn, streams = state["units"], state["states"].copy(), state["streams"].copy()
        unseen = _unseen(batch, traced, kept, joint.space.n)
        chains = np.empty(unseen.shape, dtype=drawn.dtype)
        chains[:, kept] = batch.states
        chains[:, units] = np.where(unseen[:, units], drawn[batch.rows], chains[:, units])
        # Rows that lack the same units are swept together, one such group after the other.
        patterns, which = _patterns(unseen)
        for number, pattern in enumerate(patterns):
            if not pattern.any():
                continue
            rows = np.flatnonzero(which == number)
            blocks = slice(len(block_slices(len(rows))))
            start = ChainState(chains[rows], streams[blocks])
            free = np.flatnonzero(pattern)
            moved = advance(joint, self.sampler or Gibbs(), start, self.sweeps, free)
            chains[rows], streams[blocks] = moved.states, moved.streams
        drawn[batch.rows] = chains[:, units]
        ensemble = Batch(joint.space, chains, batch.weights, batch.sample_size)
        return ensemble, {"units": units, "states": drawn, "streams": streams}


def _unseen(batch: Any, traced: Indices, kept: Indices, n: int) -> Flags:
    """Which units of the joint states of rows are traced or missing, (m, n)."""
    unseen = np.zeros((len(batch.states), n), dtype=bool)
    unseen[:, traced] = True
    if batch.missing is not None:
        unseen[:, kept] = batch.missing
    return unseen


def _patterns(unseen: Flags) -> tuple[Flags, Indices]:
    """The distinct rows of flags, and which of them each row has."""
    if (unseen == unseen[0]).all():
        return unseen[:1], np.zeros(len(unseen), dtype=np.intp)
    patterns, which = np.unique(unseen, axis=0, return_inverse=True)
    return patterns, which.ravel()


def _joint_of(model: Any) -> tuple[Any, Indices, Indices]:
    """The model of all units, the places of those that rows are of, and of those summed out."""
    joint = joint_model(model)
    if joint is None:
        return model, np.arange(model.space.n), np.arange(0)
    return joint, np.array(model.keep, dtype=np.intp), model.traced
