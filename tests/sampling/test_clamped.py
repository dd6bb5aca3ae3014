"""Chains in which some units keep values of their own, against exact conditional probabilities."""

from dataclasses import replace

import numpy as np
import pytest

import ebm
from ebm._conditioning import form_in_order
from ebm.errors import CodingError, MissingValueError, ModelError, NamesError, ShapeError
from ebm.forms import energy_form
from ebm.sampling import SamplingRun, effective_sample_size, mean_of_chains
from tests.oracles import all_states
from tests.sampling import kernels
from tests.sampling.kernels import KERNELS, weakened
from tests.statistical import check_distribution, check_mean, check_z_scores
from tests.user_models import HardCore, TwoMembers

N_CHAINS, N_DRAWS = 20_000, 50
#: Clamped in models of four and five units; of the others every one is coupled to another.
UNITS = (1, 3)


@pytest.fixture
def large_blocks(monkeypatch):
    """Chains of one block share the cost of calls."""
    monkeypatch.setattr("ebm.sampling._streams.CHAINS_PER_BLOCK", N_CHAINS)


@pytest.fixture(params=KERNELS)
def kernel(request, monkeypatch):
    chosen = KERNELS[request.param]
    for name, value in chosen.settings.items():
        monkeypatch.setattr(name, value)
    return chosen


def columns_of(states, units=UNITS):
    return {unit: states[:, unit] for unit in units}


def check_conditional_couplings(model, sampler):
    """The mean of ΔE along chains from exact draws is E[ΔE | clamped units] of each chain."""
    exact, states = ebm.exact(model), all_states(model.space)
    differences = weakened(model).energy(states) - model.energy(states)
    start = exact.sample(N_CHAINS, rng=1)
    run = SamplingRun(clamped=columns_of(start))
    samples = ebm.sample(model, sampler, n_draws=N_DRAWS, initial=start, burn_in=2, rng=2, run=run)
    assert (samples.chains[..., UNITS] == start[:, None, UNITS]).all()
    expected = np.empty(N_CHAINS)
    for values in np.unique(start[:, UNITS], axis=0):
        alike = (states[:, UNITS] == values).all(axis=1)
        p = exact.weights[alike]
        expected[(start[:, UNITS] == values).all(axis=1)] = p @ differences[alike] / p.sum()
    along = differences[model.space.index(samples.chains)]
    check_mean(along.mean(axis=1) - expected, 0.0)


def test_forms_keep_their_compiled_sweeps(kernel):
    """The sweeper of the kernel itself, over the free units only, unless copies are carried."""
    if isinstance(kernel.sampler, ebm.ParallelTempering):
        return
    sweeper = kernel.sampler.partial_sweeper(kernel.make(), N_CHAINS, np.array([0, 2]))
    inner = getattr(sweeper, "_sweeper", sweeper)
    assert type(inner) is kernel.sweeper
    assert getattr(inner, "n_swept", 2) == 2


def test_clamped_chains_have_the_couplings_of_their_model(kernel, large_blocks):
    check_conditional_couplings(kernel.make(), kernel.sampler)


def test_clamped_chains_of_weaker_couplings_are_caught(kernel, large_blocks):
    with pytest.raises(AssertionError, match="standard errors"):
        check_conditional_couplings(kernel.make(), kernel.mutant)


@pytest.mark.parametrize("name", ["dense", "sparse", "layers", "levels", "many-body"])
def test_rows_in_one_call_have_each_their_conditional_distribution(name):
    kernel = KERNELS[name]
    model = kernel.make()
    values = all_states(replace(model.space, n=2))[[0, 1, -1]]
    rows = np.repeat(values, 2000, axis=0)
    run = SamplingRun(clamped={unit: rows[:, k] for k, unit in enumerate(UNITS)}, thin=40)
    last = ebm.sample(model, kernel.sampler, n_draws=1, burn_in=40, rng=3, run=run).chains[:, 0]
    rest = [unit for unit in range(model.space.n) if unit not in UNITS]
    for k, row in enumerate(values):
        other = model.given(dict(zip(UNITS, row, strict=True)))
        draws = last[2000 * k : 2000 * (k + 1), rest]
        check_distribution(draws, ebm.exact(other).weights, other.space)


