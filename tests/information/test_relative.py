"""Every row of the table of relative metrics, against all answers and their scores."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.errors import CodingError, EbmError, MemoryLimitError, ModelError, ShapeError
from ebm.information import (
    BlockDiagonalInformation,
    Elu,
    Layer,
    LayerInformation,
    Linear,
    Relu,
    Sigmoid,
    Silu,
    SoftmaxLayer,
    Tanh,
    TwoLayers,
    relative_fisher,
)
from tests import oracles, strategies
from tests.information import subsystems


class TestTable:
    @given(subsystems.responses(), st.floats(-1e4, 1e4))
    @settings(max_examples=100)
    def test_one_neuron_at_any_input(self, response, a):
        layer = Layer([[a]], response=response)
        found = relative_fisher(layer, [1.0]).dense()
        subsystems.check_elementwise(found, subsystems.layer_by_answers(layer, [1.0]))

    @given(subsystems.responses(), subsystems.references_and_rows())
    @settings(max_examples=25, deadline=None)
    def test_layers(self, response, drawn):
        rows, x = drawn
        layer = Layer(rows, response=response)
        found = relative_fisher(layer, x).dense()
        wanted = subsystems.layer_by_answers(layer, x)
        # Blocks across units are sums that vanish; the others have one sign.
        m, d = rows.shape
        inside = np.kron(np.eye(m), np.ones((d, d))) > 0
        assert (found[~inside] == 0).all()
        subsystems.check_elementwise(found * inside, wanted * inside)

    @given(subsystems.references_and_rows(max_units=5))
    @settings(max_examples=25, deadline=None)
    def test_softmax_layers(self, drawn):
        rows, x = drawn
        layer = SoftmaxLayer(rows)
        found = relative_fisher(layer, x).dense()
        subsystems.check_elementwise(found, subsystems.layer_by_answers(layer, x))

    def test_by_hand(self):
        x = np.array([1.0, -2.0])
        outer = np.outer(x, x)
        rows = [
            (Tanh(), 1 / np.cosh(1.5) ** 2),
            (Sigmoid(), np.exp(-1.5) / (1 + np.exp(-1.5)) ** 2),
            (Relu(2.0, 0.5, 0.1), (0.1 + 0.9 / (1 + np.exp(0.9 * 1.5 / 0.5))) ** 2 / 4),
            (Relu(1.0, 0.0, 0.1), 0.01),
            (Elu(0.5, 1.7), (1.7 * np.exp(-1.5) / 0.5) ** 2),
            (Linear(0.5), 4.0),
        ]
        for response, nu in rows:
            found = relative_fisher(Layer([[0.5, 1.0]], response=response), x).dense()
            np.testing.assert_allclose(found, nu * outer, rtol=1e-14)

    @pytest.mark.parametrize(
        "response",
        [Tanh(), Sigmoid(), Relu(1.0, 0.3, 0.2), Elu(1.0, 0.7), Silu(), Linear(2.0), Relu(1, 0)],
    )
    def test_slopes_are_those_of_the_means(self, response):
        a = np.linspace(-3.05, 3, 17)
        slopes = (response.mean(a + 1e-6) - response.mean(a - 1e-6)) / 2e-6
        np.testing.assert_allclose(response.slope(a), slopes, atol=1e-9)

    @pytest.mark.parametrize(
        "response", [Relu(1.0, 0.001), Relu(1, 0.5, 0.9), Relu(1.0, 1e-320, 0.1), Elu(), Silu()]
    )
    def test_values_of_large_inputs(self, response):
        a = np.array([-1.7e308, -1e4, -800.0, 0.0, 800.0, 1e4, 1.7e308])
        for values in (response.mean(a), response.slope(a), response.information(a)):
            assert np.isfinite(values).all()
        np.testing.assert_allclose(response.mean(a)[4:], a[4:], rtol=1e-13)
        np.testing.assert_allclose(response.information(a)[4:], 1, rtol=1e-13)

    @pytest.mark.parametrize("response", [Tanh(), Sigmoid()])
    def test_two_values_at_the_largest_inputs(self, response):
        low, high = response.values
        a = np.array([-1.7e308, 1.7e308])
        np.testing.assert_array_equal(response.mean(a), [low, high])
        np.testing.assert_array_equal(response.information(a), [0, 0])

    @pytest.mark.parametrize("response", [Tanh(), Sigmoid(), Relu(2.0), Elu(0.5), Linear(3.0)])
    def test_draws_have_the_mean_and_the_information_stated(self, response):
        # E[(y − f) f′ / Var y]² is the information of all these families.
        a, n = np.array([-0.7, 0.4]), 40_000
        drawn = response.draw(np.tile(a, (n, 1)), np.random.default_rng(0))
        spread = drawn.std(axis=0)
        assert (np.abs(drawn.mean(axis=0) - response.mean(a)) < 5 * spread / np.sqrt(n)).all()
        information = response.slope(a) ** 2 / spread**2
        np.testing.assert_allclose(information, response.information(a), rtol=0.05)


class TestTwoLayers:
    """Against scores see test_autograd."""

    @given(strategies.generators(), st.sampled_from([1.0, 1e2, 1e4]))
    @settings(max_examples=30)
    def test_finite_and_not_negative_anywhere(self, rng, scale):
        for above in (SoftmaxLayer(rng.normal(0, scale, (3, 2))), Layer(rng.normal(size=(3, 2)))):
            inner = Layer(rng.normal(0, scale, (2, 2)), response=Relu(1.0, 1e-3))
            metric = relative_fisher(TwoLayers(inner, above), rng.normal(size=2))
            assert np.isfinite(metric.dense()).all()
            assert (metric.dense().diagonal() >= 0).all()
            assert (metric.diagonal() >= 0).all()

    def test_parts_that_do_not_fit(self):
        layer = Layer(np.ones((3, 2)))
        with pytest.raises(ShapeError, match=r"outer weights must have 3 columns.*got 2"):
            TwoLayers(layer, layer)
        with pytest.raises(ModelError, match=r"inner must be .*, got SoftmaxLayer and Layer"):
            TwoLayers(SoftmaxLayer(layer.weights), layer)


class TestBatches:
    @given(subsystems.layers())
    def test_mean_over_references(self, drawn):
        layer, x, weights = drawn
        found = relative_fisher(layer, x, sample_weight=weights).dense()
        each = [relative_fisher(layer, row).dense() for row in x]
        wanted = np.tensordot(weights / weights.sum(), each, axes=1)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13 * np.abs(wanted).max())

    def test_weights_of_any_size(self):
        x, layer = np.array([[1.0], [2.0]]), Layer([[0.3]])
        wanted = relative_fisher(layer, x, sample_weight=[1, 1]).dense()
        for weights in ([1e308, 1e308], [1e-320, 1e-320], np.array([200, 200], np.uint8)):
            found = relative_fisher(layer, x, sample_weight=weights).dense()
            np.testing.assert_allclose(found, wanted, rtol=1e-14)

    @given(subsystems.layers())
    def test_a_batch_and_the_batch_twice(self, drawn):
        layer, x, _ = drawn
        once, twice = (relative_fisher(layer, rows).dense() for rows in (x, np.vstack([x, x])))
        np.testing.assert_allclose(twice, once, rtol=1e-12, atol=1e-14 * np.abs(once).max())

    def test_leading_axes_are_all_references(self):
        x = np.random.default_rng(0).normal(size=(2, 3, 4))
        layer = Layer(np.random.default_rng(1).normal(size=(2, 4)), [0.1, 0.2])
        one, other = (relative_fisher(layer, rows).dense() for rows in (x, x.reshape(6, 4)))
        np.testing.assert_array_equal(one, other)

    @given(subsystems.layers())
    def test_permuted_labels_and_units_change_nothing(self, drawn):
        layer, x, _ = drawn
        order = np.arange(layer.n_units)[::-1]
        biases = None if layer.biases is None else layer.biases[order]
        settings_ = {"response": layer.response} if isinstance(layer, Layer) else {}
        other = type(layer)(layer.weights[order], biases, **settings_)
        d = layer.augmented(x).shape[1]
        places = np.arange(layer.n_units * d).reshape(-1, d)[order].ravel()
        found = relative_fisher(other, x).dense()
        wanted = relative_fisher(layer, x).dense()[np.ix_(places, places)]
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-14 * np.abs(wanted).max())

    def test_single_precision_is_read_exactly(self):
        rng = np.random.default_rng(0)
        w, x = (rng.normal(0, 30, shape).astype(np.float32) for shape in ((3, 2), (5, 2)))
        for kind in (Layer, SoftmaxLayer):
            one = relative_fisher(kind(w), x).dense()
            other = relative_fisher(kind(w.astype(float)), x.astype(float)).dense()
            np.testing.assert_array_equal(one, other)
            assert one.dtype == np.float64


class TestSoftmax:
    @given(strategies.generators())
    def test_null_space(self, rng):
        m, d = 4, 3
        layer = SoftmaxLayer(rng.normal(size=(m, d)))
        metric = relative_fisher(layer, rng.normal(size=(30, d)))
        for v in np.eye(d):
            assert np.abs(metric.matvec(np.kron(np.ones(m), v))).max() < 1e-15
        values = np.linalg.eigvalsh(metric.dense())
        assert (np.abs(values[:d]) < 1e-14).all()
        assert values[d] > 1e-6

    def test_rank_of_one_reference(self):
        layer = SoftmaxLayer(np.random.default_rng(0).normal(size=(4, 3)))
        values = np.linalg.eigvalsh(relative_fisher(layer, [1.0, 2.0, -1.0]).dense())
        assert (values > 1e-9).sum() == 3

    def test_without_damping_it_is_singular(self):
        layer = SoftmaxLayer(np.random.default_rng(0).normal(size=(3, 2)))
        metric = relative_fisher(layer, np.random.default_rng(1).normal(size=(9, 2)))
        with pytest.raises(EbmError, match=r"singular.*raise damping \(now 0\)"):
            metric.solve(np.ones(6))


class TestEnergyModels:
    @given(strategies.restricted_machines(max_visible=3, max_hidden=3))
    def test_hidden_layer_of_a_restricted_machine(self, rbm):
        v = rbm.space.states_at(np.arange(int(rbm.space.size)))[-1]
        metric = relative_fisher(rbm, given=v)
        assert isinstance(metric, LayerInformation)
        x = np.append(v - rbm.visible_center, 1)
        p = rbm.hidden_conditional(v)
        wanted = np.kron(np.diag(p * (1 - p)), np.outer(x, x))
        np.testing.assert_allclose(metric.dense(), wanted, rtol=1e-9, atol=1e-15)

    def test_is_that_of_the_scores_of_the_hidden_layer(self):
        rng = np.random.default_rng(3)
        rbm = ebm.RestrictedBoltzmannMachine(
            rng.normal(size=(2, 2)), rng.normal(size=2), rng.normal(size=2), visible_center=0.4
        )
        joint, v = rbm.joint(), np.array([1.0, 0.0])
        total = np.zeros((6, 6))
        for h in itertools.product((0.0, 1.0), repeat=2):

            def log_p(theta, h=h):
                u, c = theta.reshape(2, 3)[:, :2].T, theta.reshape(2, 3)[:, 2]
                changed = ebm.RestrictedBoltzmannMachine(
                    u, rbm.visible_biases, c, visible_center=0.4
                )
                return float(changed.energy(v) - changed.joint().energy([*v, *h]))

            theta = np.column_stack([rbm.weights.T, rbm.hidden_biases]).ravel()
            score = oracles.finite_difference(log_p, theta)
            p = np.exp(float(rbm.energy(v)) - float(joint.energy([*v, *h])))
            total += p * np.outer(score, score)
        np.testing.assert_allclose(relative_fisher(rbm, given=v).dense(), total, atol=1e-9)

    def test_too_many_references_are_refused_before_they_are_made(self):
        many = ebm.IsingModel(np.zeros((29, 29)), np.zeros(29))
        with pytest.raises(MemoryLimitError, match=r"5\.37e\+08 references of 30 numbers"):
            relative_fisher(many, ebm.exact(many, max_seconds=1e9))

    def test_over_an_ensemble(self):
        rng = np.random.default_rng(4)
        rbm = ebm.RestrictedBoltzmannMachine(rng.normal(size=(3, 2)), np.zeros(3), np.zeros(2))
        exact = ebm.exact(rbm)
        found = relative_fisher(rbm, exact).dense()
        wanted = relative_fisher(rbm, exact.states, sample_weight=exact.weights).dense()
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
        with pytest.raises(CodingError):
            relative_fisher(rbm, ebm.exact(ebm.IsingModel(np.zeros((3, 3)), np.zeros(3))))

    @given(strategies.pairwise_models(min_units=2, max_units=4))
    @settings(max_examples=30)
    def test_conditionals_of_pairwise_models(self, model):
        n = model.n
        state = model.space.states_at(np.arange(2**n))[2**n // 3]
        metric = relative_fisher(model, given=state)
        assert isinstance(metric, BlockDiagonalInformation)
        assert metric.shape == (n * n, n * n)
        low, high = model.space.values
        for unit, part in enumerate(metric.parts):
            p = oracles.conditional(model, state, unit)
            others = np.delete(state - model.feature_center, unit)
            # y moves its input by the width of the coding.
            x = (high - low) * np.append(1, others)
            wanted = p * (1 - p) * np.outer(x, x)
            np.testing.assert_allclose(metric.dense()[part, part], wanted, rtol=1e-8, atol=1e-13)

    def test_no_subsystem(self):
        with pytest.raises(ModelError, match="TabularModel is no subsystem: give a Layer"):
            relative_fisher(ebm.TabularModel([0, 0], ebm.Binary(1)), [0])


class TestArguments:
    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (lambda: Layer([1.0, 2.0]), r"weights must have shape \(n_units, n_inputs\)"),
            (lambda: Layer([[1.0, np.nan]]), "weights must be finite, got nan"),
            (lambda: Layer([[1.0]], [1.0, 2.0]), r"biases must have shape \(1,\), got \(2,\)"),
            (lambda: Layer([[1.0]], response="tanh"), "response must be one such as"),
            (lambda: Relu(1.0, -1.0), "smoothing must be a positive number"),
            (lambda: Relu(1.0, 1.0, 1.0), "leak must be at least 0 and less than 1"),
            (lambda: Elu(0.0), "deviation must be a positive number"),
            (lambda: Elu(1.0, np.inf), "alpha must be a positive number"),
            (lambda: relative_fisher(Layer([[1.0]]), [1.0, 2.0]), r"shape \(\.\.\., 1\)"),
            (lambda: relative_fisher(Layer([[1.0]]), [np.inf]), "references must be finite"),
            (lambda: relative_fisher(Layer([[1e200]]), [1e200]), "times references must be finite"),
            (lambda: relative_fisher(Layer([[1.0]]), np.zeros((0, 1))), "at least one reference"),
            *[
                (
                    lambda w=w: relative_fisher(Layer([[1.0]]), [[1.0], [2.0]], sample_weight=w),
                    "sample_weight must be 2 finite numbers",
                )
                for w in ([1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0], [1.0], [])
            ],
            (lambda: relative_fisher(Layer([[0.0]]), [1e200]), "the metric is not finite"),
            (lambda: relative_fisher(SoftmaxLayer([[0.0], [0.0]]), [1e200]), "is not finite"),
            (
                lambda: relative_fisher(Layer([[1.0]], response=Linear(1e-200)), [1.0]),
                "information must be finite",
            ),
        ],
    )
    def test_refusals(self, make, text):
        with pytest.raises(EbmError, match=text):
            make()
