"""How often approximations miss their own errors, or see errors that are not there.

    python -m tests.error_estimates [number of machines]

prints, for each approximate number and over the same random machines: how many there were, how many
were off by more than 0.1 (nats for ln Z, standard deviations of a unit for means, relative to the
number for covariances, cumulants and ratios), how many of all were off without a warning (missed),
how many within it were warned of (false), and how many estimates were below the true error.
"""

import sys
import warnings
from collections import defaultdict
from typing import NamedTuple

import numpy as np

import ebm
from ebm.errors import EbmError, SeriesWarning
from ebm.perturbation import bethe, expand, plefka
from ebm.perturbation.bethe._coupling_graph import coupling_graph
from ebm.perturbation.bethe._witness import Witness

LIMIT = 0.1
KINDS = ("gaussian", "ferromagnet", "±J", "sparse", "lattice", "{0,1}", "{0,1} magnet")


class Trial(NamedTuple):
    """One number: its true error, its estimate, and whether there was a warning."""

    error: float
    estimate: float
    warned: bool


def random_machine(number):
    """A machine of 6 to 12 units at a strength from harmless, 0.05, to hopeless, 5.

    In spins a strength of 1 is about that of the transition of a large system.
    """
    rng = np.random.default_rng([7, number])
    kind = KINDS[number % len(KINDS)]
    n = int(rng.integers(6, 13))
    strength = 10 ** rng.uniform(-1.3, 0.7)
    h = rng.normal(0, rng.choice([0.05, 0.3, 1.0]), n)
    upper = np.triu(np.ones((n, n)), 1)
    if kind == "ferromagnet":
        upper *= strength / n
    elif kind == "±J":
        upper *= rng.choice([-1, 1], (n, n)) * strength / np.sqrt(n)
    elif kind == "sparse":
        upper *= (rng.random((n, n)) < 3 / n) * rng.normal(0, strength / np.sqrt(3), (n, n))
    elif kind == "lattice":
        upper = square_lattice(n) * strength / 3
        upper *= rng.choice([-1, 1], (n, n)) if rng.random() < 0.5 else 1
    elif kind == "{0,1} magnet":
        biases = h - 2 * strength * rng.uniform(0.3, 1.5)
        return ebm.BoltzmannMachine(4 * strength / n * (upper + upper.T), biases)
    else:
        upper *= rng.normal(0, strength / np.sqrt(n), (n, n))
    if kind == "{0,1}":
        return ebm.BoltzmannMachine(4 * (upper + upper.T), rng.normal(-1, 1, n))
    return ebm.IsingModel(upper + upper.T, h)


def square_lattice(n):
    """Neighbors i < j on two rows of n/2 columns, a last unit by itself where n is odd."""
    neighbors = np.zeros((n, n))
    columns = n // 2
    for i in range(columns):
        neighbors[i, i + columns] = 1
        if i + 1 < columns:
            neighbors[i, i + 1] = neighbors[i + columns, i + columns + 1] = 1
    return neighbors


