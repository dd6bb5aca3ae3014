"""Every row of the table of relative metrics against scores by automatic differentiation.

E[score scoreᵀ] over all answers where there are two or m of them, over the three nodes of
Gauss–Hermite quadrature where they are normal: the score is linear in the answer.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from ebm.information import (
    Elu,
    Layer,
    Linear,
    Relu,
    Sigmoid,
    Silu,
    SoftmaxLayer,
    Tanh,
    TwoLayers,
    relative_fisher,
)
from tests.information import subsystems

#: Inputs at the ends of single neurons' range, where digits are easily lost.
EDGES = [s * a for s in (-1, 1) for a in (0.0, 1e-9, 0.3, 5.0, 37.0, 300.0, 690.0, 745.0, 1e4)]
NODES = [(1 / 6, math.sqrt(3)), (2 / 3, 0.0), (1 / 6, -math.sqrt(3))]


def mean(response, a):
    """f(a) as torch differentiates it."""
    if isinstance(response, Tanh):
        return torch.tanh(a)
    if isinstance(response, Sigmoid):
        return torch.sigmoid(a)
    if isinstance(response, Silu):
        return a * torch.sigmoid(a)
    if isinstance(response, Elu):
        # expm1 would be differentiated as itself + 1.
        return torch.where(a >= 0, a, response.alpha * (torch.exp(a.clamp(max=0)) - 1))
    if isinstance(response, Relu) and response.smoothing == 0:
        return torch.where(a > 0, a, response.leak * a)
    if isinstance(response, Relu):
        bend = torch.logaddexp(torch.zeros_like(a), (1 - response.leak) * a / response.smoothing)
        return response.leak * a + response.smoothing * bend
    return a


def answers(response, a):
    """(probability, ln p(y | a)) of the answers of one unit."""
    if isinstance(response, Tanh | Sigmoid):
        width = 2 if isinstance(response, Tanh) else 1
        logs = [torch.nn.functional.logsigmoid(sign * width * a) for sign in (1, -1)]
        return [(float(log.detach().exp()), log) for log in logs]
    f, s = mean(response, a), response.deviation
    return [(p, -0.5 * ((f.detach() - f) / s + node) ** 2) for p, node in NODES]


def layer_answers(layer, a):
    """The same of a whole layer."""
    if isinstance(layer, SoftmaxLayer):
        logs = torch.log_softmax(a, 0)
        return [(float(log.detach().exp()), log) for log in logs]
    found = []
    for combination in itertools.product(*(answers(layer.response, unit) for unit in a)):
        found.append((math.prod(p for p, _ in combination), sum(log for _, log in combination)))
    return found


def by_scores(subsystem, x):
    """E[score scoreᵀ] by the weights and biases of a layer, or of the inner one of two."""
    inner = subsystem.inner if isinstance(subsystem, TwoLayers) else subsystem
    augmented = torch.tensor(inner.augmented(x)[0])
    theta = torch.tensor(inner.parameters.reshape(inner.n_units, -1), requires_grad=True)
    a, last = theta @ augmented, inner
    if isinstance(subsystem, TwoLayers):
        last = subsystem.outer
        a = torch.tensor(last.weights) @ mean(inner.response, a)
        a = a if last.biases is None else a + torch.tensor(last.biases)
    total = np.zeros((theta.numel(),) * 2)
    for p, log in layer_answers(last, a):
        (score,) = torch.autograd.grad(log, theta, retain_graph=True)
        total += p * np.outer(score, score)
    return total


@given(
    st.just(Silu()) | subsystems.responses(),
    st.sampled_from(EDGES) | st.floats(-1e4, 1e4),
)
@settings(max_examples=200)
def test_one_neuron_at_any_input(response, a):
    """Digits kept wherever the metric is above 1e-290."""
    layer = Layer([[a]], response=response)
    found = relative_fisher(layer, [1.0]).dense()
    wanted = by_scores(layer, [1.0])
    # Where the slope of silu vanishes its terms cancel in either calculation.
    atol = 1e-15 if isinstance(response, Silu) and abs(a + 1.28) < 0.2 else 0.0
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    if wanted > 1e-290:
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=atol)
    else:
        assert found <= 2e-290


@given(subsystems.responses() | st.just("softmax"), subsystems.references_and_rows(3, 3))
@settings(max_examples=60, deadline=None)
def test_layers(response, drawn):
    """Blocks of independent units, the whole matrix of a softmax."""
    rows, x = drawn
    layer = SoftmaxLayer(rows) if response == "softmax" else Layer(rows, response=response)
    found, wanted = relative_fisher(layer, x).dense(), by_scores(layer, x)
    if response != "softmax":
        m, d = rows.shape
        inside = np.kron(np.eye(m), np.ones((d, d))) > 0
        assert (found[~inside] == 0).all()
        wanted = wanted * inside
    subsystems.check_elementwise(found, wanted)


RNG = np.random.default_rng(9)
W, B, C, D = (RNG.normal(size=shape) for shape in ((3, 2), 3, (2, 3), 2))
X = RNG.normal(size=2)
INNER = [Tanh(), Sigmoid(), Relu(1, 0.7, 0.2), Relu(1, 0), Elu(1.0, 1.7), Silu(), Linear()]
OUTER = [Tanh(), Sigmoid(), Relu(0.5), Elu(2.0, 0.4), Silu(0.7), Linear(2.0), "softmax"]


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_two_layers(inner, outer):
    above = SoftmaxLayer(C, D) if outer == "softmax" else Layer(C, D, response=outer)
    two = TwoLayers(Layer(W, B, response=inner), above)
    found, wanted = relative_fisher(two, X).dense(), by_scores(two, X)
    assert np.abs(found - wanted).max() <= 1e-13 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("inner", "agrees"),
    [
        (Tanh(), True),
        (Sigmoid(), True),
        (Linear(), True),
        (Relu(1.0, 0.0), True),
        (Relu(1.0, 0.0, 0.1), False),
        (Relu(1.0, 1.0), False),
        (Elu(1.0, 1.7), False),
        (Silu(), False),
    ],
)
def test_the_printed_equation_12_is_wrong_where_nu_is_not_the_slope(inner, agrees):
    """E10: ν_f of the hidden units in place of f′."""
    layer = Layer(W, B, response=inner)
    two = TwoLayers(layer, Layer(C, D))
    augmented = layer.augmented(X)
    inputs = layer.inputs(augmented)[0]
    middle = (C.T * Sigmoid().information(C @ inner.mean(inputs) + D)) @ C
    nu = inner.information(inputs)
    printed = np.kron(middle * np.outer(nu, nu), np.outer(augmented, augmented))
    wanted = by_scores(two, X)
    error = np.abs(printed - wanted).max() / np.abs(wanted).max()
    assert (error < 1e-13) if agrees else (error > 0.1)
