"""The action as an energy: values, gradients, blocks, streams, symmetries."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

import ebm.networks
from ebm.errors import LimitError, MissingValueError, ModelError, ShapeError
from ebm.networks import RowSettings
from ebm.networks.action import _energy as action_module
from tests.networks.systems import surprise, systems

pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
ALL = ["silu", "relu", "formal_relu", "tanh", "sigmoid", "softplus", "gelu", "identity"]


def rows_of(n=30, e=3, m=3, seed=0, dtype=np.float64):
    """Random rows and labels with every class."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.2, 1, (n, e)).astype(dtype), np.arange(n) * 7 % m


@pytest.mark.parametrize("activation", ALL)
@settings(max_examples=8)
@given(data=st.data())
def test_action_is_the_weighted_cross_entropy(activation, data):
    """From its definition, one θ or a batch; energy adds κ and λ."""
    base, theta, (z, p) = data.draw(systems())
    system = ebm.networks.SoftmaxMLPAction(
        z,
        p.argmax(1),
        base.n_hidden,
        activation=activation,
        settings=RowSettings(sample_weight=7 * p.sum(1)),
        scale=3.5,
        prior_precision=0.7,
    )
    functions = {
        "silu": torch.nn.functional.silu,
        "relu": torch.relu,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "softplus": torch.nn.functional.softplus,
        "gelu": torch.nn.functional.gelu,
    }
    blocks = [torch.from_numpy(x) for x in system.unflatten(theta)]
    function = functions.get(activation, lambda x: x)
    expected = float(surprise(function, *blocks, torch.from_numpy(z), torch.from_numpy(p)))
    assert float(system.action(theta)) == pytest.approx(expected, rel=1e-12)
    energy = 3.5 * expected + 0.35 * (theta**2).sum()
    assert float(system.energy(theta)) == pytest.approx(energy, rel=1e-12)
    batch = np.stack([theta, 2 * theta, -theta])[:, None]
    got = system.energy(batch)
    assert got.shape == (3, 1)
    each = [float(system.energy(row[0])) for row in batch]
    np.testing.assert_allclose(got[:, 0], each, rtol=1e-12)


@settings(max_examples=10)
@given(data=systems())
def test_gradient_is_the_slope_of_the_energy(data):
    """By central differences, and through autograd, one θ or several."""
    base, theta, (z, p) = data
    system = ebm.networks.SoftmaxMLPAction(
        z, p.argmax(1), base.n_hidden, activation=base.activation, scale=2.0, prior_precision=0.3
    )
    gradient = system.state_gradient(np.stack([theta, 0.5 * theta]))
    step = np.eye(len(theta)) * 1e-5
    slope = (system.energy(theta + step) - system.energy(theta - step)) / 2e-5
    np.testing.assert_allclose(gradient[0], slope, rtol=1e-6, atol=1e-8)
    leaf = torch.tensor(0.5 * theta, requires_grad=True)
    system.energy(leaf).backward()
    np.testing.assert_allclose(gradient[1], leaf.grad.numpy(), rtol=1e-12, atol=1e-14)


@settings(max_examples=10)
@given(data=systems())
def test_symmetries(data):
    """U → U + 1vᵀ, c → c + k1, permuted hidden units; all of W, b at U = 0."""
    system, theta, _ = data
    rng = np.random.default_rng(len(theta))
    U, c, W, b = system.unflatten(theta)
    h = system.n_hidden
    order = rng.permutation(h)
    moved = [
        system.flatten(U + rng.normal(size=h), c, W, b),
        system.flatten(U, c + 2.5, W, b),
        system.flatten(U[:, order], c, W[order], b[order]),
    ]
    for other in moved:
        assert float(system.action(other)) == pytest.approx(float(system.action(theta)), rel=1e-11)
        np.testing.assert_allclose(
            system.expand(other, 6).coefficients,
            system.expand(theta, 6).coefficients,
            rtol=1e-9,
            atol=1e-11,
        )
    flat = [system.flatten(0 * U, c, x * W, x * b) for x in (1, -3)]
    assert float(system.action(flat[0])) == pytest.approx(float(system.action(flat[1])), rel=1e-12)


