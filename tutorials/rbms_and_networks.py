"""
Restricted Boltzmann machines
=============================

How many hidden units do handwritten digits need? A file has a row for each image and a column for
each pixel. Here it is written from the 1797 images of 8 × 8 pixels of scikit-learn, in shades from
0 to 16. Up to about twenty hidden units ln Z is an exact sum over their states, so that machines
are compared by their true likelihood on images that they have not seen.
"""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import INDEPENDENT, MODEL

try:
    from sklearn.datasets import load_digits
except ImportError as missing:
    sys.exit(f"{missing}: this example needs the extra docs, pip install 'ebm-framework[docs]'")

path = Path(tempfile.mkdtemp()) / "digits.csv"
np.savetxt(path, load_digits().data, fmt="%d", delimiter=",")

# %%
# The coding is never guessed: a threshold says which shades are 1. A fifth of the images is held
# out.

images = ebm.read_table(path, threshold=7.5, header=False).states
images = images[np.random.default_rng(0).permutation(len(images))]
train, held_out = images[:1437], images[1437:]

# %%
# Each machine is learnt by persistent chains, an estimate of the gradient of the likelihood. Some
# pixels are white in no image. Their biases would fall for ever, and have a small penalty.


def learnt(n_hidden):
    """A machine, after a hundred passes through the images."""
    start = ebm.RestrictedBoltzmannMachine.for_data(train, n_hidden, rng=0)
    steps = ebm.GradientSteps(
        ebm.GradientDescent(ebm.learning.Decay(0.1, 2500), momentum=0.5), n_epochs=100
    )
    loss, penalty = ebm.Likelihood(ebm.PersistentChains(100)), ebm.Penalty(l2_biases=0.001)
    return ebm.fit(start, train, loss=loss, penalty=penalty, solver=steps, rng=1).model


def likelihood(model):
    """Mean log-likelihood of the images held out, in nats, and its error."""
    logs = ebm.exact(model).log_probability(held_out)
    return ebm.Estimate(logs.mean(), logs.std(ddof=1) / np.sqrt(len(logs)))


sizes = (4, 8, 16)
machines = [learnt(n_hidden) for n_hidden in sizes]
reached = [likelihood(machine) for machine in machines]
independent = likelihood(ebm.RestrictedBoltzmannMachine.for_data(train, 1, scale=0, rng=0))

# %%
# The likelihood against the number of hidden units, with that of independent pixels in gray; the
# weights of the largest machine; and independent draws from its exact distribution.

figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.1), layout="constrained")
values = [estimate.value for estimate in reached]
errors = [estimate.standard_error for estimate in reached]
axes[0].errorbar(sizes, values, errors, fmt="o-", ms=4, color=MODEL)
axes[0].axhline(independent.value, color=INDEPENDENT)
axes[0].set(xlabel="hidden units", ylabel="log-likelihood (nats per image)")
ebm.plotting.images(machines[-1].weights.T, (8, 8), signed=True, ax=axes[1])
ebm.plotting.images(ebm.exact(machines[-1]).sample(25, rng=3), (8, 8), ax=axes[2])
plt.show()

# %%
# The sentence:

print(
    f"A restricted Boltzmann machine with 16 hidden units reaches {reached[-1]} nats per image on "
    f"{len(held_out)} images held out, by an exact ln Z; with 4 hidden units it is {reached[0]}, "
    f"and {independent} for independent pixels."
)
