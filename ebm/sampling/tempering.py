"""Parallel tempering: copies of each chain at higher temperatures, which exchange states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_floats
from ebm._randomness import RandomSource
from ebm._types import Array, Indices, Words
from ebm.errors import EbmError
from ebm.forms import LINEAR_FORMS, offered_form
from ebm.model import EnergyModel, checked_energy
from ebm.sampling._chains import is_allowed
from ebm.sampling._form_sweepers import FormSweeper
from ebm.sampling._ladder import SCANS, LadderState, LadderSweeper, LadderWork
from ebm.sampling._precision import ROUNDING
from ebm.sampling._tempered_models import tempered
from ebm.sampling.gibbs import Gibbs, Metropolis, Sampler, Sweeper, checked_sampler
from ebm.sampling.sweeper import part_sweeper, uniforms

__all__ = ["ParallelTempering"]


@dataclass(frozen=True)
class ParallelTempering:
    """Copies of each chain at other temperatures, which swap states with their neighbors.

    One scan tries to swap every other pair of neighbors k, k + 1, the even pairs and the odd ones
    in turn :cite:`okabe2001,syed2022`, with probability

        min(1, exp(E_k(x_k) + E_{k+1}(x_{k+1}) − E_k(x_{k+1}) − E_{k+1}(x_k))),

    and then sweeps all copies. Whose turn it is belongs to the state of the chain. E_β is the
    energy of ``model.scaled(beta)``: with a hidden layer the effective energy of both layers
    scaled, which is not β E_eff. Models without ``scaled`` have βE.

    :func:`ebm.sample` returns the draws of all temperatures, with the rates of swaps and round
    trips (:class:`ebm.sampling.TemperedSamples`); :meth:`for_model` finds the temperatures.

    Parameters
    ----------
    betas : sequence of float
        Inverse temperatures of the copies below 1, falling. The draws are those of the chain at 1.
    sampler : Sampler, optional
        Transition kernel of each copy; ``ebm.Gibbs()`` if not given.

    Raises
    ------
    EbmError
        If ``betas`` do not fall from below 1 to 0 or more.
    ModelError
        If ``sampler`` is no sampler, or carries copies itself.

    Examples
    --------
    >>> import ebm, numpy as np
    >>> magnet = ebm.IsingModel(0.5 * (np.ones((12, 12)) - np.eye(12)), np.zeros(12))
    >>> up = np.ones(12)
    >>> draw = dict(n_draws=500, n_chains=16, initial=up, rng=0)
    >>> stuck = ebm.sample(magnet, **draw)
    >>> moved = ebm.sample(magnet, ebm.ParallelTempering([0.7, 0.4, 0.2, 0.1]), **draw)
    >>> bool(stuck.chains.mean() > 0.9), bool(abs(moved.chains.mean()) < 0.3)
    (True, True)
    """

    betas: Sequence[float] = (0.8, 0.6, 0.4, 0.2)
    sampler: Sampler | None = None

    #: Each chain has hidden copies, which a move of its state alone would leave behind.
    carries_copies = True

    def __post_init__(self) -> None:
        checked_sampler(self.sampler, carries_copies=False)
        values = as_floats(self.betas, "betas")
        falling = values.ndim == 1 and len(values) > 0 and (np.diff(values, prepend=1) < 0).all()
        if not (falling and values[-1] >= 0):
            raise EbmError(f"betas must fall from below 1 to 0 or more, got {self.betas!r}")
        object.__setattr__(self, "betas", tuple(values.tolist()))

    @classmethod
    def for_model(
        cls,
        model: EnergyModel,
        *,
        hottest: float = 0.0,
        n_copies: int | None = None,
        sampler: Sampler | None = None,
        n_rounds: int = 5,
        rng: RandomSource = None,
    ) -> ParallelTempering:
        """The ladder whose neighbors all exchange states at the same rate.

        A round of trial scans measures the rejections r_k between neighbors and so the barrier
        Λ(β) = Σ r between 1 and β; the next has its temperatures at equal shares of Λ, 2Λ + 1 of
        them with β = 1, where neighbors reject half of their swaps :cite:`syed2022`. Each round is
        twice as long as the one before, the first of 50 scans of eight chains.

        Parameters
        ----------
        model : EnergyModel
            The model that is to be sampled.
        hottest : float
            The last inverse temperature. At 0 the ladder gives ln Z.
        n_copies : int, optional
            Number of temperatures beside that of the model, by default 2Λ rounded up.
        sampler : Sampler, optional
            Transition kernel of each copy; ``ebm.Gibbs()`` if not given.
        n_rounds : int
            Number of rounds; three to five suffice.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ParallelTempering
            A sampler for this model.

        Raises
        ------
        EbmError
            If ``hottest`` is not from 0 to below 1.
        ShapeError
            If a number is not a positive integer.

        Warns
        -----
        PoorMixingWarning
            If ``n_copies`` are too few for states to be exchanged.

        Examples
        --------
        >>> import ebm, numpy as np
        >>> magnet = ebm.IsingModel(0.2 * (np.ones((12, 12)) - np.eye(12)), np.zeros(12))
        >>> ladder = ebm.ParallelTempering.for_model(magnet, rng=0)
        >>> samples = ebm.sample(magnet, ladder, n_draws=500, rng=0)
        >>> len(ladder.betas), bool(np.ptp(samples.rejection) < 0.15)
        (4, True)
        """
        from ebm.sampling._placement import placed

        def ladder(betas: Array) -> ParallelTempering:
            return cls(betas.tolist(), sampler)

        return cls(placed(model, ladder, hottest, n_copies, n_rounds, rng), sampler)

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """Sweeps of all copies."""
        sampler, n_states = self.sampler or Gibbs(), n_chains * (1 + len(self.betas))
        if offered_form(model) in LINEAR_FORMS:
            moving, exact = (each.sweeper(model, n_states) for each in (sampler, Gibbs()))
            # A sampler of a user's own may have other states, or none but its own temperature.
            if isinstance(exact, FormSweeper) and type(moving) is type(exact):
                follows = moving.tracks and type(sampler) in (Gibbs, Metropolis)
                return SideBySideSweeper(moving, exact, np.array([1.0, *self.betas]), follows)
        models = self._models(model)
        return TemperingSweeper(models, [sampler.sweeper(each, n_chains) for each in models])

    def partial_sweeper(self, model: EnergyModel, n_chains: int, units: Indices) -> Sweeper:
        """Sweeps of some units of all copies, whose others have the values of their chain."""
        models, sampler = self._models(model), self.sampler or Gibbs()
        sweepers = [part_sweeper(each, sampler, n_chains, units) for each in models]
        return TemperingSweeper(models, sweepers)

    def _models(self, model: EnergyModel) -> list[EnergyModel]:
        """The model, and the copies from cold to hot."""
        return [model, *(tempered(model, beta) for beta in self.betas)]


class SideBySideSweeper(LadderSweeper):
    """All copies as chains of one compiled sweep, each at its own temperature; E_β is βE.

    A swap exchanges temperatures, so that no state moves. Log weights follow the flips where the
    sweep tells them, and are summed anew now and then: the decisions of chains that are taken up
    must not depend on where they had stopped.
    """

    def __init__(
        self, moving: FormSweeper, exact: FormSweeper, betas: Array, follows: bool
    ) -> None:
        self._moving, self._exact, self._betas, self._follows = moving, exact, betas, follows
        self._steps = betas[:-1] - betas[1:]
        self.n_copies = len(betas) - 1

    def take_up(self, states: Array, memory: LadderState) -> LadderWork:
        """Layout: that of the sweep, replicas after each other."""
        work = LadderWork(None, memory)
        replicas = np.empty((work.order.size, states.shape[-1]), dtype=states.dtype)
        replicas[work.columns] = np.swapaxes(states, 0, 1)
        work.layout = self._moving.load(replicas)
        work.moving = self._moving.at(np.empty(work.order.size))
        work.moving.betas[work.columns] = self._betas[:, None]
        followed, summed = work.log_weights, self._summed(work)
        # Chains may go on with another model, or have followed nothing yet.
        with np.errstate(invalid="ignore"):
            is_same = np.abs(followed - summed) <= ROUNDING * (1 + np.abs(summed) * ROUNDING)
        work.log_weights = np.where(is_same, followed, summed)
        return work

    def read(self, work: LadderWork) -> NDArray[Any]:
        """The inverse of :meth:`load`."""
        return np.swapaxes(self._moving.read(work.layout)[work.columns], 0, 1)

    def _sweep(self, work: LadderWork, stream: Words) -> None:
        if not self._follows:
            work.moving.advance(work.layout, stream, 1)
            work.log_weights = self._summed(work)
            return
        work.moving.gains = gains = work.log_weights.reshape(-1)
        work.moving.advance(work.layout, stream, 1)
        work.log_weights = gains.reshape(work.order.shape)
        if work.scans % SCANS == 0:
            work.log_weights = self._summed(work)

    def _summed(self, work: LadderWork) -> Array:
        """−E of every replica, (replicas, chains)."""
        return self._exact.log_weights(work.layout).reshape(work.order.shape)

    def _swap(self, work: LadderWork, first: int, stream: Words) -> None:
        """ln of the odds is (β_k − β_{k+1}) (E_k − E_{k+1})."""
        from ebm._kernels.swaps import scan_betas

        heat = work.moving.betas.reshape(work.order.shape)
        memory, counts = (work.log_weights, work.heading), (work.rejected, work.trips)
        ladder, buffers = (self._betas, self._steps), work.buffers[first]
        scan_betas(work.order, first, ladder, memory, counts, stream, *buffers, heat)


class TemperingSweeper(LadderSweeper):
    """Layout: a list of the layouts of the slots, coldest first; a swap exchanges states."""

    def __init__(self, models: Sequence[EnergyModel], sweepers: Sequence[Sweeper]) -> None:
        self._models, self._sweepers = models, sweepers
        self.n_copies = len(models) - 1

    def take_up(self, states: Array, memory: LadderState) -> LadderWork:
        """States in slots; one that its slot forbids, of β = 0 perhaps, is that of the coldest."""
        states = states.copy()
        for k, model in enumerate(self._models[1:], 1):
            forbidden = ~is_allowed(model, states[:, k])
            states[forbidden, k] = states[forbidden, 0]
        layout = [sweeper.load(states[:, k]) for k, sweeper in enumerate(self._sweepers)]
        return LadderWork(layout, memory)

    def read(self, work: LadderWork) -> Array:
        """The inverse of :meth:`load`."""
        return np.stack([self._states(work, k) for k in range(1 + self.n_copies)], axis=1)

    def _states(self, work: LadderWork, k: int) -> NDArray[Any]:
        return self._sweepers[k].read(work.layout[k])

    def _sweep(self, work: LadderWork, stream: Words) -> None:
        for sweeper, part in zip(self._sweepers, work.layout, strict=True):
            sweeper.advance(part, stream, 1)

    def _swap(self, work: LadderWork, first: int, stream: Words) -> None:
        """ln of the odds is E_k(x_k) + E_{k+1}(x_{k+1}) − E_k(x_{k+1}) − E_{k+1}(x_k)."""
        from ebm._kernels.swaps import exchange, note_ends

        cold = range(first, self.n_copies, 2)
        thresholds = uniforms(stream, (len(cold), work.order.shape[1]))
        pairs = [[np.asarray(self._states(work, j), float) for j in (k, k + 1)] for k in cold]
        ratios = np.stack(
            [self._log_odds(k, *states) for k, states in zip(cold, pairs, strict=True)]
        )
        before = work.order.copy()
        exchange(work.order, first, ratios, thresholds, work.rejected)
        note_ends(work.order, work.heading, work.trips)
        for k, states in zip(cold, pairs, strict=True):
            taken = work.order[k] != before[k]
            if taken.any():
                for j in (0, 1):
                    mixed = np.where(taken[:, None], states[1 - j], states[j])
                    work.layout[k + j] = self._sweepers[k + j].load(mixed)

    def _log_odds(self, k: int, cold: Array, hot: Array) -> Array:
        """Of a swap of slots k and k + 1, (chains,)."""
        one, other = self._models[k : k + 2]
        gain = checked_energy(one, cold) - checked_energy(one, hot)
        return gain + checked_energy(other, hot) - checked_energy(other, cold)