def test_blocks_of_theta():
    """θ holds U, c, W, b in this order; back and forth, batches and tensors too."""
    system = ebm.networks.SoftmaxMLPAction(*rows_of(), 5)
    d = 3 * 5 + 3 + 5 * 3 + 5
    assert system.space == ebm.Reals(d)
    theta = np.arange(2.0 * d).reshape(2, d)
    blocks = system.unflatten(theta)
    assert [x.shape for x in blocks] == [(2, 3, 5), (2, 3), (2, 5, 3), (2, 5)]
    np.testing.assert_array_equal(blocks.U[0].ravel(), np.arange(15))
    np.testing.assert_array_equal(blocks.c[0], [15, 16, 17])
    np.testing.assert_array_equal(system.flatten(**blocks._asdict()), theta)
    tensor = torch.from_numpy(theta)
    back = system.flatten(*system.unflatten(tensor))
    assert isinstance(back, torch.Tensor)
    assert torch.equal(back, tensor)
    with pytest.raises(
        ShapeError, match=r"W must have shape \(5, 3\) or \(..., 5, 3\), got \(3, 5\)"
    ):
        system.flatten(blocks.U, blocks.c, np.zeros((3, 5)), blocks.b)


def test_kinds_in_are_kinds_out():
    """Arrays give float64 arrays, tensors give tensors of the model's dtype."""
    z, labels = rows_of(dtype=np.float32)
    system = ebm.networks.SoftmaxMLPAction(z, labels, 4)
    assert system.dtype == torch.float32
    theta = np.full(system.space.n, 0.1)
    for result in (
        system.energy(theta),
        system.state_gradient(theta),
        system.expand(theta, 3).coefficients,
    ):
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.float64
    tensor = torch.from_numpy(theta)
    for result in (
        system.energy(tensor),
        system.state_gradient(tensor),
        system.expand(tensor, 3).coefficients,
        system.expand(tensor, 3).partial_sums(0.5),
    ):
        assert isinstance(result, torch.Tensor)
        assert result.dtype == torch.float32
    double = ebm.networks.SoftmaxMLPAction(z, labels, 4, settings=RowSettings(dtype="float64"))
    np.testing.assert_allclose(system.energy(theta), double.energy(theta), rtol=1e-5)


def test_rows_are_copied_and_untouched():
    """A change of the caller's arrays afterwards changes nothing; read-only ones will do."""
    z, labels = rows_of()
    fresh = z.copy()
    for array in (z, labels):
        array.setflags(write=False)
    system = ebm.networks.SoftmaxMLPAction(fresh, labels, 4)
    theta = np.linspace(-1, 1, system.space.n)
    before = system.energy(theta)
    fresh[:] = 0
    assert system.energy(theta) == before
    theta.setflags(write=False)
    blocks = system.unflatten(theta)
    for block in blocks:
        block.setflags(write=False)
    np.testing.assert_array_equal(system.flatten(*blocks), theta)
    assert ebm.networks.SoftmaxMLPAction(z, labels, 4).energy(theta) == before
    assert ebm.networks.SoftmaxMLPAction(z[::-1], labels[::-1], 4).energy(theta) == pytest.approx(
        float(before), rel=1e-13
    )


