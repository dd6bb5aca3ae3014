"""The named terms against the exact expansion, and the slips of the sources."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

pytest.importorskip("torch")

import ebm.networks
from ebm.errors import LimitError, MemoryLimitError, ModelError, ShapeError
from tests.networks.systems import (
    SMOOTH,
    labels_for,
    multidegree,
    shifted_tanh,
    systems,
    with_activation,
)

pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")


def balanced(seed=0, activation="silu", m=4, e=3, h=4):
    """A balanced system, a point of it, its rows, and its J by loops."""
    rng = np.random.default_rng(seed)
    labels = labels_for(rng, m, 3 * m, True)
    z = rng.normal(0.3, 1, (len(labels), e))
    action = ebm.networks.SoftmaxMLPAction(z, labels, h, activation=activation)
    theta = rng.normal(0, 1, action.space.n)
    p = np.eye(m)[labels] / len(labels)
    J1 = np.array([z.mean(0) - z[labels == k].mean(0) for k in range(m)])
    outer = z[:, :, None] * z[:, None, :]
    J2 = np.array([outer.mean(0) - outer[labels == k].mean(0) for k in range(m)])
    return action, theta, (z, p), J1, J2


@pytest.mark.parametrize("activation", [*SMOOTH, "formal_relu", "relu"])
@settings(max_examples=10)
@given(data=systems())
def test_sums_of_the_terms_are_the_series(activation, data):
    """Orders 0 to 4, balanced or not, M = 2 … 5."""
    action, theta, rows = data
    other = with_activation(action, rows, activation)
    exact = other.expand(theta, 4).coefficients
    forms = ebm.networks.closed_forms(other, theta)
    np.testing.assert_allclose(forms.coefficients, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "activation", [*SMOOTH, shifted_tanh()], ids=lambda a: getattr(a, "name", a)
)
@settings(max_examples=6)
@given(data=systems(min_classes=3))
def test_each_term_is_its_part_of_the_expansion(activation, data):
    """By degree in U, W, b and c, through circles in the complex plane; none is missing."""
    action, theta, rows = data
    other = with_activation(action, rows, activation)
    parts = multidegree(other, theta, rows, 4)
    terms = ebm.networks.closed_forms(other, theta).terms
    assert set(terms) <= set(parts)
    for name, part in parts.items():
        assert terms.get(name, 0.0) == pytest.approx(part, rel=1e-8, abs=1e-9), name


def test_terms_by_hand_with_explicit_moments():
    """The balanced SiLU formulas, J and J of two indices written out."""
    action, theta, (z, _), J1, J2 = balanced()
    U, c, W, b = action.unflatten(theta)
    P, M = ebm.networks.class_covariance(4), 4
    terms = ebm.networks.closed_forms(action, theta, 3).terms
    centered = c - c.mean()
    expected = {
        "cc": c @ P @ c / 2,
        "UW": (J1 * (U @ W)).sum() / (2 * M),
        "ccc": (centered**3).mean() / 6,
        "Ubc": c @ P @ (U @ b) / 2,
        "UWc": c @ P @ (U @ W @ z.mean(0)) / 2,
        "UWb": np.einsum("ag,ab,bg,b->", J1, U, W, b) / (2 * M),
        "UWW": np.einsum("agd,ab,bg,bd->", J2, U, W, W) / (4 * M),
    }
    for name, value in expected.items():
        assert terms[name] == pytest.approx(value, rel=1e-11), name
    rest = [abs(term) for name, term in terms.items() if name not in expected]
    assert max(rest) < 1e-14


def test_fourth_order_by_hand():
    """SiLU's order 4 has no part in UWWW, and ⅛ of a variance in UUWW."""
    action, theta, (z, _), _, _ = balanced()
    U, _, W, _ = action.unflatten(theta)
    terms = ebm.networks.closed_forms(action, theta).terms
    assert "UWWW" not in terms
    assert terms["UUWW"] == pytest.approx((z @ W.T @ U.T).var(1).mean() / 8, rel=1e-11)
    assert terms["UUWW"] > 0


