"""
The action of a small classifier, and its power series
======================================================

The cross entropy of a network with one hidden layer is an energy over its parameters θ. Along the
line t θ it is a power series in t whose coefficients are sums over the data that can be written
out. Near zero its first terms describe the loss; at the trained minimum they do not, since t = 1
lies far outside the circle of convergence.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits

import ebm
from ebm.networks import SoftmaxMLPAction, closed_forms

digits = load_digits()
images = digits.data / 16
action = SoftmaxMLPAction(images, digits.target, 64, dtype=torch.float64)

# %%
# Train it, in plain torch: the action is differentiable.

generator = torch.Generator().manual_seed(0)
theta = 0.3 * torch.randn(action.space.n, generator=generator, dtype=torch.float64)
theta.requires_grad_()
optimizer = torch.optim.LBFGS([theta], max_iter=30, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = action.action(theta)
    loss.backward()
    return loss


optimizer.step(closure)
trained = theta.detach()
print(f"S at the minimum {action.action(trained).item():.5f}, ln 10 = {np.log(10):.5f} at zero")

# %%
# Coefficients of t^n, the terms of the second and third one by name, and the radius.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ebm.errors.SeriesWarning)
    expansion = action.expand(trained, 12)
forms = closed_forms(action, trained, 3)
print("S_0 … S_4:", np.round(expansion.coefficients[:5].tolist(), 3))
for order in (2, 3):
    print(
        f"order {order}:", {name: round(float(v), 3) for name, v in forms.at_order(order).items()}
    )
radius = expansion.radius
print(f"radius of convergence {float(radius):.3f}")

# %%
# The loss along the line from zero to the minimum, with partial sums of the series.

fractions = np.linspace(0, 1, 41)
loss = [action.action(t * trained).item() for t in fractions]
figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
ax.plot(fractions, loss, color="black", label="S(tθ)")
for order, color in zip(
    (2, 3, 4, 8, 12), plt.get_cmap("viridis")(np.linspace(0, 0.9, 5)), strict=True
):
    powers = fractions[:, None] ** np.arange(order + 1)
    partial = powers @ np.asarray(expansion.coefficients[: order + 1])
    ax.plot(fractions, partial, "--", color=color, label=f"to order {order}")
ax.axvline(float(radius), color="0.7", lw=0.8)
ax.text(float(radius) + 0.01, 2.2, "radius", color="0.5")
ax.set(xlabel="t", ylabel="cross entropy (nats)", ylim=(-0.5, 2.6))
ax.legend(frameon=False, fontsize="small", loc="lower left")
plt.show()
