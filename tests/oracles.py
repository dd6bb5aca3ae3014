"""Slow definitions that fast code is held against: loops, tables, finite differences."""

import itertools
import math

import numpy as np


def all_states(space):
    """Every state by itertools: the last unit fastest."""
    return np.array(list(itertools.product(space.values, repeat=space.n)))


def pair_energy(x, weights, biases, center, offset):
    """[EBM] eq 12, summed term by term."""
    energy = offset
    for a in range(len(x)):
        energy -= biases[a] * x[a]
        for b in range(len(x)):
            energy -= 0.5 * weights[a][b] * (x[a] - center[a]) * (x[b] - center[b])
    return energy


def distribution(model):
    """(ln Z, p) over all states in lexicographic order, by log-sum-exp over ``energy``."""
    log_weights = -np.asarray(model.energy(all_states(model.space)))
    top = log_weights.max()
    total = np.exp(log_weights - top).sum()
    return top + math.log(total), np.exp(log_weights - top) / total


def moments(model):
    """(mean, covariance) of the features, by the definition."""
    _, p = distribution(model)
    f = model.space.features(all_states(model.space))
    mean = p @ f
    return mean, (f - mean).T @ ((f - mean) * p[:, None])


def finite_difference(function, theta, step=1e-5):
    """Central differences of a scalar function of a vector."""
    theta = np.asarray(theta, dtype=float)
    slopes = []
    for k in range(len(theta)):
        change = np.zeros_like(theta)
        change[k] = step
        slopes.append((function(theta + change) - function(theta - change)) / (2 * step))
    return np.array(slopes)


def mean_log_likelihood(model, rows):
    """Mean of ln p over rows, by enumeration."""
    log_z, _ = distribution(model)
    return float(np.mean(-np.asarray(model.energy(rows)) - log_z))
