"""Incomplete rows filled in by a model, against the table of all states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.effective import CompletedRows, completed_rows
from ebm.errors import CodingError, EnumerationLimitError, ModelError, NamesError
from tests import oracles, strategies
from tests.test_marginal_parameters import (
    MODELS,
    FormAndGradient,
    GradientAlone,
    boltzmann,
    curved,
    sines,
)


def holes(model, n_rows=12, share=0.4, seed=0):
    """Rows drawn from a model with cells removed, a row that shows nothing among them."""
    rng = np.random.default_rng(seed)
    rows = np.array(ebm.exact(model).sample(n_rows, rng=rng), dtype=float)
    rows[rng.random(rows.shape) < share] = np.nan
    rows[0] = np.nan
    rows[1, 0] = model.space.values_of(0)[0] if np.isnan(rows[1]).all() else rows[1, 0]
    weights = 1.0 + np.arange(n_rows)
    return ebm.IncompleteEnsemble.from_data(rows, space=model.space, sample_weight=weights)


def completions(model, data):
    """Of each row its weight, all states that agree with it and their shares, by the table."""
    states = oracles.all_states(model.space)
    energies = np.asarray(model.energy(states))
    for levels, weight in zip(data.levels, data.weights, strict=True):
        seen = levels >= 0
        values = data.space.states(np.maximum(levels, 0))
        agree = (states[:, seen] == values[seen]).all(axis=1) & np.isfinite(energies)
        shares = np.exp(-energies[agree] + energies[agree].min())
        yield weight, states[agree], shares / shares.sum(), energies[agree]


def pairwise():
    return ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5)).with_parameters(sines(15, 1.0))


def spins():
    return ebm.IsingModel(np.zeros((5, 5)), np.zeros(5)).with_parameters(sines(15, 1.0))


def levels():
    return ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3))).with_parameters(sines(18, 1.0))


def machine():
    model = ebm.RestrictedBoltzmannMachine(np.zeros((4, 2)), np.zeros(4), np.zeros(2))
    return model.with_parameters(sines(14, 1.0))


def table():
    return ebm.TabularModel.from_probabilities(
        np.array([0.1, 0.2, 0.0, 0.3, 0.0, 0.15, 0.25, 0.0]), ebm.Binary(3)
    )


FAMILIES = [pairwise, spins, levels, machine, *MODELS]


@pytest.mark.parametrize("make", [*FAMILIES, table])
def test_the_mean_effective_energy_is_that_of_the_rows_as_they_are(make):
    """E_D[−ln Σ_m exp(−E)], states that are forbidden left out."""
    model = make()
    data = holes(model)
    expected = sum(
        weight * -(np.log(np.exp(-e + e.min()).sum()) - e.min())
        for weight, _, _, e in completions(model, data)
    )
    assert CompletedRows(model, data).mean_energy == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("make", [*FAMILIES, table])
def test_averages_are_those_of_the_completions(make):
    """Any observable, and means and covariances of features."""
    model = make()
    data = holes(model)
    completed = CompletedRows(model, data)
    parts = list(completions(model, data))
    features = [(weight * p, model.space.features(x)) for weight, x, p, _ in parts]
    shares = np.concatenate([p for p, _ in features])
    f = np.concatenate([x for _, x in features])
    mean = shares @ f
    moments = completed.moments()
    np.testing.assert_allclose(moments.mean, mean, atol=1e-13)
    np.testing.assert_allclose(
        moments.covariance, (f - mean).T @ ((f - mean) * shares[:, None]), atol=1e-13
    )
    squares = completed.expectation(lambda x: x.sum(axis=1) ** 2)
    expected = sum(w * p @ x.sum(axis=1) ** 2 for w, x, p, _ in parts)
    assert squares == pytest.approx(expected, rel=1e-12)
    assert completed.sample_size == data.sample_size


@pytest.mark.parametrize("make", FAMILIES)
def test_missing_information_is_the_covariance_inside_of_rows(make):
    """E_D[Cov(∂E | x_o)], not the covariance over completions of all rows."""
    model = make()
    data = holes(model)
    inside = overall = 0
    for weight, x, p, _ in completions(model, data):
        slopes = np.asarray(model.energy_gradient(x))
        mean = p @ slopes
        inside = inside + weight * (slopes.T @ (slopes * p[:, None]) - np.outer(mean, mean))
        overall = overall + weight * slopes.T @ (slopes * p[:, None])
    found = CompletedRows(model, data).missing_information()
    np.testing.assert_allclose(found, inside, atol=1e-12)
    assert np.abs(found - overall).max() > 1e-3


def test_a_unit_without_values_is_one_that_is_summed_out():
    """A column of missing cells is a hidden unit: the marginal of the others."""
    joint = boltzmann().model
    marginal = ebm.marginalize(joint, [0, 1, 2])
    rows = ebm.exact(marginal).sample(40, rng=0).astype(float)
    holed = np.hstack([rows, np.full((40, 3), np.nan)])
    completed = CompletedRows(joint, ebm.IncompleteEnsemble.from_data(holed))
    seen = ebm.Ensemble.from_data(rows)
    assert completed.mean_energy == pytest.approx(float(seen.expectation(marginal.energy)))
    np.testing.assert_allclose(
        joint.mean_energy_gradient(completed), marginal.mean_energy_gradient(seen), atol=1e-12
    )
    hessian = -completed.missing_information()
    np.testing.assert_allclose(hessian, marginal.mean_energy_hessian(seen), atol=1e-12)


def test_rows_without_missing_cells_are_the_data():
    """Nothing is filled in, and no information is missing."""
    model = pairwise()
    rows = ebm.exact(model).sample(30, rng=0)
    completed = CompletedRows(model, ebm.IncompleteEnsemble.from_data(rows))
    data = ebm.Ensemble.from_data(rows)
    np.testing.assert_allclose(completed.moments().covariance, data.moments().covariance)
    assert not completed.missing_information().any()


@pytest.mark.parametrize("make", [pairwise, spins, levels])
def test_products_of_matrices_agree_with_lists(make, monkeypatch):
    """Rows that lack many cells are summed as the model given what they show."""
    model = make()
    data = holes(model)
    listed = CompletedRows(model, data)
    expected = listed.mean_energy, listed.moments(), listed.missing_information()
    monkeypatch.setattr(completed_rows, "MOST_LISTED", 3)
    by_products = CompletedRows(model, data)
    assert len(by_products._long) > 1
    assert by_products.mean_energy == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_allclose(by_products.moments().mean, expected[1].mean, atol=1e-12)
    np.testing.assert_allclose(by_products.moments().covariance, expected[1].covariance, atol=1e-12)
    np.testing.assert_allclose(by_products.missing_information(), expected[2], atol=1e-12)
    total = sum(weights.sum() for _, weights in by_products.blocks())
    assert total == pytest.approx(1, rel=1e-12)


def test_blocks_of_a_few_rows_change_nothing(monkeypatch):
    """Batches end where they are full."""
    model = levels()
    data = holes(model, n_rows=30)
    whole = CompletedRows(model, data)
    expected = whole.mean_energy, whole.missing_information()
    monkeypatch.setattr(completed_rows, "CHUNK", 40)
    parts = CompletedRows(model, data)
    assert len(parts._batches) > 5
    assert parts.mean_energy == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(parts.missing_information(), expected[1], atol=1e-13)


@settings(max_examples=10, deadline=None)
@given(model=strategies.pairwise_models(min_units=2, max_units=5), seed=st.integers(0, 99))
def test_the_slope_of_the_effective_energy_is_a_mean_over_completions(model, seed):
    """Fisher's identity, row by row: ∂E_D[E_o] = E_D E[∂E | x_o]."""
    data = holes(model, n_rows=6, seed=seed)

    def energy(theta):
        return CompletedRows(model.with_parameters(theta), data).mean_energy

    slopes = model.mean_energy_gradient(CompletedRows(model, data))
    differences = oracles.finite_difference(energy, model.parameters)
    np.testing.assert_allclose(slopes, differences, atol=1e-7)


