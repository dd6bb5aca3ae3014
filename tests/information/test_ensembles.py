"""Fisher information over samples and of many parameters, and of layers seen and hidden."""

import numpy as np
import pytest
from hypothesis import assume, given, settings

import ebm
from ebm.errors import EbmError, MemoryLimitError, ModelError
from ebm.information import EnsembleInformation, FisherInformation, JointInformation
from tests import oracles, strategies
from tests.user_models import TwoMembers


def restricted(n=4, m=3, scale=0.8, seed=0):
    rng = np.random.default_rng(seed)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, scale, (n, m)),
        rng.normal(0, 0.5, n),
        rng.normal(0, 0.5, m),
        visible_center=rng.uniform(0, 1, n),
        hidden_center=rng.uniform(0, 1, m),
    )


class TestStreaming:
    @given(strategies.pairwise_models(min_units=2, max_units=4) | strategies.interaction_models())
    @settings(max_examples=25)
    def test_products_equal_those_of_the_matrix(self, model):
        assume(len(model.parameters))
        exact = ebm.exact(model)
        streamed, dense = EnsembleInformation(model, exact), ebm.fisher_information(exact).dense()
        v = np.random.default_rng(0).normal(size=len(dense))
        scale = 1e-12 * (1 + np.abs(v).sum())
        np.testing.assert_allclose(streamed.matvec(v), dense @ v, rtol=1e-9, atol=scale)
        np.testing.assert_allclose(streamed.diagonal(), dense.diagonal(), rtol=1e-9, atol=1e-13)

    @given(strategies.potts_models(max_units=3) | strategies.restricted_machines(4, 3))
    @settings(max_examples=30)
    def test_of_levels_and_layers(self, model):
        exact = ebm.exact(model)
        streamed, dense = EnsembleInformation(model, exact), ebm.fisher_information(exact).dense()
        v = np.random.default_rng(0).normal(size=len(dense))
        np.testing.assert_allclose(streamed.matvec(v), dense @ v, rtol=1e-9, atol=1e-11)

    def test_a_direction_that_changes_nothing(self):
        model = ebm.IsingModel([[0.0]], [0.3])
        assert (EnsembleInformation(model, ebm.exact(model)).matvec([0.0]) == 0).all()

    def test_many_parameters_over_samples(self):
        # 60 × 40 weights from 300 states: a matrix of 46 MiB is not made, nor 300 × 2500 numbers.
        machine = restricted(60, 40, 0.1)
        samples = ebm.sample(machine, n_draws=75, n_chains=4, rng=1)
        metric = ebm.fisher_information(machine, samples)
        assert isinstance(metric, EnsembleInformation)
        states = samples.chains.reshape(-1, 60).astype(float)
        g = machine.energy_gradient(states)
        g -= g.mean(axis=0)
        v = np.random.default_rng(0).normal(size=len(machine.parameters))
        np.testing.assert_allclose(metric.matvec(v), g.T @ (g @ v) / 300, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(metric.diagonal(), (g**2).mean(axis=0), rtol=1e-10)
        # Woodbury's formula for the inverse of a damped matrix of rank 300.
        small = g @ g.T / 300 + 0.01 * np.eye(300)
        wanted = (v - g.T @ np.linalg.solve(small, g @ v) / 300) / 0.01
        np.testing.assert_allclose(metric.solve(v, 0.01), wanted, rtol=1e-6, atol=1e-6)
        volume = np.linalg.slogdet(small)[1] + (len(v) - 300) * np.log(0.01)
        assert metric.log_determinant(0.01) == pytest.approx(volume, rel=1e-12)

    def test_dense_of_too_many_is_refused_with_both_numbers(self):
        machine = restricted(200, 150)
        rows = ebm.Ensemble.from_data(np.eye(200))
        metric = ebm.fisher_information(machine, rows)
        text = r"30350 parameters would take 6\.86 GiB, the limit is 4 GiB: use its products"
        for call in (metric.dense, metric.log_determinant):
            with pytest.raises(MemoryLimitError, match=text):
                call()
        assert np.isfinite(metric.matvec(np.ones(30350))).all()

    def test_samples_agree_with_the_exact_one_within_their_errors(self):
        # Products of centered derivatives, averaged over independent draws: normal errors.
        machine = restricted()
        exact, n = ebm.exact(machine), 20_000
        states = exact.sample(n, rng=3)
        found = ebm.fisher_information(machine, ebm.Ensemble.from_data(states)).dense()
        wanted = ebm.fisher_information(machine).dense()
        g = machine.energy_gradient(states) - machine.mean_energy_gradient(exact)
        products = np.einsum("ri,rj->rij", g, g)
        errors = products.std(axis=0) / np.sqrt(n)
        assert (np.abs(found - wanted) < 6 * errors + 1e-12).all()
        assert (np.abs(found - wanted) > 0.3 * errors).mean() > 0.5


class UserModel(ebm.ParametricModel):
    """Two parameters, and whatever gradient a user wrote."""

    space = ebm.Binary(3)
    parameters = np.array([0.1, 0.2])

    def __init__(self, gradient):
        self.gradient = gradient

    def with_parameters(self, values):
        raise NotImplementedError

    def energy(self, states):
        return np.asarray(states, dtype=float)[..., :2] @ np.array([0.1, 0.2])

    def energy_gradient(self, states):
        return self.gradient(np.asarray(states, dtype=float)[..., :2])


class TestGradientsOfUsers:
    @pytest.mark.parametrize(
        "gradient", [lambda x: x.tolist(), lambda x: x.astype(np.int8), lambda x: x.astype(object)]
    )
    def test_numbers_of_any_type(self, gradient):
        found = ebm.fisher_information(UserModel(gradient))
        wanted = ebm.fisher_information(UserModel(lambda x: x)).dense()
        assert found.diagonal().dtype == np.float64
        np.testing.assert_array_equal(found.dense(), wanted)
        np.testing.assert_allclose(found.diagonal(), wanted.diagonal(), rtol=1e-13)

    @pytest.mark.parametrize(
        ("gradient", "message"),
        [
            (lambda x: x[..., :1], r"must return shape \(1, 2\).*got \(1, 1\)"),
            (lambda x: x[..., 0], r"must return shape \(1, 2\).*got \(1,\)"),
            (lambda x: x.T, r"must return shape \(1, 2\).*got \(2, 1\)"),
            (lambda x: None, r"must return shape \(1, 2\).*got \(\)"),
            (lambda x: "x", "must hold numbers"),
            (lambda x: x + 0j, "must hold real numbers"),
            (lambda x: x * np.nan, "must be finite, got nan"),
            (lambda x: np.where(x > 0, np.inf, 0), "must be finite, got inf"),
        ],
    )
    def test_others_are_named(self, gradient, message):
        with pytest.raises(EbmError, match=f"UserModel.energy_gradient {message}"):
            ebm.fisher_information(UserModel(gradient))

    def test_no_parameters(self):
        model = UserModel(lambda x: x[..., :0])
        model.parameters = np.zeros(0)
        with pytest.raises(ModelError, match="this UserModel has no parameters"):
            ebm.fisher_information(model)


class TestLayersSeenAndHidden:
    @given(strategies.restricted_machines(3, 3))
    @settings(max_examples=25)
    def test_joint_is_the_covariance_over_both_layers(self, rbm):
        joint = rbm.joint()
        i, j = joint.pairs
        across = np.flatnonzero((i < rbm.n) & (j >= rbm.n))
        kept = np.concatenate([np.arange(joint.n), joint.n + across])
        wanted = ebm.fisher_information(joint).dense()[np.ix_(kept, kept)]
        found = ebm.fisher_information(rbm, joint=True).dense()
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-11)

    def test_no_matrix_is_made_unless_asked(self, monkeypatch):
        """Products, diagonal and trace of both layers need none."""
        found = ebm.fisher_information(restricted(), joint=True)
        wanted = ebm.fisher_information(restricted(), joint=True).dense()
        with monkeypatch.context() as patch:
            patch.setattr(EnsembleInformation, "_matrix", None)
            patch.setattr(JointInformation, "_matrix", None)
            products = found.matmat(np.eye(len(wanted)))
            np.testing.assert_allclose(found.diagonal(), wanted.diagonal(), rtol=1e-12)
        np.testing.assert_allclose(products, wanted, atol=1e-12)
        found.solve(np.ones(len(wanted)), 0.1)
        np.testing.assert_allclose(found.matmat(np.eye(len(wanted))), wanted, atol=1e-12)

    def test_the_visible_one_is_smaller(self):
        rbm = restricted()
        seen, both = (ebm.fisher_information(rbm, joint=joint) for joint in (False, True))
        assert 0.2 < seen.trace() / both.trace() < 0.9
        assert np.linalg.eigvalsh(both.dense() - seen.dense()).min() > -1e-12

    def test_over_samples(self):
        rbm = restricted()
        rows = ebm.Ensemble.from_data(ebm.exact(rbm).sample(200, rng=0))
        found = ebm.fisher_information(rbm, rows, joint=True).dense()
        # E over the rows and over all hidden states given each.
        hidden = ebm.Binary(3).states_at(np.arange(8))
        total = first = 0.0
        for v, share in zip(rows.states.astype(float), rows.weights, strict=True):
            p1 = rbm.hidden_conditional(v)
            for h in hidden:
                p = share * np.prod(np.where(h == 1, p1, 1 - p1))
                outer = np.outer(v - rbm.visible_center, h - rbm.hidden_center)
                g = -np.concatenate([v, h, outer.ravel()])
                total, first = total + p * np.outer(g, g), first + p * g
        np.testing.assert_allclose(found, total - np.outer(first, first), atol=1e-13)

    def test_models_without_hidden_units(self):
        model = ebm.IsingModel(np.zeros((2, 2)), [0.1, 0.2])
        with pytest.raises(ModelError, match=r"IsingModel has no hidden units.*leave joint out"):
            ebm.fisher_information(model, joint=True)


