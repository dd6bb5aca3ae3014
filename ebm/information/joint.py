"""The information of the visible units, and of visible and hidden units together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.ensembles import Ensemble
from ebm.errors import require_memory
from ebm.forms import LayeredForm
from ebm.information.ensemble_information import energy_gradients
from ebm.information.metric import Metric


class JointInformation(Metric):
    """Cov_{p(v,h)}[∂E(v, h)/∂θ] of a machine with a hidden layer, by the law of total covariance.

    It is the Fisher information of the visible units, Cov_{p(v)}[E_{h|v} ∂E], plus the mean of
    Cov_{p(h|v)}[∂E], the relative information of the hidden layer given the visible one.

    Parameters
    ----------
    order : ndarray of int, (m (n + 1),)
        Indices of (U_1β, …, U_nβ, c_β), for β = 1 … m, among the parameters of the machine.
    visible : Metric
        Fisher information of p(v).
    hidden : Metric
        Relative Fisher information of p(h|v), averaged over the same visible states.
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
    """Indices of (U_1β, …, U_nβ, c_β) for β = 1 … m among the parameters (b, c, U)."""
    n, m = form.weights.shape
    weights = n + m + np.arange(n * m).reshape(n, m)
    return np.vstack([weights, n + np.arange(m)]).T.ravel()


def marginal_covariance(model: Any, joint: Ensemble) -> Array:
    """Cov_{p(v)}[E_{h|v} ∂E/∂θ] of some units of a model over joint states, (p, p)."""
    whole, keep = model.model, list(model.keep)
    p, size = len(whole.parameters), float(model.space.size)
    require_memory(
        8.0 * size * (p + 1),
        f"the mean derivatives by {p} parameters given each state of {len(keep)} units",
        "keep fewer units",
    )
    probability, gradient = np.zeros(int(size)), np.zeros((int(size), p))
    for states, weights in joint.blocks():
        index = np.asarray(model.space.index(states[:, keep]), dtype=np.intp)
        probability += np.bincount(index, weights, int(size))
        np.add.at(gradient, index, weights[:, None] * energy_gradients(whole, states, p))
    possible = probability > 0
    mean = gradient.sum(axis=0)
    deviation = gradient[possible] / probability[possible, None] - mean
    return np.asarray(deviation.T @ (deviation * probability[possible, None]))
