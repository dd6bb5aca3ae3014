"""A Gibbs chain of three units whose rows are dependent, with its exact standard errors."""

import numpy as np

import ebm

WEIGHTS = np.array([[0, 0.8, -0.5], [0.8, 0, 0.4], [-0.5, 0.4, 0]])
BIASES = np.array([0.2, -0.3, 0.1])
MODEL = ebm.BoltzmannMachine(WEIGHTS, BIASES)
#: √N times the standard errors of independent rows, and of the rows of the chain.
NAIVE = np.array([3.7034590, 3.9926315, 3.7591295, 4.2413331, 4.2175861, 4.1977401])
RIGHT = np.array([6.4753065, 6.5214084, 6.6081942, 5.9622175, 5.9044584, 5.8710097])


def features(states):
    """x_i and x_i x_j, (r, 6)."""
    x = np.asarray(states, dtype=float)
    i, j = np.triu_indices(3, 1)
    return np.hstack([x, x[:, i] * x[:, j]])


def transitions():
    """One unit, chosen at random, is drawn anew given the others: (8, 8) over the states."""
    ensemble = ebm.exact(MODEL)
    states, p = ensemble.states, ensemble.weights
    matrix = np.zeros((8, 8))
    for row, state in enumerate(states):
        for unit in range(3):
            alike = np.flatnonzero((np.delete(states, unit, 1) == np.delete(state, unit)).all(1))
            matrix[row, alike] += p[alike] / p[alike].sum() / 3
    return states, p, matrix


def long_run_covariance():
    """Γ = Σ_k Cov(φ_t, φ_{t+k}) = F + A + Aᵀ with A = Σ_{k>0} E[g Tᵏ gᵀ], lag by lag."""
    states, p, matrix = transitions()
    g = features(states) - p @ features(states)
    total, ahead = (g.T * p) @ g, g
    for _ in range(400):
        ahead = matrix @ ahead
        lagged = (g.T * p) @ ahead
        total = total + lagged + lagged.T
    return (g.T * p) @ g, total


def series(n_rows, rng):
    """Successive states of the chain, (n_rows, 3), int8."""
    states, p, matrix = transitions()
    rising = matrix.cumsum(axis=1)
    rising[:, -1] = 1.0
    place, places = rng.choice(8, p=p), np.empty(n_rows, dtype=int)
    for t, u in enumerate(rng.random(n_rows)):
        places[t] = place = np.searchsorted(rising[place], u, side="right")
    return states[places].astype(np.int8)
