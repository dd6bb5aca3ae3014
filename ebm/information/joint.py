"""Hidden units: the information of what is seen, and that of both layers together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.ensembles import Ensemble
from ebm.errors import require_memory
from ebm.forms import LayeredForm
from ebm.information.ensemble_information import energy_gradients
from ebm.information.metric import MEMORY_LIMIT, Metric


class JointInformation(Metric):
    """Cov_{p(v,h)}[∂E(v, h)/∂θ] of a machine with a hidden layer, by the law of total covariance.

    The Fisher information of the visible units, Cov_{p(v)}[E_{h|v} ∂E], plus the mean of
    Cov_{p(h|v)}[∂E], which is the relative information of the hidden layer given the visible one.

    Parameters
    ----------
    order : ndarray of int, (m (n + 1),)
        Where the parameters of the hidden layer stand, see :func:`hidden_order`.
    visible : Metric
        The Fisher information over visible states.
    hidden : Metric
        That of p(h|v), averaged over the same states.
    """

    def __init__(self, order: Indices, visible: Metric, hidden: Metric) -> None:
        self._order, self._visible, self._hidden = order, visible, hidden
        self.shape = visible.shape

    def _product(self, vector: Array) -> Array:
        product = self._visible.matvec(vector)
        product[self._order] += self._hidden.matvec(vector[self._order])
        return product

    def diagonal(self) -> Array:
        """Var[∂E/∂θ_k], (p,)."""
        diagonal = self._visible.diagonal()
        diagonal[self._order] += self._hidden.diagonal()
        return diagonal

    def _matrix(self) -> Array:
        matrix = self._visible.dense()
        matrix[np.ix_(self._order, self._order)] += self._hidden.dense()
        return matrix


def hidden_order(form: LayeredForm) -> Indices:
    """Where the parameters (U_αβ for all α, c_β) of hidden unit after hidden unit stand."""
    n, m = form.weights.shape
    weights = n + m + np.arange(n * m).reshape(n, m)
    return np.vstack([weights, n + np.arange(m)]).T.ravel()


def marginal_covariance(model: Any, joint: Ensemble) -> Array:
    """Cov_{p(v)}[E_{h|v} ∂E/∂θ] of some units of a model over joint states, (p, p)."""
    whole, keep = model.model, list(model.keep)
    p, size = len(whole.parameters), float(model.space.size)
    require_memory(
        8.0 * size * (p + 1),
        MEMORY_LIMIT,
        f"the mean derivatives by {p} parameters given each state of {len(keep)} units",
        "keep fewer units",
    )
    probability, gradient = np.zeros(int(size)), np.zeros((int(size), p))
    for states, weights in joint.blocks():
        index = np.asarray(model.space.index(states[:, keep]), dtype=np.intp)
        probability += np.bincount(index, weights, int(size))
        np.add.at(gradient, index, weights[:, None] * energy_gradients(whole, states, p))
    seen = probability > 0
    mean = gradient.sum(axis=0)
    deviation = gradient[seen] / probability[seen, None] - mean
    return np.asarray(deviation.T @ (deviation * probability[seen, None]))
