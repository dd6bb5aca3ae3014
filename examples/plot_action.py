"""
The action of a small classifier, and its power series
======================================================

The cross entropy of a network with one hidden layer is an energy over its parameters θ, the action
S. Along the line t θ it is a power series in t whose coefficients are explicit sums over the data.
The series and its radius of convergence are computed from the start of a training to the minimum
θ*, and compared with the main terms of [ACT]: S ≈ ln M + the part of each order that is linear in U
and independent of the biases, near θ*.
"""

import argparse
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.datasets import fashion_mnist, features
from ebm.plotting.style import COLORS

try:
    import torch
    from sklearn.datasets import load_digits

    from ebm.networks import (
        Records,
        SoftmaxMLPAction,
        TorchSteps,
        closed_forms,
        initial_parameters,
        main_terms,
        ray_radius,
    )
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="Fashion-MNIST, E = 1024, H = 2048")
parser.add_argument("--width", type=int, default=64, help="H of the network for digits")
parser.add_argument("--seed", type=int, default=0, help="of the start and of the batches")
options = parser.parse_args(sys.argv[1:])

# %%
# The network is trained on one set of rows and expanded on another. By default both are the same,
# all 1797 digits of 64 pixels, with 64 hidden units. With ``--full`` the first has 20 000 images of
# Fashion-MNIST, standardized and padded to 32 × 32, and the second the first 2000 of them.

if options.full:
    data = fashion_mnist()
    inputs = features(data.images[:20_000], "pad", 1024, scaling="standardized")
    labels, n_expanded, width = data.labels[:20_000].astype(int), 2000, 2048
    training = {"lr": 1e-3, "batch_size": 200, "n_epochs": 20}
    kept_steps = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
else:
    digits = load_digits()
    inputs, labels, n_expanded, width = digits.data / 16, digits.target, 1797, options.width
    training = {"lr": 1e-2, "n_epochs": 500}
    kept_steps = (0, 1, 2, 4, 8, 15, 25, 40, 60, 100, 200, 500)
z = torch.as_tensor(inputs[:n_expanded], dtype=torch.float64)
m = torch.as_tensor(labels[:n_expanded])
action = SoftmaxMLPAction(z, m, width)
learnt = SoftmaxMLPAction(inputs, labels, width) if options.full else action

# %%
# Training by Adam, with θ recorded at a dozen steps.

start = torch.as_tensor(initial_parameters(learnt, options.seed), dtype=learnt.dtype)
path = {0: start.double()}


def recording(network):
    """Adam that records the parameters after some steps."""
    optimizer = torch.optim.Adam(network.parameters())

    def keep(*_):
        keep.step += 1
        if keep.step in kept_steps:
            layers = network.logits, network.hidden
            blocks = [x.detach().clone() for layer in layers for x in (layer.weight, layer.bias)]
            path[keep.step] = learnt.flatten(*blocks).double()

    keep.step = 0
    optimizer.register_step_post_hook(keep)
    return optimizer


steps = TorchSteps(recording, records=Records(every=0), **training)
learnt.minimize(start, solver=steps, rng=options.seed)
trained = path[kept_steps[-1]]
print(f"S(θ*) = {action.action(trained):.5f} after {kept_steps[-1]} steps, S(0) = ln 10 = 2.30259")

# %%
# At θ*: the first coefficients, the terms of second and third order by name, and the radius, with
# its bound π/max|a| from the singularity of SiLU.

ORDERS = (2, 4, 8, 12)