def hidden_machine(number):
    """A machine whose units are partly summed out: a hidden layer, or coupled units."""
    rng = np.random.default_rng([8, number])
    strength = 10 ** rng.uniform(-1, 0.7)
    if number % 2:
        model = random_machine(number // 2)
        return model, np.sort(rng.permutation(model.space.n)[: model.space.n // 2])
    n, m = rng.integers(3, 7, 2)
    weights = rng.normal(0, strength, (n, m))
    biases = rng.normal(0, 1, n), rng.normal(0, 1, m)
    return ebm.RestrictedBoltzmannMachine(weights, *biases), np.arange(n)


def relative(values, exact):
    size = np.linalg.norm(exact)
    return np.linalg.norm(values - exact) / size if size > 1e-13 else 0.0


def tried(ask, error, estimate):
    """A trial, or None where the number is refused."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            value = ask()
        except EbmError:
            return None
    warned = any(issubclass(one.category, SeriesWarning) for one in said)
    return Trial(float(error(value)), float(estimate()), warned)


class Truth:
    """What is exact of a machine, and the errors of what is not."""

    def __init__(self, model):
        ensemble = ebm.exact(model)
        self.moments, self.model = ensemble.moments(), model
        self.deviation = np.sqrt(self.moments.covariance.diagonal())
        self.off = ~np.eye(model.space.n, dtype=bool)
        states = model.space.states_at(np.arange(2**model.space.n))
        self.states, self.log_p = states, -model.energy(states) - self.moments.log_partition
        d = states - self.moments.mean
        self.third = np.einsum("s,si,sj,sk->ijk", np.exp(self.log_p), d, d, d)

    def log_partition(self, value):
        return abs(value - self.moments.log_partition)

    def mean(self, value):
        return (np.abs(value - self.moments.mean) / self.deviation).max()

    def covariance(self, value):
        return relative(value[self.off], self.moments.covariance[self.off])


def trials_of(approximation, truth):
    """{name: Trial} of the numbers that every approximation has."""

    def in_deviations():
        return (approximation.mean_error / truth.deviation).max()

    pairs = approximation.pairs if hasattr(approximation, "pairs") else approximation.machine.pairs
    exact_pairs = truth.moments.covariance[pairs]
    asked = {
        "ln Z": (
            lambda: approximation.log_partition,
            truth.log_partition,
            lambda: approximation.log_partition_error,
        ),
        "means": (lambda: approximation.mean, truth.mean, in_deviations),
        "covariance": (
            lambda: approximation.covariance,
            truth.covariance,
            lambda: approximation.covariance_error,
        ),
        "pair covariance": (
            lambda: approximation.pair_covariance,
            lambda value: relative(value, exact_pairs),
            lambda: approximation.pair_covariance_error,
        ),
    }
    return {name: tried(*how) for name, how in asked.items()}


def more_trials_of(expansion, truth):
    """{name: Trial} of what only expansions have."""
    states = truth.states[:: max(1, len(truth.states) // 64)]
    log_p = truth.log_p[:: max(1, len(truth.states) // 64)]
    machine = expansion.machine
    bits = (states + 1) / 2 if states.min() < 0 else states
    log_p0 = bits @ machine.biases - np.logaddexp(0, machine.biases).sum()
    ratio = np.exp(log_p - log_p0)
    return {
        "Padé": tried(expansion.pade, truth.log_partition, lambda: expansion.pade_error),
        "Borel–Padé": tried(
            expansion.borel_pade, truth.log_partition, lambda: expansion.borel_pade_error
        ),
        "inverse series": tried(
            # Its warning is about ln Z and means as well.
            expansion.inverse_series,
            lambda value: max(
                truth.covariance(value.covariance),
                truth.mean(value.mean),
                truth.log_partition(value.log_partition),
            ),
            lambda: expansion.inverse_series_error,
        ),
        "third cumulants": tried(
            expansion.third_cumulants,
            lambda value: relative(value, truth.third),
            lambda: expansion.third_cumulants_error,
        ),
        "density ratios": tried(
            lambda: expansion.density_ratio(states),
            lambda value: (np.abs(value - ratio) / np.maximum(1, ratio)).max(),
            lambda: (expansion.density_ratio_error(states) / np.maximum(1, ratio)).max(),
        ),
    }


def trials_at(number, orders=(1, 2, 3, 4, 5), centers=(None, 0.5, "independent", "mean")):
    """{(method, number): Trial} at one machine."""
    model = random_machine(number)
    truth, found, witness = Truth(model), {}, Witness(model.space, coupling_graph(model)[0])

    def shared(approximation):
        # It is the same for all approximations of a model, and costs more than they do.
        vars(approximation)["_witness"] = witness
        return approximation

    def note(method, trials):
        found.update({(method, name): trial for name, trial in trials.items() if trial})

    for center in centers:
        for order in orders:
            method = f"expand, center {center}, order {order}"
            expansion = shared(expand(model, order, center=center))
            note(method, trials_of(expansion, truth))
            if order in (2, 4) and center != "mean":
                note(method, more_trials_of(expansion, truth))
    for order in orders:
        try:
            note(f"plefka, order {order}", trials_of(shared(plefka(model, order)), truth))
        except EbmError:
            pass
    try:
        note("bethe", trials_of(shared(bethe(model)), truth))
        note("bethe by beliefs", trials_of(shared(bethe(model, covariance="beliefs")), truth))
    except EbmError:
        pass
    return {**found, **effective_trials_at(number, [k for k in orders if k > 1])}


def effective_trials_at(number, orders):
    """{(method, "energies"): Trial}: the largest error of an energy of a kept state."""
    model, keep = hidden_machine(number)
    exact = ebm.marginalize(model, keep)
    states = exact.space.states_at(np.arange(2**exact.space.n))
    energies, found = exact.energy(states), {}
    for order in orders:
        expansion = ebm.effective.expand(model, keep, order)
        trial = tried(
            expansion.interactions,
            lambda value: np.abs(value.energy(states) - energies).max(),
            expansion.energy_error,
        )
        kind = "coupled" if number % 2 else "free"
        found[f"effective.expand, {kind}, order {order}", "energies"] = trial
    return found


def counted(trials):
    """(trials, off, missed, false, estimates below the true error)."""
    error, estimate = np.array([trial[:2] for trial in trials]).T
    warned = np.array([trial.warned for trial in trials])
    off = ~(error <= LIMIT)
    below = estimate < error - 1e-9
    return len(trials), off.sum(), (off & ~warned).sum(), (~off & warned).sum(), below.sum()


def collected(numbers, **settings):
    """{(method, number): trials} over machines."""
    trials = defaultdict(list)
    for number in numbers:
        for key, trial in trials_at(number, **settings).items():
            trials[key].append(trial)
    return trials


def main():
    n_machines = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    rows = {key: counted(trials) for key, trials in collected(range(n_machines)).items()}
    print(f"{'':54}   trials    off  missed  false  estimate below the error")
    for (method, name), (trials, *counts) in sorted(rows.items()):
        shares = "  ".join(f"{100 * count / trials:5.1f}" for count in counts)
        print(f"{method + ': ' + name:54}  {trials:6}  {shares} %")


if __name__ == "__main__":
    main()
