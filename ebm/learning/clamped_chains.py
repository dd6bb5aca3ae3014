"""The data's side of the learning rule where hidden units are too many to be summed: chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_integer
from ebm.ensembles import Ensemble
from ebm.errors import ModelError
from ebm.learning._batches import Batch, Rows
from ebm.learning._families import joint_model
from ebm.model import EnergyModel
from ebm.sampling import ChainState, Gibbs
from ebm.sampling._chains import advance
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.gibbs import Sampler, checked_sampler

__all__ = ["ClampedChains"]


@dataclass(frozen=True)
class ClampedChains:
    """Hidden units sampled beside the rows, which stay as they are: E_D E_{h|v}, [EBM] eq 11.

    Every row of the data has one chain of the units that a marginal sums out. It goes on from visit
    to visit of this row, so that after a few epochs it follows p(h|v) as slowly as the parameters
    change :cite:`younes1999,salakhutdinov2009`. The draws stand for the sums over hidden units in
    the first term of the learning rule; they add to its gradient the noise of one draw a row.

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

    def __post_init__(self) -> None:
        as_integer(self.sweeps, "sweeps")
        checked_sampler(self.sampler, carries_copies=False)

    def start(self, model: EnergyModel, data: Any, rng: np.random.Generator) -> Mapping[str, Any]:
        """Hidden units of every row at random.

        Parameters
        ----------
        model : EnergyModel
            A marginal of a model with parameters, as :func:`ebm.marginalize` makes it.
        data : Ensemble
            The rows.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        dict of ndarray
            The hidden units of each row, and random streams for one batch of all rows.

        Raises
        ------
        ModelError
            If the model sums out no units.
        """
        joint = joint_model(model)
        if joint is None or not len(_marginal(model).traced):
            raise ModelError(
                f"completion samples units that are summed out, {type(model).__name__} has none: "
                "leave completion out, or give a marginal, ebm.marginalize(model, keep=…)"
            )
        n_rows = len(data if isinstance(data, Rows) else Rows.of(data))
        hidden = joint.space.random(n_rows, rng)[:, _marginal(model).traced]
        kind = np.min_scalar_type(-int(joint.space.n_values.max()))
        streams = new_streams(rng, len(block_slices(n_rows)))
        return {"hidden": hidden.astype(kind), "streams": streams}

    def step(
        self, model: EnergyModel, batch: Any, state: Mapping[str, Any]
    ) -> tuple[Ensemble, Mapping[str, Any]]:
        """The rows of a batch with their hidden units after ``sweeps`` more sweeps of these.

        Parameters
        ----------
        model : EnergyModel
            The marginal at the present parameters.
        batch : Batch
            Rows, their weights, and which rows of the data they are.
        state : dict of ndarray
            The hidden units of all rows, and random streams.

        Returns
        -------
        (Ensemble, dict of ndarray)
            Joint states with the weights of the rows, and the next state.
        """
        marginal, joint = _marginal(model), joint_model(model)
        hidden, streams, traced = state["hidden"], state["streams"], marginal.traced
        n_blocks = len(block_slices(len(batch.states)))
        states = np.empty((len(batch.states), joint.space.n), dtype=hidden.dtype)
        states[:, list(marginal.keep)] = batch.states
        states[:, traced] = hidden[batch.rows]
        chains = ChainState(states, streams[:n_blocks])
        moved = advance(joint, self.sampler or Gibbs(), chains, self.sweeps, traced)
        hidden, streams = hidden.copy(), streams.copy()
        hidden[batch.rows], streams[:n_blocks] = moved.states[:, traced], moved.streams
        ensemble = Batch(joint.space, moved.states, batch.weights, batch.sample_size)
        return ensemble, {"hidden": hidden, "streams": streams}


def _marginal(model: Any) -> Any:
    """A model known to have ``keep`` and ``traced``."""
    return model
