"""Slow definitions that fast code is held against: loops, tables, finite differences."""

import itertools
import math

import numpy as np

import ebm


def all_states(space):
    """Every state by itertools: the last unit fastest."""
    return np.array(list(itertools.product(*map(space.values_of, range(space.n)))))


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


def counted(rows, weights=None):
    """Total weight of each distinct row, as a dictionary of tuples."""
    totals = {}
    for k, row in enumerate(rows):
        key = tuple(float(value) for value in row)
        totals[key] = totals.get(key, 0.0) + (1.0 if weights is None else float(weights[k]))
    return totals


def conditional(model, state, unit):
    """p(unit takes its last value | the others as in ``state``), from the energies alone."""
    weights = []
    for value in model.space.values_of(unit):
        changed = np.array(state, dtype=float)
        changed[unit] = value
        weights.append(math.exp(-float(model.energy(changed))))
    return weights[-1] / sum(weights)


class LinearFamily(ebm.ParametricModel):
    """E(x; θ) = E₀(x) − Σ_k θ_k f_k(x), as a user would write it."""

    def __init__(self, space, features, theta, base=None):
        self.space = space
        self.features = features
        self.theta = np.array(theta, dtype=float)
        self.base = base

    @property
    def parameters(self):
        return self.theta

    def with_parameters(self, theta):
        return LinearFamily(self.space, self.features, theta, self.base)

    def energy(self, states):
        states = np.asarray(states, dtype=float)
        energies = -self.features(states) @ self.theta
        return energies if self.base is None else energies + self.base(states)

    def energy_gradient(self, states):
        return -self.features(np.asarray(states, dtype=float))


def fourth_moments(model, center):
    """E[d_i d_j d_k d_l] for d = (features − center, 1), state by state."""
    _, p = distribution(model)
    d = model.space.features(all_states(model.space)) - center
    d = np.column_stack([d, np.ones(len(d))])
    total = np.zeros((d.shape[1],) * 4)
    for weight, row in zip(p[p > 0], d[p > 0], strict=True):
        total += weight * np.einsum("i,j,k,l->ijkl", row, row, row, row)
    return total


def covariance(model, observable):
    """Cov of a vector observable over the whole distribution."""
    _, p = distribution(model)
    values = np.asarray(observable(all_states(model.space)))[p > 0]
    p = p[p > 0]
    deviation = values - p @ values
    return deviation.T @ (deviation * p[:, None])


def local_minima(model):
    """States that no change of one unit improves, by trying every change."""
    found = []
    for state in all_states(model.space):
        own = float(model.energy(state))
        neighbors = []
        for unit in range(model.space.n):
            for value in model.space.values_of(unit):
                neighbor = state.copy()
                neighbor[unit] = value
                neighbors.append(float(model.energy(neighbor)))
        if math.isfinite(own) and own <= min(neighbors):
            found.append((own, tuple(state)))
    return found


def maximum_exists(rows, pairs):
    """Whether the likelihood of a pairwise {0,1} family has a maximum on these rows.

    There is none where some θ has θ·f(x) at its largest on every row seen, and smaller on some
    state never seen: a linear program over all 2^n states.
    """
    from scipy.optimize import linprog

    n = rows.shape[1]
    states = np.array(list(itertools.product([0, 1], repeat=n)))
    i, j = pairs
    table = np.column_stack([states, states[:, i] * states[:, j], -np.ones(len(states))])
    seen = np.unique(rows @ (1 << np.arange(n)[::-1])).astype(int)
    unseen = np.setdiff1d(np.arange(len(states)), seen)
    if len(unseen) == 0:
        return True
    below = np.vstack([table[unseen], -table[unseen]])
    bounds = np.concatenate([np.zeros(len(unseen)), np.ones(len(unseen))])
    answer = linprog(
        table[unseen].sum(axis=0),
        A_ub=below,
        b_ub=bounds,
        A_eq=table[seen],
        b_eq=np.zeros(len(seen)),
        bounds=(None, None),
    )
    assert answer.status == 0
    return answer.fun > -1e-7


def heat_bath(energies, now):
    """Probabilities of the values of a unit, by the energies of all of them."""
    weights = np.exp(-(energies - np.min(energies)))
    return weights / weights.sum()


def metropolis(energies, now, offered=0.75):
    """Another value is offered with probability ``offered``, all alike, and taken if it may be."""
    others = max(1, len(energies) - 1)
    chances = offered / others * np.exp(-np.maximum(energies - energies[now], 0))
    chances[now] = 0
    chances[now] = 1 - chances.sum()
    return chances


def sweep_matrix(model, update, order=None):
    """Stochastic matrix (from, to) of updates of all units in turn; forbidden states stay."""
    states = all_states(model.space)
    energies = np.asarray(model.energy(states), dtype=float)
    places = {tuple(state): place for place, state in enumerate(states)}
    sweep = np.eye(len(states))
    for unit in range(model.space.n) if order is None else order:
        step = np.eye(len(states))
        for place in np.flatnonzero(np.isfinite(energies)):
            row = [
                places[(*states[place][:unit], value, *states[place][unit + 1 :])]
                for value in model.space.values_of(unit)
            ]
            step[place] = 0
            step[place, row] = update(energies[row], row.index(place))
        sweep = sweep @ step
    return sweep


def is_primitive(matrix):
    """Whether steps lead from every state to every other, after any large enough number of them.

    That is irreducible and aperiodic: the power (m − 1)² + 1 has no zero (Wielandt).
    """
    possible = np.asarray(matrix) > 0
    power, reach = np.eye(len(possible), dtype=bool), possible
    exponent = (len(possible) - 1) ** 2 + 1
    while exponent:
        if exponent % 2:
            power = power @ reach
        reach, exponent = reach @ reach, exponent // 2
    return bool(power.all())


def kaufman(length, coupling):
    """ln Z of the L×L torus of spins without field, by Kaufman's four products."""
    k, size = coupling, length
    angles = np.pi * np.arange(1, 2 * size) / size
    gamma = np.arccosh(np.cosh(2 * k) / np.tanh(2 * k) - np.cos(angles))
    # γ₀ is negative above the critical temperature, and so is the last product.
    gamma = np.concatenate([[2 * k + np.log(np.tanh(k))], gamma])
    logs, signs = [], []
    for part in (gamma[1::2], gamma[::2]):
        half = size * part / 2
        # ln 2cosh y and ln |2 sinh y|.
        logs.append((abs(half) + np.log1p(np.exp(-2 * abs(half)))).sum())
        logs.append((abs(half) + np.log(-np.expm1(-2 * abs(half)))).sum())
        signs += [1, np.sign(half).prod()]
    largest = max(logs)
    total = sum(sign * np.exp(log - largest) for sign, log in zip(signs, logs, strict=True))
    return size**2 / 2 * np.log(2 * np.sinh(2 * k)) + largest + np.log(total / 2)
