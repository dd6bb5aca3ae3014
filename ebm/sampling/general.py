"""Sweeps for any finite model through its ``energy``: right for every model, compiled for none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebm.model import EnergyModel, QuadraticForm, checked_energy
from ebm.sampling.streams import uniforms
from ebm.sampling.sweepers import Sweeper
from ebm.spaces import FiniteSpace

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

#: How often Metropolis offers a unit another value. Offers of equal energy are always taken, so if
#: none were left out, units in a fixed order could visit a part of the states only, or return to
#: each after an even number of sweeps.
OFFERED = 0.75


class _Plain(Sweeper):
    """Layout: the states themselves, (chains, n)."""

    def load(self, states: Array) -> Array:
        """A copy of the states."""
        return np.array(states, dtype=np.float64)

    def read(self, work: Array) -> Array:
        """The inverse of :meth:`load`."""
        return work.copy()


class EnergySweeper(_Plain):
    """Heat bath: each unit in turn takes a value with its probability given all others.

    Parameters
    ----------
    model : EnergyModel
        Any finite model.
    space : FiniteSpace
        Its states.
    """

    def __init__(self, model: EnergyModel, space: FiniteSpace) -> None:
        self._model, self._values = model, space.values

    def advance(self, work: Array, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units; q energies for each update."""
        for _ in range(n_sweeps):
            thresholds = uniforms(stream, work.T.shape)
            for unit in range(work.shape[1]):
                logs = np.stack([-self._energy(work, unit, value) for value in self._values])
                work[:, unit] = self._values[choose_columns(logs, thresholds[unit])]

    def _energy(self, work: Array, unit: int, value: float) -> Array:
        trial = work.copy()
        trial[:, unit] = value
        return checked_energy(self._model, trial)


class LevelsSweeper(_Plain):
    """Heat bath of units with q unordered values and pair energies.

    Parameters
    ----------
    form : QuadraticForm
        Over the one-hot features of ``space``.
    space : FiniteSpace
        {0, …, q−1}^n.
    """

    def __init__(self, form: QuadraticForm, space: FiniteSpace) -> None:
        n, q = space.n, len(space.values)
        own = np.arange(n)
        couplings = form.matrix.reshape(n, q, n, q).copy()
        # A unit's coupling to its own value is part of its field.
        self._fields = form.vector.reshape(n, q) + 0.5 * np.einsum("iaia->ia", couplings)
        couplings[own, :, own, :] = 0
        self._couplings = couplings.reshape(n, q, n * q)
        self._space = space

    def advance(self, work: Array, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        n, q = self._fields.shape
        one_hot = self._space.features(work).reshape(len(work), n, q)
        for _ in range(n_sweeps):
            thresholds = uniforms(stream, work.T.shape)
            for unit in range(n):
                logs = self._couplings[unit] @ one_hot.reshape(len(work), -1).T
                logs += self._fields[unit][:, None]
                work[:, unit] = chosen = choose_columns(logs, thresholds[unit])
                one_hot[:, unit] = np.eye(q)[chosen]


class MetropolisSweeper(_Plain):
    """Metropolis: units in turn are offered another value and take it by the energy's change.

    Parameters
    ----------
    model : EnergyModel
        Any finite model.
    space : FiniteSpace
        Its states.
    """

    def __init__(self, model: EnergyModel, space: FiniteSpace) -> None:
        self._model, self._space = model, space

    def advance(self, work: Array, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units; one energy for each offer."""
        others = len(self._space.values) - 1
        # A copy: what the model answers with may be an array that it keeps.
        energies = checked_energy(self._model, work).copy()
        for _ in range(n_sweeps):
            # Which of the other values is offered; from ``others`` on, none.
            places = (uniforms(stream, work.T.shape) * (others / OFFERED)).astype(np.intp)
            log_thresholds = np.log(uniforms(stream, work.T.shape))
            for unit in range(work.shape[1]):
                rows = np.flatnonzero(places[unit] < others)
                if len(rows):
                    trial = self._offers(work[rows], unit, places[unit, rows])
                    trial_energies = checked_energy(self._model, trial)
                    with np.errstate(over="ignore"):
                        gains = energies[rows] - trial_energies
                    taken = log_thresholds[unit, rows] < gains
                    work[rows[taken]] = trial[taken]
                    energies[rows[taken]] = trial_energies[taken]

    def _offers(self, states: Array, unit: int, places: NDArray[np.intp]) -> Array:
        """The states with other values of a unit, the ``places`` next ones up, in place."""
        values = self._space.values
        now = np.searchsorted(values, states[:, unit])
        states[:, unit] = values[(now + 1 + places) % len(values)]
        return states


def choose_columns(logs: Array, thresholds: Array) -> NDArray[np.intp]:
    """One row for each column, with probability ∝ exp(logs), (q, m) -> (m,).

    Parameters
    ----------
    logs : ndarray, (q, m)
        Log weights; −inf for none.
    thresholds : ndarray, (m,)
        Uniform numbers in (0, 1).

    Returns
    -------
    ndarray of int, (m,)
        Row indices.
    """
    with np.errstate(over="ignore"):
        weights = np.exp(logs - logs.max(axis=0))
    cumulative = np.cumsum(weights, axis=0)
    return np.asarray((cumulative <= thresholds * cumulative[-1]).sum(axis=0))
