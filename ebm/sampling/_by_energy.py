"""Sweeps of any finite model by its ``energy`` alone, some units or all in turn."""

from __future__ import annotations

import numpy as np

from ebm._types import Array, Indices, Words
from ebm.model import EnergyModel, checked_energy
from ebm.sampling.sweeper import Sweeper, uniforms
from ebm.spaces import FiniteSpace


class EnergySweeper(Sweeper):
    """Heat bath: each unit in turn takes a value with its probability given all others."""

    def __init__(
        self, model: EnergyModel, space: FiniteSpace, units: Indices | None = None
    ) -> None:
        self._model, self._space = model, space
        self._units = np.arange(space.n) if units is None else units

    def advance(self, work: Array, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units; q energies for each update."""
        for _ in range(n_sweeps):
            thresholds = uniforms(stream, (len(self._units), len(work)))
            for unit, threshold in zip(self._units, thresholds, strict=True):
                values = self._space.values_of(unit)
                logs = np.stack([-self._energy(work, unit, value) for value in values])
                work[:, unit] = values[choose_columns(logs, threshold)]

    def _energy(self, work: Array, unit: int, value: float) -> Array:
        trial = work.copy()
        trial[:, unit] = value
        return checked_energy(self._model, trial)


class MetropolisSweeper(Sweeper):
    """Metropolis: units in turn are offered another value and take it by the energy's change."""

    def __init__(
        self,
        model: EnergyModel,
        space: FiniteSpace,
        offered: float,
        units: Indices | None = None,
    ) -> None:
        self._model, self._space, self._offered = model, space, offered
        self._units = np.arange(space.n) if units is None else units

    def advance(self, work: Array, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units; one energy for each offer."""
        others = self._space.n_values[self._units, None] - 1
        # A copy: what the model answers with may be an array that it keeps.
        energies = checked_energy(self._model, work).copy()
        for _ in range(n_sweeps):
            # Which of the other values of each unit is offered; from ``others`` on, none.
            shape = len(self._units), len(work)
            places = (uniforms(stream, shape) * (others / self._offered)).astype(np.intp)
            log_thresholds = np.log(uniforms(stream, shape))
            for k, unit in enumerate(self._units):
                rows = np.flatnonzero(places[k] < others[k])
                if len(rows):
                    trial = self._offers(work[rows], unit, places[k, rows])
                    trial_energies = checked_energy(self._model, trial)
                    with np.errstate(over="ignore"):
                        gains = energies[rows] - trial_energies
                    taken = log_thresholds[k, rows] < gains
                    work[rows[taken]] = trial[taken]
                    energies[rows[taken]] = trial_energies[taken]

    def _offers(self, states: Array, unit: int, places: Indices) -> Array:
        """The states with other values of a unit, the ``places`` next ones up, in place."""
        values = self._space.values_of(unit)
        now = np.searchsorted(values, states[:, unit])
        states[:, unit] = values[(now + 1 + places) % len(values)]
        return states


def choose_columns(logs: Array, thresholds: Array) -> Indices:
    """One row for each column, with probability ∝ exp(logs), (q, m) -> (m,)."""
    with np.errstate(over="ignore"):
        weights = np.exp(logs - logs.max(axis=0))
    cumulative = np.cumsum(weights, axis=0)
    return np.asarray((cumulative <= thresholds * cumulative[-1]).sum(axis=0))
