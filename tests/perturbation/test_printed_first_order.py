"""[EBM] eqs 31–33 as printed, the diagonal of W of first order, beside what `expand` folds."""

import numpy as np

import ebm
from ebm.perturbation import central_moment_tensor, connected_tensor, expand
from tests.oracles import all_states

B = np.array([0.3, -0.5, 0.8])
W = np.array([[0.6, 0.5, -0.3], [0.5, -0.4, 0.7], [-0.3, 0.7, 0.9]])
SIGMA = 1 / (1 + np.exp(-B))


def printed(t):
    """p_1/p_0 of all states, means and covariances to first order at the center σ(b)."""
    second, third = central_moment_tensor(SIGMA, 2), central_moment_tensor(SIGMA, 3)
    y = all_states(ebm.Binary(3)) - SIGMA
    ratio = 0.5 * (np.einsum("si,ij,sj->s", y, t * W, y) - (t * W * second).sum())
    mean = SIGMA + 0.5 * np.einsum("ab,abc->c", t * W, third)
    fourth = 0.5 * np.einsum("ab,abmn->mn", t * W, connected_tensor(SIGMA, 4))
    return ratio, mean, second + second @ (t * W) @ second + fourth


def folded(t):
    series = expand(ebm.BoltzmannMachine(t * W, B, center=SIGMA), 1)
    return series.mean_terms.sum(axis=0), series.covariance_terms.sum(axis=0)


def exact(t):
    moments = ebm.exact(ebm.BoltzmannMachine(t * W, B, center=SIGMA)).moments()
    return moments.mean, moments.covariance


def test_the_printed_numbers():
    ratio, mean, covariance = printed(1.0)
    np.testing.assert_allclose(ratio[[0, 7]], [0.33399881, 0.12544544], atol=6e-9)
    np.testing.assert_allclose(mean, [0.56352366, 0.36602931, 0.65340084], atol=6e-9)
    expected = [0.24608397, 0.02872431, -0.01568760, 0.23218437, 0.03518870, 0.22780582]
    np.testing.assert_allclose(covariance[np.triu_indices(3)], expected, atol=6e-9)


def test_both_forms_are_right_to_first_order_and_differ_in_second():
    """Halving divides errors and the difference by four; a variance is not m(1 − m) in second."""
    for one, other in ((printed, exact), (folded, exact), (printed, folded)):
        for part in (-2, -1):
            large, small = (np.abs(one(t)[part] - other(t)[part]).max() for t in (0.01, 0.005))
            assert 3.8 < large / small < 4.2
    for t, bound in ((1.0, 1e-4), (0.01, 1e-8)):
        _, mean, covariance = printed(t)
        assert np.abs(covariance.diagonal() - mean * (1 - mean)).max() > bound


def test_eq_31_gives_eqs_32_and_33():
    states = all_states(ebm.Binary(3))
    p0 = np.where(states == 1, SIGMA, 1 - SIGMA).prod(axis=1)
    ratio, mean, covariance = printed(1.0)
    y = states - SIGMA
    np.testing.assert_allclose(SIGMA + (p0 * ratio) @ y, mean, atol=1e-15)
    np.testing.assert_allclose((y.T * p0 * (1 + ratio)) @ y, covariance, atol=1e-15)
