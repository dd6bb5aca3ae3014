"""States of low energy by tempered chains that are quenched: nothing proves that none is lower."""

from __future__ import annotations

import numpy as np

from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ground._removal import TIE
from ebm.model import EnergyModel, checked_energy
from ebm.sampling import Gibbs, ParallelTempering, sample
from ebm.sampling._tempered_models import tempered
from ebm.spaces import FiniteSpace

#: Temperatures of a ladder in units of the energy of a typical move, from cold to hot; and scans.
COLDEST, HOTTEST, N_COPIES = 0.1, 2.0, 12
N_SCANS = 200
#: Inverse temperature of a quench in the same units, and its sweeps.
QUENCH, N_SWEEPS = 1e6, 20


def searched(
    model: EnergyModel, space: FiniteSpace, n_runs: int, rng: RandomSource
) -> tuple[Array, float, Array, float]:
    """Distinct states of the least energy met, it, the least of each run, and a tolerance."""
    stream = generator(rng)
    scale = typical_move(model, space, stream)
    cold = tempered(model, 1 / (COLDEST * scale))
    betas = np.geomspace(1.0, COLDEST / HOTTEST, N_COPIES)[1:]
    drawn = sample(
        cold,
        ParallelTempering(betas.tolist()),
        n_draws=N_SCANS,
        n_chains=n_runs,
        rng=stream,
    )
    chains = np.asarray(drawn.chains, dtype=np.float64)
    lowest = np.argmin(
        [checked_energy(model, np.ascontiguousarray(states)) for states in chains], axis=1
    )
    states = chains[np.arange(n_runs), lowest]
    quenched = sample(
        tempered(model, QUENCH / scale),
        Gibbs(),
        n_draws=1,
        burn_in=N_SWEEPS,
        initial=states,
        rng=stream,
    )
    after = np.asarray(quenched.chains, dtype=np.float64)[:, -1]
    before, then = checked_energy(model, states), checked_energy(model, after)
    states = np.where((then < before)[:, None], after, states)
    energies = np.minimum(before, then)
    tolerance = TIE * max(1.0, float(np.abs(energies).max())) * space.n
    energy = float(energies.min())
    return np.unique(states[energies <= energy + tolerance], axis=0), energy, energies, tolerance


def typical_move(model: EnergyModel, space: FiniteSpace, rng: np.random.Generator) -> float:
    """The root mean square change of E when one unit of a random state is drawn anew."""
    states = space.random(256, rng)
    moved = states.copy()
    units = rng.integers(0, space.n, len(states))
    rows = np.arange(len(states))
    moved[rows, units] = space.random(256, rng)[rows, units]
    with np.errstate(invalid="ignore"):
        changes = checked_energy(model, moved) - checked_energy(model, states)
    changes = changes[np.isfinite(changes)]
    return float(np.sqrt(np.mean(changes**2))) if changes.any() else 1.0
