"""Averages at many temperatures by one pass over all states."""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.enumeration._limits import SECONDS_BY_STREAMING, number_of_states
from ebm.errors import ModelError
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


def by_enumeration(values: Values, betas: Array) -> tuple[Array, Array, Array]:
    """ln Z, (β,), the averages of all values, (β, d), and what each β counts energies from, (β,).

    Sums are kept in units of the largest weight so far, and energies counted from ε of its state,
    so that variances keep their digits where few states have weight.
    """
    peaks, references = np.full(len(betas), -np.inf), np.zeros(len(betas))
    sums: list[Array | None] = [None] * len(betas)
    for states in values.model.space.enumerate():  # type: ignore[attr-defined]
        energies = checked_energy(values.model, states) if values.is_linear else None
        fixed = values.of_states(states)
        for k, beta in enumerate(betas):
            with np.errstate(over="ignore"):
                logs = -(
                    beta * energies if energies is not None else values.potential(beta, states)
                )
            best = int(logs.argmax())
            if np.isneginf(logs[best]):
                continue
            slopes, curvatures = values.slopes(beta, states, energies)
            earlier = sums[k]
            if logs[best] > peaks[k]:
                fading = np.exp(peaks[k] - logs[best])
                earlier = None if earlier is None or fading == 0 else earlier * fading
                if earlier is not None:
                    shift = references[k] - slopes[best]
                    earlier[2] += shift * (2 * earlier[1] + shift * earlier[0])
                    earlier[1] += shift * earlier[0]
                peaks[k], references[k] = logs[best], slopes[best]
            with np.errstate(over="ignore"):
                weights = np.exp(logs - peaks[k])
            seen = weights > 0
            off = slopes[seen] - references[k]
            terms = [np.ones((len(off), 1)), np.stack([off, off**2, curvatures[seen]], axis=1)]
            new = weights[seen] @ np.concatenate([*terms, fixed[seen]], axis=1)
            sums[k] = new if earlier is None else earlier + new
    if np.isneginf(peaks).any():
        raise ModelError("every state has energy +inf: there is no distribution")
    totals = np.array(sums)
    return peaks + np.log(totals[:, 0]), totals[:, 1:] / totals[:, :1], references
