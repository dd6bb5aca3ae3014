"""Independent exact draws: every route draws from p, and the test would notice if it did not."""

import importlib

import numpy as np
import pytest

import ebm
from ebm.enumeration import _blocked, _quadratic, exact_ensemble
from ebm.enumeration._products import sum_by_products
from ebm.enumeration._splitting import split
from ebm.errors import ShapeError
from tests import oracles
from tests.statistical import (
    FALSE_FAIL_RATE,
    check_distribution,
    check_z_scores,
    distribution_p_value,
)
from tests.user_models import CoupledLevels, HardCore, TwoMembers

N_DRAWS = 30_000
#: Of the first unit with the last.
COUPLING = 1.5


def machine(change=0.0):
    """Seven units, couplings up to 3; ``change`` is added to one of them."""
    rng = np.random.default_rng(5)
    weights = np.triu(rng.normal(0, 1.3, (7, 7)), 1)
    # Between the first and the last group, and far from zero.
    weights[0, 6] = COUPLING + change
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.4, 7), center=0.4)


def spins(change=0.0):
    return machine(change).to_spins()


def levels(change=0.0):
    """Five units of three levels."""
    rng = np.random.default_rng(6)
    matrix = np.triu(rng.normal(0, 0.8, (15, 15)), 1)
    matrix[1, 13] = COUPLING + change
    return CoupledLevels(matrix + matrix.T, rng.normal(0, 0.4, 15), q=3)


def in_one_table(patch):
    """All states at once in the log domain, as small models are summed."""


def plain(patch):
    """The default grouping: one block, three groups."""
    patch.setattr(_quadratic, "SMALL", 0)


def in_blocks(patch):
    """Groups of at most four states, the other units fixed."""
    plain(patch)
    patch.setattr(_quadratic, "split", lambda space: split(space, 2, 0))


def with_potential(patch):
    """Balanced factors in blocks."""
    in_blocks(patch)

    def certified(form, parts, n_jobs):
        return sum_by_products(form, parts, n_jobs, with_potential=True), True

    patch.setattr(_quadratic, "sum_certified", certified)


def by_halves(patch):
    """The log domain, a few rows at a time."""
    patch.setattr(_quadratic, "sum_certified", lambda form, parts, n_jobs: None)
    patch.setattr("ebm.enumeration._halves.ROWS", 4)


def by_energy(patch):
    """``energy`` alone, a few states at a time."""
    patch.setattr(_blocked, "BLOCK", 10)
    # The module, which the function of the same name hides.
    module = importlib.import_module("ebm.enumeration.exact")
    patch.setattr(module, "offered_form", lambda model: None)