def expand(theta):
    """The series, without the warning that t = 1 lies outside its circle of convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ebm.errors.SeriesWarning)
        return action.expand(theta.numpy(), ORDERS[-1])


expansion, forms = expand(trained), closed_forms(action, trained, 3)
print("S_0 … S_4:", np.round(expansion.coefficients[:5], 3).tolist())
for order in (2, 3):
    print(f"S_{order}:", {name: round(term, 4) for name, term in forms.at_order(order).items()})
print(f"radius of convergence {expansion.radius:.3f}, π/max|a| = {expansion.bound:.3f}")

# %%
# Along the training: errors at t = 1 of the truncated series and of the main terms. The sum of the
# latter to all orders is ln M + E[⟨f⟩ − f_m] at b = c = 0, the mean of the logits minus that of the
# correct class. By Jensen's inequality it is at most S of that network, and it can be negative,
# since the cumulants of f over the classes are left out. The radius is that of all rows in the
# series; ``expansion.radius`` uses the worst 200 only.


def all_main_terms(theta, s=1.0):
    """ln M and the main terms of all orders, with sW for W."""
    U, _, W, _ = action.unflatten(theta)
    f = torch.nn.functional.silu(s * (z @ W.T)) @ U.T
    return (np.log(f.shape[1]) + (f.mean(1) - f[torch.arange(len(m)), m]).mean()).item()


print(f"{'error to order 2':>44} {'4':>10} {'8':>10} {'12':>10}   main terms to")
print("  step        S  radius  π/max|a| " + 46 * " " + "order 12   all orders")
lines = []
for step, theta in path.items():
    S, series = action.action(theta).item(), expand(theta)
    radius, sums = ray_radius(action, theta, n_rows=len(m)), np.cumsum(series.coefficients)
    mains = [main_terms(action, theta, ORDERS[-1]).sum(), all_main_terms(theta)]
    lines.append([step, S, radius, series.bound, *(sums[list(ORDERS)] - S), *mains])
    text = [f"{step:6} {S:8.5f} {radius:7.3f} {series.bound:9.3f}"]
    text += [f"{sums[order] - S:10.3g}" for order in ORDERS] + [f"{x:12.3f}" for x in mains]
    print(*text, flush=True)
steps, S, radius, bound, *errors, _, mains = np.array(lines).T
first = int(np.flatnonzero(radius < 1)[0])
print(f"t = 1 is outside the circle at step {steps[first]:.0f}, S = {S[first]:.2f}", end="")
print(f", inside up to step {steps[first - 1]:.0f}, S = {S[first - 1]:.2f}" if first else "")
# 1/(n+1)! for 1/n! is the mean over s from 0 to 1.
source = np.mean([all_main_terms(trained, (k + 0.5) / 20) for k in range(20)])
print(f"all main terms at θ*: {mains[-1]:.2f}; with 1/(n+1)!, as [ACT] prints them: {source:.2f}")
print(f"π/max|a| is {(bound / radius).min():.2f} to {(bound / radius).max():.2f} times the radius")

# %%
# Left, the line from zero to the minimum. Right, the training: t = 1 leaves the circle of
# convergence long before the minimum; from there the error of order 12 exceeds that of order 2. The
# main terms follow S down to about 1.9; at S = 0.5 they are negative, and at the minimum their
# error is nine times ln M.

figure = plt.figure(figsize=(10, 4.6), layout="constrained")
grid = figure.add_gridspec(3, 2)
ray, ax = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[:2, 1])
below = figure.add_subplot(grid[2, 1], sharex=ax)
fractions = np.linspace(0, min(1, 3.5 * expansion.radius), 41)
ray.plot(fractions, [action.action(t * trained).item() for t in fractions], "k", label="S(tθ*)")
shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, 5))
colors = dict(zip((2, 3, *ORDERS[1:]), shades, strict=True))
for order, color in colors.items():
    partial = np.polynomial.polynomial.polyval(fractions, expansion.coefficients[: order + 1])
    ray.plot(fractions, partial, "--", color=color, label=f"to order {order}")
ray.axvline(expansion.radius, color="0.6", lw=0.8)
ray.text(1.03 * expansion.radius, 2.45, "radius", color="0.4")
ray.set(xlabel="t", ylabel="cross entropy (nats)", xlim=(0, fractions[-1]), ylim=(-0.6, 2.6))
ray.legend(frameon=False, fontsize="small")

ax.plot(steps, S, "k", label="S")
for order, error in zip(ORDERS, errors, strict=True):
    ax.plot(steps, np.abs(error), "--", color=colors[order], label=f"error to order {order}")
ax.plot(steps, np.abs(mains - S), "-", color=COLORS[1], label="error of all main terms")
ax.set(yscale="log", ylim=(1e-8, None), ylabel="nats at t = 1")
ax.legend(frameon=False, fontsize="small", loc="lower right")
ax.tick_params(labelbottom=False)
below.plot(steps, radius, "k", label="radius")
below.plot(steps, bound, color="0.6", label="π/max|a|")
below.axhline(1, color=COLORS[1], lw=0.8, ls=":", label="t = 1")
below.set_xscale("symlog", linthresh=1)
below.set(xlim=(-0.1, 1.1 * steps[-1]), ylim=(0, 1.1 * bound.max()))
below.set(xlabel="step of the training", ylabel="t")
below.legend(frameon=False, fontsize="small")
plt.show()
