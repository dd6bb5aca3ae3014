"""Expansions against enumeration: term by term, by the order of convergence, and refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import ebm
from ebm.errors import (
    EbmError,
    LimitError,
    MemoryLimitError,
    ModelError,
    SeriesWarning,
    SingularCovarianceError,
)
from ebm.perturbation import expand
from ebm.perturbation._canonical_machine import independent_center
from tests.oracles import all_states
from tests.perturbation.taylor import assert_terms_agree, taylor_series
from tests.strategies import (
    boltzmann_machines,
    ising_models,
    restricted_machines,
    sparse_patterns,
)

# Strong couplings are the subject; what is said about them is that of test_error_estimates.
pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
FEW = settings(max_examples=8, deadline=None)


def machine(n, strength, seed, field=1.0, center=None):
    """Dense couplings of standard deviation strength/√n."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0, strength / np.sqrt(n), (n, n)), 1)
    biases = rng.normal(0, field, n)
    center = rng.uniform(-0.5, 1.5, n) if center is None else center
    return ebm.BoltzmannMachine(upper + upper.T, biases, center=center)


def check_every_term(expansion, exact):
    """ln Z to order 6, means to 6, covariances to 5, as far as the expansion goes."""
    k = expansion.order + 1
    assert_terms_agree(expansion.log_partition_terms, exact.log_partition[:k], exact.radius)
    assert_terms_agree(expansion.mean_terms, exact.mean[:k], exact.radius)
    if expansion.order < 6:
        assert_terms_agree(expansion.covariance_terms, exact.covariance[:k], exact.radius)


@FEW
@given(boltzmann_machines(max_units=6), st.sampled_from([5, 6]))
def test_every_term_at_any_center_with_a_diagonal(model, order):
    """Against Taylor coefficients of the exact quantities."""
    check_every_term(expand(model, order), taylor_series(model, order))


@FEW
@given(boltzmann_machines(min_units=2, max_units=6, scale=1.0))
def test_every_term_at_the_independent_center(model):
    """Where x̂ = σ(b'), and ln Z has no first order."""
    expansion = expand(model, 5, center="independent")
    check_every_term(expansion, taylor_series(expansion.machine, 5))


@FEW
@given(boltzmann_machines(min_units=2, max_units=6, scale=0.7))
def test_every_term_at_the_mean_of_the_model(model):
    """Another series of the same distribution."""
    mean = ebm.exact(model).moments().mean
    expansion = expand(model, 5, center=mean)
    np.testing.assert_allclose(expansion.machine.center, mean)
    np.testing.assert_allclose(
        expansion.machine.energy(all_states(model.space)), model.energy(all_states(model.space))
    )
    check_every_term(expansion, taylor_series(expansion.machine, 5))


@FEW
@given(ising_models(max_units=5))
def test_every_term_of_an_ising_model_in_its_couplings(model):
    """J times t at fixed fields, about s = 0, in spins."""
    binary = model.to_binary().recentered(0.5)
    exact = taylor_series(binary, 4)
    expansion = expand(model, 4)
    assert_terms_agree(expansion.log_partition_terms, exact.log_partition, exact.radius)
    mean = 2 * exact.mean
    mean[0] -= 1
    assert_terms_agree(expansion.mean_terms, mean, exact.radius)
    assert_terms_agree(expansion.covariance_terms, 4 * exact.covariance, exact.radius)
    np.testing.assert_allclose(expansion.mean_terms[0], np.tanh(model.fields))


@FEW
@given(restricted_machines(max_visible=4, max_hidden=3))
def test_every_term_of_a_restricted_machine(model):
    """Of both its layers."""
    check_every_term(expand(model, 5), taylor_series(model.joint(), 5))


@FEW
@given(sparse_patterns(max_units=7))
def test_sparse_weights_give_what_dense_ones_give(patterns):
    """Terms, and the covariances of the stored pairs."""
    sparse, dense = patterns
    rng = np.random.default_rng(len(dense))
    biases, center = rng.normal(size=len(dense)), rng.uniform(size=len(dense))
    own = expand(ebm.BoltzmannMachine(sparse, biases, center=center), 5)
    other = expand(ebm.BoltzmannMachine(dense, biases, center=center), 5)
    close = {"rtol": 1e-9, "atol": 1e-11}
    i, j = own.machine.pairs
    expected = other.covariance_terms[:, i, j]
    np.testing.assert_allclose(own.pair_covariance_terms, expected, **close)
    np.testing.assert_allclose(own.log_partition_terms, other.log_partition_terms, **close)
    np.testing.assert_allclose(own.mean_terms, other.mean_terms, **close)
    np.testing.assert_allclose(own.covariance_terms, other.covariance_terms, **close)
    fresh = expand(other.machine, 5)
    np.testing.assert_allclose(
        fresh.pair_covariance, fresh.covariance_terms.sum(axis=0)[fresh.machine.pairs], **close
    )
    spins = expand(ebm.IsingModel(sparse, biases), 3)
    expected = spins.covariance_terms.sum(axis=0)[spins.machine.pairs]
    np.testing.assert_allclose(spins.pair_covariance, expected, **close)


