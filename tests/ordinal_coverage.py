"""How often intervals of ordinal fits cover the truth.

    python -m tests.ordinal_coverage 1000

Four items of three to five categories, 400 rows, couplings from −0.25 to 0.4, seed 0. With 1000
problems, whose binomial deviation is 0.7 % for a single parameter:

    exact: 95 % intervals cover thresholds 0.9468, couplings 0.9510, each from 0.937 to 0.961
    pseudo-likelihood: 95 % intervals cover thresholds 0.9462, couplings 0.9497, each from 0.934 to
    0.962
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import ebm

LOSSES = {"exact": ebm.Likelihood(), "pseudo-likelihood": ebm.inversion.Pseudolikelihood()}


def truth() -> ebm.OrdinalModel:
    weights = np.zeros((4, 4))
    for (i, j), value in {(0, 1): 0.4, (1, 2): -0.25, (2, 3): 0.3, (0, 3): 0.15}.items():
        weights[i, j] = weights[j, i] = value
    thresholds = [[0, 0.4, -0.6], [0, 0.3, 0.1, -0.9], [0, 0.5, 0.4, 0.2, -0.5], [0, -0.2, -0.8]]
    return ebm.OrdinalModel(weights, thresholds)


def main(n_problems: int) -> None:
    model = truth()
    exact, wanted = ebm.exact(model), model.parameters
    start = model.with_parameters(np.zeros_like(wanted))
    rng = np.random.default_rng(0)
    covered = {name: np.zeros(len(wanted)) for name in LOSSES}
    n_fits = dict.fromkeys(LOSSES, 0)
    for _ in range(n_problems):
        rows = exact.sample(400, rng)
        for name, loss in LOSSES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ebm.EbmWarning)
                result = ebm.fit(start, rows, loss=loss)
            n_fits[name] += 1
            gap = np.abs(result.model.parameters - wanted)
            covered[name] += gap < 1.959964 * result.standard_errors
    for name, counts in covered.items():
        shares, is_coupling = counts / n_fits[name], model.is_coupling
        print(
            f"{name}: 95 % intervals cover thresholds {shares[~is_coupling].mean():.4f}, couplings "
            f"{shares[is_coupling].mean():.4f}, each from {shares.min():.3f} to {shares.max():.3f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
