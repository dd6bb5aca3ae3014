"""
Error of the first-order inversion
==================================

Near zero coupling the covariance of two units is proportional to their coupling, and
W = C / (variance × variance) inverts the relation ([EBM] eq 38). Here the exact moments of a
machine are inverted and the result is compared with its couplings, at increasing strength.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm
from ebm.plotting.style import COLORS

n = 12
rng = np.random.default_rng(5)
shape = np.triu(rng.standard_normal((n, n)), 1)
shape = (shape + shape.T) / np.sqrt(n)
biases = rng.normal(-0.5, 0.5, n)
pairs = np.triu_indices(n, 1)


def moments_at(strength):
    """Exact moments of the machine with couplings strength × shape."""
    return ebm.exact(ebm.BoltzmannMachine(strength * shape, biases)).moments()


# %%
# The error of the inversion, and that of an exact fit to the same moments, which is set by the
# tolerance of the fit. The error of a first-order formula is of second order, with slope 2 on
# logarithmic axes, until the expansion breaks down.

strengths = np.geomspace(0.01, 10, 25)
first_order, exact_fit = [], []
for strength in strengths:
    moments = moments_at(strength)
    truth = strength * shape[pairs]
    inverted = ebm.inversion.mean_field(moments).weights[pairs]
    fitted = ebm.fit(ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n)), moments)
    first_order.append(np.sqrt(np.mean((inverted - truth) ** 2)))
    exact_fit.append(np.sqrt(np.mean((fitted.model.weights[pairs] - truth) ** 2)))

slope = np.log(first_order[5] / first_order[0]) / np.log(strengths[5] / strengths[0])
print(f"slope at weak coupling: {slope:.3f}")
assert abs(slope - 2) < 0.1

# %%
# At strength 0.5 the points lie near the diagonal. At 3 the formula, which uses one pair at a time,
# attributes correlations mediated by other units to direct couplings.

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.7), layout="constrained")
rms = strengths * np.sqrt(np.mean(shape[pairs] ** 2))
left.loglog(rms, first_order, "o-", ms=3, color=COLORS[0], label="first-order inversion")
left.loglog(rms, exact_fit, "s-", ms=3, color=COLORS[1], label="exact fit")
left.loglog(rms, first_order[0] * (rms / rms[0]) ** 2, color="0.6", linestyle="--", label="slope 2")
left.loglog(rms, rms, color="0.6", linestyle=":", label="100 % error")
left.set(xlabel="rms coupling", ylabel="rms error of the couplings", ylim=(1e-17, 1e9))
left.legend(fontsize="small", loc="upper left")
for axis, strength in ((middle, 0.5), (right, 3.0)):
    truth = strength * shape[pairs]
    inverted = ebm.inversion.mean_field(moments_at(strength)).weights[pairs]
    limit = 1.1 * max(abs(truth).max(), abs(inverted).max())
    axis.plot([-limit, limit], [-limit, limit], color="0.8")
    axis.plot(truth, inverted, ".", color=COLORS[0])
    axis.set(xlabel="true coupling", ylabel="inverted coupling", title=f"strength {strength:g}")
    axis.set(xlim=(-limit, limit), ylim=(-limit, limit))
plt.show()
