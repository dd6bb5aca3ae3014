"""Dwell and transition rates of 200 random ten-spin models against brute-force matrices.

``python -m tests.landscape_rates`` takes minutes. The rates from valley to valley of heat baths of
single spins, seen in 100 chains of 3000 updates, are compared with the chain of (state, valley
whose core was visited last), solved exactly. It prints deviations in standard errors, which of a
right error have the mean square 1, and rates of a rule that counts recrossings of ridges, too.
Minima, basins and passes of 200 such models are compared in ``tests/test_valleys.py``. It printed:

    200 of 200 models have more than one minimum
    3471 rates: mean 0.022, mean square 0.966, largest 4.16 standard errors
    1200 dwell times: mean -0.048, mean square 0.864, largest 5.11 standard errors
    recrossings counted, too: median rate 2.8 times the exact one
    85 s of CPU

The largest deviation is that of a valley most of whose visits end soon and few last long (their
standard deviation is 1.5 times their mean), of which 138 had an end.
"""

from __future__ import annotations

import time

import numpy as np

import ebm
from tests.test_valleys import spins

N, N_MODELS, N_CHAINS, N_STEPS = 10, 200, 100, 3000


def heat_baths(model):
    """Number of each state with spin i flipped, and its probability, (2^n, n); E, (2^n,)."""
    states = model.space.states_at(np.arange(2**N))
    energies = model.energy(states)
    flipped = np.arange(2**N)[:, None] ^ (1 << np.arange(N)[::-1])
    return flipped, 1 / (1 + np.exp(energies[flipped] - energies[:, None])), energies


def exact_rates(landscape, flipped, chances, energies):
    """Rates (k, k), from the chain of states and last cores.

    A visit to valley a that starts at state x of its core spends times (1 − Q_a)⁻¹ e_x at the
    states before the core of another is met, Q_a the moves to states in no core but a's. The
    states where visits start are a chain themselves, of which the stationary distribution is taken.
    """
    k, size = len(landscape), len(energies)
    valleys = landscape.valley_of(landscape.space.states_at(np.arange(size)))
    heights = landscape.heights + np.diag(np.full(k, np.inf))
    is_core = energies < heights.min(axis=1)[valleys]
    moves = np.zeros((size, size))
    np.add.at(moves, (flipped, np.arange(size)[:, None]), chances / N)
    moves += np.diag(1 - chances.sum(axis=1) / N)
    cores = np.flatnonzero(is_core)
    following, spent = np.zeros((len(cores),) * 2), np.zeros(len(cores))
    for a in range(k):
        own = np.flatnonzero(~is_core | (valleys == a))
        starts = np.flatnonzero(valleys[cores] == a)
        entries = (own[:, None] == cores[starts]).astype(float)
        times = np.linalg.solve(np.eye(len(own)) - moves[np.ix_(own, own)], entries)
        spent[starts] = times.sum(axis=0)
        others = np.flatnonzero(valleys[cores] != a)
        following[np.ix_(others, starts)] = moves[np.ix_(cores[others], own)] @ times
    system = following - np.eye(len(cores))
    system[0] = 1
    visits = np.linalg.solve(system, np.eye(len(cores))[0])
    member = (valleys[cores] == np.arange(k)[:, None]).astype(float)
    return member @ (following * visits) @ member.T, member @ (spent * visits)


def chains(flipped, chances, start, rng):
    """Numbers of states after each update, (chain, step)."""
    x, path = start, []
    for _ in range(N_STEPS):
        i = rng.integers(N, size=len(x))
        x = np.where(rng.random(len(x)) < chances[x, i], flipped[x, i], x)
        path.append(x)
    return np.array(path).T


def deviations(model, rng, n_chains=N_CHAINS):
    """Deviations of rates and of dwell times in standard errors, and rates with recrossings."""
    landscape = ebm.landscape(model)
    flipped, chances, energies = heat_baths(model)
    flow, stay = exact_rates(landscape, flipped, chances, energies)
    rates = flow.T / stay[:, None]
    p = ebm.exact(model).weights
    path = chains(flipped, chances, rng.choice(2**N, size=n_chains, p=p), rng)
    draws = ebm.sample(model, n_draws=2, n_chains=2, rng=1)
    states = model.space.states_at(path.ravel()).reshape(*path.shape, N)
    seen = landscape.transitions(type(draws)(model.space, states, draws.final))
    known = np.isfinite(seen.rates.standard_error)
    z = ((seen.rates.value - rates) / seen.rates.standard_error)[known]
    dwell = (seen.dwell.value - stay / flow.sum(axis=0)) / seen.dwell.standard_error
    valleys = landscape.valley_of(states)
    crossed = np.zeros((len(landscape),) * 2)
    np.add.at(crossed, (valleys[:, :-1], valleys[:, 1:]), 1)
    share = crossed / np.maximum(crossed.sum(axis=1, keepdims=True), 1)
    return z, dwell[np.isfinite(dwell)], share[known] / rates[known]


def main():
    rng, start = np.random.default_rng(0), time.process_time()
    models = [spins(rng, N).scaled(0.6) for _ in range(N_MODELS)]
    models = [model for model in models if len(ebm.landscape(model)) > 1]
    columns = zip(*(deviations(model, rng) for model in models), strict=True)
    *both, naive = map(np.concatenate, columns)
    print(f"    {len(models)} of {N_MODELS} models have more than one minimum")
    for name, z in zip(("rates", "dwell times"), both, strict=True):
        print(
            f"    {len(z)} {name}: mean {z.mean():.3f}, mean square {(z**2).mean():.3f}, "
            f"largest {np.abs(z).max():.2f} standard errors"
        )
    print(f"    recrossings counted, too: median rate {np.median(naive):.1f} times the exact one")
    print(f"    {time.process_time() - start:.0f} s of CPU")


if __name__ == "__main__":
    main()
