"""Averages at many temperatures by one pass over all states."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.enumeration._limits import SECONDS_BY_STREAMING, number_of_states
from ebm.model import checked_energy
from ebm.temperature._quantities import Values

#: Seconds for each state and temperature, beside those of one energy.
SECONDS_BY_TEMPERATURE = 2e-8


def seconds_by_enumeration(values: Values, n_betas: int) -> float:
    """About how long the pass takes."""
    # Without βE each temperature has five energies of its own.
    n_energies = 1 if values.is_linear else 5 * n_betas
    seconds = SECONDS_BY_STREAMING * n_energies + SECONDS_BY_TEMPERATURE * n_betas
    return seconds * number_of_states(values.model.space)  # type: ignore[arg-type]


def by_enumeration(values: Values, betas: Array) -> tuple[Array, Array]:
    """ln Z, (β,), and the averages of all values, (β, d).

    Sums are kept in units of the largest weight so far.
    """
    peaks, sums = np.full(len(betas), -np.inf), None
    for states in values.model.space.enumerate():  # type: ignore[attr-defined]
        energies = checked_energy(values.model, states) if values.is_linear else None
        if sums is None and energies is not None:
            values.reference = float(energies[np.isfinite(energies)].mean())
        fixed = values.of_states(states)
        for k, beta in enumerate(betas):
            logs = -(beta * energies if energies is not None else values.potential(beta, states))
            possible = np.isfinite(logs)
            terms = np.concatenate(
                [
                    np.ones((len(states), 1)),
                    values.of_energy(beta, states, energies),
                    fixed,
                ],
                axis=1,
            )
            if sums is None:
                sums = np.zeros((len(betas), terms.shape[1]))
            peak = max(peaks[k], float(logs.max()))
            if np.isfinite(peak):
                sums[k] *= np.exp(peaks[k] - peak)
                sums[k] += np.exp(logs[possible] - peak) @ terms[possible]
                peaks[k] = peak
    totals = np.asarray(sums)
    return peaks + np.log(totals[:, 0]), totals[:, 1:] / totals[:, :1]
