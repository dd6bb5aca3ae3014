"""Random systems, and slow definitions of what the package computes: loops and circles only."""

import itertools
import math

import numpy as np
import torch
from hypothesis import strategies as st

import ebm.networks
from tests.strategies import generators

SMOOTH = ["silu", "tanh", "sigmoid", "softplus", "gelu", "identity"]


def shifted_tanh():
    """tanh(a + 0.3): no coefficient of it vanishes."""
    y = [math.tanh(0.3)]
    for k in range(12):
        square = sum(y[j] * y[k - j] for j in range(k + 1))
        y.append(((k == 0) - square) / (k + 1))
    derivatives = [math.factorial(k) * value for k, value in enumerate(y)]
    return ebm.networks.Activation(
        "shifted tanh",
        lambda a: torch.tanh(a + 0.3),
        derivatives,
        # The pole at iπ/2 − 0.3
        singularity=abs(complex(-0.3, math.pi / 2)),
    )


def labels_for(rng, n_classes, n_rows, balanced):
    """Labels with every class, equally often or not."""
    if balanced:
        return rng.permutation(np.repeat(np.arange(n_classes), -(-n_rows // n_classes)))
    return np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)])


def softmax_mlp(inputs, labels, n_hidden, **settings):
    """An action whose settings of rows are given among the others."""
    names = {"sample_weight", "n_classes", "device", "dtype"} & set(settings)
    rows = ebm.networks.RowSettings(**{name: settings.pop(name) for name in names})
    return ebm.networks.SoftmaxMLPAction(inputs, labels, n_hidden, settings=rows, **settings)


def minimize(action, theta=None, **settings):
    """A minimization whose settings of steps and records are given among the others."""

    def taken(names):
        return {new: settings.pop(old) for old, new in names.items() if old in settings}

    every = {"monitor_every": "every", "monitor_rows": "n_rows", "series_order": "series_order"}
    records = ebm.networks.Records(**taken(every))
    names = "optimizer lr n_epochs batch_size patience mixed_precision compiled".split()
    steps = ebm.networks.TorchSteps(records=records, **taken({name: name for name in names}))
    return ebm.networks.minimize(action, theta, solver=steps, **settings)


@st.composite
def systems(draw, min_classes=2, scale=0.6):
    """(action, theta, arrays): a small system in float64 and a point off every symmetry."""
    rng = draw(generators())
    m, h, e = draw(st.integers(min_classes, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    labels = labels_for(rng, m, 9, draw(st.booleans()))
    z = rng.normal(0.3, 1, (len(labels), e))
    weights = None if draw(st.booleans()) else rng.uniform(0.2, 2, len(labels))
    name = draw(st.sampled_from(SMOOTH))
    action = softmax_mlp(z, labels, h, activation=name, sample_weight=weights)
    theta = rng.normal(0, scale, action.space.n)
    w = np.ones(len(labels)) if weights is None else weights
    p = np.zeros((len(labels), m))
    p[np.arange(len(labels)), labels] = w / w.sum()
    return action, theta, (z, p)


def with_activation(action, rows, activation):
    """A drawn system with another activation."""
    z, p = rows
    return softmax_mlp(
        z, p.argmax(1), action.n_hidden, activation=activation, sample_weight=p.sum(1)
    )


def surprise(activation, U, c, W, b, z, p):
    """S from its definition, for tensors of any scalar type."""
    f = activation(z @ W.T + b) @ U.T + c
    return (p.sum(1) * f.exp().sum(1).log()).sum() - (p * f).sum()


def nested_derivatives(function, order):
    """f(0), f′(0), f″(0)/2 … of a function of one number, by differentiating its derivatives.

    Backward: forward differentiation of torch loads torch.jit, which is on its way out.
    """
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value, values = function(t), []
    for k in range(order + 1):
        values.append(value.item() / math.factorial(k))
        (value,) = torch.autograd.grad(value, t, create_graph=True)
    return np.array(values)


def complex_function(name):
    """The activations for complex tensors near 0."""
    functions = {
        "silu": lambda x: x / (1 + torch.exp(-x)),
        "tanh": torch.tanh,
        "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
        "softplus": lambda x: torch.log(1 + torch.exp(x)),
        "identity": lambda x: x,
        "formal_relu": lambda x: x,
        "shifted tanh": lambda x: torch.tanh(x + 0.3),
        "gelu": _complex_gelu,
    }
    return functions[name]


def _complex_gelu(x):
    from scipy.special import erf

    return x * torch.from_numpy(0.5 * (1 + erf(x.numpy() / math.sqrt(2))))


def multidegree(action, theta, rows, order, radius=0.05, points=12):
    """Parts of S by degree in (U, W, b, c), through Fourier transforms over four circles."""
    z, p = (torch.from_numpy(x).to(torch.complex128) for x in rows)
    function = complex_function(action.activation.name)
    blocks = [torch.from_numpy(np.asarray(x)) for x in action.unflatten(theta)]
    U, c, W, b = (x.to(torch.complex128) for x in blocks)
    circle = torch.polar(
        torch.full((points,), radius, dtype=torch.float64),
        2 * math.pi * torch.arange(points, dtype=torch.float64) / points,
    )
    values = np.empty((points,) * 4, dtype=complex)
    for i, j in itertools.product(range(points), repeat=2):
        a = circle[i] * (z @ W.T) + circle[j] * b
        hidden = function(a) @ U.T
        f = circle[:, None, None, None] * hidden + circle[None, :, None, None] * c
        logs = f.exp().sum(-1).log()
        values[:, i, j, :] = ((p.sum(1) * logs).sum(-1) - (p * f).sum((-2, -1))).numpy()
    parts = np.fft.fftn(values).real / points**4
    names = {}
    for degrees in itertools.product(range(order + 1), repeat=4):
        if 0 < sum(degrees) <= order:
            name = "".join(x * k for x, k in zip("UWbc", degrees, strict=True))
            names[name] = parts[degrees] / radius ** sum(degrees)
    return names


def circle_coefficients(action, theta, rows, order, radius, points=64):
    """S_0 … S_K by a Fourier transform over one circle of complex t."""
    z, p = (torch.from_numpy(x).to(torch.complex128) for x in rows)
    function = complex_function(action.activation.name)
    U, c, W, b = (torch.from_numpy(np.asarray(x)) for x in action.unflatten(theta))
    values = []
    for t in radius * np.exp(2j * np.pi * np.arange(points) / points):
        values.append(surprise(function, *(x * complex(t) for x in (U, c, W, b)), z, p).item())
    coefficients = np.fft.fft(values).real / points
    return coefficients[: order + 1] / radius ** np.arange(order + 1)
