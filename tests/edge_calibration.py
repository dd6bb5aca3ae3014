"""Calibration of the posterior over edges: graphs, couplings and rows drawn from the prior itself.

    python -m tests.edge_calibration [seed]

draws problems of 8 spins and 400 rows at one seed until each of three ranges of stated probability
holds 500 edges, and prints how often these edges are there:

    479 problems, 13412 edges, seed 20
    0.05 to 0.15: 1005 edges, said 0.1259, there 0.1463, +1.95 binomial deviations
    0.45 to 0.55: 936 edges, said 0.4951, there 0.5374, +2.59 binomial deviations
    0.85 to 0.95: 500 edges, said 0.9005, there 0.9000, -0.03 binomial deviations

    476 problems, 13328 edges, seed 21
    0.05 to 0.15: 1014 edges, said 0.1260, there 0.1381, +1.15 binomial deviations
    0.45 to 0.55: 933 edges, said 0.4946, there 0.4930, -0.10 binomial deviations
    0.85 to 0.95: 500 edges, said 0.9043, there 0.9180, +1.04 binomial deviations
"""

import sys
from typing import NamedTuple

import numpy as np

import ebm
from ebm.inversion import EdgePrior, edge_posterior

N, N_ROWS, SEED = 8, 400, 20
RANGES = ((0.05, 0.15), (0.45, 0.55), (0.85, 0.95))


class Frequency(NamedTuple):
    """Edges of one range: their number, how probable they were said to be, how often there."""

    n_edges: int
    said: float
    there: float

    @property
    def deviations(self) -> float:
        """The difference in binomial standard deviations of the stated probability."""
        return (self.there - self.said) / np.sqrt(self.said * (1 - self.said) / self.n_edges)


def problem(prior: EdgePrior, rng: np.random.Generator):
    """A graph of the prior, and moments of rows of a model on it."""
    i, j = np.triu_indices(N, 1)
    graph = rng.random(len(i)) < prior.edge_probability
    couplings = np.zeros((N, N))
    couplings[i, j] = np.where(graph, rng.normal(0, prior.coupling_width, len(i)), 0)
    model = ebm.IsingModel(couplings + couplings.T, rng.normal(0, prior.field_width, N))
    rows = ebm.exact(model).sample(N_ROWS, rng)
    return graph, ebm.Ensemble.from_data(rows, space=ebm.Spins)


def stated(n_problems: int, seed: int = SEED, n_draws: int = 1000):
    """Stated probabilities and edges of a number of problems, one after the other."""
    prior, rng = EdgePrior(), np.random.default_rng(seed)
    for k in range(n_problems):
        graph, data = problem(prior, rng)
        yield edge_posterior(data, prior, n_draws=n_draws, rng=k).probabilities, graph


def frequency(said, there, low: float, high: float) -> Frequency:
    """What was said and what there was between two probabilities."""
    chosen = (said >= low) & (said < high)
    return Frequency(int(chosen.sum()), float(said[chosen].mean()), float(there[chosen].mean()))


def main(seed: int = SEED, least: int = 500, most_problems: int = 5000) -> None:
    """Problems until each range holds enough edges."""
    said, there = np.zeros(0), np.zeros(0, dtype=bool)
    for k, (probabilities, graph) in enumerate(stated(most_problems, seed)):
        said, there = np.append(said, probabilities), np.append(there, graph)
        counts = [((said >= low) & (said < high)).sum() for low, high in RANGES]
        if k % 50 == 49:
            print(k + 1, "problems:", *counts, file=sys.stderr, flush=True)
        if min(counts) >= least:
            break
    print(f"{k + 1} problems, {len(said)} edges, seed {seed}")
    for low, high in RANGES:
        found = frequency(said, there, low, high)
        print(
            f"{low:.2f} to {high:.2f}: {found.n_edges} edges, said {found.said:.4f}, there "
            f"{found.there:.4f}, {found.deviations:+.2f} binomial deviations"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
