"""Orders of ln Z, means and covariances about independent units: products, or linked clusters."""

from __future__ import annotations

import numpy as np

from ebm._arrays import read_only
from ebm._types import Array
from ebm.errors import MEMORY_LIMIT, LimitError, require_memory
from ebm.perturbation._costs import SECONDS, require_finite, require_within
from ebm.perturbation._orders import Orders, Wanted
from ebm.perturbation.clusters._centered_terms import CenteredTables, CenteredTerms
from ebm.perturbation.clusters._pair_products import MATRICES, MOST_ORDERS, PairProducts
from ebm.perturbation.clusters._sums import cluster_sums
from ebm.spaces import Levels

#: Highest order of clusters: beyond it there are too many ways to share units.
MOST_ORDER = 6


def require_cluster_order(order: int) -> None:
    """Refuse orders that are not summed whatever their cost."""
    if order > MOST_ORDER:
        raise LimitError(
            f"order {order} of linked clusters is not summed; the limit is order {MOST_ORDER}"
        )


@np.errstate(over="ignore", invalid="ignore")
def cluster_orders(terms: CenteredTerms, order: int, wanted: Wanted, max_seconds: float) -> Orders:
    """What is wanted to order K, and ln Z and means with it, in the features of the space."""
    n_legs = {"ln Z": 0, "the means": 1}.get(wanted, 2)
    what = f"{wanted} to order {order}"
    n, width = terms.space.n, terms.width
    if n_legs == 2:
        needed = 8.0 * (order + 2) * (n * width) ** 2
        remedy = "take a lower order or fewer units"
        require_memory(needed, f"{what} of {n} units", remedy)
    parts = [_of_legs(terms, order, legs, what, max_seconds) for legs in range(n_legs, -1, -1)]
    log_partition = np.append(terms.log_partition, parts[-1])
    mean: Array = np.empty(0)
    covariance: Array = np.empty(0)
    if n_legs:
        first = terms.probability @ terms.space.value_features
        mean = np.concatenate([first[None], parts[-2]]).reshape(order + 1, n * width)
    if n_legs == 2:
        blocks = np.zeros((order + 1, n, width, n, width))
        blocks[1:] = parts[0]
        units = np.arange(n)
        blocks[:, units, :, units, :] = variance_terms(terms, mean).transpose(1, 0, 2, 3)
        covariance = blocks.reshape(order + 1, n * width, n * width)
    require_finite(what, log_partition, mean, covariance)
    return Orders(read_only(log_partition), read_only(mean), read_only(covariance))


def variance_terms(terms: CenteredTerms, mean: Array) -> Array:
    """Covariances within each unit, order by order, from orders of the means, (K + 1, n, w, w)."""
    n, width = terms.space.n, terms.width
    m = mean.reshape(len(mean), n, width)
    result = np.zeros((len(mean), n, width, width))
    values = terms.space.values
    for k in range(len(m)):
        if isinstance(terms.space, Levels):
            result[k, :, np.arange(width), np.arange(width)] = m[k].T
        else:
            # x² = (a + b) x − ab for units of two values a < b.
            result[k] = ((values.sum() * m[k]) - (values.prod() if k == 0 else 0.0))[..., None]
        for j in range(k + 1):
            result[k] -= m[j][:, :, None] * m[k - j][:, None, :]
    return result


def _of_legs(terms: CenteredTerms, order: int, n_legs: int, what: str, max_seconds: float) -> Array:
    """Orders 1 … K with so many features beside the terms."""
    if not isinstance(terms, CenteredTables) or order > MOST_ORDERS[n_legs]:
        return cluster_sums(terms, order, n_legs, what, max_seconds)
    d = float(terms.probability.size)
    require_within(
        f"{what} of {terms.space.n} coupled units",
        SECONDS * d**2 * (d + (order > 3) * terms.width) if order > 1 else 0.0,
        8.0 * MATRICES * d**2,
        "raise max_seconds, or take a lower order or fewer units",
        max_seconds=max_seconds,
        max_bytes=MEMORY_LIMIT,
    )
    products = PairProducts(terms.couplings, terms.probability)
    if n_legs == 0:
        return products.log_partition(order)
    return products.probabilities(order) if n_legs == 1 else products.covariances(order)