def test_many_units_are_swept_in_several_products(large_blocks):
    """More free units than one matrix product serves, and clamped ones between them."""
    rng = np.random.default_rng(0)
    n = 45
    # One clamped unit drives the others, which are coupled in pairs: an exact answer.
    weights = np.zeros((n, n))
    for i in range(1, n, 2):
        weights[i, i + 1] = weights[i + 1, i] = rng.choice([-1.5, 1.5])
    weights[0] = weights[:, 0] = np.append(0, rng.choice([-1.0, 1.0], n - 1))
    model = ebm.BoltzmannMachine(weights, rng.normal(0, 0.3, n))
    values = np.repeat([[0, 1], [1, 0]], 10_000, axis=0)
    run = SamplingRun(clamped={0: values[:, 0], 20: values[:, 1]}, thin=20)
    last = ebm.sample(model, n_draws=1, burn_in=20, rng=1, run=run).chains[:, 0]
    for start, row in ((0, (0, 1)), (10_000, (1, 0))):
        mean = np.array([
            ebm.exact(ebm.marginalize(_pair(model, i, row), keep=[0])).moments().mean[0]
            for i in range(1, n) if i != 20
        ])  # fmt: skip
        free = [i for i in range(1, n) if i != 20]
        drawn = last[start : start + 10_000][:, free].mean(axis=0)
        check_z_scores(drawn, mean, np.sqrt(mean * (1 - mean) / 10_000))


def _pair(model, unit, row):
    """The pair of a unit and its partner in the field of the clamped ones."""
    partner = unit + 1 if unit % 2 else unit - 1
    units = [0, unit, partner]
    small = ebm.BoltzmannMachine(model.weights[np.ix_(units, units)], model.biases[units])
    values = {0: row[0]} | ({2: row[1]} if partner == 20 else {})
    return small.given(values)


@pytest.mark.parametrize("make", [kernels.pairs, kernels.layers, kernels.levels, kernels.many_body])
def test_any_number_of_threads_gives_the_same_bits(make):
    model = make()
    rows = model.space.random(600, 0)
    runs = [SamplingRun(clamped=columns_of(rows), n_jobs=jobs) for jobs in (1, 3)]
    one, three = (ebm.sample(model, n_draws=3, burn_in=2, rng=1, run=run) for run in runs)
    assert np.array_equal(one.chains, three.chains)


@pytest.mark.parametrize("make", [kernels.pairs, kernels.layers, kernels.levels])
def test_clamped_chains_can_be_taken_up(make):
    model = make()
    run = SamplingRun(clamped=columns_of(model.space.random(5, 0)))
    first = ebm.sample(model, n_draws=3, rng=1, run=run)
    rest = ebm.sample(model, n_draws=4, initial=first.final, run=run)
    whole = ebm.sample(model, n_draws=7, rng=1, run=run)
    assert np.array_equal(rest.chains, whole.chains[:, 3:])


def test_one_value_stands_for_all_chains_and_names_for_units():
    model = ebm.BoltzmannMachine(
        kernels.pairs().weights, kernels.pairs().biases, names=list("abcde")
    )
    run = SamplingRun(clamped={"b": 1, "d": 0})
    by_name = ebm.sample(model, n_draws=5, n_chains=3, rng=1, run=run)
    by_number = ebm.sample(
        model, n_draws=5, n_chains=3, rng=1, run=SamplingRun(clamped={1: 1, 3: [0, 0, 0]})
    )
    assert np.array_equal(by_name.chains, by_number.chains)
    assert by_name.clamped == (1, 3)


def test_columns_of_a_frame_are_values_of_units():
    pandas = pytest.importorskip("pandas")
    model = ebm.BoltzmannMachine(
        kernels.pairs().weights, kernels.pairs().biases, names=list("abcde")
    )
    frame = pandas.DataFrame({"d": [0, 1, 1], "b": [1, 1, 0]})
    samples = ebm.sample(model, n_draws=2, rng=1, run=SamplingRun(clamped=frame))
    assert samples.chains[:, 0, [3, 1]].tolist() == frame.to_numpy().tolist()


def estimates_of_clamped_chains():
    """Estimates of repeated runs over three rows, the series (chain, draw), and the exact mean."""
    model = kernels.pairs(0.7)
    rows = np.array([[0, 0], [1, 0], [1, 1]])
    run = SamplingRun(clamped={unit: rows[:, k] for k, unit in enumerate(UNITS)})
    repeats = []
    for seed in range(150):
        samples = ebm.sample(model, n_draws=1000, burn_in=20, rng=seed, run=run)
        repeats.append((samples.estimate(lambda x: x.sum(axis=1)), samples.chains.sum(axis=2)))
    means = [
        row.sum() + ebm.exact(model.given(dict(zip(UNITS, row, strict=True)))).moments().mean.sum()
        for row in rows
    ]
    return *zip(*repeats, strict=True), float(np.mean(means))