class TestErrata:
    """What the sources print differs from the exact parts by the stated factors."""

    @pytest.mark.parametrize(("activation", "slope"), [("silu", 0.5), ("formal_relu", 1.0)])
    def test_second_order(self, activation, slope):
        """E5: [ACT] eq 6 and [ACT-R] eq 9 print half of the second term."""
        action, theta, rows, J1, _ = balanced(1, activation)
        U, _, W, _ = action.unflatten(theta)
        printed = 0.5 * slope * (J1 * (U @ W)).sum() / 4
        exact = multidegree(action, theta, rows, 2)["UW"]
        assert exact / printed == pytest.approx(2, rel=1e-8)
        assert ebm.networks.closed_forms(action, theta).terms["UW"] / printed == pytest.approx(2)

    def test_third_order(self):
        """E6: the mixed terms of [ACT] are a sixth, UWW a third; ccc is right."""
        action, theta, rows, J1, J2 = balanced(2)
        U, c, W, b = action.unflatten(theta)
        M, Z = 4, rows[0].mean(0)
        P = np.eye(M) / (12 * M) - 1 / (12 * M**2)
        same = np.eye(M)
        d3 = np.zeros((M, M, M))
        d3[np.arange(M), np.arange(M), np.arange(M)] = 1
        pairs = same[:, :, None] + same[:, None, :] + same[None]
        cubic = d3 / (6 * M) - pairs / (6 * M**2) + 1 / (3 * M**3)
        printed = {
            "ccc": (np.einsum("abc,a,b,c->", cubic, c, c, c), 1),
            "Ubc": ((U @ b) @ P @ c, 6),
            "UWc": ((U @ W @ Z) @ P @ c, 6),
            "UWb": (np.einsum("ag,ab,bg,b->", J1, U, W, b) / (12 * M), 6),
            "UWW": (np.einsum("agd,ab,bg,bd->", J2, U, W, W) / (12 * M), 3),
        }
        exact = multidegree(action, theta, rows, 3)
        terms = ebm.networks.closed_forms(action, theta).terms
        for name, (value, factor) in printed.items():
            assert exact[name] / value == pytest.approx(factor, rel=1e-6), name
            assert terms[name] / value == pytest.approx(factor, rel=1e-10), name

    def test_higher_orders(self):
        """E7: the main term has 1/n!, not 1/(n+1)!."""
        action, theta, rows, _, _ = balanced(3, "sigmoid")
        U, _, W, _ = action.unflatten(theta)
        exact = multidegree(action, theta, rows, 4)
        main = ebm.networks.main_terms(action, theta, 4)
        s = [0.25, 0.0, -0.125]
        w = rows[0] @ W.T
        for n in (1, 3):
            means = np.array(
                [(w**n).mean(0) - (w[rows[1][:, k] > 0] ** n).mean(0) for k in range(4)]
            )
            guess = s[n - 1] / (math.factorial(n + 1) * 4) * (means * U).sum()
            assert exact["U" + "W" * n] / guess == pytest.approx(n + 1, rel=1e-6)
            assert main[n + 1] == pytest.approx((n + 1) * guess, rel=1e-11)

    def test_the_main_terms_miss_what_is_left_when_they_vanish(self):
        """E7: at order 4 of SiLU s_3 = 0, and a positive term remains."""
        action, theta, _, _, _ = balanced(4)
        assert ebm.networks.main_terms(action, theta, 4)[4] == 0
        U, _, W, _ = action.unflatten(theta)
        plain = action.flatten(U, np.zeros(4), W, np.zeros(4))
        forms = ebm.networks.closed_forms(action, plain)
        assert forms.coefficients[4] == pytest.approx(forms.terms["UUWW"], rel=1e-11)
        assert forms.coefficients[4] > 0.1

    @pytest.mark.parametrize("m", [2, 3, 4, 7])
    def test_class_covariance_is_positive_semidefinite(self, m):
        """E8: eigenvalues 1/M and, once, 0 along (1, …, 1); [ACT] calls it indefinite."""
        P = ebm.networks.class_covariance(m)
        expected = [0] + [1 / m] * (m - 1)
        np.testing.assert_allclose(np.linalg.eigvalsh(P), expected, atol=1e-15)
        np.testing.assert_allclose(P @ np.ones(m), 0, atol=1e-15)
        action, theta, _, _, _ = balanced(5, m=m)
        zero = action.flatten(
            np.zeros((m, 4)), action.unflatten(theta).c, *[np.zeros((4, 3)), np.zeros(4)]
        )
        assert ebm.networks.closed_forms(action, zero, 2).coefficients[2] > 0

    def test_cross_entropy_stays_above_the_entropy_of_the_labels(self):
        """E9: labels that are no function of z keep S ≥ H(m|z) > 0."""
        z, labels = [[1.0], [1.0], [1.0], [2.0]], [0, 1, 1, 0]
        action = ebm.networks.SoftmaxMLPAction(z, labels, 3)
        floor = 0.75 * -(math.log(1 / 3) / 3 + 2 * math.log(2 / 3) / 3)
        draws = np.random.default_rng(0).normal(0, 3, (200, action.space.n))
        assert action.action(draws).min() > floor


