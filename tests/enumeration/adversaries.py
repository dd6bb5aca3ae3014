"""Models built to defeat the matrix products: LIMITS of the design, §1.3."""

import numpy as np

import ebm


def underflow_adversary(k=8, strength=50.0):
    """Groups of k: a and c are on, and push every b by ∓strength·k; plain factors underflow.

    ln Z = 4000 k + k ln 2: a and c all on, b free. The products F G are exp(−strength k²).
    """
    a, b, c = (slice(i * k, (i + 1) * k) for i in range(3))
    weights = np.zeros((3 * k, 3 * k))
    weights[a, b], weights[b, c] = -strength, strength
    biases = np.zeros(3 * k)
    biases[a] = biases[c] = 2000
    return ebm.BoltzmannMachine(weights + weights.T, biases)


def two_mode_adversary():
    """The same with one more unit z that, when on, turns a and c off, at equal total weight.

    No potential balances the factors about both modes at once. Groups (5, 4, 4), z the last unit:
    ln Z = 160000 + 5 ln 2, every mean one half.
    """
    a, b, c, z = slice(0, 5), slice(5, 9), slice(9, 12), 12
    weights = np.zeros((13, 13))
    weights[a, b], weights[b, c] = -600, 1000
    weights[a, z] = weights[c, z] = -40000
    biases = np.zeros(13)
    biases[a] = biases[c] = 20000
    biases[z] = 20000 * 8
    return ebm.BoltzmannMachine(weights + weights.T, biases)
