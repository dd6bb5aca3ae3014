"""A fit of a hundred units by chains, beside the pairwise one, of rows from a known model.

``python -m tests.population_fits`` takes two minutes of one core. Of 40 000 rows it printed

    k-pairwise: converged after 2200 epochs, 52 s; P(0) .00264 ± .00013, P(1) .0056, P(2) .0188
    pairwise:   converged after 2200 epochs, 24 s; P(0) .00132 ± .00008, P(1) .0072, P(2) .0218

where the rows have P(0) = .0026, P(1) = .0057 and P(2) = .0187. For the fifty cells of
example50.mat of the maximum-entropy toolbox (40 000 bins) the same calls gave P(0) = .0796 ± .0006
and .0444 ± .0004, where the bins have .0794 ± .0014, in 35 and 52 s.
"""

import time

import numpy as np

import ebm


def main(n=100):
    rng, k = np.random.default_rng(0), np.arange(n + 1.0)
    weights = np.triu(rng.normal(0.05, 0.25, (n, n)) * (rng.random((n, n)) < 0.3), 1)
    potential = -1.2 * np.minimum(k, 1) - 0.25 * np.minimum(k, 12) + 0.02 * np.maximum(k - 6, 0)
    truth = ebm.KPairwiseModel(weights + weights.T, rng.normal(-2.6, 0.6, n), potential)
    run = ebm.sampling.SamplingRun(thin=20)
    rows = ebm.sample(truth, n_chains=1000, n_draws=40, rng=1, run=run).chains.reshape(-1, n)
    data = ebm.Ensemble.from_data(rows)
    start = ebm.KPairwiseModel.for_data(data)
    families = {"k-pairwise": start, "pairwise": ebm.BoltzmannMachine(0 * weights, start.biases)}
    count = rows.sum(axis=1)
    print("rows:", [float((count == k).mean()) for k in range(3)])
    for name, family in families.items():
        begun = time.perf_counter()
        chains = ebm.Likelihood(ebm.PersistentChains(1000))
        result = ebm.fit(family, data, loss=chains, rng=0)
        took = time.perf_counter() - begun
        initial = result.ensemble.states
        draws = ebm.sample(result.model, n_chains=1000, n_draws=200, rng=1, initial=initial)
        shares = [draws.estimate(lambda x, k=k: (x.sum(axis=-1) == k) * 1.0) for k in range(3)]
        print(f"{name}: {result.message}, {took:.0f} s;", *shares)


if __name__ == "__main__":
    main()