def test_relu_is_not_the_formal_relu():
    """True: F_2 = U relu(a) and nothing above; formal: [ACT-R]'s s_1 = 1, which is σ(a) = a."""
    true, theta, (z, p), J1, _ = balanced(6, "relu")
    formal = balanced(6, "formal_relu")[0]
    U, c, W, b = true.unflatten(theta)
    cc = c @ ebm.networks.class_covariance(4) @ c / 2
    F = np.maximum(z @ W.T + b, 0) @ U.T
    surplus = (F.mean(1) - (F * p * len(z)).sum(1)).mean()
    assert true.expand(theta, 2).coefficients[2] == pytest.approx(cc + surplus, rel=1e-12)
    assert formal.expand(theta, 2).coefficients[2] == pytest.approx(
        cc + (J1 * (U @ W)).sum() / 4, rel=1e-12
    )
    assert abs(true.expand(theta, 2).coefficients - formal.expand(theta, 2).coefficients)[2] > 0.1
    names = set(ebm.networks.closed_forms(true, theta, 3).terms)
    assert names == {"c", "cc", "ccc", "Ua", "Uac"}


def test_relu_series_holds_on_its_side_only():
    """S(tθ) for t > 0 to the order of the next term, and not for t < 0."""
    action, theta, *_ = balanced(7, "relu")
    expansion = action.expand(theta, 5)
    errors = [abs(expansion.partial_sums(t)[-1] - action.action(t * theta)) for t in (0.02, 0.04)]
    assert min(errors) > 1e-13
    assert math.log2(errors[1] / errors[0]) > 5.7
    with pytest.raises(ModelError, match="t must not be negative"):
        expansion.partial_sums(-0.1)
    wrong = (expansion.coefficients * (-0.02) ** np.arange(6)).sum()
    assert abs(wrong - action.action(-0.02 * theta)) > 1e-5


@settings(max_examples=10)
@given(data=systems())
def test_class_moments_by_loops(data):
    """J of one and two indices, and their contraction with the right factors."""
    action, _, (z, p) = data
    for degree, spec in ((1, "zi->zi"), (2, "zi,zj->zij"), (3, "zi,zj,zk->zijk")):
        outer = np.einsum(spec, *[z] * degree)
        overall = np.tensordot(p.sum(1), outer, 1)
        expected = [
            overall - np.tensordot(p[:, k] / p[:, k].sum(), outer, 1) for k in range(p.shape[1])
        ]
        got = ebm.networks.class_moments(action, degree)
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-12)


def test_limits_are_stated_before_any_work():
    """Memory of J, the order of closed forms."""
    action, theta, *_ = balanced()
    with pytest.raises(
        MemoryLimitError, match=r"J of degree 9 would take 615 KiB.*raise max_bytes"
    ):
        ebm.networks.class_moments(action, 9, max_bytes=1e5)
    with pytest.raises(LimitError, match="order must be at most 4 for closed forms, got 5"):
        ebm.networks.closed_forms(action, theta, 5)
    with pytest.raises(MemoryLimitError, match=r"J of degree 2000 would take inf"):
        ebm.networks.class_moments(action, 2000)
    for wrong in (0, 1.5, np.array(1.5)):
        with pytest.raises(ShapeError, match="degree must be a positive integer"):
            ebm.networks.class_moments(action, wrong)
        with pytest.raises(ShapeError, match="n_classes must be a positive integer"):
            ebm.networks.class_covariance(wrong)
    with pytest.raises(ModelError, match="relu has no Taylor series at 0"):
        ebm.networks.main_terms(balanced(0, "relu")[0], theta, 3)


def test_terms_of_one_order_come_largest_first():
    """And add up to it."""
    action, theta, *_ = balanced()
    forms = ebm.networks.closed_forms(action, theta)
    third = forms.at_order(3)
    sizes = [abs(term) for term in third.values()]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(third.values()) == pytest.approx(forms.coefficients[3], rel=1e-12)
    assert action.expand(theta, 3).terms["UWW"] == third["UWW"]
