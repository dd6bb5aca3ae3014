"""ln Z of the 128×128 torus at K = .44 by cluster moves, against Kaufman's formula.

    python -m tests.torus_by_clusters

ln Z(K) = n ln 2 − ∫₀ᴷ ⟨E⟩_β dβ, the integral by Gauss's rule in two pieces, one of them the last
tenth, where the specific heat rises. Printed is, for each piece and in all, ln Z, its error and the
number of errors to Kaufman's value.
"""

import time

import numpy as np

import ebm
from tests.oracles import kaufman

#: Ends of pieces and number of points in each.
PIECES = ((0.0, 0.33, 6), (0.33, 0.44, 8))


def integrated(length, n_draws, rng=0, pieces=PIECES, sampler=None):
    """ln Z(K) − n ln 2 and its standard error from energies of chains at the points."""
    torus = ebm.from_graph(ebm.lattice((length, length)))
    value, variance, source = 0.0, 0.0, np.random.default_rng(rng)
    for low, high, n_points in pieces:
        nodes, weights = np.polynomial.legendre.leggauss(n_points)
        betas = low + (high - low) * (nodes + 1) / 2
        for beta, weight in zip(betas, weights * (high - low) / 2, strict=True):
            samples = ebm.sample(
                torus.scaled(beta),
                sampler or ebm.SwendsenWang(),
                n_draws=n_draws,
                initial=np.ones(torus.n),
                rng=source,
            )
            energy = samples.estimate(torus.energy)
            value -= weight * energy.value
            variance += (weight * energy.standard_error) ** 2
    return value, float(np.sqrt(variance))


def main():
    length, coupling = 128, 0.44
    start = time.process_time()
    value, error = integrated(length, n_draws=1000)
    value += length**2 * np.log(2)
    truth = kaufman(length, coupling)
    print(f"ln Z {value:.3f} ± {error:.3f}, Kaufman {truth:.6f}: {(value - truth) / error:+.2f}")
    print(f"{time.process_time() - start:.0f} s of processor time")


if __name__ == "__main__":
    main()
