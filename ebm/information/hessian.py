"""The Hessian of the loss at given parameters, [EBM] Theorem 5 differentiated once more."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles import Ensemble, IncompleteEnsemble
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import exact
from ebm.errors import MissingValueError, ModelError
from ebm.information.fisher import fisher_information
from ebm.model import ParametricModel

__all__ = ["loss_hessian"]


def loss_hessian(model: ParametricModel, data: Ensemble, average: Ensemble | None = None) -> Array:
    """∂²L/∂θ² = F + E_D[∂²E/∂θ²] − E_model[∂²E/∂θ²] of the loss L = E_D[E] + ln Z.

    F is the Fisher information. Energies affine in θ have ∂²L = F whatever the data. With units
    summed out E is the effective energy, and ∂²E_eff = E_{h|v}[∂²E] − Cov_{h|v}[∂E]: what data do
    not say of the traced units is taken off the information, and ∂²L may have negative
    eigenvalues where it is no minimum.

    Parameters
    ----------
    model : ParametricModel
        The point at which to differentiate.
    data : Ensemble
        Over the space of the model.
    average : Ensemble, optional
        What to average over in place of the model; None means exact enumeration.

    Returns
    -------
    ndarray, (p, p)
        Symmetric, in the order of ``model.parameters``.

    Raises
    ------
    ModelError
        If the model has no parameters, or derivatives that depend on them and no
        ``energy_hessian``.
    MissingValueError
        If rows lack cells: a fit has their observed information, ``result.fisher``.

    Examples
    --------
    >>> import ebm
    >>> star = ebm.BoltzmannMachine([[0, 0, 1], [0, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1]]
    >>> data = ebm.Ensemble.from_data(rows)
    >>> ebm.information.loss_hessian(ebm.marginalize(star, [0, 1]), data).shape
    (6, 6)
    """
    if not isinstance(model, ParametricModel):
        raise ModelError(f"{type(model).__name__} has no parameters: it is no ebm.ParametricModel")
    require_units(data, model.space)
    if isinstance(data, IncompleteEnsemble):
        # Of energies affine in θ the mean below would not look at the rows.
        raise MissingValueError(
            "the Hessian over rows with missing cells is the observed information, which a fit "
            "has: ebm.fit(model, data).fisher"
        )
    average = exact(model) if average is None else average
    difference = model.mean_energy_hessian(data) - model.mean_energy_hessian(average)
    hessian: Any = fisher_information(model, average).dense() + difference
    return np.asarray((hessian + hessian.T) / 2)