def test_covariances_pass_through_entries_that_cancel():
    """Around a frustrated square of ±J couplings the products of W are zero in places."""
    from scipy.sparse import csr_array

    square = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, -1], [1, 0, -1, 0]])
    dense = expand(ebm.BoltzmannMachine(0.5 * square, np.zeros(4), center=0.5), 5)
    sparse = expand(ebm.BoltzmannMachine(csr_array(0.5 * square), np.zeros(4), center=0.5), 5)
    i, j = sparse.machine.pairs
    expected = dense.covariance_terms[:, i, j]
    assert np.abs(expected[3]).min() > 1e-4
    np.testing.assert_allclose(sparse.pair_covariance_terms, expected, rtol=1e-12, atol=1e-16)


@FEW
@given(boltzmann_machines(max_units=5, scale=1.0), st.booleans())
def test_every_term_of_the_density_ratio(model, in_spins):
    """p(x)/p_0(x) state by state, in either coding."""
    exact = taylor_series(model, 5)
    states = all_states(model.space)
    expansion = expand(model, 5)
    assert_terms_agree(expansion.density_ratio_terms(states), exact.density_ratio, exact.radius)
    mean_over_p0 = np.prod(np.where(states == 1, expit(expansion.machine.biases), 1.0), axis=1)
    mean_over_p0 *= np.prod(np.where(states == 0, expit(-expansion.machine.biases), 1.0), axis=1)
    assert mean_over_p0 @ expansion.density_ratio(states) == pytest.approx(1, abs=1e-6)
    if in_spins:
        spins = ebm.IsingModel(model.weights / 4, model.biases)
        ratio = expand(spins, 3).density_ratio_terms(2 * states - 1)
        expected = taylor_series(spins.to_binary().recentered(0.5), 3)
        assert_terms_agree(ratio, expected.density_ratio, expected.radius)


@pytest.mark.parametrize("order", range(1, 6))
def test_errors_are_of_the_next_order(order):
    """ln Z, means and covariance of order K, each with an error of order K + 1."""
    errors = []
    for strength in (0.3, 0.15):
        model = machine(6, strength, seed=order)
        moments, expansion = ebm.exact(model).moments(), expand(model, order)
        off = ~np.eye(6, dtype=bool)
        errors.append(
            [
                abs(expansion.log_partition - moments.log_partition),
                np.abs(expansion.mean - moments.mean).max(),
                np.abs(expansion.covariance - moments.covariance)[off].max(),
            ]
        )
    assert np.min(errors) > 1e-11
    assert np.all(np.log2(np.divide(*errors)) > order + 0.7)


def test_moments_stand_for_those_of_the_model():
    """Their variances are those of two-valued units, their ln Z carries the offset."""
    model = ebm.IsingModel([[0, 0.3], [0.3, 0]], [0.2, -0.4], offset=2.0, names=["a", "b"])
    moments = expand(model, 5).moments().two_valued()
    exact = ebm.exact(model).moments()
    assert moments.space == model.space
    np.testing.assert_allclose(moments.mean, exact.mean, atol=2e-4)
    np.testing.assert_allclose(moments.covariance, exact.covariance, atol=2e-3)
    assert moments.log_partition == pytest.approx(exact.log_partition, abs=2e-4)


def test_a_fit_by_expansions_comes_near_the_exact_fit():
    """The averages of every step from order 4, about the means of the data."""
    rows = ebm.exact(machine(5, 0.8, seed=3)).sample(3000, rng=0)
    family = ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5))
    exact = ebm.fit(family, rows).model
    mean = rows.mean(axis=0)
    average = lambda model: expand(model, 4, center=mean)  # noqa: E731
    # To finite order ln Z and its moments agree up to the next one only.
    with pytest.warns(ebm.errors.NotConvergedWarning, match="approximate, no longer agree"):
        ebm.fit(family, rows, loss=ebm.Likelihood(average))
    found = ebm.fit(family, rows, loss=ebm.Likelihood(average), solver=ebm.LBFGS(tolerance=1e-3))
    assert found.converged
    first = ebm.inversion.mean_field(ebm.Ensemble.from_data(rows)).weights
    error = np.abs(found.model.weights - exact.weights).max()
    assert error < 0.03 * np.abs(exact.weights).max()
    assert error < 0.1 * np.abs(first - exact.weights).max()