def test_errors_are_those_within_chains():
    estimates, series, mean = estimates_of_clamped_chains()
    values = np.array([estimate.value for estimate in estimates])
    check_z_scores(values, mean, np.array([estimate.standard_error for estimate in estimates]))
    # Errors that count the scatter between rows are refused as rows disagree, and are wrong.
    assert np.isnan([mean_of_chains(chains).standard_error for chains in series]).all()
    scatter = [np.sqrt(x.var() / effective_sample_size(x)) for x in series]
    with pytest.raises(AssertionError, match="Σz²"):
        check_z_scores(values, mean, np.array(scatter))


@pytest.mark.filterwarnings("error")
def test_chains_of_different_rows_are_not_said_to_disagree():
    model = kernels.pairs(0.7)
    run = SamplingRun(clamped={0: [0, 1, 0, 1], 1: [0, 0, 1, 1]})
    samples = ebm.sample(model, n_draws=500, rng=1, run=run)
    assert (samples.r_hat[2:] < 1.1).all()
    assert np.isnan(samples.ess[:2]).all()
    samples.moments()


def test_forbidden_states_are_left_out_of_starts():
    model = HardCore(np.full(6, 0.4))
    run = SamplingRun(clamped={0: [1, 0] * 20, 3: 1})
    samples = ebm.sample(model, n_draws=50, rng=1, run=run)
    assert np.isfinite(model.energy(samples.chains.astype(float))).all()
    with pytest.raises(ModelError, match="the clamped units at their values"):
        ebm.sample(model, n_draws=2, rng=1, run=SamplingRun(clamped={0: 1, 1: 1}))


@pytest.mark.parametrize("name", ["dense", "layers", "levels", "many-body", "sparse"])
def test_a_form_in_another_order_gives_the_same_energies(name):
    model = KERNELS[name].make()
    order = np.random.default_rng(0).permutation(model.space.n)
    form = form_in_order(energy_form(model), order, model.space)

    class Reordered(TwoMembers):
        def energy(self, states):
            return self._model.energy(np.asarray(states)[..., np.argsort(order)])

    other = Reordered(model)
    method = {"matrix": "quadratic_form", "weights": "layered_form", "terms": "term_form"}
    setattr(other, next(v for k, v in method.items() if hasattr(form, k)), lambda: form)
    # A form that contradicts the energy of a user's model is refused.
    assert energy_form(other) is form


class Coin:
    """A sampler of a user's with no way to leave units alone."""

    def sweeper(self, model, n_chains):
        return ebm.Gibbs().sweeper(model, n_chains)


@pytest.mark.parametrize(
    ("clamped", "settings", "error", "message"),
    [
        ({0: [0, 1], 1: [0, 1, 1]}, {}, ShapeError, r"as many values of each unit, got \[2, 3\]"),
        ({0: [[0, 1]]}, {}, ShapeError, "one number, or one for each chain"),
        ({0: []}, {}, ShapeError, r"one for each chain, got shape \(0,\)"),
        ({0: [0, np.nan]}, {}, MissingValueError, "value of unit '0' in clamped is NaN"),
        ({9: 1}, {}, ShapeError, "clamped must hold numbers from 0 to 4, got 9"),
        ({"a": 1}, {}, NamesError, "clamped holds 'a', but the units have no names"),
        ({1: [0, 2]}, {}, CodingError, "unit '1'"),
        (dict.fromkeys(range(5), 1), {}, ShapeError, "no unit is left"),
        ([1, 0], {}, ShapeError, "clamped must be a mapping"),
        ({0: [0, 1]}, {"initial": np.zeros((3, 5))}, ShapeError, "2 chains, and initial has 3"),
        ({0: 1}, {"sampler": Coin()}, ModelError, "Coin cannot keep units clamped"),
        ({0: 1}, {"sampler": ebm.Langevin(0.1)}, ModelError, "take chains of model.given"),
    ],
)
def test_what_cannot_be_clamped_is_refused(clamped, settings, error, message):
    with pytest.raises(error, match=message):
        ebm.sample(kernels.pairs(), n_draws=2, rng=0, run=SamplingRun(clamped=clamped), **settings)


def test_copies_of_clamped_chains_have_their_values():
    model = kernels.pairs()
    rows = model.space.random(10, 0)
    run = SamplingRun(clamped=columns_of(rows))
    sampler = ebm.ParallelTempering((0.6, 0.2))
    samples = ebm.sample(model, sampler, n_draws=3, rng=1, run=run)
    assert (samples.final.copies[..., UNITS] == rows[:, None, UNITS]).all()
    other = model.space.random(10, 5)
    moved = ebm.sample(
        model, sampler, n_draws=1, initial=samples.final, run=SamplingRun(clamped=columns_of(other))
    )
    assert (moved.final.copies[..., UNITS] == other[:, None, UNITS]).all()
