"""Every metric as an operator equals its own matrix, whichever way it solves."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.linalg import aslinearoperator

import ebm
from ebm.errors import ConvergenceError, EbmError, MemoryLimitError, ModelError, ShapeError
from ebm.information import (
    BlockDiagonalInformation,
    EnsembleInformation,
    FisherInformation,
    Layer,
    LayerInformation,
    Metric,
    Relu,
    SoftmaxLayer,
    Tanh,
    TwoLayers,
    chain_fisher,
    ensemble_information,
    layers,
    metric,
    relative_fisher,
)
from tests.information import subsystems

RNG = np.random.default_rng(11)
X = RNG.normal(size=(7, 3))
ROWS, BIASES = RNG.normal(size=(4, 3)), RNG.normal(size=4)
MACHINE = ebm.BoltzmannMachine(RNG.normal(size=(4, 4)), RNG.normal(size=4), center=0.3)
LAYERED = ebm.RestrictedBoltzmannMachine(
    RNG.normal(size=(3, 2)), RNG.normal(size=3), RNG.normal(size=2), visible_center=0.2
)
CHAIN = [Layer(ROWS, response=Tanh()), SoftmaxLayer(RNG.normal(size=(3, 4)), np.zeros(3))]

METRICS = {
    "dense": lambda: ebm.fisher_information(MACHINE),
    "streamed pairs": lambda: EnsembleInformation(MACHINE, ebm.exact(MACHINE)),
    "streamed layers": lambda: EnsembleInformation(LAYERED, ebm.exact(LAYERED)),
    "both layers": lambda: ebm.fisher_information(LAYERED, joint=True),
    "neuron": lambda: relative_fisher(Layer(ROWS[:1], response=Relu()), X),
    "layer": lambda: relative_fisher(Layer(ROWS, BIASES), X),
    "softmax": lambda: relative_fisher(SoftmaxLayer(ROWS, BIASES), X),
    "softmax at one reference": lambda: relative_fisher(SoftmaxLayer(ROWS, BIASES), X[0]),
    "two layers": lambda: relative_fisher(TwoLayers(Layer(ROWS), CHAIN[1]), X),
    "two layers at one reference": lambda: relative_fisher(TwoLayers(Layer(ROWS), CHAIN[1]), X[0]),
    "conditionals": lambda: relative_fisher(MACHINE, ebm.exact(MACHINE)),
    "chain": lambda: chain_fisher(CHAIN, X),
}


@pytest.fixture(params=["factors", "roots", "products"])
def large(request, monkeypatch):
    """How many parameters count as too many for a matrix: none, most, and as many states."""
    if request.param == "roots":
        monkeypatch.setattr(metric, "MOST_FACTORED", 2)
    if request.param == "products":
        for module in (metric, layers, ensemble_information):
            monkeypatch.setattr(module, "MOST_FACTORED", 2)
    return request.param


@pytest.mark.parametrize("name", METRICS)
def test_equals_its_matrix(name, large):
    """Products, diagonal, trace, solution, volume."""
    found = METRICS[name]()
    dense = found.dense()
    p = len(dense)
    np.testing.assert_allclose(dense, dense.T, rtol=1e-13, atol=1e-16)
    assert found.shape == (p, p)
    assert found.dtype == np.float64
    assert isinstance(found, Metric)
    vectors = np.random.default_rng(0).normal(size=(p, 2))
    close = {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(found.matvec(vectors[:, 0]), dense @ vectors[:, 0], **close)
    np.testing.assert_allclose(found.rmatvec(vectors[:, 1]), dense @ vectors[:, 1], **close)
    np.testing.assert_allclose(found.matmat(vectors), dense @ vectors, **close)
    np.testing.assert_allclose(found @ vectors, dense @ vectors, **close)
    np.testing.assert_allclose(found.diagonal(), dense.diagonal(), **close)
    assert found.trace() == pytest.approx(np.trace(dense), rel=1e-12)
    damped = dense + 0.05 * np.eye(p)
    for v in (vectors, vectors[:, 0]):
        np.testing.assert_allclose(found.solve(v, 0.05), np.linalg.solve(damped, v), rtol=1e-7)
    volume = np.linalg.slogdet(damped)[1]
    assert found.log_determinant(0.05) == pytest.approx(volume, rel=1e-10)


@pytest.mark.parametrize("name", METRICS)
def test_is_a_scipy_operator(name):
    """And copies out what it holds."""
    found = METRICS[name]()
    operator = aslinearoperator(found)
    dense, v = found.dense(), np.arange(1.0, found.shape[0] + 1)
    for product in (operator @ v, operator.T @ v, operator @ v[:, None]):
        np.testing.assert_allclose(product.ravel(), dense @ v, rtol=1e-11, atol=1e-12)
    found.dense()[:] = 0
    found.diagonal()[:] = 0
    found.solve(v, 0.1)[:] = 0
    np.testing.assert_array_equal(found.dense(), dense)


@given(subsystems.layers())
@settings(max_examples=40)
def test_no_eigenvalue_is_negative(drawn):
    """Whatever the layer."""
    layer, x, weights = drawn
    dense = relative_fisher(layer, x, sample_weight=weights).dense()
    values = np.linalg.eigvalsh(dense)
    assert values[0] >= -1e-13 * max(values[-1], 1e-300)


def test_a_wide_layer_takes_no_matrix():
    """784 inputs and 80 units: blocks of 5 MB, one at a time; the matrix would take 29 GiB."""
    rng = np.random.default_rng(0)
    layer = Layer(rng.normal(0, 0.03, (80, 784)), np.zeros(80))
    found = relative_fisher(layer, rng.normal(size=(20, 784)))
    v = rng.normal(size=found.shape[0])
    product = found.matvec(v)
    inside = slice(3 * 785, 4 * 785)
    np.testing.assert_allclose(product[inside], found.block(3) @ v[inside], rtol=1e-9, atol=1e-12)
    with pytest.raises(MemoryLimitError, match=r"62800 parameters would take 29\.4 GiB.* 4 GiB"):
        found.dense()


def test_fewer_references_than_inputs():
    """Singular without damping, and said so."""
    found = relative_fisher(Layer(ROWS, BIASES), X[:2])
    for call in (lambda: found.solve(np.ones(16)), found.log_determinant):
        with pytest.raises(EbmError, match=r"singular.*raise damping \(now 0\)"):
            call()
    assert np.isfinite(found.solve(np.ones(16), 1e-6)).all()


def test_more_inputs_than_references(monkeypatch):
    """Solved in the space of the references: a layer always, softmax where there are few."""
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(3, 30)), rng.normal(size=60)
    for kind in (Layer, SoftmaxLayer):
        found = relative_fisher(kind(rng.normal(size=(2, 30))), x)
        damped = found.dense() + 1e-3 * np.eye(60)
        monkeypatch.setattr(metric, "MOST_FACTORED", 8)
        np.testing.assert_allclose(found.solve(v, 1e-3), np.linalg.solve(damped, v), rtol=1e-10)
        volume = np.linalg.slogdet(damped)[1]
        assert found.log_determinant(1e-3) == pytest.approx(volume, rel=1e-12)
        monkeypatch.undo()


def test_conjugate_gradients_that_do_not_arrive(monkeypatch):
    """A right-hand side out of reach of a singular metric."""
    monkeypatch.setattr(metric, "MOST_FACTORED", 2)
    found = relative_fisher(SoftmaxLayer(ROWS, BIASES), X)
    with pytest.raises(
        ConvergenceError, match=r"conjugate gradients left .* raise damping"
    ) as info:
        found.solve(np.ones(16))
    assert info.value.residual > 1e-3


@pytest.mark.parametrize(
    ("damping", "wanted"),
    [
        (-1.0, "be a finite number ≥ 0"),
        (np.nan, "be a finite number ≥ 0"),
        (np.inf, "be a finite number ≥ 0"),
        ([1.0], "be one number"),
        ("1", "hold numbers"),
        (None, "be a number"),
        (1j, "hold real numbers"),
    ],
)
def test_damping_that_is_none(damping, wanted):
    """Named."""
    for found in (FisherInformation(np.eye(2)), LayerInformation([[1.0]], [[1.0, 2.0]])):
        with pytest.raises(EbmError, match=f"damping must {wanted}"):
            found.solve([1.0, 1.0], damping)
        with pytest.raises(EbmError, match=f"damping must {wanted}"):
            found.log_determinant(damping)


@pytest.mark.parametrize("tolerance", [0, -1.0, np.nan, "a", None])
def test_tolerance_that_is_none(tolerance):
    """Named, also where nothing is iterated."""
    with pytest.raises(EbmError, match="tolerance must"):
        FisherInformation(np.eye(2)).solve([1.0, 1.0], tolerance=tolerance)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite(value):
    """Of products and of solutions."""
    found = METRICS["layer"]()
    vector = np.full(found.shape[0], value)
    for call in (found.matvec, found.solve, lambda v: found @ v[:, None]):
        with pytest.raises(ModelError, match="vector must be finite, got"):
            call(vector)


@pytest.mark.parametrize("damping", [1e-20, 1e-300])
def test_damping_lost_in_rounding(damping):
    """By few roots as by factors: an error, no NaN and no wrong digits."""
    rng = np.random.default_rng(0)
    wide = relative_fisher(Layer(rng.normal(size=(1, 40))), rng.normal(size=(9, 40)))
    for found in (wide, FisherInformation(wide.dense())):
        with pytest.raises(EbmError, match=r"singular.*raise damping \(now 1e-"):
            found.solve(rng.normal(size=40), damping)


@pytest.mark.parametrize("kind", [Layer, SoftmaxLayer])
def test_arrays_of_the_caller_are_copied(kind):
    """What becomes of them later changes no metric."""
    x, weights = X.copy(), np.ones(len(X))
    found = relative_fisher(kind(ROWS), x, sample_weight=weights)
    made = LayerInformation(weights[:, None], x)
    before, made_before = found.dense(), made.dense()
    assert x.flags.writeable
    x[:], weights[:] = 7, np.arange(len(X))
    np.testing.assert_array_equal(found.dense(), before)
    np.testing.assert_array_equal(made.dense(), made_before)


def test_shapes_that_do_not_fit():
    """Vectors of another length, no blocks."""
    with pytest.raises(ShapeError, match=r"vector must have shape \(2,\) or \(2, k\), got \(3,\)"):
        FisherInformation(np.eye(2)).matvec([1.0, 2.0, 3.0])
    with pytest.raises(ShapeError, match=r"references must have shape \(1, D\)"):
        LayerInformation([[1.0]], [[1.0, 2.0], [3.0, 4.0]])
    for blocks in ([], FisherInformation(np.eye(2))):
        with pytest.raises(ShapeError, match="at least one metric"):
            BlockDiagonalInformation(blocks)
    with pytest.raises(ModelError, match="blocks must hold metrics, got ndarray"):
        BlockDiagonalInformation([np.eye(2)])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[np.nan]], "matrix must be finite, got nan"),
        ([[1.0, 2.0], [3.0, 4.0]], "matrix must be symmetric, got entries that differ by 1"),
        ([["1"]], "matrix must hold numbers"),
        ([[1j]], "matrix must hold real numbers"),
        (np.zeros((0, 0)), "matrix must be square and not empty"),
    ],
)
def test_matrices_that_are_no_metric(matrix, message):
    with pytest.raises(EbmError, match=message):
        FisherInformation(matrix)


@pytest.mark.parametrize(
    ("information", "references", "message"),
    [
        ([[-1.0]], [[1.0]], "information must not be negative"),
        ([[np.nan]], [[1.0]], "information must be finite"),
        ([[1.0]], [[np.nan]], "the metric is not finite"),
        ([[1.0]], [[1e200]], "the metric is not finite"),
    ],
)
def test_layers_that_are_no_metric(information, references, message):
    with pytest.raises(ModelError, match=message):
        LayerInformation(information, references)


def test_functions_of_numpy_take_metrics():
    found = METRICS["layer"]()
    np.testing.assert_array_equal(np.asarray(found), found.dense())
    assert np.linalg.eigvalsh(found).min() > -1e-12
