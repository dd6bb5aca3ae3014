"""The relative Fisher information: the metric of a subsystem given its reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import ExactEnsemble
from ebm.errors import ModelError, require_memory
from ebm.forms import LayeredForm, energy_form
from ebm.information._curvatures import IndependentCurvature
from ebm.information.layers import (
    BlockDiagonalInformation,
    CoupledInformation,
    LayerInformation,
)
from ebm.information.metric import Metric
from ebm.information.responses import Sigmoid, Tanh
from ebm.information.subsystems import Layer, Subsystem
from ebm.models._library import pair_machine
from ebm.spaces import Spins
from ebm.spaces._labels import row_order

__all__ = ["relative_fisher"]


def relative_fisher(
    subsystem: Any, given: ArrayLike | Ensemble, *, sample_weight: ArrayLike | None = None
) -> Metric:
    """g^y(w) = E_{p(y|w,x)}[∂ln p ∂ln pᵀ], averaged over references x; [RFIM] Table 1.

    It is the metric of one part of a model given its reference and, by Theorem 3, a block of the
    Fisher information of the *joint* distribution of all parts, see :func:`chain_fisher`. The
    information of the output of a network, with its inner layers summed out, is another.

    Parameters
    ----------
    subsystem : Subsystem or model
        - ``Layer``, ``SoftmaxLayer`` or ``TwoLayers``;
        - a restricted Boltzmann machine, for p(h | v): a layer of sigm units with x̃ = (v−v̂, 1) and
          parameters U_1β, …, U_nβ, c_β of each hidden unit β;
        - a Boltzmann machine or an Ising model, for p(x_α | all others) of each unit α, sigm or
          tanh, with parameters b_α and W_αβ for all β ≠ α. W_αβ and W_βα, a single parameter of
          the machine, occur in two blocks.
    given : array_like, (..., n_inputs), or Ensemble
        References x; for a model its states, as rows or as an ensemble.
    sample_weight : array_like, optional
        Weights of the references up to a factor; by default equal, or those of the ensemble.

    Returns
    -------
    Metric
        The mean over the references, with one block for each unit that is independent given x.

    Raises
    ------
    ModelError
        If ``subsystem`` is none of these, or references are not finite or too large to be squared.
    ShapeError
        If references or ``sample_weight`` have another shape, or ``sample_weight`` is negative
        somewhere or zero everywhere.
    CodingError
        If a row of ``given`` is no state of the model.
    MemoryLimitError
        If the references would take more than 4 GiB.

    Examples
    --------
    >>> import ebm
    >>> from ebm.information import relative_fisher
    >>> machine = ebm.RestrictedBoltzmannMachine([[2.0], [-1.0]], [0.5, 0.0], [-1.0])
    >>> relative_fisher(machine, given=[1, 0]).dense().round(4)
    array([[0.1966, 0.    , 0.1966],
           [0.    , 0.    , 0.    ],
           [0.1966, 0.    , 0.1966]])
    """
    order = row_order(sample_weight, given, "sample_weight")
    if order is not None:
        sample_weight = as_floats(sample_weight, "sample_weight")[order]
    form = energy_form(subsystem)
    if isinstance(given, Ensemble):
        if form is not None:
            require_units(given, subsystem.space)
        given, probabilities = _collected(given)
        sample_weight = probabilities if sample_weight is None else sample_weight
    if isinstance(form, LayeredForm):
        states = subsystem.space.check(given)
        if form.visible_center is not None:
            states = states - form.visible_center
        return relative_fisher(
            Layer(form.weights.T, form.hidden), states, sample_weight=sample_weight
        )
    machine = pair_machine(subsystem)
    if machine is not None:
        return _of_conditionals(machine, given, sample_weight)
    if not isinstance(subsystem, Subsystem):
        raise ModelError(
            f"{type(subsystem).__name__} is no subsystem: give a Layer, SoftmaxLayer or TwoLayers "
            "of ebm.information, a restricted machine, a Boltzmann machine or an Ising model"
        )
    x = subsystem.augmented(given)
    curvature = subsystem.curvature(x)
    if isinstance(curvature, IndependentCurvature):
        return LayerInformation(curvature.diagonals(), x, sample_weight)
    return CoupledInformation(curvature, x, sample_weight)


def _of_conditionals(
    model: Any, given: ArrayLike, sample_weight: ArrayLike | None
) -> BlockDiagonalInformation:
    """The metric of p(x_α | all others), a block for each unit α."""
    states = model.space.check(given).reshape(-1, model.n)
    _require_memory(len(states), model.n * model.n)
    response = Tanh() if isinstance(model.space, Spins) else Sigmoid()
    information = response.information(model.input(states))
    d = np.column_stack([np.ones(len(states)), states - model.feature_center])
    blocks = []
    for unit in range(model.n):
        # The state of the unit itself is no part of its reference.
        x = np.delete(d, 1 + unit, axis=1)
        blocks.append(LayerInformation(information[:, [unit]], x, sample_weight))
    return BlockDiagonalInformation(blocks)


def _collected(ensemble: Ensemble) -> tuple[Array, Array]:
    """All states of an ensemble with their weights."""
    if isinstance(ensemble, ExactEnsemble):
        _require_memory(float(ensemble.space.size), ensemble.space.n + 1)
    states, weights = zip(*ensemble.blocks(), strict=True)
    return np.concatenate(states), np.concatenate(weights)


def _require_memory(n_references: float, width: int) -> None:
    require_memory(
        8.0 * n_references * width,
        f"{n_references:.3g} references of {width} numbers",
        "give samples, or fewer of them",
    )
