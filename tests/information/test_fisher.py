"""F = Cov[∂E/∂θ] = Hessian of ln Z, and the operator that holds it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator, cg

import ebm
from ebm.errors import CodingError, EbmError, ModelError, NamesError, ShapeError
from ebm.information import FisherInformation
from tests import oracles, strategies
from tests.user_models import TwoMembers


def small_machine(n=4, **options):
    rng = np.random.default_rng(n)
    return ebm.BoltzmannMachine(rng.normal(size=(n, n)), rng.normal(size=n), **options)


class TestDefinition:
    @given(strategies.pairwise_models())
    def test_is_the_covariance_of_the_energy_gradient(self, model):
        fisher = ebm.fisher_information(model).dense()
        expected = oracles.covariance(model, model.energy_gradient)
        np.testing.assert_allclose(fisher, expected, rtol=1e-9, atol=1e-11)

    @given(strategies.pairwise_models(min_units=2, max_units=4))
    @settings(max_examples=15)
    def test_is_the_hessian_of_log_partition(self, model):
        def log_partition(theta):
            return oracles.distribution(model.with_parameters(theta))[0]

        fisher = ebm.fisher_information(model).dense()
        theta = model.parameters
        for k in range(len(theta)):

            def slope(t, k=k):
                change = np.zeros_like(t)
                change[k] = 1e-4
                return (log_partition(t + change) - log_partition(t - change)) / 2e-4

            row = oracles.finite_difference(slope, theta, step=1e-4)
            np.testing.assert_allclose(fisher[k], row, atol=3e-5 * (1 + abs(fisher[k]).max()))

    def test_is_the_curvature_of_the_loss_over_any_data(self):
        # Affine energies: the Hessian of −ln p does not see the data.
        model = small_machine(3)
        rows = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 0]])
        fisher = ebm.fisher_information(model).dense()
        for k in range(len(fisher)):

            def slope(t, k=k):
                change = np.zeros_like(t)
                change[k] = 1e-4
                forth, back = (
                    oracles.mean_log_likelihood(model.with_parameters(t + sign * change), rows)
                    for sign in (1, -1)
                )
                return -(forth - back) / 2e-4

            row = oracles.finite_difference(slope, model.parameters, step=1e-4)
            np.testing.assert_allclose(fisher[k], row, atol=1e-5)

    def test_sparse_family_has_only_its_own_parameters(self):
        pattern = sparse.csr_array(np.diag([1.0, -0.5, 2.0], 1) + np.diag([1.0, -0.5, 2.0], -1))
        model = ebm.IsingModel(pattern, [0.1, 0.2, -0.3, 0.4])
        fisher = ebm.fisher_information(model)
        assert fisher.shape == (7, 7)
        expected = oracles.covariance(model, model.energy_gradient)
        np.testing.assert_allclose(fisher.dense(), expected, rtol=1e-10, atol=1e-13)

    @given(strategies.generators())
    @settings(max_examples=20)
    def test_families_that_are_not_pairwise(self, rng):
        def features(x):
            return np.stack([x[..., 0], x.prod(axis=-1), x.sum(axis=-1) ** 2], axis=-1)

        model = oracles.LinearFamily(ebm.Levels(3, 3), features, rng.normal(0, 0.3, 3))
        fisher = ebm.fisher_information(model).dense()
        expected = oracles.covariance(model, model.energy_gradient)
        np.testing.assert_allclose(fisher, expected, rtol=1e-10, atol=1e-12)

    def test_over_another_average(self):
        model = small_machine(3)
        rows = np.random.default_rng(0).integers(0, 2, (50, 3))
        data = ebm.Ensemble.from_data(rows)
        fisher = ebm.fisher_information(model, data).dense()
        expected = np.cov(model.energy_gradient(rows).T, ddof=0)
        np.testing.assert_allclose(fisher, expected, rtol=1e-12, atol=1e-14)

    def test_over_the_exact_ensemble_of_another_member(self):
        model, other = small_machine(3), small_machine(3).scaled(0.5)
        fisher = ebm.fisher_information(model, ebm.exact(other)).dense()
        expected = oracles.covariance(other, model.energy_gradient)
        np.testing.assert_allclose(fisher, expected, rtol=1e-10, atol=1e-13)

    @given(strategies.boltzmann_machines(min_units=2, max_units=5), strategies.generators())
    def test_determinant_does_not_depend_on_the_center(self, model, rng):
        # A change of center is a shear of the parameters.
        one = ebm.fisher_information(model)
        other = ebm.fisher_information(model.recentered(rng.normal(size=model.n)))
        signs, logs = zip(*(np.linalg.slogdet(f.dense()) for f in (one, other)), strict=True)
        if min(logs) > -15:
            assert signs == (1, 1)
            assert logs[0] == pytest.approx(logs[1], abs=1e-5)

    def test_of_an_ensemble_at_hand(self):
        model = small_machine()
        ensemble = ebm.exact(model)
        np.testing.assert_array_equal(
            ebm.fisher_information(ensemble).dense(), ebm.fisher_information(model).dense()
        )


class TestOperator:
    @pytest.fixture
    def fisher(self):
        return ebm.fisher_information(small_machine(4))

    def test_products_and_solutions(self, fisher):
        dense = fisher.dense()
        v = np.random.default_rng(0).normal(size=fisher.shape[0])
        np.testing.assert_allclose(fisher.matvec(v), dense @ v, rtol=1e-13)
        np.testing.assert_allclose(dense @ fisher.solve(v), v, rtol=1e-9)
        damped = dense + 0.3 * np.eye(len(dense))
        np.testing.assert_allclose(damped @ fisher.solve(v, damping=0.3), v, rtol=1e-12)
        many = np.random.default_rng(1).normal(size=(len(dense), 3))
        np.testing.assert_allclose(damped @ fisher.solve(many, damping=0.3), many, rtol=1e-12)

    def test_trace_diagonal_determinant(self, fisher):
        dense = fisher.dense()
        assert fisher.trace() == pytest.approx(np.trace(dense), rel=1e-14)
        np.testing.assert_array_equal(fisher.diagonal(), np.diag(dense))
        assert fisher.log_determinant() == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-10)
        damped = np.linalg.slogdet(dense + 2 * np.eye(len(dense)))[1]
        assert fisher.log_determinant(damping=2.0) == pytest.approx(damped, rel=1e-12)

    def test_is_a_scipy_operator(self, fisher):
        v = np.arange(1.0, fisher.shape[0] + 1)
        operator = aslinearoperator(fisher)
        np.testing.assert_allclose(operator @ v, fisher.matvec(v))
        np.testing.assert_allclose(operator.T @ v, fisher.matvec(v))
        solution, failed = cg(operator, v, rtol=1e-12, maxiter=500)
        assert not failed
        np.testing.assert_allclose(solution, fisher.solve(v), rtol=1e-5)

    def test_copies_out(self, fisher):
        before = fisher.dense()
        fisher.dense()[:] = 0
        fisher.diagonal()[:] = 0
        np.testing.assert_array_equal(fisher.dense(), before)

    def test_matrix_given_is_copied(self):
        matrix = np.eye(2)
        fisher = FisherInformation(matrix)
        matrix[0, 0] = 5
        assert fisher.trace() == 2
        with pytest.raises(ShapeError, match="square"):
            FisherInformation(np.ones((2, 3)))


class TestSingular:
    def test_exactly(self):
        fisher = FisherInformation(np.outer([1.0, 2.0], [1.0, 2.0]))
        for call in (lambda: fisher.solve([1.0, 0.0]), fisher.log_determinant):
            with pytest.raises(EbmError, match=r"singular.*raise damping \(now 0\)"):
                call()
        damped = fisher.dense() + 0.1 * np.eye(2)
        np.testing.assert_allclose(
            damped @ fisher.solve([1.0, 0.0], damping=0.1), [1, 0], atol=1e-12
        )

    def test_to_working_precision(self):
        # Couplings of 60: the units are one unit.
        model = ebm.IsingModel(60 * (1 - np.eye(3)), [0.1, 0.0, 0.0])
        with pytest.raises(EbmError, match="singular"):
            ebm.fisher_information(model).solve(np.ones(6))

    def test_nearly(self):
        matrix = np.array([[1, 1 - 1e-15], [1 - 1e-15, 1]])
        with pytest.raises(EbmError, match="singular"):
            FisherInformation(matrix).solve([1.0, 1.0])


class TestArguments:
    def test_no_parameters(self):
        with pytest.raises(ModelError, match="TwoMembers has no parameters"):
            ebm.fisher_information(TwoMembers(small_machine()))

    def test_moments_are_no_ensemble(self):
        model = small_machine()
        with pytest.raises(ModelError, match="ensemble of states is wanted, got Moments"):
            ebm.fisher_information(model, ebm.exact(model).moments())

    def test_other_coding(self):
        model = small_machine()
        with pytest.raises(CodingError, match=r"Spins\(n=4"):
            ebm.fisher_information(model, ebm.exact(model.to_spins()))
        with pytest.raises(CodingError):
            ebm.fisher_information(model, ebm.exact(small_machine(3)))

    def test_other_order_of_names(self):
        model, other = small_machine(2, names=["a", "b"]), small_machine(2, names=["b", "a"])
        with pytest.raises(NamesError, match=r"\('b', 'a'\)"):
            ebm.fisher_information(model, ebm.exact(other))

    def test_independent_units_by_hand(self):
        fields = np.array([0.3, -1.0])
        fisher = ebm.fisher_information(ebm.IsingModel(np.zeros((2, 2)), fields)).dense()
        m = np.tanh(fields)
        v = 1 - m**2
        expected = [
            [v[0], 0, v[0] * m[1]],
            [0, v[1], v[1] * m[0]],
            [v[0] * m[1], v[1] * m[0], 1 - (m[0] * m[1]) ** 2],
        ]
        np.testing.assert_allclose(fisher, expected, rtol=1e-13, atol=1e-15)
        assert math.isfinite(ebm.fisher_information(ebm.IsingModel([[0.0]], [0.3])).trace())
