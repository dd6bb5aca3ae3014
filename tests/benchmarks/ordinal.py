"""Times of ordinal models: exact fits, pseudo-likelihood, and ratios to what they replace.

    python tests/benchmarks/ordinal.py

The Fisher information from fourth moments stands beside a pass over all states, the compiled sweep
of items with different numbers of categories beside the sweep of any units.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import ebm
from ebm.information import _levels
from ebm.information.ensemble_information import EnsembleInformation
from ebm.sampling import gibbs


def items(sizes: list[int], strength: float) -> ebm.OrdinalModel:
    """Random couplings whose mean input is taken from the thresholds."""
    rng, n = np.random.default_rng(0), len(sizes)
    weights = rng.normal(0, strength, (n, n))
    np.fill_diagonal(weights, 0)
    weights = (weights + weights.T) / 2
    means = np.array([(q - 1) / 2 for q in sizes])
    inputs = weights @ means
    thresholds = [
        rng.normal(0, 0.3, q) - push * np.arange(q) for q, push in zip(sizes, inputs, strict=True)
    ]
    return ebm.OrdinalModel(weights, thresholds)


def flat(model: ebm.OrdinalModel) -> ebm.OrdinalModel:
    return model.with_parameters(np.zeros_like(model.parameters))


def seconds(work: Callable[[], object], repeats: int = 1) -> float:
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def fits() -> None:
    loss = ebm.inversion.Pseudolikelihood()
    for n, q in ((9, 4), (9, 5), (10, 5)):
        model = items([q] * n, 0.15)
        rows = ebm.exact(model).sample(2000, rng=1)
        exact = seconds(lambda model=model, rows=rows: ebm.fit(flat(model), rows))
        quick = seconds(
            lambda model=model, rows=rows: ebm.fit(flat(model), rows, loss=loss).standard_errors
        )
        print(f"{n} items of {q}: exact fit {exact:.2f} s, pseudo-likelihood {quick:.2f} s")
    model = items([5] * 50, 0.04)
    rows = ebm.sample(model, n_draws=30, n_chains=100, rng=0).chains.reshape(-1, 50)
    quick = seconds(lambda: ebm.fit(flat(model), rows, loss=loss))
    print(f"50 items of 5, 3000 rows: pseudo-likelihood {quick:.2f} s")


def information() -> None:
    model = items([4] * 8, 0.15)
    ensemble = ebm.exact(model)
    own = seconds(lambda: _levels.fisher_of_levels(model, ensemble), 3)
    other = seconds(lambda: EnsembleInformation(model, ensemble).dense())
    print(f"Fisher information of 8 items of 4: {own:.3f} s, all states {other / own:.1f} times")


def sweeps() -> None:
    model = items([5, 4, 3, 6, 2] * 6, 0.05)
    for n_chains in (4, 64, 1000):

        def draw(n_chains: int = n_chains) -> object:
            return ebm.sample(model, n_draws=100, n_chains=n_chains, rng=0)

        own = seconds(draw, 3)
        kept, gibbs.item_sweeper = gibbs.item_sweeper, lambda form, space: None
        other = seconds(draw)
        gibbs.item_sweeper = kept
        print(f"{n_chains} chains of 30 items: {own:.3f} s, any units {other / own:.1f} times")


if __name__ == "__main__":
    fits()
    information()
    sweeps()
