"""
Where the truncated action has no minimum
=========================================

The second order of the action along c is ½ cᵀPc with P = δ/M − 1/M². [ACT] infers from det P ≤ 0
that P is not positive semi-definite, so that c = 0 is no minimum. Its eigenvalues say otherwise.
θ = 0 is a saddle point because of the other term of second order, bilinear in U and W. Along
explicit lines the truncated action tends to −∞, while S is bounded from below by the conditional
entropy of the labels.
"""

import argparse
import sys

import matplotlib.pyplot as plt
import numpy as np

from ebm.plotting.style import COLORS

try:
    import torch
    from sklearn.datasets import load_digits

    from ebm.networks import (
        RowSettings,
        SoftmaxMLPAction,
        class_covariance,
        class_moments,
        closed_forms,
    )
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

# %%
# P has the eigenvalue 1/M on all vectors of sum 0, and 0 along (1, …, 1), a shift of all logits
# that leaves the softmax unchanged. Hence det P = 0, although no eigenvalue is negative.

argparse.ArgumentParser().parse_args(sys.argv[1:])
for M in range(2, 11):
    values, vectors = np.linalg.eigh(class_covariance(M))
    np.testing.assert_allclose(values, [0] + (M - 1) * [1 / M], atol=1e-15)
    np.testing.assert_allclose(abs(vectors[:, 0].sum()), np.sqrt(M))
    print(f"M = {M:2}: eigenvalues {abs(values[0]):.0e} along (1, …, 1), {M - 1} × {values[1]:.4f}")

# %%
# All eigenvalues of the matrix of second derivatives of S at θ = 0, by automatic differentiation on
# the digits: 1/M from c, M − 1 times, and from U and W the pairs ±(s_1/M) times each singular value
# of J, once for each hidden unit.

digits = load_digits()
images, labels, M = digits.data / 16, digits.target, 10
balanced = 1 / np.bincount(labels)[labels]
assert len(np.unique(images, axis=0)) == len(images)  # so that H(m|z) = 0


def network(n_hidden):
    return SoftmaxMLPAction(images, labels, n_hidden, settings=RowSettings(sample_weight=balanced))


small = network(2)
origin = torch.zeros(small.space.n, dtype=small.dtype)
curvatures = torch.linalg.eigvalsh(torch.autograd.functional.hessian(small.action, origin)).numpy()
J = class_moments(small, 1)
singular = np.linalg.svd(J, compute_uv=False)
print("curvatures: lowest", curvatures[:4].round(5), "highest", curvatures[-4:].round(5))
print("(s_1/M) × singular values of J:", (0.5 / M * singular[:2]).round(5), "…")
print(f"negative {np.sum(curvatures < -1e-9)}, positive {np.sum(curvatures > 1e-9)}", end=", ")
print(f"zero {np.sum(abs(curvatures) <= 1e-9)} of {len(curvatures)}")

# %%
# Three lines tθ, scaled so that the first order that is not zero is ∓1 at t = 1.
#
# 1. U = −JWᵀ with any W, and b = c = 0: S_2 = −(s_1/M) Σ (JWᵀ)².
# 2. Hidden units in pairs w, −w with equal U, so that the odd part of the activation drops out, and
#    with it S_2 and, for SiLU, S_4. With U_α = −D_α[(Wz)²], S_3 = −(s_2/2) Σ U², which tends to −∞
#    on one side and to +∞ on the other.
# 3. c alone.

action = network(64)
rng = np.random.default_rng(0)
W, U0, b, c = rng.normal(size=(64, 64)), np.zeros((M, 64)), np.zeros(64), np.zeros(M)
W_pairs = np.concatenate([W[:32], -W[:32]])
squares = (images @ W_pairs.T) ** 2
means = np.array([squares[labels == m].mean(axis=0) for m in range(M)])
LINES = {
    "U = −JWᵀ": (2, action.flatten(-J @ W.T, c, W, b)),
    "pairs of hidden units": (3, action.flatten(means - means.mean(axis=0), c, W_pairs, b)),
    "c alone": (2, action.flatten(U0, rng.normal(size=M), 0 * W, b)),
}

figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
t = np.linspace(-3, 3, 121)
for ax, (name, (first, theta)) in zip(axes, LINES.items(), strict=True):
    theta = theta / abs(closed_forms(action, theta).coefficients[first]) ** (1 / first)
    coefficients = closed_forms(action, theta).coefficients
    values = action.action(t[:, None] * theta)
    ax.plot(t, values, color="black", lw=2, label="S(tθ)")
    print(f"{name}: S_2, S_3, S_4 = {coefficients[2:].round(4) + 0}; for |t| ≤ 3 ", end="")
    print(f"S lies in {values.min():.3f} … {values.max():.3f}", end="")
    for order, color, style in ((2, COLORS[0], "--"), (3, COLORS[1], "-."), (4, COLORS[2], ":")):
        partial = np.vander(t, order + 1, increasing=True) @ coefficients[: order + 1]
        ax.plot(t, partial, style, color=color, lw=1.8, label=f"to order {order}")
        print(f", to order {order} in {partial.min():.1f} … {partial.max():.1f}", end="")
    print()
    ax.axhline(0, color="0.6", lw=0.8)
    ax.set(xlabel="t", title=name, ylim=(-8, 12))
axes[0].set_ylabel("cross entropy (nats)")
handles = axes[0].get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# On the first line the sums to order 2 and 3 have no lower bound. On the second one S_2 and S_4 are
# 0, and the sums to order 3 and 4 are the same cubic. Along c the second order has its minimum at
# 0, but the third and the fourth order are unbounded: the former is odd, the latter negative for
# this c. S is positive on all three lines; H(m|z) = 0, since no two images are equal.