def test_independent_center_solves_its_equation():
    """Also at couplings of any sign that undamped iteration does not survive."""
    weights = -4 * (1 - np.eye(8))
    model = ebm.BoltzmannMachine(weights, np.linspace(-1, 1, 8), center=0.3)
    x = independent_center(model)
    np.testing.assert_allclose(x, expit(model.recentered(x).biases), atol=1e-9)
    terms = expand(machine(7, 1.5, seed=1), 3, center="independent").log_partition_terms
    assert abs(terms[1]) < 1e-12 < abs(terms[2])


def test_the_center_at_the_means():
    """Of the same distribution, near its means, and so nearer in every order."""
    errors = []
    for seed in range(8):
        model = machine(8, 2.0, seed)
        exact = ebm.exact(model).moments()
        found = expand(model, 3, center="mean")
        assert np.abs(found.machine.center - exact.mean).max() < 0.1
        states = all_states(model.space)
        np.testing.assert_allclose(found.machine.energy(states), model.energy(states))
        own = (found, expand(model, 3, center="independent"), expand(model, 3))
        errors.append([abs(one.log_partition - exact.log_partition) for one in own])
    at_means, independent, given_center = np.median(errors, axis=0)
    assert at_means < independent < given_center


def test_answers_do_not_depend_on_what_was_asked_first():
    """One pass serves what is asked after it."""
    model = machine(6, 1.0, seed=8)
    forwards, backwards = expand(model, 4), expand(model, 4)
    answers = [forwards.log_partition, forwards.mean, forwards.covariance]
    reverse = [backwards.covariance, backwards.mean, backwards.log_partition][::-1]
    for one, other in zip(answers, reverse, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    assert not forwards.covariance.flags.writeable
    assert not forwards.mean_terms.flags.writeable


def test_inverse_series_are_nearer():
    """At couplings where orders still matter, in the median over sixteen machines."""
    ratios, off = [], ~np.eye(10, dtype=bool)
    for seed in range(16):
        model = machine(10, 1.5, seed, center=0.5)
        exact, expansion = ebm.exact(model).moments(), expand(model, 4)
        resummed = expansion.inverse_series()
        assert resummed.two_valued() is resummed
        plain = np.linalg.norm((expansion.covariance_terms.sum(axis=0) - exact.covariance)[off])
        ratios.append(np.linalg.norm((resummed.covariance - exact.covariance)[off]) / plain)
    assert np.median(ratios) < 0.7


def test_borel_sums_hold_where_the_plain_sum_is_lost():
    """In the median over sixteen machines, at four times the couplings of the test above."""
    errors = []
    for seed in range(16):
        model = machine(10, 6.0, seed, center=0.5)
        exact, expansion = ebm.exact(model).log_partition, expand(model, 6)
        values = (expansion.log_partition, expansion.pade(), expansion.borel_pade())
        change = abs(exact - expansion.log_partition_terms[0])
        errors.append(np.abs(np.subtract(values, exact)) / change)
    plain, pade, borel = np.median(errors, axis=0)
    assert borel < 0.6 * plain
    assert pade < plain


def test_strong_couplings_warn_where_they_are_asked_about():
    """One warning names each number and its error, and points at the caller."""
    model = machine(6, 8.0, seed=0)
    with pytest.warns(SeriesWarning, match="nats, means by about .* and covariances by") as caught:
        expand(model, 2).moments()
    assert len(caught) == 1
    assert caught[0].filename == __file__
    names = "log_partition", "mean", "covariance", "pair_covariance"
    calls = "pade", "borel_pade", "inverse_series", "third_cumulants"
    for name in (*names, *calls):
        with pytest.warns(SeriesWarning, match="take another order or center") as caught:
            getattr(expand(model, 2), name) if name in names else getattr(expand(model, 2), name)()
        assert [one.filename for one in caught] == [__file__]
        assert np.max(getattr(expand(model, 2), f"{name}_error")) > 0.1
    with pytest.warns(SeriesWarning, match="density ratios by about"):
        expand(model, 2).density_ratio(all_states(model.space))


def test_a_series_of_the_inverse_without_an_inverse():
    """Two units at W v = 1 are locked at first order: nothing to compare the plain sum with."""
    locked = expand(ebm.BoltzmannMachine([[0, 4], [4, 0]], [0, 0], center=0.5), 1)
    assert locked.covariance_error == np.inf
    with pytest.warns(SeriesWarning, match="covariances beyond any bound"):
        locked.covariance  # noqa: B018
    with pytest.raises(SingularCovarianceError, match="without an inverse: take another order"):
        locked.inverse_series()


def test_what_is_kept_cannot_be_changed():
    expansion = expand(machine(3, 0.5, seed=0), 3)
    for kept in (expansion.log_partition_terms, expansion.mean_terms, expansion.covariance_terms):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 99


def test_nothing_to_expand():
    """No couplings, one unit, and units that hardly ever change."""
    single = expand(ebm.BoltzmannMachine([[2.0]], [1.0]), 3)
    exact = ebm.exact(single.machine).moments()
    assert single.log_partition == pytest.approx(exact.log_partition, rel=1e-14)
    assert single.mean == pytest.approx(exact.mean)
    assert single.covariance == pytest.approx(exact.covariance)
    assert single.covariance_error == 0
    assert single.log_partition_error < 1e-14
    assert single.mean_error.max() < 1e-14
    weights = np.array([[0, 0.5, 0.1], [0.5, 0, 0.2], [0.1, 0.2, 0]])
    frozen = expand(ebm.BoltzmannMachine(weights, [900.0, -400.0, 0.3]), 4)
    assert np.isfinite(frozen.covariance).all()
    assert frozen.log_partition == pytest.approx(900 + np.logaddexp(0, 0.4), abs=1e-5)
    assert frozen.pade() == pytest.approx(frozen.log_partition)
    assert frozen.borel_pade() == pytest.approx(frozen.log_partition)


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "2", None, np.nan])
def test_orders_that_are_none(order):
    """Named, with what was got."""
    with pytest.raises(EbmError, match="order must be a positive integer, got"):
        expand(machine(3, 1.0, seed=0), order)


