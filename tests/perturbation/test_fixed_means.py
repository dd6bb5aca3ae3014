"""Self-consistent means: closed forms, order of convergence, gauges, solutions, refusals."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.errors import ConvergenceError, EbmError, LimitError, ModelError, SeriesWarning
from ebm.perturbation import plefka, plefka_solutions
from ebm.perturbation._summation import inverse_series
from ebm.perturbation.diagrams._algebra import DenseAlgebra
from ebm.perturbation.plefka._climb import ascent, point_at
from ebm.perturbation.plefka._free_energy import corrections, covariance_terms
from tests import oracles
from tests.perturbation.test_expansion import machine
from tests.strategies import (
    boltzmann_machines,
    generators,
    ising_models,
    restricted_machines,
    sparse_patterns,
)

# Strong couplings are the subject; what is said about them is that of test_error_estimates.
pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
FEW = settings(max_examples=8, deadline=None)


def magnet(n=5, coupling=0.5, field=0.0):
    return ebm.IsingModel(coupling * (np.ones((n, n)) - np.eye(n)), np.full(n, field))


def spin_glass(seed, n=6, scale=0.3):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0, scale, (n, n)), 1)
    return ebm.IsingModel(upper + upper.T, rng.normal(0, 0.5, n))


class TestTheory:
    def test_georges_and_yedidia(self):
        """Orders 2 to 4 of Γ over ±1, summed over distinct pairs, triangles and squares."""
        n, rng = 6, np.random.default_rng(1)
        upper = np.triu(rng.normal(0, 0.4, (n, n)), 1)
        j = upper + upper.T
        s = rng.uniform(-0.9, 0.9, n)
        l = 1 - s**2  # noqa: E741
        second = third = fourth = 0.0
        for a, b in itertools.combinations(range(n), 2):
            ends = l[a] * l[b]
            second += j[a, b] ** 2 * ends / 2
            third += 2 / 3 * j[a, b] ** 3 * s[a] * s[b] * ends
            squares = s[a] ** 2 + s[b] ** 2
            quartic = 1 + 3 * squares - 15 * s[a] ** 2 * s[b] ** 2
            fourth -= j[a, b] ** 4 * ends * quartic / 12
        for a, b, c in itertools.combinations(range(n), 3):
            third += j[a, b] * j[b, c] * j[c, a] * l[a] * l[b] * l[c]
            for d, e, f in ((a, b, c), (b, c, a), (c, a, b)):
                doubled = j[d, e] ** 2 * j[e, f] * j[f, d]
                fourth += 2 * doubled * s[d] * l[d] * s[e] * l[e] * l[f]
        for a, *rest in itertools.combinations(range(n), 4):
            for b, c, d in ((0, 1, 2), (1, 0, 2), (0, 2, 1)):
                b, c, d = rest[b], rest[c], rest[d]
                fourth += j[a, b] * j[b, c] * j[c, d] * j[d, a] * l[a] * l[b] * l[c] * l[d]
        terms, _ = corrections(DenseAlgebra(4 * j), l / 4, -s, 4)
        np.testing.assert_allclose(terms, [second, third, fourth], rtol=1e-12)

    @pytest.mark.parametrize("seed", range(3))
    def test_naive_mean_field_equations(self, seed):
        model = spin_glass(seed)
        solution = plefka(model, 1)
        m = solution.mean
        field = model.fields + model.couplings @ m
        np.testing.assert_allclose(m, np.tanh(field), atol=1e-12)
        entropy = sum(-p * np.log(p) for x in m for p in ((1 + x) / 2, (1 - x) / 2))
        value = entropy + model.fields @ m + m @ model.couplings @ m / 2
        assert solution.log_partition == pytest.approx(value, rel=1e-12)

    @pytest.mark.parametrize("seed", range(3))
    def test_equations_of_thouless_anderson_and_palmer(self, seed):
        model = spin_glass(seed)
        solution = plefka(model, 2)
        m, j = solution.mean, model.couplings
        onsager = m * (j**2 @ (1 - m**2))
        np.testing.assert_allclose(m, np.tanh(model.fields + j @ m - onsager), atol=1e-12)
        terms = plefka(model, 2).log_partition_terms
        assert terms[2] == pytest.approx((1 - m**2) @ j**2 @ (1 - m**2) / 4, rel=1e-12)
        assert terms.sum() == solution.log_partition

    @pytest.mark.parametrize("order", range(1, 7))
    def test_errors_are_of_the_next_order(self, order):
        """ln Z, means and both covariances of order K, each with an error of order K + 1."""
        errors = []
        off = ~np.eye(6, dtype=bool)
        # At order 6 rounding errors are met sooner.
        for strength in (0.4, 0.2) if order < 6 else (0.8, 0.4):
            model = machine(6, strength, seed=order // 6)
            moments, solution = ebm.exact(model).moments(), plefka(model, order)
            found = [
                abs(solution.log_partition - moments.log_partition),
                np.abs(solution.mean - moments.mean).max(),
            ]
            if order < 6:
                covariance = solution.covariance - moments.covariance
                pairs = solution.pair_covariance - moments.covariance[solution.pairs]
                found += [np.abs(covariance[off]).max(), np.abs(pairs).max()]
            errors.append(found)
        assert np.min(errors) > 1e-11
        slopes = np.log2(np.divide(*errors))
        assert np.all(slopes > order + 0.7)
        assert np.all(slopes < order + 1.4)

    @pytest.mark.parametrize("order", range(1, 6))
    def test_hessian_is_that_of_enumeration_at_fixed_means(self, order):
        """C⁻¹ with its diagonal, at means that are given and biases that make them."""
        rng = np.random.default_rng(2)
        upper = np.triu(rng.normal(size=(4, 4)), 1)
        m = rng.uniform(0.15, 0.85, 4)
        errors = []
        for strength in (0.16, 0.08):
            weights = strength * (upper + upper.T)
            b = np.log(m / (1 - m))
            for _ in range(20):
                model = ebm.BoltzmannMachine(weights, b, center=m)
                mean, covariance = oracles.moments(model)
                b = b + np.linalg.solve(covariance, m - mean)
            terms = covariance_terms(DenseAlgebra(weights), m * (1 - m), 1 - 2 * m, order)
            found = inverse_series(terms).sum(axis=0)
            slope = corrections(DenseAlgebra(weights), m * (1 - m), 1 - 2 * m, order)[1]
            errors.append(
                [
                    np.abs(found - np.linalg.inv(covariance)).max(),
                    np.abs(np.log(m / (1 - m)) - slope - b).max(),
                ]
            )
        assert np.min(errors) > 1e-11
        assert np.all(np.log2(np.divide(*errors)) > order + 0.7)

    @FEW
    @given(boltzmann_machines(min_units=2, max_units=5), generators(), st.integers(1, 6))
    def test_slope_is_the_derivative_of_the_free_energy(self, model, rng, order):
        canonical = model.canonical()
        algebra = DenseAlgebra(canonical.weights)

        def value(mean):
            return point_at(canonical, algebra, np.log(mean / (1 - mean)), order).value

        mean = rng.uniform(0.1, 0.9, model.n)
        point = point_at(canonical, algebra, np.log(mean / (1 - mean)), order)
        size = np.abs(point.terms).sum() + 1
        difference = oracles.finite_difference(value, mean)
        np.testing.assert_allclose(point.slope / size, difference / size, atol=1e-6)
        direction, _ = ascent(canonical, point)
        assert (point.variance * point.slope) @ direction > 0


class TestModels:
    @FEW
    @given(boltzmann_machines(max_units=6, scale=0.8), generators())
    def test_answers_do_not_depend_on_the_gauge(self, model, rng):
        """Any center, and the diagonal folded or not."""
        own = plefka(model, 3)
        other = plefka(model.recentered(rng.uniform(-1, 2, model.n)).canonical(), 3)
        close = {"rtol": 1e-8, "atol": 1e-10}
        np.testing.assert_allclose(own.log_partition, other.log_partition, **close)
        np.testing.assert_allclose(own.mean, other.mean, **close)
        np.testing.assert_allclose(own.covariance, other.covariance, **close)

    @FEW
    @given(ising_models(max_units=5))
    def test_spins(self, model):
        spins, binary = plefka(model, 3), plefka(model.to_binary(), 3)
        assert spins.space == model.space
        np.testing.assert_allclose(spins.mean, 2 * binary.mean - 1, atol=1e-10)
        np.testing.assert_allclose(spins.covariance, 4 * binary.covariance, atol=1e-9)
        np.testing.assert_allclose(spins.pair_covariance, 4 * binary.pair_covariance, atol=1e-9)
        assert spins.log_partition == pytest.approx(binary.log_partition, rel=1e-9)

    @FEW
    @given(restricted_machines(max_visible=4, max_hidden=3, scale=0.8))
    def test_restricted_machines_have_both_their_layers(self, model):
        own, joint = plefka(model, 4), plefka(model.joint(), 4)
        np.testing.assert_allclose(own.mean, joint.mean)
        assert own.log_partition == pytest.approx(joint.log_partition)

    @FEW
    @given(sparse_patterns(max_units=7))
    def test_sparse_weights_give_what_dense_ones_give(self, patterns):
        rng = np.random.default_rng(0)
        biases = rng.normal(size=len(patterns[1]))
        sparse, dense = (
            plefka(ebm.BoltzmannMachine(0.5 * weights, biases), 4) for weights in patterns
        )
        close = {"rtol": 1e-8, "atol": 1e-10}
        np.testing.assert_allclose(sparse.log_partition_terms, dense.log_partition_terms, **close)
        np.testing.assert_allclose(sparse.mean, dense.mean, **close)
        np.testing.assert_allclose(sparse.covariance, dense.covariance, **close)
        i, j = sparse.pairs
        every = np.zeros((len(biases),) * 2)
        every[dense.pairs] = dense.pair_covariance
        np.testing.assert_allclose(sparse.pair_covariance, every[i, j], **close)

    def test_nothing_to_expand(self):
        """No couplings, one unit, and units that hardly ever change."""
        single = plefka(ebm.BoltzmannMachine([[2.0]], [1.0]), 3)
        exact = ebm.exact(single.machine).moments()
        assert single.log_partition == pytest.approx(exact.log_partition, rel=1e-13)
        np.testing.assert_allclose(single.mean, exact.mean)
        np.testing.assert_allclose(single.covariance, exact.covariance)
        assert single.covariance_error == 0
        assert single.log_partition_error < 1e-12
        assert single.mean_error.max() < 1e-12
        weights = np.array([[0, 0.5, 0.1], [0.5, 0, 0.2], [0.1, 0.2, 0]])
        frozen = plefka(ebm.BoltzmannMachine(weights, [900.0, -400.0, 0.3]), 4)
        assert np.isfinite(frozen.covariance).all()
        assert frozen.log_partition == pytest.approx(900 + np.logaddexp(0, 0.4), rel=1e-12)

    def test_moments_stand_for_those_of_the_model(self):
        model = ebm.IsingModel([[0, 0.3], [0.3, 0]], [0.2, -0.4], offset=2.0, names=["a", "b"])
        solution = plefka(model, 5)
        moments, exact = solution.moments().two_valued(), ebm.exact(model).moments()
        assert moments.space == model.space
        assert solution.kind == "Plefka order 5"
        np.testing.assert_allclose(moments.mean, exact.mean, atol=1e-4)
        np.testing.assert_allclose(moments.covariance, exact.covariance, atol=1e-4)
        assert moments.log_partition == pytest.approx(exact.log_partition, abs=1e-4)
        assert not solution.mean.flags.writeable
        assert not solution.covariance.flags.writeable
        assert not solution.log_partition_terms.flags.writeable

    def test_a_fit_by_fixed_means_comes_near_the_exact_fit(self):
        rows = ebm.exact(machine(5, 0.8, seed=3)).sample(3000, rng=0)
        family = ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5))
        exact = ebm.fit(family, rows).model
        # To finite order ln Z and its moments agree up to the next one only.
        found = ebm.fit(
            family,
            rows,
            loss=ebm.Likelihood(lambda model: plefka(model, 4)),
            solver=ebm.LBFGS(tolerance=1e-3),
        )
        assert found.converged
        error = np.abs(found.model.weights - exact.weights).max()
        assert error < 0.02 * np.abs(exact.weights).max()


class TestSolutions:
    def test_a_magnet_has_two(self):
        """And a saddle between them, which has no covariance."""
        found = plefka_solutions(magnet(field=0.01), 2, rng=0)
        assert [np.sign(solution.mean[0]) for solution in found] == [1, -1]
        assert found[0].log_partition > found[1].log_partition
        assert all(solution.is_stable for solution in found)
        saddle = plefka(magnet(), 2)
        np.testing.assert_allclose(saddle.mean, 0, atol=1e-12)
        assert not saddle.is_stable
        with pytest.raises(EbmError, match="no maximum of ln Z"):
            saddle.moments()
        upwards = plefka(magnet(), 2, start=np.full(5, 0.1))
        assert upwards.mean.min() > 0.9
        assert upwards.log_partition > saddle.log_partition
        mirrored = plefka_solutions(magnet(), 2, rng=1)
        assert [round(float(one.mean[0]), 2) + 0.0 for one in mirrored] == [0.95, -0.95, 0.0]

    def test_random_starts_follow_their_source(self):
        model = magnet(field=0.01)
        one, other = (plefka(model, 2, start="random", rng=7) for _ in range(2))
        np.testing.assert_array_equal(one.mean, other.mean)

    @pytest.mark.parametrize("order", range(1, 6))
    def test_strong_couplings_of_random_signs_have_a_solution(self, order):
        """Climbing ends somewhere, and at a maximum."""
        for seed in range(6):
            solution = plefka(machine(10, 4.0, seed), order)
            assert solution.residual <= 1e-12
            assert solution.is_stable

    def test_a_step_that_is_too_long_is_shortened(self):
        """In an antiferromagnet on a complete graph m = tanh(h − (n−1) J m) turns to and fro."""
        m = plefka(magnet(8, -4.0, 0.3), 1).mean
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            above = middle > np.tanh(0.3 - 28 * middle)
            low, high = (low, middle) if above else (middle, high)
        np.testing.assert_allclose(m, low, rtol=1e-9)

    def test_orders_are_better_one_after_the_other(self):
        """Medians over ten machines, at moderate couplings."""

        def distances(one, exact):
            covariance = np.linalg.norm(one.covariance - exact.covariance)
            return covariance, np.abs(one.mean - exact.mean).max()

        errors = []
        for seed in range(10):
            model = machine(8, 1.6, seed)
            exact = ebm.exact(model).moments()
            found = [plefka(model, order).moments() for order in range(1, 5)]
            errors.append([distances(one, exact) for one in found])
        medians = np.median(errors, axis=0)
        assert (medians[1:] < 0.6 * medians[:-1]).all()

    def test_the_warning_points_at_the_caller(self):
        solution = plefka(machine(8, 5.0, seed=0), 2)
        with pytest.warns(SeriesWarning, match="covariances by about") as caught:
            solution.covariance  # noqa: B018
        assert caught[0].filename == __file__


class TestRefusals:
    @pytest.mark.parametrize("order", [0, -1, 1.5, True, "2", None, np.nan])
    def test_orders_that_are_none(self, order):
        with pytest.raises(EbmError, match="order must be a positive integer, got"):
            plefka(magnet(), order)

    def test_orders_beyond_the_limit(self):
        """Of ln Z at once, of the covariance when it is asked for."""
        model = spin_glass(0)
        with pytest.raises(LimitError, match="limit is order 6"):
            plefka(model, 7)
        highest = plefka(model, 6)
        assert len(highest.log_partition_terms) == 7
        for name in ("covariance", "pair_covariance", "is_stable", "covariance_error"):
            with pytest.raises(LimitError, match="take order 5 or less"):
                getattr(highest, name)

    @pytest.mark.parametrize("order", [1, 3])
    def test_an_iteration_that_is_cut_short(self, order):
        with pytest.raises(ConvergenceError, match="take a lower order") as caught:
            plefka(spin_glass(0), order, max_iterations=2)
        assert caught.value.residual > 1e-12
        assert f"residual {caught.value.residual:.1e}" in str(caught.value)
        with pytest.raises(ConvergenceError):
            plefka_solutions(spin_glass(0), order, 2, rng=0, max_iterations=2)

    def test_couplings_beyond_all_numbers(self):
        with pytest.raises(ConvergenceError, match="found no means"):
            plefka(magnet(coupling=1e100), 4)

    def test_impossible_sums_warn(self):
        """ln Z above what all couplings satisfied would give: nobody is asked, nobody is warned."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            solution = plefka(magnet(coupling=10.0, field=0.1), 2)
        with pytest.warns(SeriesWarning, match="ln Z by about .* nats") as caught:
            solution.log_partition  # noqa: B018
        assert caught[0].filename == __file__

    def test_other_models(self):
        with pytest.raises(ModelError, match="got PottsModel"):
            plefka(ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3))), 2)

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ({"max_iterations": 0}, "max_iterations must be a positive integer"),
            ({"max_iterations": True}, "max_iterations must be a positive integer"),
            ({"tolerance": 0}, "tolerance must be a positive number"),
            ({"tolerance": np.nan}, "tolerance must be a positive number"),
            ({"max_seconds": 0}, "max_seconds must be a positive number"),
            ({"max_seconds": "1"}, "max_seconds must hold numbers, got text"),
            ({"start": "mean"}, 'start must be "uniform", "random" or means'),
            ({"start": None}, 'start must be "uniform", "random" or means'),
            ({"start": [0.1]}, r"start must have shape \(5,\)"),
            ({"start": np.full(5, 1.5)}, "start must hold means"),
        ],
    )
    def test_settings(self, setting, message):
        with pytest.raises(EbmError, match=message):
            plefka(magnet(), 2, **setting)

    @pytest.mark.parametrize("n_starts", [-1, 1.5, True])
    def test_numbers_of_starts(self, n_starts):
        with pytest.raises(EbmError, match="n_starts must be an integer of at least 0"):
            plefka_solutions(magnet(), 2, n_starts)

    def test_time(self):
        rng = np.random.default_rng(0)
        upper = np.triu(rng.normal(0, 0.01, (400, 400)), 1)
        with pytest.raises(LimitError, match="raise max_seconds"):
            plefka(ebm.BoltzmannMachine(upper + upper.T, np.zeros(400)), 6, max_seconds=0.5)
