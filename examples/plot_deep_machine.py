"""
A deep Boltzmann machine beside a restricted one
================================================

Two layers of hidden units, 24 and 12, above the 64 pixels of the digits of scikit-learn. Units of
the first hidden layer are coupled to the pixels and to the second layer, and there are no other
couplings: the first layer against pixels *and* second layer is a restricted machine of 76 and 24
units, of which 12 "visible" ones are never seen. It is learnt by [EBM] eq 11 with both sides of the
rule sampled, and compared with a machine of one hidden layer and as many parameters.

``python examples/plot_deep_machine.py --full`` learns for 700 epochs instead of 60.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import ebm

try:
    from sklearn.datasets import load_digits
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

n_epochs = 700 if "--full" in sys.argv else 60
images = (load_digits().data > 7).astype(np.int8)
images = images[np.random.default_rng(1).permutation(len(images))]
train, held_out = images[:1437], images[1437:]

# %%
# Visible biases start at the log-odds of the pixels, those of hidden units at zero, and weights are
# small and random. Couplings act about the means, which are one half for hidden units.

pixels = np.clip(train.mean(axis=0), 0.01, 0.99)
log_odds = np.log(pixels / (1 - pixels))


def machine(n_second, n_first, rng):
    """Layers (pixels, second) and first; with no second layer a restricted machine."""
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 0.05, (64 + n_second, n_first)),
        np.concatenate([log_odds, np.zeros(n_second)]),
        np.zeros(n_first),
        visible_center=np.concatenate([pixels, np.full(n_second, 0.5)]),
        hidden_center=np.full(n_first, 0.5),
    )


rng = np.random.default_rng(0)
deep, restricted = machine(12, 24, rng), machine(0, 29, rng)
print("parameters:", len(deep.parameters), "deep,", len(restricted.parameters), "restricted")

# %%
# The marginal of the pixels has the parameters of the joint model. Summing the second layer out for
# every row would take 4096 states each, and of larger layers any number; clamped chains draw it
# beside the rows. Free chains that begin again at a row now and then do not leave modes of the data
# for good.

chains = ebm.PersistentChains(100, sweeps=5, restarts=0.05)
steps = ebm.GradientSteps(
    ebm.Adam(ebm.learning.Decay(0.004, 5000)), n_epochs=n_epochs, batch_size=100
)
penalty = ebm.Penalty(l2=1e-3, l2_biases=1e-4)
learnt = {
    "deep": ebm.fit(
        ebm.marginalize(deep, keep=range(64)),
        train,
        loss=ebm.Likelihood(chains, completion=ebm.ClampedChains()),
        solver=steps,
        penalty=penalty,
        rng=1,
    ).model,
    "restricted": ebm.fit(
        restricted, train, loss=ebm.Likelihood(chains), solver=steps, penalty=penalty, rng=1
    ).model,
}

# %%
# Annealing gives ln Z of both with its standard error. The smaller side of the deep machine has 24
# units, so that its ln Z is known exactly as well.

annealing = ebm.Annealing(n_chains=200, n_steps=1000)
log_z = {
    "deep": ebm.log_partition(learnt["deep"].model, annealing, rng=2),
    "restricted": ebm.log_partition(learnt["restricted"], annealing, rng=2),
}
exact = ebm.exact(learnt["deep"].model).log_partition
print(f"ln Z, deep machine: annealing {log_z['deep']}, exact {exact:.3f}")

# %%
# The energies of the rows sum the second layer out, state by state.

log_p = {name: -model.energy(held_out) - log_z[name].value for name, model in learnt.items()}
independent = held_out @ np.log(pixels) + (1 - held_out) @ np.log1p(-pixels)
print(f"independent pixels {independent.mean():8.2f} nats an image held out")
for name, values in log_p.items():
    print(f"{name:18} {values.mean():8.2f} ± {log_z[name].standard_error:.2f} of ln Z")
difference = log_p["deep"] - log_p["restricted"]
error = difference.std(ddof=1) / np.sqrt(len(difference))
print(f"deep less restricted {difference.mean():+.2f} ± {error:.2f} of the choice of images")

# %%
# With equally many parameters a second layer brings nothing for these images. With ``--full`` the
# two come to −17.68 and −17.60 nats an image, a difference of −0.08 ± 0.07: less than what longer
# learning brings to either.

drawn = ebm.sample(learnt["deep"].model, n_draws=1, n_chains=36, burn_in=2000, rng=3)
figure, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
ebm.plotting.images(held_out[:36], (8, 8), ax=axes[0])
axes[0].set_title("held out")
ebm.plotting.images(drawn.chains[:, -1, :64], (8, 8), ax=axes[1])
axes[1].set_title("deep machine")
axes[2].plot(log_p["restricted"], log_p["deep"], ".", markersize=3)
axes[2].axline((-20, -20), slope=1, color="0.6", linewidth=0.8)
axes[2].set_xlabel("ln p of an image, restricted")
axes[2].set_ylabel("ln p of an image, deep")
axes[2].set_aspect("equal")
plt.show()
