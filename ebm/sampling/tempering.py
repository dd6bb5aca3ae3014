"""Parallel tempering: copies of each chain at higher temperatures, which exchange states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_floats
from ebm._types import Array, Flags, Indices, Words
from ebm.errors import EbmError, ModelError
from ebm.forms import QuadraticForm, TermForm, offered_form
from ebm.model import EnergyModel, checked_energy
from ebm.models._library import library_model
from ebm.sampling._form_sweepers import FormSweeper
from ebm.sampling.gibbs import Gibbs, Sampler, Sweeper, checked_sampler, uniforms
from ebm.sampling.sweeper import part_sweeper
from ebm.spaces import StateSpace

__all__ = ["ParallelTempering"]


@dataclass(frozen=True)
class ParallelTempering:
    """Copies of each chain at other temperatures, which swap states with their neighbors.

    A sweep of all copies, then swaps of neighbors s, t with probability
    min(1, exp(E_s(x_s) + E_t(x_t) − E_s(x_t) − E_t(x_s))). E_β is the energy of
    ``model.scaled(beta)``: with a hidden layer the effective energy of both layers scaled, which is
    not β E_eff. Models without ``scaled`` have βE.

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

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """Sweeps of all copies."""
        sampler, n_states = self.sampler or Gibbs(), n_chains * (1 + len(self.betas))
        if offered_form(model) in (QuadraticForm, TermForm):
            moving, exact = (each.sweeper(model, n_states) for each in (sampler, Gibbs()))
            # A sampler of a user's own may have other states, or none but its own temperature.
            if isinstance(exact, FormSweeper) and type(moving) is type(exact):
                return SideBySideSweeper(moving, exact, np.array([1.0, *self.betas]))
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


class SideBySideSweeper(Sweeper):
    """All copies as chains of one compiled sweep, each at its own temperature; E_β is βE.

    Layout: that of the sweep, copies after each other, coldest first.
    """

    def __init__(self, moving: FormSweeper, exact: FormSweeper, betas: Array) -> None:
        self._moving, self._exact, self._betas = moving.at(betas), exact, betas
        self.n_copies = len(betas) - 1

    def load(self, states: Array) -> Any:
        """States of all copies, (chains, 1 + n_copies, n)."""
        return self._moving.load(np.swapaxes(states, 0, 1).reshape(-1, states.shape[-1]))

    def read(self, work: Any) -> NDArray[Any]:
        """The inverse of :meth:`load`."""
        states = self._moving.read(work)
        return np.swapaxes(states.reshape(len(self._betas), -1, states.shape[-1]), 0, 1)

    def advance(self, work: Any, stream: Words, n_sweeps: int) -> None:
        """Sweeps, each followed by swaps of every other pair of neighbors."""
        for _ in range(n_sweeps):
            self._moving.advance(work, stream, 1)
            log_weights = self._exact.log_weights(work).reshape(len(self._betas), -1)
            first = int(uniforms(stream, (1,))[0] < 0.5)
            colds = range(first, self.n_copies, 2)
            thresholds = np.log(uniforms(stream, (len(colds), log_weights.shape[1])))
            for cold, threshold in zip(colds, thresholds, strict=False):
                # E is −log_weights: exp((β_s − β_t) (E_s − E_t)).
                gain = log_weights[cold + 1] - log_weights[cold]
                taken = threshold < (self._betas[cold] - self._betas[cold + 1]) * gain
                self._swap(work, cold, taken)

    def _swap(self, work: Any, cold: int, taken: Flags) -> None:
        from ebm._kernels.swaps import swap_copies

        copies = len(self._betas)
        if self._moving.chains_last:
            swap_copies(work.reshape(len(work), copies, -1), cold, cold + 1, taken)
            return
        parts = work.reshape(copies, len(taken), -1)
        parts[cold, taken], parts[cold + 1, taken] = parts[cold + 1, taken], parts[cold, taken]


class TemperingSweeper(Sweeper):
    """Layout: a list of the layouts of the copies, coldest first."""

    def __init__(self, models: Sequence[EnergyModel], sweepers: Sequence[Sweeper]) -> None:
        self._models, self._sweepers = models, sweepers
        self.n_copies = len(models) - 1

    def load(self, states: Array) -> Any:
        """States of all copies, (chains, 1 + n_copies, n)."""
        return [sweeper.load(states[:, k]) for k, sweeper in enumerate(self._sweepers)]

    def read(self, work: Any) -> Array:
        """The inverse of :meth:`load`."""
        copies = [sweeper.read(part) for sweeper, part in zip(self._sweepers, work, strict=True)]
        return np.stack(copies, axis=1)

    def advance(self, work: Any, stream: Words, n_sweeps: int) -> None:
        """Sweeps, each followed by swaps of every other pair of neighbors."""
        for _ in range(n_sweeps):
            for sweeper, part in zip(self._sweepers, work, strict=True):
                sweeper.advance(part, stream, 1)
            # Which pairs, even or odd, is drawn: a chain that is taken up remembers no turn.
            first = int(uniforms(stream, (1,))[0] < 0.5)
            for cold in range(first, self.n_copies, 2):
                self._swap(work, cold, stream)

    def _swap(self, work: Any, cold: int, stream: Words) -> None:
        sweepers, models = self._sweepers[cold : cold + 2], self._models[cold : cold + 2]
        states = [
            np.asarray(sweeper.read(work[cold + k]), float) for k, sweeper in enumerate(sweepers)
        ]
        gain = sum(
            checked_energy(model, states[k]) - checked_energy(model, states[1 - k])
            for k, model in enumerate(models)
        )
        taken = np.log(uniforms(stream, (len(states[0]),))) < gain
        for k, sweeper in enumerate(sweepers):
            mixed = np.where(taken[:, None], states[1 - k], states[k])
            work[cold + k] = sweeper.load(mixed)


class Tempered(EnergyModel):
    """β times the energy of a model."""

    def __init__(self, model: EnergyModel, beta: float) -> None:
        self._model, self._beta = model, beta
        self.space: StateSpace = model.space

    def energy(self, states: ArrayLike) -> Array:
        """β E(x), (..., n) -> (...)."""
        if self._beta == 0:
            return np.zeros(np.shape(states)[:-1])
        return self._beta * checked_energy(self._model, np.asarray(states))


def tempered(model: Any, beta: float) -> EnergyModel:
    """``scaled(beta)`` of the model, or of the library's model of its form, else β times E."""
    if not hasattr(model, "scaled") and offered_form(model) in (QuadraticForm, TermForm):
        model = library_model(model) or model
    if not hasattr(model, "scaled"):
        return Tempered(model, beta)
    scaled: EnergyModel = model.scaled(beta)
    if scaled.space != model.space:
        raise ModelError(f"scaled({beta}) of {model!r} is over another space: {scaled.space!r}")
    return scaled
