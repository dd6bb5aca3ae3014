"""Where the temperatures of a ladder belong: at equal shares of the communication barrier."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ebm._arrays import as_finite, as_integer
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.errors import EbmError, PoorMixingWarning, warn
from ebm.model import EnergyModel, checked_space
from ebm.sampling.sample import sample
from ebm.sampling.samples import ChainState, SamplingRun

#: Chains, and scans of the first round; each round has twice as many as the one before.
N_CHAINS = 8
FIRST_SCANS = 50
MOST_SLOTS = 129
MOST_COPIES = 4096
#: Rejection from which on so few temperatures are not enough.
LARGEST_REJECTION = 0.9
#: Rejections below this count as this, so that shares of the barrier are never empty.
SMALLEST_REJECTION = 1e-4


def placed(
    model: EnergyModel,
    ladder: Callable[[Array], Any],
    hottest: float,
    n_copies: int | None,
    n_rounds: int,
    rng: RandomSource,
) -> tuple[float, ...]:
    """Inverse temperatures below 1, falling; about 2Λ of them unless their number is given.

    ``ladder`` takes such temperatures to a sampler.
    """
    hottest = as_finite(hottest, "hottest")
    if not 0 <= hottest < 1:
        raise EbmError(f"hottest must be an inverse temperature from 0 to below 1, got {hottest:g}")
    n_rounds = as_integer(n_rounds, "n_rounds")
    wanted = None if n_copies is None else 1 + as_integer(n_copies, "n_copies")
    if wanted is not None and wanted > MOST_COPIES:
        raise EbmError(f"n_copies must be at most {MOST_COPIES - 1}, got {n_copies}")
    source, n = generator(rng), checked_space(model).n
    # The barrier of n units grows as √n where nothing else is known.
    n_slots = wanted or min(33, max(5, 1 + 2 * math.ceil(math.sqrt(n))))
    betas, start, scans = np.linspace(1, hottest, n_slots), None, FIRST_SCANS
    rejection = np.zeros(n_slots - 1)
    for _ in range(n_rounds):
        # One draw: what is wanted are the swaps of the scans before it.
        run: dict[str, Any] = {"n_draws": 1, "run": SamplingRun(thin=scans), "burn_in": scans // 2}
        samples: Any = sample(
            model,
            ladder(betas[1:]),
            n_chains=N_CHAINS,
            initial=start,
            rng=source.spawn(1)[0],
            **run,
        )
        rejection, former = samples.rejection, betas
        n_slots = wanted or min(MOST_SLOTS, max(2, 1 + math.ceil(2 * samples.barrier)))
        betas = at_equal_shares(former, rejection, n_slots)
        start, scans = _moved(samples.final, former, betas), 2 * scans
    if rejection.sum() / (n_slots - 1) > LARGEST_REJECTION:
        warn(
            f"{n_slots} temperatures are too few to exchange states: the barrier between beta=1 "
            f"and {hottest:g} is at least {rejection.sum():.3g}, for which about "
            f"{1 + math.ceil(2 * rejection.sum())} are needed",
            PoorMixingWarning,
        )
    return tuple(betas[1:].tolist())


def at_equal_shares(betas: Array, rejection: Array, n_slots: int) -> Array:
    """Λ(β) = Σ r through the slots, monotone between them, cut into equal parts, (n_slots,)."""
    from scipy.interpolate import PchipInterpolator

    barrier = np.concatenate([[0], np.cumsum(np.maximum(rejection, SMALLEST_REJECTION))])
    placed = PchipInterpolator(barrier, betas)(np.linspace(0, barrier[-1], n_slots))
    placed[[0, -1]] = betas[[0, -1]]
    return np.asarray(placed)


def _moved(final: ChainState, former: Array, betas: Array) -> ChainState:
    """Chains that go on at other temperatures, each slot from the state of the nearest."""
    states = np.concatenate([final.states[:, None], final.copies], axis=1)
    nearest = np.abs(betas[:, None] - former).argmin(axis=1)
    states = states[:, nearest]
    return ChainState(states[:, 0], final.streams, final.space, states[:, 1:])
