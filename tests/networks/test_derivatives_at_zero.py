"""Second and third derivatives of the action at zero against autograd, and the slips of sources."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse.linalg import aslinearoperator, eigsh

pytest.importorskip("torch")

import torch

import ebm.networks
from ebm.errors import MemoryLimitError, ModelError, ShapeError
from ebm.networks import ActionHessian, ActionThirdDerivatives
from ebm.networks.action import _energy
from tests.networks.systems import SMOOTH, shifted_tanh, softmax_mlp, systems, with_activation

pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
EXACT = {"rtol": 0, "atol": 1e-12}
EVERY = [*SMOOTH, "formal_relu", shifted_tanh()]

#: The rows and labels of the reference numbers, p(m) = 1/4, 1/2, 1/4.
Z = np.array([[0.5, -1.0], [1.2, 0.3], [-0.7, 0.8], [0.1, 0.4]])
LABELS = np.array([0, 1, 2, 1])


def gradient(action, theta):
    """∂S/∂θ by autograd, differentiable."""
    (slope,) = torch.autograd.grad(action.action(theta), theta, create_graph=True)
    return slope


def hessian(function, n):
    """The Hessian at 0 of a function of θ, row by row."""
    theta = torch.zeros(n, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(theta), theta, create_graph=True)
    rows = [
        torch.autograd.grad(x, theta, retain_graph=True, materialize_grads=True)[0]
        if x.requires_grad
        else torch.zeros(n, dtype=torch.float64)
        for x in slope
    ]
    return torch.stack(rows).numpy()


def by_autograd(action, v):
    """∂²S and ∂³S(v, ·, ·) at 0."""
    n, along = action.space.n, torch.from_numpy(v)
    return hessian(action.action, n), hessian(lambda t: gradient(action, t) @ along, n)


def places(action):
    """The slice of θ of each letter."""
    sizes = {letter: math.prod(shape) for letter, shape in action.shapes.items()}
    ends = np.cumsum(list(sizes.values()))
    return {k: slice(end - size, end) for (k, size), end in zip(sizes.items(), ends, strict=True)}


@pytest.mark.parametrize("activation", EVERY, ids=lambda a: getattr(a, "name", a))
@settings(max_examples=6)
@given(data=systems())
def test_operators_and_arrays_are_the_derivatives_of_the_action(activation, data):
    """By autograd, for balanced and other classes, weights of rows, s_0 = 0 or not."""
    action, theta, rows = data
    action = with_activation(action, rows, activation)
    second, slope = by_autograd(action, theta)
    H, T = ActionHessian(action), ActionThirdDerivatives(action)
    np.testing.assert_allclose(H.dense(), second, **EXACT)
    np.testing.assert_allclose(H.diagonal(), second.diagonal(), **EXACT)
    np.testing.assert_allclose(H @ np.eye(len(theta)), second, **EXACT)
    np.testing.assert_allclose(H.eigenvalues(), np.linalg.eigvalsh(second), **EXACT)
    along = T.along(theta)
    np.testing.assert_allclose(along.dense(), slope, **EXACT)
    np.testing.assert_allclose(along.diagonal(), slope.diagonal(), **EXACT)
    np.testing.assert_allclose(along @ theta, slope @ theta, **EXACT)
    whole = T.dense()
    np.testing.assert_allclose(whole @ theta, slope, **EXACT)
    for axes in itertools.permutations(range(3)):
        np.testing.assert_allclose(whole.transpose(axes), whole, **EXACT)


@pytest.mark.parametrize("activation", ["silu", shifted_tanh()], ids=["s_0 = 0", "s_0 ≠ 0"])
def test_blocks_are_those_of_the_arrays_and_the_others_vanish(activation):
    """Whatever the order of the letters; with s_0 ≠ 0 five, and eleven, do not vanish."""
    action = ebm.networks.SoftmaxMLPAction(Z, LABELS, 2, activation=activation)
    at = places(action)
    for operator, order in ((ActionHessian(action), 2), (ActionThirdDerivatives(action), 3)):
        whole = operator.dense()
        present = set()
        for name in itertools.product("UcWb", repeat=order):
            expected = whole[tuple(at[letter] for letter in name)]
            block = operator.block("".join(name))
            assert block.shape == sum((action.shapes[letter] for letter in name), ())
            np.testing.assert_allclose(block.reshape(expected.shape), expected, **EXACT)
            if block.any():
                present.add("".join(sorted(name, key="UWbc".index)))
        assert present == set(operator.block_names)
    few = activation == "silu"
    assert len(ActionHessian(action).block_names) == (3 if few else 5)
    assert len(ActionThirdDerivatives(action).block_names) == (6 if few else 11)


@pytest.mark.parametrize("activation", ["silu", "softplus"])
@settings(max_examples=5)
@given(data=systems())
def test_terms_of_the_series_are_contracted_blocks(activation, data):
    """S_2 = ½ H(θ, θ) and S_3 = T(θ, θ, θ)/6, and the same term by term."""
    action, theta, rows = data
    action = with_activation(action, rows, activation)
    expansion = action.expand(theta, 3)
    H, T = expansion.hessian(), expansion.third_derivatives()
    _, _, S2, S3 = expansion.coefficients
    assert theta @ (H @ theta) / 2 == pytest.approx(S2, abs=1e-12)
    assert theta @ (T.along(theta) @ theta) / 6 == pytest.approx(S3, abs=1e-12)
    blocks = action.unflatten(theta)._asdict()
    terms = {name: x for name, x in expansion.terms.items() if len(name) > 1}
    for operator, order in ((H, 2), (T, 3)):
        assert {n for n in terms if len(n) == order} == set(operator.block_names)
        for name in operator.block_names:
            value = operator.block(name)
            for letter in name:
                value = np.tensordot(blocks[letter], value, blocks[letter].ndim)
            repeated = math.prod(math.factorial(k) for k in Counter(name).values())
            assert value / repeated == pytest.approx(terms[name], abs=1e-12)


@pytest.mark.parametrize(
    ("activation", "norms", "numbers"),
    [
        (
            "silu",
            (0.7200501526, 1.3558227480),
            (0.0668804061, -0.3894846474),
        ),
        (
            "softplus",
            (1.0727200577, 1.6105204892),
            (0.9104534218, 2.1896688271),
        ),
    ],
)
def test_reference_numbers(activation, norms, numbers):
    """Norms, and contractions with v_k = sin(k)."""
    action = ebm.networks.SoftmaxMLPAction(Z, LABELS, 2, activation=activation)
    H, T = ActionHessian(action), ActionThirdDerivatives(action)
    v = np.sin(np.arange(1, action.space.n + 1))
    found = np.linalg.norm(H.dense()), np.linalg.norm(T.dense())
    np.testing.assert_allclose(found, norms, rtol=0, atol=6e-11)
    found = v @ (H @ v), v @ (T.along(v) @ v)
    np.testing.assert_allclose(found, numbers, rtol=0, atol=6e-11)


def test_zero_is_a_saddle():
    """1/M, M − 1 times, ±s_1 times the singular values of (D[z], D[1]), once a unit, and zeros."""
    action = ebm.networks.SoftmaxMLPAction(Z, LABELS, 2)
    found = ActionHessian(action).eigenvalues()
    both = [0.39621447 / 2, 0.37318105 / 2] * 2
    expected = np.sort([*both, *(-x for x in both), 1 / 3, 1 / 3, *[0] * 5])
    np.testing.assert_allclose(found, expected, rtol=0, atol=6e-9)
    bent = ebm.networks.SoftmaxMLPAction(Z, LABELS, 2, activation="softplus")
    found = ActionHessian(bent).eigenvalues()
    ends = [-0.19810723, -0.18659052, -0.15388089, -0.14436606]
    np.testing.assert_allclose(found[:4], ends, rtol=0, atol=6e-9)
    np.testing.assert_allclose(found[-2:], [0.6797377, 0.68305326], rtol=0, atol=6e-9)


def test_a_sparse_solver_finds_the_ends_of_the_spectrum():
    """Through products only, at 20 100 parameters."""
    rng = np.random.default_rng(0)
    z, labels = rng.normal(0.2, 1, (300, 90)), np.arange(300) % 10
    action = ebm.networks.SoftmaxMLPAction(z, labels, 200, activation="softplus")
    H = ActionHessian(action)
    exact = H.eigenvalues()
    assert exact.shape == (action.space.n,)
    found = eigsh(aslinearoperator(H), 2, which="SA", return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(found), exact[:2], rtol=1e-9)
    assert H.trace() == pytest.approx(exact.sum(), rel=1e-9)


# The slips of [ACT], each with what it would do to a derivative.


def balanced_action():
    """Two rows in each of three classes."""
    z = np.random.default_rng(3).normal(0.4, 1, (6, 2))
    return ebm.networks.SoftmaxMLPAction(z, [0, 1, 2, 0, 1, 2], 2)


def test_the_half_of_act_gives_another_second_order():
    """E5: with the printed factor a mixed second derivative would occur once in S_2."""
    action = balanced_action()
    theta = np.random.default_rng(0).normal(0, 0.5, action.space.n)
    U, _, W, _ = action.unflatten(theta)
    H = ActionHessian(action)
    printed = theta @ (H @ theta) / 2
    printed -= np.einsum("aijx,ai,jx->", H.block("UW"), U, W) / 2
    exact = action.expand(theta, 2).coefficients[2]
    assert theta @ (H @ theta) / 2 == pytest.approx(exact, abs=1e-13)
    assert abs(printed - exact) > 1e-3


def test_the_sixth_of_act_is_not_the_third_derivative():
    """∂³S/∂U∂W∂b: 1/(2M) J, of which the first of the two printed forms is a third."""
    action = balanced_action()
    J = ebm.networks.class_moments(action, 1)
    block = ActionThirdDerivatives(action).block("UWb")
    mine = block[:, 0, 0, :, 0]
    np.testing.assert_allclose(mine, J / (2 * 3), atol=1e-15)
    assert abs(mine - J / (6 * 3)).max() > 0.01


def test_the_mean_input_and_no_input_stands_in_a_third_derivative():
    """∂³S/∂U∂W∂c has Z_γ = E[z_γ]: the printed z_γ would differ from row to row."""
    action = balanced_action()
    block = ActionThirdDerivatives(action).block("UWc")[:, 0, 0]
    (rows,) = action.rows.blocks(6)
    P = ebm.networks.class_covariance(3)
    z = rows.inputs.numpy()
    np.testing.assert_allclose(block, 0.5 * np.einsum("ad,x->axd", P, z.mean(0)), atol=1e-15)
    for row in z:
        assert abs(block - 0.5 * np.einsum("ad,x->axd", P, row)).max() > 0.01


def derivatives_of_logits(action, theta):
    """f of one row, its first, second and third derivatives, (M,), (M, p), (M, p, p), …."""
    function = torch.nn.functional.silu

    def f(t):
        U, c, W, b = action.blocks_of(t)
        rows = next(action.rows.blocks(1))
        return (function(rows.inputs @ W.mT + b) @ U.mT + c)[0]

    jacobian = torch.autograd.functional.jacobian

    def first(t):
        return jacobian(f, t, create_graph=True)

    def second(t):
        return jacobian(first, t, create_graph=True)

    values = f(theta), first(theta), second(theta), jacobian(second, theta)
    return [x.detach().numpy() for x in values]


def test_general_third_derivative_of_act_needs_another_last_term():
    """Away from 0: among the terms q_α q_β the last one is f_α(θ) f_β(θ′) f_β(θ″)."""
    # One input with all three labels.
    three = ebm.networks.SoftmaxMLPAction(np.full((3, 1), 0.7), [0, 1, 2], 1)
    theta = torch.tensor(np.random.default_rng(1).normal(0, 0.7, three.space.n))
    f, first, second, third = derivatives_of_logits(three, theta)
    q = np.exp(f) / np.exp(f).sum()
    mean = [np.tensordot(q, x, 1) for x in (first, second, third)]
    es = np.einsum
    pair = es("a,ai,ajk->ijk", q, first, second)
    mixed = es("ij,k->ijk", mean[1], mean[0])
    squares = es("a,ai,aj->ij", q, first, first)
    turned = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    common = mean[2] + es("a,ai,aj,ak->ijk", q, first, first, first) - third.mean(0)
    common += sum(pair.transpose(axes) for axes in turned)
    common -= sum(mixed.transpose(axes) for axes in turned)
    common += 2 * es("i,j,k->ijk", *[mean[0]] * 3)
    # The last pair of factors with one class is (θ′, θ″); printed is (θ, θ′) again.
    two = es("ij,k->ijk", squares, mean[0])
    right = common - two - es("ik,j->ijk", squares, mean[0]) - es("jk,i->ijk", squares, mean[0])
    printed = common - two - es("ik,j->ijk", squares, mean[0]) - two
    jacobian = torch.autograd.functional.jacobian
    exact = jacobian(
        lambda t: torch.autograd.functional.hessian(three.action, t, create_graph=True), theta
    ).numpy()
    np.testing.assert_allclose(right, exact, atol=1e-13)
    assert abs(printed - exact).max() > 0.01


def test_relative_entropy_of_act_can_be_negative():
    """Σ p(z, m) ln p(z, m) − Σ p(z, m) ln q_m(z): q is no distribution of (z, m); S − ln N here."""
    action = balanced_action()
    at_zero = float(action.action(np.zeros(action.space.n)))
    assert at_zero - math.log(6) == pytest.approx(math.log(3 / 6))


def test_numbers_of_summands():
    """M H E² = 2.1·10¹⁰ elements of UWW and M² H = 2.0·10⁵ of Ubc; [ACT] has 2.2 and 2.1."""
    numbers = {
        "UWW": lambda m, h, e: m * h * e**2,
        "Ubc": lambda m, h, e: m**2 * h,
        "UWc": lambda m, h, e: m**2 * h * e,
        "UWb": lambda m, h, e: m * h * e,
    }
    T = ActionThirdDerivatives(balanced_action())
    for name, number in numbers.items():
        assert np.count_nonzero(T.block(name)) == number(3, 2, 2)
    full = [f"{number(10, 2048, 1024):.1e}" for number in numbers.values()]
    assert full == ["2.1e+10", "2.0e+05", "2.1e+08", "2.1e+07"]


# What the operators cost, and what they refuse.


def test_products_at_large_size_form_no_matrix():
    """A million parameters; matrix, array and blocks are refused before any work."""
    rng = np.random.default_rng(0)
    z, labels = rng.normal(size=(40, 1000)).astype(np.float32), np.arange(40) % 10
    action = ebm.networks.SoftmaxMLPAction(z, labels, 1000)
    H, T = ActionHessian(action), ActionThirdDerivatives(action)
    v = rng.normal(0, 1e-2, action.space.n)
    S = action.expand(v, 3).coefficients
    assert v @ (H @ v) / 2 == pytest.approx(S[2], rel=1e-3)
    assert v @ (T.along(v) @ v) / 6 == pytest.approx(S[3], rel=1e-3)
    assert len(H.eigenvalues()) == action.space.n
    with pytest.raises(MemoryLimitError, match="use its products"):
        H.dense()
    with pytest.raises(MemoryLimitError, match="use along"):
        T.dense()
    with pytest.raises(MemoryLimitError, match="block UWW of derivatives"):
        T.block("UWW")
    with pytest.raises(MemoryLimitError, match="block UW of derivatives"):
        H.block("UW")


def test_rows_in_blocks_give_the_same_product(monkeypatch):
    """A pass over the rows in blocks of one, and in float32."""
    rng = np.random.default_rng(4)
    z, labels = rng.normal(size=(12, 3)), np.arange(12) % 3
    action = ebm.networks.SoftmaxMLPAction(z, labels, 4)
    v, u = rng.normal(size=(2, action.space.n))
    whole = ActionThirdDerivatives(action).along(v) @ u
    single = softmax_mlp(z, labels, 4, dtype="float32")
    rounded = ActionThirdDerivatives(single).along(v) @ u
    np.testing.assert_allclose(rounded, whole, rtol=0, atol=1e-6 * abs(whole).max())
    monkeypatch.setattr(_energy, "BLOCK_BYTES", 1)
    np.testing.assert_allclose(ActionThirdDerivatives(action).along(v) @ u, whole, atol=1e-14)


def test_what_is_refused():
    """Each error names its argument."""
    relu = ebm.networks.SoftmaxMLPAction(Z, LABELS, 2, activation="relu")
    for operator in (ActionHessian, ActionThirdDerivatives):
        with pytest.raises(ModelError, match="relu has no Taylor series at 0"):
            operator(relu)
    action = softmax_mlp(Z, LABELS, 2, dtype="float32")
    H, T = ActionHessian(action), ActionThirdDerivatives(action)
    for name in ("UWb", "UX", 3):
        with pytest.raises(ModelError, match="name must be 2 of the letters U, c, W, b"):
            H.block(name)
    with pytest.raises(ModelError, match="such as UWW, got 'UW'"):
        T.block("UW")
    with pytest.raises(ShapeError, match=r"vector must have shape \(15,\), got \(15, 2\)"):
        T.along(np.ones((15, 2)))
    with pytest.raises(ModelError, match="vector must be finite"):
        T.along(np.full(15, np.nan))
    with pytest.raises(ModelError, match=r"overflows torch\.float32: shrink"):
        T.along(np.full(15, 1e25)).matvec(np.full(15, 1e25))
