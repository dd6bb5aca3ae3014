"""Rows whose logits are far apart: value, slopes and curvatures to all digits, by every route."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")

import mpmath
import torch

import ebm.networks
from ebm.networks._labelled_rows import Block
from ebm.networks.series._surprise import surprise, surprise_series
from tests.networks.systems import minimize

MARGINS = [-800.0, -300.0, -40.0, -5.0, -0.25, 0.0, 0.25, 5.0, 40.0, 300.0, 800.0]
#: Smallest normal numbers: what lies below has fewer digits, or is 0.
TINY = {torch.float64: 1e-307, torch.float32: 1e-37}


def rows_of_logits(margin):
    """Logits of three classes; the label 0 is ahead of 1 by the margin, of 2 by other amounts."""
    others = [margin, 0.5 * margin, margin - 40.0, margin + 3.0, -margin]
    return [[margin, 0.0, margin - other] for other in others]


def exact(f):
    """−ln q_0, its gradient, and its Hessian: the Laplacian of the products of q."""
    with mpmath.workdps(50):
        weights = [mpmath.exp(mpmath.mpf(x) - f[0]) for x in f]
        q = [w / sum(weights) for w in weights]
        slopes = [-sum(q[1:]), *q[1:]]
        curvatures = [[-a * b for b in q] for a in q]
        for k, row in enumerate(curvatures):
            row[k] = q[k] * sum(q[j] for j in range(len(q)) if j != k)
        value = float(mpmath.log1p(sum(weights[1:])))
        return value, np.array(slopes, float), np.array(curvatures, float)


def close(got, expected, dtype, digits):
    """Relative to each number by itself, however small."""
    np.testing.assert_allclose(got.detach().double(), expected, rtol=digits, atol=TINY[dtype])


@pytest.mark.parametrize(("dtype", "digits"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
@pytest.mark.parametrize("margin", MARGINS)
def test_value_gradient_and_hessian_have_all_digits(margin, dtype, digits):
    """Each entry for itself, whichever class is ahead."""
    label = torch.tensor([0])
    for f in rows_of_logits(margin):
        if dtype is torch.float32 and max(f) - min(f) > 80:
            continue
        value, slopes, curvatures = exact(f)
        x = torch.tensor([f], dtype=dtype, requires_grad=True)
        got = surprise(x, label).sum()
        close(got, value, dtype, digits)
        (gradient,) = torch.autograd.grad(got, x, create_graph=True)
        close(gradient[0], slopes, dtype, digits)
        rows = [torch.autograd.grad(g, x, retain_graph=True)[0][0] for g in gradient[0]]
        close(torch.stack(rows), curvatures, dtype, digits)


def test_the_difference_of_the_whole_loses_them():
    """That the test above can fail: what the formula of the textbook gives at a margin of 40."""
    f = torch.tensor([[40.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    got = f.logsumexp(-1) - f[:, 0]
    (gradient,) = torch.autograd.grad(got.sum(), f)
    assert got.item() == 0
    assert gradient[0, 0].item() == 0 < exact([40.0, 0.0, 0.0])[0]


def test_ordinary_rows_are_what_they_were():
    """And rows of a batch of θ, of one class behind, of ties."""
    f = torch.randn(2, 50, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    f[0, 0] = 1.0
    labels = torch.arange(50) % 4
    x, y = (f.clone().requires_grad_() for _ in range(2))
    got = surprise(x, labels)
    expected = torch.nn.functional.cross_entropy(
        y.flatten(0, 1), labels.repeat(2), reduction="none"
    ).view(2, 50)
    np.testing.assert_allclose(got.detach(), expected.detach(), rtol=1e-13)
    got.square().sum().backward()
    expected.square().sum().backward()
    np.testing.assert_allclose(x.grad, y.grad, rtol=1e-12, atol=1e-15)


def confident(scale=20.0):
    """Two points, each ahead by twice the scale, and θ."""
    action = ebm.networks.SoftmaxMLPAction(
        [[1.0], [-1.0]], [0, 1], n_hidden=1, activation="identity"
    )
    blocks = [[scale], [-scale]], [0.0, 0.0], [[1.0]], [0.0]
    return action, torch.from_numpy(action.flatten(*blocks))


def exact_gradient(scale):
    """(∂S/∂U_00, ∂S/∂U_10) = ∓q, with S = ln(1 + e^{−2 scale})."""
    q = 1 / (1 + math.exp(2 * scale))
    return np.array([-q, q])


@pytest.fixture
def _forward(monkeypatch):
    """Forward differentiation without rules written for torch.jit, which is on its way out."""
    monkeypatch.setenv("PYTORCH_JIT", "0")


@pytest.mark.usefixtures("_forward")
@pytest.mark.parametrize("scale", [0.25, 20.0, 150.0])
def test_transforms_of_torch_agree_with_autograd(scale):
    """grad, jvp, vmap, jvp of jvp and both orders of the Hessian, of the action itself."""
    action, theta = confident(scale)
    func, direction = torch.func, torch.zeros_like(theta)
    direction[0] = 1.0
    leaf = theta.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(action.action(leaf), leaf, create_graph=True)
    (curvature,) = torch.autograd.grad(gradient[0], leaf)
    expected = exact_gradient(scale)
    np.testing.assert_allclose(gradient.detach()[:2], expected, rtol=1e-13)
    np.testing.assert_allclose(action.state_gradient(theta)[:2], expected, rtol=1e-13)

    def value(at):
        blocks = action.blocks_of(at)
        return surprise(
            ebm.networks.action._energy.logits(blocks, action.rows.inputs, action.activation),
            action.rows.labels,
        ).mean()

    def forward(f):
        return lambda x: func.jvp(f, (x,), (direction,))[1]

    batch = torch.stack([theta, theta])
    np.testing.assert_allclose(func.vmap(func.grad(value))(batch)[1, :2], expected, rtol=1e-13)
    for f in (value, action.action):
        np.testing.assert_allclose(func.grad(f)(theta)[:2], expected, rtol=1e-13)
        np.testing.assert_allclose(forward(f)(theta), expected[0], rtol=1e-13)
        np.testing.assert_allclose(forward(forward(f))(theta), curvature[0], rtol=1e-12)
    np.testing.assert_allclose(func.jacfwd(func.grad(value))(theta)[0], curvature, rtol=1e-12)
    np.testing.assert_allclose(func.jacrev(func.grad(value))(theta)[0], curvature, rtol=1e-12)


@pytest.mark.parametrize("scale", [0.25, 20.0, 150.0])
@pytest.mark.parametrize("label", [0, 1])
def test_series_about_a_confident_point_has_all_digits(scale, label):
    """Every order of S(θ_0 + tΔ): f = ±(scale + t), by the Taylor series of ln(1 + e^x)."""
    orders = torch.zeros(6, 1, 2, dtype=torch.float64)
    orders[0, 0] = torch.tensor([scale, -scale])
    orders[1, 0] = torch.tensor([1.0, -1.0])
    block = Block(torch.ones(1, 1), torch.tensor([label]), torch.ones(1, dtype=torch.float64))
    sign = -1 if label == 0 else 1
    with mpmath.workdps(400):
        expected = mpmath.taylor(
            lambda t: mpmath.log1p(mpmath.exp(sign * 2 * (mpmath.mpf(scale) + t))), 0, 5
        )
        # The linear order of a wrong row is 2 − small; of a right one, small itself.
        expected = np.array([float(x) for x in expected])
    np.testing.assert_allclose(surprise_series(orders, block), expected, rtol=1e-12)


def test_the_series_of_a_trained_network_has_all_digits():
    """By the general route, at the network as it is."""
    action, theta = confident()
    network = ebm.networks.as_module(action, theta)
    step = torch.zeros_like(theta)
    step[2] = 1.0  # torch lists W, b, U, c.
    own = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    S = ebm.networks.series(
        network, action.rows.inputs, action.rows.labels, 1, base=own, direction=step
    )
    np.testing.assert_allclose(S, [math.log1p(math.exp(-40)), exact_gradient(20)[0]], rtol=1e-13)


def test_a_step_of_training_moves_both_classes_alike():
    """At a rate of 1/q the step of gradient descent is (1, −1) in U, and W moves too."""
    action, theta = confident()
    q = exact_gradient(20)[1]
    result = minimize(action, theta, optimizer="sgd", lr=1 / q, n_epochs=1, monitor_every=0, rng=0)
    np.testing.assert_allclose(result.theta[:2] - theta[:2], [1.0, -1.0], rtol=1e-13)
    records = minimize(action, theta, n_epochs=0, rng=0).history
    assert records[0].training_action == pytest.approx(math.log1p(math.exp(-40)), rel=1e-13)


@pytest.mark.parametrize("f", [[math.inf, 0.0], [0.0, math.inf], [math.inf, math.inf]])
def test_logits_that_overflow_have_no_finite_surprise(f):
    """Not 0 where the right class overflowed: nothing is known of the others then."""
    got = surprise(torch.tensor([f], dtype=torch.float64), torch.tensor([0]))
    assert not math.isfinite(got)
