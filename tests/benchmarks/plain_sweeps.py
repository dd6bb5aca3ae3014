"""Sweeps as they are written in plain numpy, chains side by side: what compiled ones are beside."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import ebm
from ebm._types import Array


def levels(model: ebm.PottsModel, n_chains: int) -> Callable[[], object]:
    """Heat bath of a Potts model: tables of the neighbors looked up, then softmax and choice."""
    rng = np.random.default_rng(0)
    states = rng.integers(0, model.q, (model.n, n_chains))
    tables = [
        [(j, model.couplings[i, j]) for j in np.flatnonzero(model.couplings[i].any(axis=(1, 2)))]
        for i in range(model.n)
    ]

    def sweep() -> None:
        for i, near in enumerate(tables):
            logs = np.repeat(model.fields[i][:, None], n_chains, axis=1)
            for j, table in near:
                logs += table[:, states[j]]
            weights = np.exp(logs - logs.max(axis=0)).cumsum(axis=0)
            states[i] = (weights < rng.random(n_chains) * weights[-1]).sum(axis=0)

    return sweep


def terms(model: ebm.InteractionModel, n_chains: int) -> Callable[[], object]:
    """Heat bath of spins in terms: products of the others, then the logistic function."""
    rng = np.random.default_rng(0)
    states = rng.choice([-1.0, 1.0], (model.n, n_chains))
    near = [
        [(2 * value, [j for j in key if j != i]) for key, value in model.terms.items() if i in key]
        for i in range(model.n)
    ]

    def sweep() -> None:
        for i, rows in enumerate(near):
            field = np.zeros(n_chains)
            for weight, others in rows:
                field += weight * states[others].prod(axis=0)
            states[i] = np.where(rng.random(n_chains) * (1 + np.exp(-field)) < 1, 1.0, -1.0)

    return sweep


def metropolis(model: ebm.IsingModel, n_chains: int) -> Callable[[], object]:
    """Metropolis of dense spins: a product for each unit, and three offers in four."""
    rng = np.random.default_rng(0)
    states = rng.choice([-1.0, 1.0], (model.n, n_chains))

    def sweep() -> None:
        for i in range(model.n):
            loss = 2 * states[i] * (model.couplings[i] @ states + model.fields[i])
            flip = rng.random(n_chains) < 0.75 * np.exp(-np.maximum(loss, 0))
            states[i] = np.where(flip, -states[i], states[i])

    return sweep


def tempering(model: ebm.IsingModel, n_chains: int, betas: Array) -> Callable[[], object]:
    """Heat bath of all copies side by side, their energies, and swaps of every other pair."""
    rng = np.random.default_rng(0)
    states = rng.choice([-1.0, 1.0], (model.n, len(betas), n_chains))
    heat = betas[:, None]

    def sweep() -> None:
        flat = states.reshape(model.n, -1)
        for i in range(model.n):
            field = (model.couplings[i] @ flat + model.fields[i]).reshape(heat.size, n_chains)
            up = rng.random(field.shape) * (1 + np.exp(-2 * heat * field)) < 1
            states[i] = np.where(up, 1.0, -1.0)
        logs = 0.5 * (flat * (model.couplings @ flat)).sum(axis=0) + model.fields @ flat
        logs = logs.reshape(heat.size, n_chains)
        for cold in range(int(rng.random() < 0.5), len(betas) - 1, 2):
            gain = (betas[cold] - betas[cold + 1]) * (logs[cold + 1] - logs[cold])
            taken = np.flatnonzero(np.log(rng.random(n_chains)) < gain)
            kept = states[:, cold, taken].copy()
            states[:, cold, taken] = states[:, cold + 1, taken]
            states[:, cold + 1, taken] = kept

    return sweep
