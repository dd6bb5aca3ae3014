"""
Exact likelihood of an RBM that learns digits
=============================================

The data are the 1797 images of 8 × 8 pixels of scikit-learn, thresholded. The likelihood of a
restricted Boltzmann machine with 16 hidden units is a sum over 65 536 states of the hidden layer,
which takes a fraction of a second and shows the quality of learning by chains.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import ebm

try:
    from sklearn.datasets import load_digits
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

images = (load_digits().data > 7.5).astype(np.int8)
order = np.random.default_rng(0).permutation(len(images))
train, held_out = images[order[:1500]], images[order[1500:]]

# %%
# Visible biases start at the log-odds of the pixels, and weights are small. A hundred persistent
# chains sample the model; steps are taken in the gauge centered at the means of data and model.

start = ebm.RestrictedBoltzmannMachine.for_data(train, 16, rng=0)
steps = ebm.GradientSteps(
    ebm.GradientDescent(ebm.learning.Decay(0.1, 5000), momentum=0.5),
    n_epochs=200,
    validation=held_out,
)
chains = ebm.Likelihood(ebm.PersistentChains(100))
result = ebm.fit(start, train, loss=chains, solver=steps, rng=1)
print(result.message)

figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
for ax, quantity in zip(
    axes, ("reconstruction_error", "free_energy_gap", "rms_moment_error"), strict=True
):
    ebm.plotting.learning_curve(result, quantity, ax=ax)
plt.show()

# %%
# The reconstruction error decreases whether or not the likelihood increases. The energies of
# held-out images rise above those of the training images when the model overfits. The likelihood
# is compared with that of independent pixels.

exact = ebm.exact(result.model)
before = ebm.exact(start)
for name, rows in (("learnt from", train), ("held out", held_out)):
    print(
        f"{name:12} {exact.log_probability(rows).mean():7.2f} nats an image, "
        f"{before.log_probability(rows).mean():7.2f} at the start"
    )

# %%
# The weights of the hidden units, images of the data, and draws from the model: independent ones
# from the exact distribution of the hidden layer, and the last states of Gibbs chains. Chains leave
# their start quickly and change the digit slowly; the largest split R-hat of the pixels shows
# whether they have mixed.

samples = ebm.sample(result.model, n_draws=500, n_chains=64, burn_in=500, rng=2)
print(f"largest R-hat {np.nanmax(samples.r_hat):.3f}")

figure, axes = plt.subplots(1, 4, figsize=(10, 2.9), layout="constrained")
ebm.plotting.images(result.model.weights.T, (8, 8), signed=True, ax=axes[0])
ebm.plotting.images(train[:36], (8, 8), ax=axes[1])
ebm.plotting.images(exact.sample(36, rng=3), (8, 8), ax=axes[2])
ebm.plotting.images(samples.chains[:36, -1], (8, 8), ax=axes[3])
for ax, title in zip(axes, ("weights", "data", "exact draws", "Gibbs chains"), strict=True):
    ax.set_title(title)
plt.show()