def test_orders_of_numpy_are_orders():
    """Any integer type."""
    assert expand(machine(3, 1.0, seed=0), np.int64(2)).order == 2


def test_orders_beyond_the_limit():
    """Of ln Z at once, of the covariance when it is asked for."""
    model = machine(4, 1.0, seed=0)
    with pytest.raises(LimitError, match="limit is order 8"):
        expand(model, 9)
    highest = expand(model, 8)
    assert len(highest.mean_terms) == 9
    with pytest.raises(LimitError, match="take order 7 or less"):
        highest.covariance  # noqa: B018


@pytest.mark.parametrize(
    "model",
    [
        ebm.TabularModel(np.zeros(4), ebm.Binary(2)),
        np.eye(3),
        None,
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_models_are_refused(model):
    """By the name of their class."""
    with pytest.raises(ModelError, match=f"got {type(model).__name__}"):
        expand(model, 2)


def test_bad_centers_and_limits():
    """Named."""
    model = machine(3, 1.0, seed=0)
    with pytest.raises(EbmError, match='center must be None, "independent", "mean" or numbers'):
        expand(model, 2, center="means")
    with pytest.raises(EbmError, match=r"center must have shape \(3,\)"):
        expand(model, 2, center=[0.1, 0.2])
    with pytest.raises(EbmError, match="center must be finite"):
        expand(model, 2, center=np.nan)
    for wrong in (0, np.nan, "1", None):
        with pytest.raises(EbmError, match="max_seconds must"):
            expand(model, 2, max_seconds=wrong)


def test_costs_are_refused_before_they_are_met():
    """Time by the argument that lifts it, memory by its number; only of dense couplings."""
    small = expand(machine(30, 1.0, seed=0), 6, max_seconds=1e-9)
    refusal = r"^ln Z to order 6 of 30 coupled units would take about 0\.01.* ms; allowed are 1e-06"
    with pytest.raises(LimitError, match=refusal):
        small.log_partition  # noqa: B018
    from scipy.sparse import diags_array

    n = 60_000
    chain = diags_array([np.full(n - 1, 0.2)] * 2, offsets=[-1, 1]).tocsr()
    long = expand(ebm.BoltzmannMachine(chain, np.zeros(n)), 4)
    exact = expand(ebm.BoltzmannMachine(chain[:3, :3], np.zeros(3)), 4)
    assert long.mean[0] == pytest.approx(exact.mean[0], abs=1e-3)
    assert len(long.pair_covariance) == n - 1
    with pytest.raises(MemoryLimitError, match="60000 coupled units"):
        long.covariance  # noqa: B018


def test_numbers_beyond_floating_point_are_refused():
    """Instead of a silent NaN."""
    model = ebm.BoltzmannMachine(1e200 * (1 - np.eye(3)), np.zeros(3))
    with pytest.raises(EbmError, match="couplings are far too large"):
        expand(model, 3).log_partition  # noqa: B018