@pytest.mark.parametrize("kind", ["array", "memmap", "loader"])
def test_streams_give_the_same_numbers(kind, tmp_path, monkeypatch):
    """Blocks of a few rows, a file, a loader: values, gradients, series, J."""
    z, labels = rows_of(n=53)
    whole = ebm.networks.SoftmaxMLPAction(
        z, labels, 4, settings=RowSettings(sample_weight=np.arange(53.0))
    )
    theta = np.random.default_rng(1).normal(0, 0.6, whole.space.n)
    monkeypatch.setattr(action_module, "BLOCK_BYTES", 7 * 4 * 8)
    if kind == "array":
        source = (z, labels)
    elif kind == "memmap":
        file = np.memmap(tmp_path / "z", dtype=np.float64, mode="w+", shape=z.shape)
        file[:] = z
        source = (np.memmap(tmp_path / "z", dtype=np.float64, mode="r", shape=z.shape), labels)
    else:
        pairs = torch.utils.data.TensorDataset(torch.from_numpy(z), torch.from_numpy(labels))
        source = (torch.utils.data.DataLoader(pairs, batch_size=10), None)
    system = ebm.networks.SoftmaxMLPAction(
        *source, 4, settings=RowSettings(sample_weight=np.arange(53.0))
    )
    assert system.block_size() == 7
    monkeypatch.undo()
    expected = whole.expand(theta, 5)
    gradient = whole.state_gradient(theta)
    moments = ebm.networks.class_moments(whole, 2)
    monkeypatch.setattr(action_module, "BLOCK_BYTES", 7 * 4 * 8)
    np.testing.assert_allclose(system.energy(theta), whole.energy(theta), rtol=1e-12)
    np.testing.assert_allclose(system.state_gradient(theta), gradient, rtol=1e-10, atol=1e-14)
    got = system.expand(theta, 5)
    np.testing.assert_allclose(got.coefficients, expected.coefficients, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(ebm.networks.class_moments(system, 2), moments, rtol=1e-11)
    assert got.terms["UWW"] == pytest.approx(expected.terms["UWW"], rel=1e-11)
    assert got.bound == expected.bound
    assert got.radius == pytest.approx(expected.radius, rel=1e-5)


def test_autograd_through_blocks_is_that_of_the_whole(monkeypatch):
    """Recomputed block by block, so that the graph does not hold all hidden units."""
    z, labels = rows_of(n=40)
    system = ebm.networks.SoftmaxMLPAction(z, labels, 4)
    theta = np.random.default_rng(2).normal(0, 0.6, system.space.n)

    def slopes():
        leaf = torch.tensor(theta, requires_grad=True)
        value = system.energy(leaf) + system.expand(leaf, 4).coefficients.sum()
        return torch.autograd.grad(value, leaf)[0].numpy()

    expected = slopes()
    monkeypatch.setattr(action_module, "BLOCK_BYTES", 6 * 4 * 8)
    assert system.block_size() == 6
    np.testing.assert_allclose(slopes(), expected, rtol=1e-11, atol=1e-14)


def test_weights_are_repeated_rows():
    """Whole weights equal repeated rows, zero equals absent, and only ratios matter."""
    z, labels = rows_of(n=12)
    counts = np.arange(12) % 4
    counted = ebm.networks.SoftmaxMLPAction(
        z, labels, 3, settings=RowSettings(sample_weight=counts)
    )
    scaled = ebm.networks.SoftmaxMLPAction(
        z, labels, 3, settings=RowSettings(sample_weight=counts / 11)
    )
    repeated = ebm.networks.SoftmaxMLPAction(np.repeat(z, counts, 0), np.repeat(labels, counts), 3)
    theta = np.random.default_rng(3).normal(0, 1, counted.space.n)
    for other in (scaled, repeated):
        assert other.energy(theta) == pytest.approx(float(counted.energy(theta)), rel=1e-13)
    assert counted.rows.n_rows == 9


def test_zero_theta_and_no_theta():
    """S(0) = ln M; an empty batch has no energies."""
    system = ebm.networks.SoftmaxMLPAction(*rows_of(), 4)
    d = system.space.n
    assert float(system.action(np.zeros(d))) == pytest.approx(math.log(3), rel=1e-15)
    assert system.energy(np.zeros((0, d))).shape == (0,)
    assert system.state_gradient(np.zeros((0, d))).shape == (0, d)


def test_bad_parameters():
    """θ of the wrong length, or not finite; κ, λ and H out of range."""
    system = ebm.networks.SoftmaxMLPAction(*rows_of(), 4)
    d = system.space.n
    with pytest.raises(ShapeError, match=rf"theta must have shape \({d},\) or \(..., {d}\), got"):
        system.energy(np.zeros(d - 1))
    with pytest.raises(ShapeError, match="got \\(\\)"):
        system.state_gradient(1.0)
    with pytest.raises(ShapeError, match="take one θ at a time"):
        system.expand(np.zeros((2, d)), 3)
    with pytest.raises(MissingValueError, match="theta must be finite"):
        system.action(np.full(d, np.nan))
    for order in (-1, 2.0, True, np.array(2.5), torch.tensor(2.5), np.array([2])):
        with pytest.raises(ShapeError, match="order must be an integer of at least 0"):
            system.expand(np.zeros(d), order)
    with pytest.raises(LimitError, match="order must be at most 1000, got 1001"):
        system.expand(np.zeros(d), 1001)
    with pytest.raises(ShapeError, match="U, c, W, b must have the same leading axes"):
        system.flatten(np.zeros((2, 3, 4)), np.zeros((5, 3)), np.zeros((4, 3)), np.zeros(4))
    for theta, message in (
        (torch.zeros(d).to_sparse(), "theta must be dense"),
        (torch.zeros(d, dtype=torch.complex64), "theta must hold real numbers"),
        (np.ma.masked_array(np.zeros(d), np.arange(d) == 1), "theta must have no masked entries"),
    ):
        with pytest.raises(ModelError, match=message):
            system.energy(theta)
    for wrong, message in (
        ({"scale": 0}, "scale must be positive and finite, got 0"),
        ({"prior_precision": -1}, "prior_precision must be finite and not negative, got -1"),
        ({"activation": "swish"}, "activation must be one of silu, relu.*got 'swish'"),
    ):
        with pytest.raises(ModelError, match=message):
            ebm.networks.SoftmaxMLPAction(*rows_of(), 4, **wrong)
    for n_hidden in (0, 2.5, True, np.array(2.5), torch.tensor(2.5)):
        with pytest.raises(ShapeError, match="n_hidden must be a positive integer"):
            ebm.networks.SoftmaxMLPAction(*rows_of(), n_hidden)


@pytest.mark.parametrize(("dtype", "size"), [("float64", 1e200), ("float32", 1e30)])
@pytest.mark.parametrize("precision", [0.0, 1.0])
def test_energies_beyond_the_floats_are_infinite(dtype, size, precision):
    """Not NaN: a chain that tries such a θ comes back; the series is refused."""
    system = ebm.networks.SoftmaxMLPAction(
        *rows_of(), 4, settings=RowSettings(dtype=dtype), prior_precision=precision
    )
    directions = np.random.default_rng(3).normal(size=(5, system.space.n))
    for x in (size, 1e300):
        assert (system.energy(x * directions) == np.inf).all()
    theta = size * directions[0]
    for series in (
        lambda: system.expand(theta, 5),
        lambda: ebm.networks.closed_forms(system, theta, 4),
        lambda: ebm.networks.main_terms(system, theta, 5),
    ):
        with pytest.raises(ModelError, match=f"series overflows torch.{dtype} from order [2-5] on"):
            series()
    if dtype == "float32":
        with pytest.raises(MissingValueError, match=r"theta must be finite in torch\.float32"):
            system.expand(1e300 * directions[0], 2)


@pytest.mark.parametrize("activation", ALL)
def test_copies_and_pickles(activation):
    """Of the action, of what it gives, and of the activations that come with the package."""
    system = ebm.networks.SoftmaxMLPAction(*rows_of(), 4, activation=activation)
    theta = np.linspace(-0.1, 0.1, system.space.n)
    for other in (pickle.loads(pickle.dumps(system)), copy.deepcopy(system)):
        assert other.energy(theta) == system.energy(theta)
        assert other.activation is system.activation
    expansion = pickle.loads(pickle.dumps(system.expand(theta, 3)))
    np.testing.assert_array_equal(expansion.coefficients, system.expand(theta, 3).coefficients)
    forms = ebm.networks.closed_forms(system, theta, 3)
    assert pickle.loads(pickle.dumps(forms)).terms == forms.terms


def test_blocks_are_small_whichever_side_is_wide():
    """16 MiB of hidden units, of logits, and of the orders of logits."""
    rng = np.random.default_rng(4)
    z, labels = rng.normal(size=(40_000, 1)), np.arange(40_000) % 100
    system = ebm.networks.SoftmaxMLPAction(z, labels, 2)
    assert system.block_size() == 2**24 // (8 * 100)
    assert system.block_size(order=9) == 2**24 // (8 * 1000)
    narrow = ebm.networks.SoftmaxMLPAction(z, labels % 2, 200)
    assert narrow.block_size(order=9) == narrow.block_size() == 2**24 // (8 * 200)


def test_probabilities_and_modules():
    """The network in torch, back to θ, and its answers to rows that it never saw."""
    rng = np.random.default_rng(0)
    z, new = rng.normal(size=(12, 3)), rng.normal(size=(5, 3))
    action = ebm.networks.SoftmaxMLPAction(z, np.arange(12) % 3, 4)
    theta = rng.normal(size=action.space.n)
    network = ebm.networks.as_module(action, theta)
    np.testing.assert_array_equal(ebm.networks.parameters_of(network), theta)
    q = ebm.networks.probabilities(action, theta, new)
    np.testing.assert_allclose(q, network(torch.from_numpy(new)).softmax(-1).detach(), rtol=1e-13)
    own = ebm.networks.probabilities(action, torch.from_numpy(theta), z)
    surprise = -own[torch.arange(12), torch.arange(12) % 3].log().mean()
    np.testing.assert_allclose(surprise, action.action(theta), rtol=1e-13)
    with pytest.raises(ShapeError, match="inputs must have 3 columns, got 2"):
        ebm.networks.probabilities(action, theta, new[:, :2])
    layers = torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3, bias=False)
    with pytest.raises(ModelError, match=r"two linear layers with biases.*got 2 linear.*3 param"):
        ebm.networks.parameters_of(torch.nn.Sequential(*layers))


def test_an_action_says_what_it_is_of():
    action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], 5, activation="tanh")
    assert repr(action) == (
        "SoftmaxMLPAction(3 rows, 1 inputs, 5 hidden units of tanh, 2 classes, float64 on cpu)"
    )