ROUTES = [in_one_table, plain, in_blocks, with_potential, by_halves, by_energy]
MODELS = [machine, spins, levels]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("family", MODELS)
class TestEveryRoute:
    def test_draws_follow_the_distribution(self, route, family, monkeypatch):
        route(monkeypatch)
        model = family()
        draws = ebm.exact(model).sample(N_DRAWS, rng=11)
        assert draws.shape == (N_DRAWS, model.space.n)
        _, p = oracles.distribution(model)
        check_distribution(draws, p, model.space)
        # Draws are made block by block and must come in no order: part of them, and those that
        # follow the most probable state, are draws like all.
        check_distribution(draws[: N_DRAWS // 3], p, model.space)
        after_mode = model.space.index(draws[:-1]) == p.argmax()
        check_distribution(draws[1:][after_mode], p, model.space)

    @pytest.mark.parametrize("change", [-COUPLING, COUPLING], ids=["dropped", "doubled"])
    def test_a_changed_coupling_would_be_noticed(self, route, family, change, monkeypatch):
        route(monkeypatch)
        draws = ebm.exact(family(change)).sample(N_DRAWS, rng=11)
        _, p = oracles.distribution(family())
        assert distribution_p_value(draws, p, family().space) < FALSE_FAIL_RATE / 100

    def test_same_seed_same_draws_on_any_number_of_threads(self, route, family, monkeypatch):
        route(monkeypatch)
        first = ebm.exact(family(), n_jobs=1).sample(500, rng=3)
        for n_jobs in (1, 2, 4):
            again = ebm.exact(family(), n_jobs=n_jobs).sample(500, rng=3)
            np.testing.assert_array_equal(first, again)
        assert (first != ebm.exact(family()).sample(500, rng=4)).any()


class TestMutantSamplers:
    """Kernels with a fault each; the chi-square test must catch every one."""

    def check_caught(self, model):
        draws = ebm.exact(model).sample(N_DRAWS, rng=11)
        _, p = oracles.distribution(model)
        assert distribution_p_value(draws, p, model.space) < FALSE_FAIL_RATE / 100

    def test_middle_group_drawn_without_the_third(self, monkeypatch):
        plain(monkeypatch)
        real = _quadratic.choose_rows

        def shuffled(weights, rng):
            return real(rng.permutation(weights), rng)

        monkeypatch.setattr(_quadratic, "choose_rows", shuffled)
        self.check_caught(machine())

    @pytest.mark.parametrize("route", [plain, in_blocks])
    def test_weights_one_place_late(self, route, monkeypatch):
        route(monkeypatch)
        real = exact_ensemble.choose

        def late(weights, n_draws, rng):
            return (real(weights, n_draws, rng) + 1) % weights.size

        monkeypatch.setattr(_quadratic, "choose", late)
        self.check_caught(machine())

    @pytest.mark.parametrize("route", [by_halves, by_energy, in_blocks])
    def test_blocks_of_equal_weight(self, route, monkeypatch):
        route(monkeypatch)
        if route is in_blocks:
            monkeypatch.setattr(_quadratic, "split", lambda space: split(space, 1, 0))
        model = machine()
        exact = ebm.exact(model)
        exact._block_log_weights = np.zeros_like(exact._block_log_weights)
        draws = exact.sample(N_DRAWS, rng=11)
        _, p = oracles.distribution(model)
        assert distribution_p_value(draws, p, model.space) < FALSE_FAIL_RATE / 100


class Always:
    """A source whose every number is the same."""

    def __init__(self, value):
        self.value = value

    def random(self, size):
        return np.full(size, self.value)


@pytest.mark.parametrize("value", [0.0, np.nextafter(1, 0)])
def test_numbers_at_the_ends_draw_no_state_of_weight_zero(value):
    weights = np.array([0.0, 0.1, 0.0, 0.7, 0.3, 0.0])
    wanted = 1 if value == 0 else 4
    assert (exact_ensemble.choose(weights, 5, Always(value)) == wanted).all()
    rows = np.stack([weights, 1e-300 * weights, 1e300 * weights])
    assert (_quadratic.choose_rows(rows, Always(value)) == wanted).all()
    # The smallest double times a number below one is itself.
    smallest = np.array([[0.0, 0.0, 5e-324, 0.0]])
    assert _quadratic.choose_rows(smallest, Always(value)) == 2
    assert exact_ensemble.choose(smallest, 1, Always(value)) == 2


def test_forbidden_states_are_never_drawn():
    model = HardCore([1.0, -0.5, 2.0, 0.3, 1.1, -0.2])
    draws = ebm.exact(model).sample(N_DRAWS, rng=0)
    assert np.isfinite(model.energy(draws)).all()
    _, p = oracles.distribution(model)
    check_distribution(draws, p, model.space)


@pytest.mark.parametrize("seed", [17, 10, 15])
def test_states_that_tie_at_huge_couplings(seed):
    # The models of test_exact: plain products, products with a potential, log domain.
    rng = np.random.default_rng(seed)
    weights = np.triu(1000.0 * rng.integers(-1, 2, (9, 9)), 1)
    model = ebm.BoltzmannMachine(weights + weights.T, 1000.0 * rng.integers(-1, 2, 9))
    _, p = oracles.distribution(model)
    check_distribution(ebm.exact(model).sample(3000, rng=0), p, model.space)


@pytest.mark.parametrize("n", [20, 26])
def test_means_and_pairs_at_the_default_grouping(n):
    rng = np.random.default_rng(n)
    weights = np.triu(rng.normal(0, 0.7, (n, n)), 1)
    model = ebm.IsingModel(weights + weights.T, rng.normal(0, 0.2, n))
    exact = ebm.exact(model)
    moments = exact.moments()
    draws = exact.sample(20_000, rng=1)
    model.space.check(draws)
    # Whitened, so that the scores are independent.
    root = np.linalg.inv(np.linalg.cholesky(moments.covariance))
    found = root @ (draws.mean(axis=0) - moments.mean)
    check_z_scores(found, 0, 1 / np.sqrt(len(draws)))
    fisher = ebm.fisher_information(exact)
    gradient = model.energy_gradient(draws).mean(axis=0) - model.mean_energy_gradient(exact)
    chi = np.linalg.solve(np.linalg.cholesky(fisher.dense()), gradient)
    check_z_scores(chi, 0, 1 / np.sqrt(len(draws)))


class TestArguments:
    def test_kinds_of_sources(self):
        exact = ebm.exact(machine())
        by_int = exact.sample(100, rng=7)
        np.testing.assert_array_equal(by_int, exact.sample(100, rng=np.random.SeedSequence(7)))
        np.testing.assert_array_equal(by_int, exact.sample(100, rng=np.random.default_rng(7)))
        stream = np.random.default_rng(7)
        np.testing.assert_array_equal(by_int, exact.sample(100, rng=stream))
        assert (by_int != exact.sample(100, rng=stream)).any()
        assert (exact.sample(100) != exact.sample(100)).any()

    def test_global_state_is_left_alone(self):
        np.random.seed(0)  # noqa: NPY002
        before = np.random.get_state()[1].copy()  # noqa: NPY002
        ebm.exact(machine()).sample(100, rng=None)
        np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002

    @pytest.mark.parametrize("rng", [np.random.RandomState(0), "7", 1.5, True])
    def test_other_sources(self, rng):
        with pytest.raises(TypeError, match="rng must be"):
            ebm.exact(machine()).sample(3, rng=rng)

    @pytest.mark.parametrize("n_draws", [0, -1, 1.5, True, "3", None])
    def test_number_of_draws(self, n_draws):
        with pytest.raises(ShapeError, match="n_draws must be a positive integer"):
            ebm.exact(machine()).sample(n_draws, rng=0)

    @pytest.mark.parametrize("model", [machine(), TwoMembers(machine()), levels()])
    def test_one_draw(self, model):
        assert ebm.exact(model).sample(np.int64(1), rng=0).shape == (1, model.space.n)

    def test_one_unit(self):
        draws = ebm.exact(ebm.IsingModel([[0.0]], [0.4])).sample(5000, rng=0)
        check_distribution(draws, [1 / (1 + np.exp(0.8)), 1 / (1 + np.exp(-0.8))], ebm.Spins(1))