def test_over_chains_too_short_for_error_bars():
    model = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0.5, -0.5])
    samples = ebm.sample(model, n_draws=1, n_chains=500, rng=0)
    rows = ebm.Ensemble.from_data(samples.chains[:, 0])
    found, wanted = (ebm.fisher_information(model, average) for average in (samples, rows))
    np.testing.assert_allclose(found.dense(), wanted.dense(), atol=1e-14)


class TestMarginals:
    @given(strategies.pairwise_models(min_units=3, max_units=4))
    @settings(max_examples=8)
    def test_scores_of_what_is_kept(self, model):
        keep = [2, 0]
        found = ebm.fisher_information(ebm.marginalize(model, keep)).dense()

        def log_p(theta):
            return np.log(
                oracles.distribution(ebm.marginalize(model.with_parameters(theta), keep))[1]
            )

        p = np.exp(log_p(model.parameters))
        theta = model.parameters
        scores = np.array(
            [oracles.finite_difference(lambda t, k=k: log_p(t)[k], theta) for k in range(len(p))]
        )
        wanted = scores.T @ (scores * p[:, None])
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)

    def test_of_both_layers_is_that_of_the_restricted_machine(self):
        rbm = restricted()
        joint = rbm.joint()
        i, j = joint.pairs
        across = np.flatnonzero((i < rbm.n) & (j >= rbm.n))
        kept = np.concatenate([np.arange(joint.n), joint.n + across])
        found = ebm.fisher_information(ebm.marginalize(joint, range(4)), ebm.exact(joint))
        wanted = ebm.fisher_information(rbm).dense()
        np.testing.assert_allclose(found.dense()[np.ix_(kept, kept)], wanted, atol=1e-12)

    def test_joint(self):
        model = restricted().joint()
        found = ebm.fisher_information(ebm.marginalize(model, [0, 1]), joint=True)
        assert isinstance(found, FisherInformation)
        np.testing.assert_array_equal(found.dense(), ebm.fisher_information(model).dense())

    def test_of_a_model_without_parameters(self):
        marginal = ebm.marginalize(TwoMembers(restricted().joint()), [0, 1])
        with pytest.raises(ModelError, match="MarginalModel has no parameters"):
            ebm.fisher_information(marginal)
