"""Exact sums over models on graphs, one unit after the other."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

import ebm
from ebm._kernels import elimination as kernels
from ebm.enumeration import _elimination, _elimination_plan
from ebm.enumeration._elimination import Eliminated
from ebm.enumeration._elimination_ensemble import elimination_of
from ebm.enumeration._elimination_factors import factors_of
from ebm.enumeration._elimination_logs import EliminatedInLogs
from ebm.enumeration._elimination_plan import EliminationPlan, plan_of
from ebm.enumeration._limits import Limits


def eliminated(model):
    factors = factors_of(model, model.space)
    return elimination_of(model, model.space, factors, plan_of(factors), Limits())


def on_graph(graph, stream, size=1.0):
    graph = nx.convert_node_labels_to_integers(graph, ordering="sorted")
    n = len(graph)
    i, j = np.array(graph.edges).T
    couplings = np.zeros((n, n))
    couplings[i, j] = couplings[j, i] = size * stream.normal(size=len(i))
    return ebm.IsingModel(scipy.sparse.csr_array(couplings), size * stream.normal(size=n))


def uniform_lattice(length, coupling, *, periodic):
    graph = nx.grid_2d_graph(length, length, periodic=periodic)
    matrix = coupling * nx.to_scipy_sparse_array(graph, dtype=float)
    return ebm.IsingModel(scipy.sparse.csr_array(matrix), np.zeros(length**2))


def models():
    stream = np.random.default_rng(0)
    graph = nx.gnm_random_graph(10, 16, seed=1)
    spins = on_graph(graph, stream)
    yield spins
    yield spins.to_binary()
    terms = {(0, 1, 2): 1.0, (3,): 0.5, (2, 4, 6, 5): -0.7, (7, 8): 0.3}
    yield ebm.InteractionModel(terms, ebm.Spins(9))
    yield ebm.InteractionModel(terms, ebm.Binary(9))
    couplings = np.zeros((6, 6, 3, 3))
    for i, j in [(0, 1), (2, 1), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)]:
        couplings[i, j] = stream.normal(size=(3, 3))
        couplings[j, i] = couplings[i, j].T
    yield ebm.PottsModel(couplings, stream.normal(size=(6, 3)))


@pytest.mark.parametrize("model", list(models()))
def test_all_answers_equal_sums_over_states(model):
    states, graph = ebm.exact(model), eliminated(model)
    assert graph.log_partition == pytest.approx(states.log_partition, abs=1e-12)
    moments, expected = graph.moments(), states.moments()
    np.testing.assert_allclose(moments.mean, expected.mean, atol=1e-13)
    np.testing.assert_allclose(moments.covariance, expected.covariance, atol=1e-13)
    np.testing.assert_allclose(graph.means(), expected.mean, atol=1e-13)
    assert graph.entropy() == pytest.approx(states.entropy(), abs=1e-12)
    assert graph.mean_energy() == pytest.approx(states.mean_energy(), abs=1e-12)
    some = model.space.random(5, 1)
    np.testing.assert_allclose(graph.log_probability(some), states.log_probability(some))


@pytest.mark.parametrize("model", list(models()))
def test_marginals_of_units_that_share_no_term_are_exact(model):
    graph, units = eliminated(model), (4, 0, 3)
    levels = model.space.levels(model.space.states_at(np.arange(int(model.space.size))))
    expected = np.zeros(model.space.n_values[list(units)])
    np.add.at(expected, tuple(levels[:, list(units)].T), ebm.exact(model).weights)
    np.testing.assert_allclose(graph.marginal(units), expected, atol=1e-13)


@pytest.mark.parametrize("model", list(models()))
def test_messages_that_are_made_again_on_the_way_back_are_the_same(model, monkeypatch):
    graph = eliminated(model)
    monkeypatch.setattr(_elimination_plan, "ONE_SEGMENT", 0)
    plan = graph._eliminated.plan
    cut = Eliminated(graph._factors, EliminationPlan(plan.n_values, plan.order, plan.scopes))
    assert len(cut.plan.steps) > 1
    assert cut.log_total == graph._eliminated.log_total
    for own, other in zip(cut.marginals(), graph._marginals, strict=True):
        np.testing.assert_array_equal(own, other)
    draws = [each.draw(50, np.random.default_rng(0)) for each in (cut, graph._eliminated)]
    np.testing.assert_array_equal(*draws)


def test_draws_have_the_exact_probabilities():
    model = next(models())
    graph = eliminated(model)
    expected = model.space.size * ebm.exact(model).weights
    counts = np.bincount(model.space.index(graph.sample(200_000, rng=0)), minlength=2**10)
    scores = (counts - expected / 2**10 * 200_000) / np.sqrt(expected / 2**10 * 200_000)
    assert (scores**2).mean() == pytest.approx(1, abs=0.2)


def test_the_gradient_of_ln_z_is_the_mean_of_the_terms():
    stream = np.random.default_rng(3)
    model = on_graph(nx.random_regular_graph(3, 60, seed=1), stream, 0.5)
    slopes = -model.mean_energy_gradient(ebm.exact(model))
    direction, step = stream.normal(size=len(slopes)), 1e-4
    ends = [
        ebm.exact(model.with_parameters(model.parameters + sign * step * direction)).log_partition
        for sign in (1, -1)
    ]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slopes @ direction, rel=1e-6)


def test_a_peak_forgotten_on_the_way_back_is_seen():
    graph = eliminated(next(models()))
    graph._eliminated.peaks = np.ones_like(graph._eliminated.peaks)
    assert abs(graph._marginals[0].sum() - 1) > 0.1


@pytest.mark.parametrize("periodic", [True, False])
def test_a_ring_and_a_chain_of_1000_sites_have_their_closed_form(periodic):
    graph = nx.cycle_graph(1000) if periodic else nx.path_graph(1000)
    matrix = 0.5 * nx.to_scipy_sparse_array(graph, dtype=float)
    ensemble = ebm.exact(ebm.IsingModel(scipy.sparse.csr_array(matrix), np.zeros(1000)))
    n_bonds = 1000 if periodic else 999
    exact = 1000 * np.log(2) + n_bonds * np.log(np.cosh(0.5))
    exact += np.log1p(np.tanh(0.5) ** 1000) if periodic else 0.0
    assert ensemble.log_partition == pytest.approx(exact, rel=1e-13)


def test_a_tree_of_1000_sites_equals_bethe():
    model = on_graph(nx.random_labeled_tree(1000, seed=0), np.random.default_rng(1), 0.5)
    exact, messages = ebm.exact(model), ebm.perturbation.bethe(model)
    assert exact.log_partition == pytest.approx(messages.log_partition, rel=1e-12)


def test_lattices_reproduce_known_sums():
    """16 × 16 open, K = .44, and its sum of bonds; 8 × 8 torus by 2^8 transfer matrices."""
    model = uniform_lattice(16, 0.44, periodic=False)
    ensemble = eliminated(model)
    assert ensemble.log_partition == pytest.approx(232.393789864671, abs=1e-10)
    assert ensemble.covariances(*model.pairs).sum() == pytest.approx(299.253174382, abs=1e-8)
    rows = ebm.Spins(8).states_at(np.arange(256))
    inside = (rows * np.roll(rows, 1, axis=1)).sum(axis=1) * 0.44
    transfer = np.exp(0.44 * rows @ rows.T + (inside[:, None] + inside) / 2)
    exact = np.log((np.linalg.eigvalsh(transfer) ** 8).sum())
    torus = ebm.exact(uniform_lattice(8, 0.44, periodic=True))
    assert torus.log_partition == pytest.approx(exact, abs=1e-10)


def test_a_machine_through_its_graph_equals_the_sum_over_its_layer():
    stream = np.random.default_rng(0)
    numbers = stream.normal(size=(30, 8)), stream.normal(size=30), stream.normal(size=8)
    machine = ebm.RestrictedBoltzmannMachine(*numbers)
    graph, layer = eliminated(machine), ebm.exact(machine)
    assert graph.log_partition == pytest.approx(layer.log_partition, rel=1e-13)
    np.testing.assert_allclose(graph.means(), layer.moments().mean, atol=1e-12)


def test_wide_graphs_are_refused_with_width_and_a_way_out():
    free = uniform_lattice(32, 0.3, periodic=False)
    # Without a field there is a determinant.
    model = ebm.IsingModel(free.couplings, np.full(32**2, 0.1))
    with pytest.raises(ebm.errors.EnumerationLimitError, match=r"width 3\d.*log_partition"):
        ebm.exact(model)


def test_covariances_that_are_not_affordable_are_refused_and_never_zero():
    model, limits = uniform_lattice(14, 0.3, periodic=False), Limits(0.5)
    factors = factors_of(model, model.space)
    ensemble = elimination_of(model, model.space, factors, plan_of(factors), limits)
    with pytest.raises(ebm.errors.EnumerationLimitError, match="covariances"):
        ensemble.moments()
    far = eliminated(uniform_lattice(6, 0.3, periodic=False))
    assert far.covariances([0], [35])[0] > 0


def test_underflow_that_matters_is_refused(monkeypatch):
    model = on_graph(nx.path_graph(40), np.random.default_rng(0), 400.0)
    factors = factors_of(model, model.space)
    with pytest.raises(ebm.errors.PrecisionError):
        Eliminated(factors, plan_of(factors))
    assert _elimination.LARGEST_REACH < 708 - 40


@pytest.mark.parametrize("model", list(models()))
def test_sums_of_logs_equal_linear_ones(model):
    graph = eliminated(model)
    logs = EliminatedInLogs(graph._factors, graph._eliminated.plan)
    assert logs.log_total == pytest.approx(graph._eliminated.log_total, abs=1e-12)
    for own, other in zip(logs.marginals(), graph._marginals, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-13)
    levels = logs.draw(20_000, np.random.default_rng(0))
    for unit, expected in enumerate(graph._marginals[: model.space.n]):
        shares = np.bincount(levels[:, unit], minlength=len(expected)) / len(levels)
        np.testing.assert_allclose(shares, expected, atol=0.02)


def test_what_underflows_is_summed_in_logs():
    model = on_graph(nx.path_graph(40), np.random.default_rng(0), 400.0)
    ensemble = ebm.exact(model)
    assert ensemble.route == "elimination of width 1"
    spins, logs = np.array([-1.0, 1.0]), np.zeros(2)
    couplings, biases = model.couplings.toarray(), model.parameters[:40]
    for k in range(40):
        logs = logs + biases[k] * spins
        if k < 39:
            logs = np.logaddexp(*(logs[:, None] + couplings[k, k + 1] * np.outer(spins, spins)))
    assert ensemble.log_partition == pytest.approx(np.logaddexp(*logs), rel=1e-14)
    ground = ebm.ground_state(model)
    # 1 − 2 p where a unit differs in another state of probability p.
    others = ensemble.log_partition + ground.energy
    np.testing.assert_allclose(ensemble.means(), ground.states[0], atol=2.001 * others)
    assert (ensemble.sample(3, rng=0) == ground.states[0]).all()


def test_a_fit_on_a_sparse_graph_is_exact_maximum_likelihood():
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 14), ordering="sorted")
    truth = on_graph(graph, np.random.default_rng(5), 0.4)
    rows = ebm.exact(truth).sample(4000, rng=1)
    flat = truth.with_parameters(np.zeros(len(truth.parameters)))
    result = ebm.fit(flat, rows)
    assert result.converged
    data = ebm.Ensemble.from_data(rows, space=ebm.Spins(42))
    averages = [result.model.mean_energy_gradient(p) for p in (ebm.exact(result.model), data)]
    np.testing.assert_allclose(*averages, atol=1e-6)


def kaufman(length, coupling):
    """ln Z of a torus: four products over momenta, even ones weighing cosh and odd ones sinh."""
    energy = np.arccosh(
        np.cosh(2 * coupling) / np.tanh(2 * coupling)
        - np.cos(np.pi * np.arange(2 * length) / length)
    )
    energy[0] = 2 * coupling + np.log(np.tanh(coupling))
    half = length / 2 * energy
    odd, even = half[1::2], half[::2]
    products = sum((2 * f(part)).prod() for part in (odd, even) for f in (np.cosh, np.sinh))
    return np.log(products / 2) + length**2 / 2 * np.log(2 * np.sinh(2 * coupling))


@pytest.mark.parametrize(("length", "coupling"), [(8, 0.44), (10, 0.2), (10, 0.44), (10, 0.7)])
def test_tori_equal_kaufman(length, coupling):
    model = uniform_lattice(length, coupling, periodic=True)
    known = kaufman(length, coupling)
    assert eliminated(model).log_partition == pytest.approx(known, abs=1e-10)


def with_fields(length, stream):
    """An open lattice of couplings ±.5 and normal fields."""
    matrix = 0.5 * nx.to_scipy_sparse_array(nx.grid_2d_graph(length, length), dtype=float)
    upper = scipy.sparse.triu(matrix).tocoo()
    signs = stream.choice([-1.0, 1.0], upper.nnz)
    upper = scipy.sparse.csr_array((signs * upper.data, (upper.row, upper.col)), matrix.shape)
    return ebm.IsingModel(scipy.sparse.csr_array(upper + upper.T), stream.normal(size=length**2))


def transferred(model, length):
    """ln Z of an open lattice, a vector over the states of a row, one site after the other."""
    couplings, fields = scipy.sparse.csr_array(model.couplings), model.parameters[: length**2]
    spins, scale = np.array([-1.0, 1.0]), 0.0
    vector = np.ones((2,) * length)
    for site in range(length**2):
        row, column = divmod(site, length)
        if row:
            old = np.exp(couplings[site, site - length] * np.outer(spins, spins))
            vector = np.moveaxis(np.tensordot(old, vector, (1, column)), 0, column)
        weights = np.exp(fields[site] * spins).reshape((2,) + (1,) * (length - column - 1))
        vector = vector * weights
        if column:
            pair = np.exp(couplings[site, site - 1] * np.outer(spins, spins))
            vector = vector * pair.reshape((2, 2) + (1,) * (length - column - 1))
        scale, vector = scale + np.log(vector.max()), vector / vector.max()
    return scale + np.log(vector.sum())


def test_an_open_lattice_with_fields_equals_a_transfer_by_rows():
    model = with_fields(9, np.random.default_rng(2))
    ensemble = eliminated(model)
    assert ensemble.log_partition == pytest.approx(transferred(model, 9), abs=1e-11)
    wrong = with_fields(9, np.random.default_rng(2))
    wrong = wrong.with_parameters(wrong.parameters + 1e-8 * np.arange(len(wrong.parameters)))
    assert abs(transferred(wrong, 9) - ensemble.log_partition) > 1e-9
    i, j = model.pairs
    pairs = ensemble.covariances(i, j) + ensemble.means()[i] * ensemble.means()[j]
    averages = np.concatenate([ensemble.means(), pairs])
    slope = 1e-8 * np.arange(len(averages)) @ averages
    assert transferred(wrong, 9) - ensemble.log_partition == pytest.approx(slope, rel=1e-3)


def plus_minus_lattice(length, seed, beta):
    """±J, open edges: bond k is +1 where the top bit of splitmix64(seed 2^32 + k) is 0."""

    def sign(k):
        mask = 2**64 - 1
        z = (seed * 2**32 + k + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return -1 if (z ^ (z >> 31)) >> 63 else 1

    n = length**2
    matrix = scipy.sparse.lil_array((n, n))
    for k in range(n):
        if k % length < length - 1:
            matrix[k, k + 1] = matrix[k + 1, k] = beta * sign(k)
        if k < n - length:
            matrix[k, k + length] = matrix[k + length, k] = beta * sign(n + k)
    return ebm.IsingModel(scipy.sparse.csr_array(matrix), np.zeros(n))


@pytest.mark.parametrize(
    ("beta", "known"), [(0.5, 234.591653950528), (1.0, 372.782748626614), (2.0, 707.663252030472)]
)
def test_a_lattice_of_random_signs_has_its_reference_sum(beta, known):
    model = plus_minus_lattice(16, 1, beta)
    assert eliminated(model).log_partition == pytest.approx(known, abs=1e-10)


def test_parts_of_an_elimination_give_the_same_numbers(monkeypatch):
    """Ctrl-C is heard between parts: none is longer than it may, but for one step."""
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 7), ordering="sorted")
    model = on_graph(graph, np.random.default_rng(2))
    whole = eliminated(model)
    monkeypatch.setattr(_elimination_plan, "AT_ONCE", 40)
    _elimination_plan._plan.cache_clear()
    parts = eliminated(model)
    stretches = parts._eliminated.plan.stretches(3, 33)
    assert stretches[0][0] == 3
    assert stretches[-1][1] == 33
    assert len(stretches) > 10
    assert all(a[1] == b[0] for a, b in itertools.pairwise(stretches))
    assert parts.log_partition == whole.log_partition
    np.testing.assert_array_equal(parts.means(), whole.means())
    np.testing.assert_array_equal(parts.sample(20, rng=1), whole.sample(20, rng=1))


def test_ctrl_c_between_two_parts_leaves_nothing_behind(monkeypatch):
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 7), ordering="sorted")
    model = on_graph(graph, np.random.default_rng(2))
    before, kernel, calls = eliminated(model), kernels.eliminate, []

    def interrupted(*args):
        calls.append(args[:2])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return kernel(*args)

    with monkeypatch.context() as patch:
        patch.setattr(_elimination_plan, "AT_ONCE", 40)
        patch.setattr(kernels, "eliminate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            eliminated(model)
    assert eliminated(model).log_partition == before.log_partition


def test_moments_cost_one_sum_for_each_value_but_one_and_are_refused_by_that(monkeypatch):
    chain = np.diag(np.full(39, 0.4), 1)
    ensemble = ebm.exact(ebm.IsingModel(scipy.sparse.csr_array(chain + chain.T), np.full(40, 0.1)))
    given = []
    means_at = type(ensemble)._means_at
    monkeypatch.setattr(
        type(ensemble), "_means_at", lambda self, *at: given.append(at) or means_at(self, *at)
    )
    covariance = ensemble.moments().covariance
    assert len(given) == 40
    np.testing.assert_allclose(covariance[0, 30], ensemble.covariances([0], [30])[0], atol=1e-14)
    large = np.full(4999, 0.3)
    ring = scipy.sparse.diags_array([large, large], offsets=[1, -1], format="csr")
    with pytest.raises(ebm.errors.EnumerationLimitError, match="all 5000 features"):
        ebm.exact(ebm.IsingModel(scipy.sparse.csr_array(ring), np.full(5000, 0.1))).moments()


def test_every_refusal_of_pairs_states_the_width():
    """Too wide by the number of pairs, by all orders that are found, and by its cost."""
    stream = np.random.default_rng(0)
    dense = np.triu(stream.normal(size=(80, 80)), 1)
    regular = nx.random_regular_graph(3, 500, seed=1)
    cases = [
        (ebm.IsingModel(dense + dense.T, np.zeros(80)), "is at least 71"),
        (on_graph(regular, stream), "above 62 by all orders found"),
        (on_graph(nx.grid_2d_graph(40, 40), stream), r"elimination of width 40|is 40"),
    ]
    for model, words in cases:
        with pytest.raises(ebm.errors.EnumerationLimitError, match=words):
            ebm.exact(model)
