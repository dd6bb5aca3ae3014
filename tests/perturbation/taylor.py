"""Power series of exact quantities, from enumeration at complex couplings.

The couplings W of different units are multiplied by t on a circle in the complex plane on which Z
has no zero; a Fourier transform over the circle gives the coefficients.
"""

from typing import NamedTuple

import numpy as np

from tests.oracles import all_states

POINTS = 64


class Series(NamedTuple):
    """Coefficients 0 … order, and the radius: order k is known to about 1e-15 radius^-k."""

    log_partition: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    density_ratio: np.ndarray
    radius: float


def taylor_series(machine, order):
    """Of a Boltzmann machine over {0,1}, a diagonal of W kept whole at every t."""
    x = all_states(machine.space)
    d = x - machine.center
    weights = machine.weights.toarray() if hasattr(machine.weights, "toarray") else machine.weights
    own = np.diag(weights)
    base = x @ machine.biases + 0.5 * (d**2 @ own) - machine.offset
    pairs = 0.5 * np.einsum("si,ij,sj->s", d, weights - np.diag(own), d)
    radius = 1 / max(np.abs(pairs).max(), 1e-3)
    log_z0 = np.logaddexp.reduce(base)
    p0 = np.exp(base - log_z0)
    values = [[], [], [], []]
    for t in radius * np.exp(2j * np.pi * np.arange(POINTS) / POINTS):
        growth = np.exp(t * pairs)
        z = p0 @ growth
        p = p0 * growth / z
        mean = p @ x
        covariance = np.einsum("s,si,sj->ij", p, x, x) - np.outer(mean, mean)
        for kept, value in zip(values, (np.log(z), mean, covariance, growth / z), strict=True):
            kept.append(value)
    coefficients = []
    for kept in values:
        found = np.fft.fft(np.array(kept), axis=0)[: order + 1].real / POINTS
        powers = radius ** np.arange(order + 1)
        coefficients.append(found / powers.reshape(-1, *[1] * (found.ndim - 1)))
    coefficients[0][0] += log_z0
    return Series(*coefficients, radius)


def assert_terms_agree(terms, expected, radius, tolerance=1e-11):
    """Order by order, in units of what the radius lets order k be."""
    assert np.shape(terms) == np.shape(expected)
    for k, (own, exact) in enumerate(zip(terms, expected, strict=True)):
        error = np.abs(own - exact).max() * radius**k
        assert error < tolerance, f"order {k} is off by {error:.1e} in units of radius^-{k}"
