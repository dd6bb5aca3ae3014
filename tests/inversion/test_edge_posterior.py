"""Posterior over edges: reference numbers, the walk against sums over all graphs, calibration."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.errors import CodingError, ConvergenceError, EbmError, LimitError, ModelError
from ebm.inversion import EdgePrior, _graph_evidence, edge_posterior
from ebm.inversion._graph_evidence import GraphPosterior
from ebm.inversion._graph_walk import NormalGraphs
from tests.edge_calibration import frequency, stated

# The function hides the module of its name.
module = __import__("sys").modules["ebm.inversion.edge_posterior"]
A = [13, 21, 3, 16, 9, 11, 15, 20, 8, 1, 5, 3, 20, 13, 25, 17]
T = [9, 5, 4, 8, 3, 2, 7, 22]
#: Methods §7, s_h = 1, s_J = .5, π = ½.
LAPLACE_A = [0.99975579, 0.13630304, 0.98944855, 0.87776875, 0.15679760, 0.19706000]
SAMPLED_A = [0.999757, 0.13704, 0.98949, 0.87832, 0.15771, 0.19780]
NORMAL_A = [0.999, 0.137, 0.986, 0.851, 0.155, 0.193]
LAPLACE_T = [0.96933980, 0.30617902, 0.85977307]
QUADRATURE_T = [0.9697805, 0.3096336, 0.8614656]


def table(counts, **how):
    n = len(counts).bit_length() - 1
    states = list(itertools.product((0, 1), repeat=n))
    return ebm.Ensemble.from_data(states, sample_weight=counts, **how)


def known(data, field_width=1.0, coupling_width=0.5):
    return GraphPosterior.of(data.moments().to(ebm.Spins), field_width, coupling_width)


def every(n_pairs):
    return np.array(list(itertools.product((False, True), repeat=n_pairs)))


def normal(data):
    posterior = known(data)
    full = posterior.mode(np.ones(len(posterior.pairs[0]), dtype=bool))
    return NormalGraphs(posterior, full, 0.5)


def inclusion(logs, graphs):
    weights = np.exp(logs - logs.max())
    return weights @ graphs / weights.sum()


def glass(n, n_rows, seed, width=0.5):
    rng = np.random.default_rng(seed)
    couplings = np.zeros((n, n))
    i, j = np.triu_indices(n, 1)
    couplings[i, j] = rng.normal(0, width, len(i)) * (rng.random(len(i)) < 0.5)
    model = ebm.IsingModel(couplings + couplings.T, rng.normal(0, 0.5, n))
    return ebm.Ensemble.from_data(ebm.exact(model).sample(n_rows, rng), space=ebm.Spins)


class TestReferenceNumbers:
    def test_laplace_of_all_graphs_of_four_spins(self):
        result = edge_posterior(table(A))
        np.testing.assert_allclose(result.probabilities, LAPLACE_A, atol=1e-8)
        np.testing.assert_allclose(result.probabilities, SAMPLED_A, atol=1.1e-3)
        np.testing.assert_array_equal(result.errors, 0.0)
        posterior = known(table(A))
        ends = [posterior.mode(np.full(6, full)).log_evidence for full in (False, True)]
        np.testing.assert_allclose(ends, [-555.14479477, -544.7297621], atol=1e-7)

    def test_laplace_of_all_graphs_of_three_spins(self):
        result = edge_posterior(table(T))
        np.testing.assert_allclose(result.probabilities, LAPLACE_T, atol=1e-8)
        # Quadrature of the same integrals: what Laplace's approximation is off by.
        np.testing.assert_allclose(result.probabilities, QUADRATURE_T, atol=4e-3)
        ends = [known(table(T)).mode(np.full(3, full)).log_evidence for full in (False, True)]
        np.testing.assert_allclose(ends, [-124.612959, -119.663704], atol=0.07)

    def test_savage_and_dickey_from_the_full_fit(self):
        graphs, every_graph = normal(table(A)), every(6)
        logs = np.array([graphs.log_weight(graph) for graph in every_graph])
        found = inclusion(logs, every_graph)
        np.testing.assert_allclose(found, NORMAL_A, atol=6e-4)
        # The mutant: they are not the probabilities of the exact evidences.
        assert abs(found - LAPLACE_A).max() > 0.02


class TestModes:
    def test_undamped_steps_diverge_on_strong_tables(self, monkeypatch):
        rng = np.random.default_rng(0)
        couplings = np.triu(rng.normal(0, 1, (4, 4)), 1)
        strong = ebm.IsingModel(couplings + couplings.T, rng.normal(0, 1.5, 4))
        counts = rng.multinomial(2000, ebm.exact(strong).weights)
        posterior, everything = known(table(counts)), np.ones(6, dtype=bool)
        mode = posterior.mode(everything)
        slope = posterior.sample_size * (posterior.mean - self.means(posterior, mode.theta))
        np.testing.assert_allclose(slope, posterior.precision * mode.theta, atol=1e-6)
        monkeypatch.setattr(_graph_evidence, "MOST_HALVINGS", 0)
        with pytest.raises(ConvergenceError, match="200 Newton steps"):
            posterior.mode(everything)

    @staticmethod
    def means(posterior, theta):
        ensemble = ebm.exact(posterior.model(theta, np.arange(len(theta))))
        moments = ensemble.moments()
        return np.concatenate([moments.mean, moments.second[posterior.pairs]])

    @settings(max_examples=10, deadline=None)
    @given(st.integers(0, 10**6), st.sampled_from([2, 3, 5]))
    def test_transforms_and_products_agree(self, seed, n):
        rng = np.random.default_rng(seed)
        posterior = known(glass(n, 50, seed))
        on = posterior.features(rng.random(n * (n - 1) // 2) < 0.6)
        theta = rng.normal(size=len(on))
        for one, other in zip(
            posterior._by_transforms(theta, on), posterior._by_products(theta, on), strict=True
        ):
            np.testing.assert_allclose(one, other, atol=1e-12)

    def test_seventeen_units_go_by_products(self, monkeypatch):
        posterior = known(glass(17, 500, 1, width=0.2))
        graph = np.arange(136) % 3 == 0
        by_products = posterior.mode(graph).log_evidence
        monkeypatch.setattr(_graph_evidence, "HADAMARD_UNITS", 17)
        assert posterior.mode(graph).log_evidence == pytest.approx(by_products, abs=1e-6)

    def test_a_start_does_not_matter(self):
        graphs = normal(glass(6, 200, 2))
        graph = np.arange(15) % 2 == 0
        one = graphs.posterior.mode(graph).log_evidence
        other = graphs.posterior.mode(graph, graphs.start(graph)).log_evidence
        assert one == pytest.approx(other, abs=1e-8)


class TestTheWalk:
    @settings(max_examples=10, deadline=None)
    @given(st.integers(0, 10**6))
    def test_pivots_change_the_weight_as_determinants_do(self, seed):
        rng = np.random.default_rng(seed)
        graphs = normal(glass(5, 100, seed))
        graph = rng.random(10) < 0.5
        pivots = graphs.table(graph)
        other, change = graphs._walked(pivots, graph, 30, rng)
        expected = graphs.log_weight(other) - graphs.log_weight(graph)
        assert change == pytest.approx(expected, abs=1e-8)
        np.testing.assert_allclose(pivots, graphs.table(other), atol=1e-7 * abs(pivots).max())

    def test_it_visits_graphs_as_often_as_their_weights_say(self, monkeypatch):
        monkeypatch.setattr(module, "ALL_GRAPHS", 3)
        result = edge_posterior(table(A), n_draws=4000, rng=1)
        off = abs(result.probabilities - LAPLACE_A) / result.errors
        assert off.max() < 4
        assert result.acceptance > 0.5
        assert 0 < result.errors.max() < 0.012
        # The mutant: a walk that accepts everything has the weights of the normal approximation.
        assert abs(NORMAL_A[3] - LAPLACE_A[3]) > 3 * result.errors[3]

    def test_stated_errors_are_the_spread_of_seeds(self):
        data = glass(6, 150, 3)
        runs = [edge_posterior(data, n_draws=400, rng=seed) for seed in range(12)]
        spread = np.std([run.probabilities for run in runs], axis=0, ddof=1)
        said = np.mean([run.errors for run in runs], axis=0)
        loose = said > 0.005
        assert 0.7 < np.sqrt((spread[loose] ** 2).mean() / (said[loose] ** 2).mean()) < 1.4

    def test_the_heaviest_graphs_are_reported(self, monkeypatch):
        monkeypatch.setattr(module, "ALL_GRAPHS", 3)
        walk = edge_posterior(table(A), n_draws=1000, rng=1)
        monkeypatch.undo()
        whole = edge_posterior(table(A))
        np.testing.assert_array_equal(walk.graphs[:3], whole.graphs[:3])
        np.testing.assert_allclose(walk.log_evidences[:3], whole.log_evidences[:3], atol=1e-7)

    def test_it_depends_on_the_seed_alone(self, tmp_path):
        data = glass(6, 100, 5)

        def run(**how):
            return edge_posterior(data, n_draws=80, rng=3, **how).probabilities

        alone = run()
        with ThreadPoolExecutor(2) as pool:
            np.testing.assert_array_equal(run(executor=pool), alone)
        path = tmp_path / "chains"
        np.testing.assert_array_equal(run(checkpoint=path), alone)
        np.testing.assert_array_equal(run(checkpoint=path), alone)
        with pytest.raises(EbmError, match="prior"):
            edge_posterior(data, EdgePrior(2.0), n_draws=80, rng=3, checkpoint=path)

    @pytest.mark.parametrize("seed", [0, 1])
    def test_beyond_sixteen_units_the_normal_approximation_is_corrected(self, seed, monkeypatch):
        """The way of 17 to 24 units on five units, of which all graphs can be summed."""
        data = glass(5, 150, seed)
        whole = edge_posterior(data).probabilities
        monkeypatch.setattr(module, "ALL_GRAPHS", 3)
        monkeypatch.setattr(module, "HADAMARD_UNITS", 4)
        result = edge_posterior(data, n_draws=1000, rng=seed)
        assert len(result.graphs) == 100
        assert (abs(result.probabilities - whole) / result.errors).max() < 4


class TestCalibration:
    def test_stated_probabilities_are_frequencies(self):
        """The long version, ``python -m tests.edge_calibration``, has 500 edges in each range."""
        said, there = (np.concatenate(x) for x in zip(*stated(12, 3, n_draws=200), strict=True))
        for low, high in ((0.0, 0.3), (0.3, 0.8), (0.8, 1.01)):
            found = frequency(said, there, low, high)
            assert found.n_edges > 30
            assert abs(found.deviations) < 3


class TestWhatDoesNotMatter:
    def test_which_value_is_called_one_and_the_order_of_units(self):
        rows = np.random.default_rng(1).integers(0, 2, (60, 4))
        rows[:, 1] |= rows[:, 0]
        whole = edge_posterior(rows).matrix
        flipped = rows.copy()
        flipped[:, [0, 2]] = 1 - flipped[:, [0, 2]]
        np.testing.assert_allclose(edge_posterior(flipped).matrix, whole, atol=1e-9)
        spins = ebm.Ensemble.from_data(2 * rows - 1, space=ebm.Spins)
        np.testing.assert_allclose(edge_posterior(spins).matrix, whole, atol=1e-9)
        np.testing.assert_allclose(edge_posterior(spins.moments()).matrix, whole, atol=1e-9)
        order = [2, 0, 3, 1]
        other = edge_posterior(rows[:, order]).matrix
        np.testing.assert_allclose(other, whole[np.ix_(order, order)], atol=1e-9)

    def test_the_width_of_couplings_does(self):
        wide = edge_posterior(table(A), EdgePrior(coupling_width=5.0))
        assert wide.probabilities[1] < 0.05

    def test_constant_units_and_few_rows_have_a_posterior(self):
        rows = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 1]])
        result = edge_posterior(rows)
        assert ((result.probabilities > 0.2) & (result.probabilities < 0.8)).all()

    def test_strong_data_have_one_too(self):
        rows = np.repeat([[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], 5000, axis=0)
        result = edge_posterior(rows, n_draws=40, rng=0)
        assert np.isfinite(result.probabilities).all()


class TestTheResult:
    def test_edges_have_names(self):
        result = edge_posterior(table(T, names=["mood", "sleep", "work"]))
        assert result.probability("work", "mood") == result.probability(0, 2)
        assert result.probability(0, 2) == result.probabilities[1]
        frame = result.to_frame()
        assert list(frame["target"]) == ["sleep", "work", "work"]
        assert result.space.names == ("mood", "sleep", "work")
        np.testing.assert_array_equal(result.matrix, result.matrix.T)
        assert "3 units" in repr(result)

    def test_one_unit_is_no_edge(self):
        with pytest.raises(EbmError, match="joins two units"):
            edge_posterior(table(T)).probability(1, 1)


class TestRefusals:
    @pytest.mark.parametrize(
        ("how", "sentence"),
        [
            ({"field_width": 0}, "field_width must be positive"),
            ({"coupling_width": np.inf}, "coupling_width must be positive"),
            ({"edge_probability": 1}, "edge_probability must be between"),
        ],
    )
    def test_priors_out_of_range(self, how, sentence):
        with pytest.raises(EbmError, match=sentence):
            EdgePrior(**how)

    def test_costs_are_stated_first(self):
        many = ebm.Ensemble.from_data(np.random.default_rng(0).integers(0, 2, (60, 25)))
        with pytest.raises(LimitError, match="the limit is 24 units"):
            edge_posterior(many)
        with pytest.raises(LimitError, match=r"exact fits and about \d+ s"):
            edge_posterior(glass(12, 100, 0), n_draws=10**7)

    def test_data_that_have_no_posterior(self):
        with pytest.raises(EbmError, match="number of samples"):
            edge_posterior(ebm.exact(ebm.IsingModel(np.zeros((3, 3)), np.zeros(3))))
        with pytest.raises(EbmError, match="only one"):
            edge_posterior(np.array([[0], [1], [1]]))
        levels = ebm.Ensemble.from_data([[0, 1], [2, 1], [1, 0]], space=ebm.Levels(2, 3))
        with pytest.raises(CodingError):
            edge_posterior(levels)
        with pytest.raises(ModelError, match="EdgePrior"):
            edge_posterior(table(T), 0.5)


def test_spins_are_asked_for_as_an_ensemble():
    with pytest.raises(CodingError, match=r"Ensemble.from_data\(rows, space=ebm.Spins\)"):
        edge_posterior([[-1, 1], [1, 1], [1, -1]])