def test_large_weights_leave_sharp_shares():
    """Differences of energies decide, however large the energies are."""
    weights = 1e12 * np.array([[0, 1.0], [1.0, 0]])
    model = ebm.BoltzmannMachine(weights, [0.3, 0.2 - 1e12])
    data = ebm.IncompleteEnsemble.from_data([[1, None], [None, 0]])
    states = {
        tuple(x): w
        for block in CompletedRows(model, data).blocks()
        for x, w in zip(map(tuple, block[0]), block[1], strict=True)
    }
    assert states[1.0, 1.0] == pytest.approx(0.5 / (1 + np.exp(-0.2)), abs=1e-3)


@pytest.mark.parametrize("kind", [GradientAlone, FormAndGradient])
def test_a_users_model_is_filled_in_as_one_of_the_library(kind):
    """With energies and derivatives alone, or with a form."""
    model = pairwise()
    data = holes(model)
    own, known = CompletedRows(kind(model), data), CompletedRows(model, data)
    assert own.mean_energy == pytest.approx(known.mean_energy, rel=1e-12)
    np.testing.assert_allclose(own.missing_information(), known.missing_information(), atol=1e-12)


def test_rows_that_a_model_forbids_are_named():
    """What was seen, and that no value of the missing cells is allowed."""
    rows = [[2, 0, None], [0, None, 1], [0, 0, 1]]
    data = ebm.IncompleteEnsemble.from_data(rows, space=ebm.Levels(3, 3))
    with pytest.raises(ModelError, match=r"forbids the row \(2, 0, missing\)"):
        CompletedRows(curved().model, data).mean_energy  # noqa: B018


def test_too_many_completions_are_refused_before_any_work():
    """A model that is no form is visited state by state."""
    model = GradientAlone(ebm.BoltzmannMachine(np.zeros((40, 40)), np.zeros(40)))
    rows = np.full((50, 40), np.nan)
    rows[:, 0] = 1
    data = ebm.IncompleteEnsemble.from_data(rows)
    with pytest.raises(EnumerationLimitError, match="completions of one row"):
        CompletedRows(model, data)


def test_other_units_are_refused():
    """Coding, order of names, and rows that are complete ensembles."""
    model = ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2), names=["a", "b"])
    rows = [[0, None], [1, 1]]
    with pytest.raises(NamesError):
        CompletedRows(model, ebm.IncompleteEnsemble.from_data(rows, names=["b", "a"]))
    spin_rows = ebm.IncompleteEnsemble.from_data([[1, None], [-1, 1]], space=ebm.Spins)
    with pytest.raises(CodingError):
        CompletedRows(model, spin_rows)
    with pytest.raises(ModelError, match="incomplete rows are wanted"):
        CompletedRows(model, ebm.Ensemble.from_data([[0, 1], [1, 0]]))
