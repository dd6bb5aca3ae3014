"""The page on other programs: what runs in Python agrees with them, number by number."""

import numpy as np
import pytest

import ebm

NAMES = ["a", "b", "c", "d"]


def glass(seed, n=4):
    rng = np.random.default_rng(seed)
    couplings = np.triu(rng.normal(0, 0.8, (n, n)), 1)
    return ebm.IsingModel(couplings + couplings.T, rng.normal(0, 0.5, n), offset=0.7, names=NAMES)


def pairs(model):
    """Couplings of an Ising model, each pair once."""
    return {(NAMES[i], NAMES[j]): model.couplings[i, j] for i, j in zip(*model.pairs, strict=True)}


def test_dimod_has_the_opposite_sign_and_counts_a_pair_once():
    dimod = pytest.importorskip("dimod", reason="compared with dimod")
    model = glass(0)
    h = dict(zip(NAMES, -model.fields, strict=True))
    J = {pair: -coupling for pair, coupling in pairs(model).items()}
    there = dimod.BinaryQuadraticModel(h, J, model.offset, "SPIN")
    states = ebm.exact(model).states
    np.testing.assert_allclose(there.energies((states, NAMES)), model.energy(states), rtol=1e-12)

    there.change_vartype("BINARY", inplace=True)
    binary = model.to_binary()
    assert there.offset == pytest.approx(binary.offset)
    np.testing.assert_allclose([-there.linear[name] for name in NAMES], binary.biases)
    weights = [-there.get_quadratic(*pair) for pair in pairs(model)]
    np.testing.assert_allclose(weights, binary.parameters[4:])


def test_the_machine_of_scikit_learn_is_the_transposed_one():
    neural_network = pytest.importorskip("sklearn.neural_network", reason="compared with sklearn")
    rows = (np.random.default_rng(1).random((60, 6)) < 0.4).astype(float)
    there = neural_network.BernoulliRBM(3, n_iter=5, random_state=0).fit(rows)
    machine = ebm.RestrictedBoltzmannMachine(
        there.components_.T, there.intercept_visible_, there.intercept_hidden_
    )
    np.testing.assert_allclose(machine.hidden_conditional(rows), there.transform(rows), rtol=1e-12)
    np.testing.assert_allclose(machine.energy(rows), there._free_energy(rows), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:'penalty' was deprecated:FutureWarning")
@pytest.mark.parametrize("strength", [0.01, 0.03])
def test_a_regression_by_itself_is_that_of_scikit_learn(strength):
    """L1 of the mean log-likelihood without scaling of predictors, joined as IsingFit joins.

    Inputs at the means of the data stay as they were, for which biases follow the joined slopes.
    """
    linear_model = pytest.importorskip("sklearn.linear_model", reason="compared with sklearn")
    truth = glass(2).to_binary()
    rows = ebm.exact(truth).sample(500, rng=3)
    slopes, intercepts = np.zeros((4, 4)), np.zeros(4)
    for unit in range(4):
        others = np.arange(4) != unit
        regression = linear_model.LogisticRegression(
            penalty="elasticnet", l1_ratio=1, C=1 / (strength * 500), solver="saga", tol=1e-7
        ).set_params(max_iter=10_000)
        regression.fit(rows[:, others], rows[:, unit])
        slopes[unit, others], intercepts[unit] = regression.coef_[0], regression.intercept_[0]
    joined = np.where((slopes != 0) & (slopes.T != 0), (slopes + slopes.T) / 2, 0)

    start = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4), names=NAMES)
    loss = ebm.inversion.Pseudolikelihood(node_wise=True, rule="and")
    result = ebm.fit(start, rows, loss=loss, penalty=ebm.Penalty(l1=strength))
    np.testing.assert_allclose(result.model.weights, joined, atol=1e-4)
    biases = intercepts + (slopes - joined) @ rows.mean(axis=0)
    np.testing.assert_allclose(result.model.biases, biases, atol=1e-4)
    assert np.abs(biases - intercepts).max() > 0.05


def test_multipliers_of_coniii_are_the_parameters():
    """E = −Σ h s − Σ_{i<j} J s s, written as the loops over the vector (h, J) that it describes."""
    model = glass(4)
    states = ebm.exact(model).states
    fields, couplings = model.parameters[:4], iter(model.parameters[4:])
    energies = -states @ fields
    for i in range(3):
        for j in range(i + 1, 4):
            energies -= next(couplings) * states[:, i] * states[:, j]
    np.testing.assert_allclose(energies + model.offset, model.energy(states), rtol=1e-12)


def test_factors_of_the_maxent_toolbox_have_the_opposite_sign():
    """Its independent model of rates p has the factors −ln p/(1−p) and z = Σ ln(1−p)."""
    rates = np.array([0.1, 0.3, 0.8])
    factors, z = -np.log(rates / (1 - rates)), np.log(1 - rates).sum()
    model = ebm.BoltzmannMachine(np.zeros((3, 3)), -factors)
    ensemble = ebm.exact(model)
    np.testing.assert_allclose(ensemble.moments().mean, rates, rtol=1e-12)
    assert -ensemble.log_partition == pytest.approx(z, rel=1e-12)


def test_layers_of_the_package_for_julia():
    """½γh² − θh over all h, or h ≥ 0: the same integrals Γ of inputs."""
    grid = np.linspace(-40, 40, 400_001)
    for unit, values in ((ebm.units.Gaussian(1.7), grid), (ebm.units.ReLU(1.7), grid[grid >= 0])):
        for total in (-1.2, 0.4, 2.0):
            weights = np.exp(total * values - 1.7 * values**2 / 2)
            gamma = np.log(np.trapezoid(weights, values))
            assert float(unit.log_partition(total)) == pytest.approx(gamma, abs=1e-8)
