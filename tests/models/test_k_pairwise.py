"""Pairs and a potential of the number of active units: energies, gauge, pools, forms, files."""

import numpy as np
import pytest

import ebm
from ebm.errors import ModelError, NamesError, ShapeError
from ebm.forms import energy_form
from ebm.models._counts import gauge_moves, pooled, unseen_counts

BIASES, POTENTIAL = np.array([-1, -0.5, -1.5, 0.25]), np.array([0.7, 0, -0.2, 0.5, -1])
POOLS = (None, (3, 4, 5, 6), (3, 5, 6, 7), (3, 4, 5), (3, 5), (3,))


def weights_of(upper):
    n = int((1 + np.sqrt(1 + 8 * len(upper))) / 2)
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n, 1)] = upper
    return matrix + matrix.T


WEIGHTS = weights_of([0.5, -0.3, 0.8, 0.2, -0.6, 0.4])


def reference():
    return ebm.KPairwiseModel(WEIGHTS, BIASES, POTENTIAL)


def random_model(n, seed, pools=None, size=0.7):
    rng = np.random.default_rng(seed)
    weights = weights_of(rng.normal(0, size, n * (n - 1) // 2))
    family = ebm.KPairwiseModel(weights, rng.normal(-0.7, size, n), np.zeros(n + 1), pools)
    return family.with_parameters(rng.normal(0, size, len(family.parameters)))


def every(n):
    return ebm.Binary(n).states_at(np.arange(2**n))


def test_the_energy_is_that_of_pairs_and_of_the_number_of_active_units():
    x = every(4)
    pairs = 0.5 * np.einsum("si,ij,sj->s", x, WEIGHTS, x)
    expected = -pairs - x @ BIASES - POTENTIAL[x.sum(axis=1).astype(int)]
    np.testing.assert_allclose(reference().energy(x), expected, atol=1e-14)


def test_reference_numbers_of_four_units():
    model = reference()
    exact = ebm.exact(model)
    assert exact.log_partition == pytest.approx(2.127487603612, abs=1e-12)
    means = [0.3746355, 0.3356206, 0.1975868, 0.5448917]
    np.testing.assert_allclose(exact.moments().mean, means, atol=5e-8)
    shares = [0.2399109, 0.2956444, 0.2438600, 0.2129686, 0.007616125]
    np.testing.assert_allclose(ebm.observables.population_count(exact), shares, atol=5e-8)
    canonical = model.canonical()
    np.testing.assert_allclose(canonical.biases, [-1.7, -1.2, -2.2, -0.45], atol=1e-14)
    upper = canonical.weights[np.triu_indices(4, 1)]
    np.testing.assert_allclose(upper, [1, 0.2, 1.3, 0.7, -0.1, 0.9], atol=1e-14)
    np.testing.assert_allclose(canonical.potential, [0, 0, 0, 0.4, -1.9], atol=1e-14)
    assert canonical.offset == pytest.approx(-0.7)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_the_canonical_gauge_keeps_every_energy(n):
    model = random_model(n, n)
    moved = ebm.KPairwiseModel(model.weights, model.biases, np.arange(n + 1) ** 1.5 + 0.3)
    canonical = moved.canonical()
    np.testing.assert_allclose(canonical.energy(every(n)), moved.energy(every(n)), atol=1e-12)
    assert not canonical.potential[:3].any()


def test_a_wrong_gauge_changes_energies():
    """The mutant: the pairs take the second difference of V, not half of it."""
    model = reference()
    second = POTENTIAL[2] - 2 * POTENTIAL[1] + POTENTIAL[0]
    canonical = model.canonical()
    halved = ebm.KPairwiseModel(
        canonical.weights - 0.5 * second * (1 - np.eye(4)),
        canonical.biases,
        canonical.potential,
        offset=canonical.offset,
    )
    assert np.abs(halved.energy(every(4)) - model.energy(every(4))).max() > 0.1


@pytest.mark.parametrize("pools", POOLS)
def test_the_slopes_of_the_energy_are_its_differences(pools):
    model = random_model(7, 1, pools)
    x, theta = every(7)[::5], np.array(model.parameters)
    slopes = model.energy_gradient(x)
    assert slopes.shape == (len(x), len(theta))
    assert len(model.parameter_names) == len(theta)
    for k in range(len(theta)):
        move = np.eye(len(theta))[k]
        moved = model.with_parameters(theta + move).energy(x) - model.energy(x)
        np.testing.assert_allclose(slopes[:, k], moved, atol=1e-12)
    direction = np.random.default_rng(2).normal(size=len(theta))
    along = model.energy_derivative(x, direction)
    np.testing.assert_allclose(along, slopes @ direction, atol=1e-12)


@pytest.mark.parametrize("pools", POOLS)
def test_parameters_are_independent_and_what_is_constant_is_a_gauge(pools):
    model = random_model(7, 3, pools)
    fisher = ebm.fisher_information(model).dense()
    assert np.linalg.matrix_rank(fisher) == len(model.parameters)
    for count, move in enumerate(gauge_moves(model)):
        potential = model.potential.copy()
        potential[count] += 0.4
        other = ebm.KPairwiseModel(model.weights, model.biases, potential, pools)
        moved = model.with_parameters(model.parameters + 0.4 * move)
        assert np.ptp(other.energy(every(7)) - moved.energy(every(7))) < 1e-12


@pytest.mark.parametrize(("pools", "constants"), list(zip(POOLS, (3, 2, 2, 1, 1, 1), strict=True)))
def test_wide_pools_leave_fewer_constants(pools, constants):
    assert int((random_model(7, 0, pools).pool_of_count < 0).sum()) == constants


def test_the_mean_slopes_are_those_over_the_states():
    model = random_model(6, 4, (3, 4))
    exact = ebm.exact(model)
    plain = exact.weights @ model.energy_gradient(exact.states)
    np.testing.assert_allclose(model.mean_energy_gradient(exact), plain, atol=1e-13)


def test_the_form_is_one_of_terms_and_of_a_count():
    model = random_model(5, 5)
    form, x = energy_form(model), every(5)
    by_form = -form.count[x.sum(axis=1).astype(int)]
    for units, value in form.terms.items():
        by_form -= value * x[:, list(units)].prod(axis=1)
    np.testing.assert_allclose(by_form + form.constant, model.energy(x), atol=1e-13)


@pytest.mark.parametrize("values", [{0: 1}, {0: 1, 3: 0, 5: 1}, {1: 0, 2: 0}])
def test_fixed_units_leave_a_model_of_the_same_kind(values):
    model = random_model(6, 6, (3, 5))
    given = model.given(values)
    assert isinstance(given, ebm.KPairwiseModel)
    x = every(6)
    keep = np.all([x[:, unit] == value for unit, value in values.items()], axis=0)
    rest = np.delete(x[keep], list(values), axis=1)
    np.testing.assert_allclose(given.energy(rest), model.energy(x[keep]), atol=1e-12)


def test_a_file_holds_the_model(tmp_path):
    model = random_model(6, 7, (3, 5))
    named = ebm.KPairwiseModel(
        model.weights, model.biases, model.potential, (3, 5), offset=0.3, names=list("abcdef")
    )
    ebm.save(named, tmp_path / "model.npz")
    assert ebm.load(tmp_path / "model.npz").equals(named)


def test_scaling_scales_every_number():
    model = random_model(5, 8)
    np.testing.assert_allclose(model.scaled(0.3).energy(every(5)), 0.3 * model.energy(every(5)))


def test_a_pairwise_model_becomes_one_without_a_potential():
    machine = ebm.BoltzmannMachine([[1.0, 2], [2, 0]], [-1, 0.5], center=0.5, names=["a", "b"])
    model = ebm.KPairwiseModel.from_pairwise(machine)
    np.testing.assert_allclose(model.energy(every(2)), machine.energy(every(2)), atol=1e-14)
    assert model.names == ("a", "b")
    with pytest.raises(ModelError, match="BoltzmannMachine or an IsingModel"):
        ebm.KPairwiseModel.from_pairwise(ebm.TabularModel([0, 0], ebm.Binary(1)))


def test_names_say_which_counts_share_a_value():
    names = random_model(6, 0, (3, 5)).parameter_names
    assert names[-4:] == ("V[1]", "V[2]", "V[3–4]", "V[5–6]")


def test_pools_hold_enough_rows_from_the_last_count_down():
    counts = np.array([50, 30, 20, 9, 6, 0, 3, 2, 1, 0])
    assert pooled(counts / counts.sum(), counts.sum(), 5) == (3, 4, 6)
    # K = 9 never occurs: beside K = 8 alone nothing would be left to it.
    assert pooled(counts / counts.sum(), counts.sum(), 1) == (3, 4, 6, 7)
    with pytest.raises(ModelError, match="21 rows have three or more active units of 9"):
        pooled(counts / counts.sum(), counts.sum(), 22)
    with pytest.raises(ModelError, match="three units at least"):
        pooled(np.ones(3) / 3, 10, 1)


def test_counts_that_a_fit_leaves_nothing_to_are_those_of_a_linear_program():
    """Σ p(K) on pools, ΣK and ΣK² of the data: what else may p be?"""
    linprog = pytest.importorskip("scipy.optimize").linprog
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(4, 9))
        shares = rng.random(n + 1) * (rng.random(n + 1) < 0.6)
        shares[:3] += 0.1
        shares /= shares.sum()
        pools = (3, *np.flatnonzero(rng.random(n - 3) < 0.5) + 4)
        starts = np.array([0, 1, 2, *pools])
        own = np.searchsorted(starts, np.arange(n + 1), side="right") - 1
        k = np.arange(n + 1.0)
        matched = np.vstack([own == np.arange(len(starts))[:, None], k, k**2])
        possible = [
            linprog(-np.eye(n + 1)[count], A_eq=matched, b_eq=matched @ shares).fun < -1e-9
            for count in range(n + 1)
        ]
        unseen = unseen_counts(shares, tuple(starts.tolist()))
        assert all(possible) == (not len(unseen))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weights": WEIGHTS + np.eye(4)}, ModelError, "zero diagonal"),
        ({"weights": np.triu(WEIGHTS)}, ModelError, "symmetric"),
        ({"potential": POTENTIAL[:4]}, ShapeError, r"potential must have shape \(5,\)"),
        ({"potential": [0, 0, 0, -np.inf, 0]}, ModelError, r"V\(3\) = -inf.*pooled"),
        ({"potential": POTENTIAL, "pools": (3,)}, ModelError, "one number in the pool K = 3 … 4"),
        ({"pools": (2, 3)}, ModelError, "increasing counts from 3 on"),
        ({"pools": (3, 5)}, ModelError, "increasing counts from 3 on"),
        ({"biases": [np.nan, 0, 0, 0]}, ModelError, "finite"),
        ({"names": ["a", "a", "b", "c"]}, NamesError, "a"),
    ],
)
def test_wrong_numbers_are_refused_by_a_sentence(change, error, message):
    arguments = {"weights": WEIGHTS, "biases": BIASES, "potential": POTENTIAL} | change
    with pytest.raises(error, match=message):
        ebm.KPairwiseModel(**arguments)


def test_a_sparse_matrix_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ModelError, match="toarray"):
        ebm.KPairwiseModel(sparse.csr_array(WEIGHTS), BIASES, POTENTIAL)


@pytest.mark.parametrize("pools", [3, "34", [[3, 4]], {3: 4}])
def test_pools_that_are_no_list_of_counts_are_refused(pools):
    with pytest.raises(ShapeError, match="pools must be a list of counts"):
        ebm.KPairwiseModel(np.zeros((4, 4)), np.zeros(4), np.zeros(5), pools)
