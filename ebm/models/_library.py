"""The library's own model of a form, whoever's model offers it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import ModelError
from ebm.forms import (
    FactorForm,
    LayeredForm,
    QuadraticForm,
    TermForm,
    as_terms,
    energy_form,
    offered_form,
)
from ebm.model import checked_space, refuse_result
from ebm.models.any_units import PairwiseModel
from ebm.models.interactions import InteractionModel
from ebm.models.pairwise import BoltzmannMachine, IsingModel
from ebm.models.potts import PottsModel
from ebm.models.restricted import RestrictedBoltzmannMachine
from ebm.spaces import Binary, FiniteSpace, Levels, Spins
from ebm.units import Bernoulli, Gaussian, Spin


def library_model(model: Any) -> Any:
    """The model of the library with the form that a model offers; None where it offers none."""
    return model_of(energy_form(model), model.space)


def model_of(form: Any, space: Any) -> Any:
    """The model of the library with a form over a space; None where there is none."""
    match form:
        case QuadraticForm() if isinstance(space, Binary):
            return BoltzmannMachine(
                form.matrix,
                form.vector,
                center=0.0 if form.center is None else form.center,
                offset=form.constant,
                names=space.names,
            )
        case QuadraticForm() if isinstance(space, Spins):
            form = form.at_origin()
            return IsingModel(form.matrix, form.vector, offset=form.constant, names=space.names)
        case QuadraticForm() if isinstance(space, Levels):
            return _potts(form.at_origin().dense(), space)
        case QuadraticForm():
            return _of_any_units(form.at_origin().dense(), space)
        case LayeredForm():
            return RestrictedBoltzmannMachine(
                form.weights,
                form.visible,
                form.hidden,
                visible_center=0.0 if form.visible_center is None else form.visible_center,
                hidden_center=0.0 if form.hidden_center is None else form.hidden_center,
                offset=form.constant,
                units=(form.visible_units, form.hidden_units),
                names=space.names,
            )
        case TermForm() if form.count is None:
            return InteractionModel(form.terms, space, offset=form.constant)
        case FactorForm() if isinstance(space, Binary | Spins):
            return model_of(as_terms(form, space), space)
    return None


def _potts(form: QuadraticForm, space: Levels) -> PottsModel:
    """What couples a unit to itself acts on its value alone, so as a field."""
    n, q = space.n, space.q
    fields = form.vector + 0.5 * form.matrix.diagonal()
    couplings = form.matrix.reshape(n, q, n, q).transpose(0, 2, 1, 3).copy()
    couplings[np.arange(n), np.arange(n)] = 0
    return PottsModel(couplings, fields.reshape(n, q), offset=form.constant, names=space.names)


def _of_any_units(form: QuadraticForm, space: Any) -> PairwiseModel:
    """What couples a finite unit to itself, g = ½ f A_ii f, is one more field, and a constant."""
    couplings, fields, constant = form.matrix.copy(), form.vector.copy(), form.constant
    for unit in np.flatnonzero(~space.is_real):
        own, features = space.columns([unit]), space.features_of(unit)
        block = np.ix_(own, own)
        if couplings[block].any():
            g = 0.5 * ((features @ couplings[block]) * features).sum(axis=1)
            couplings[block] = 0
            # g = c + u·f: the one feature of two values takes the difference, levels one by one.
            if len(own) == len(g):
                fields[own] += g
            else:
                slope = (g[1] - g[0]) / (features[1, 0] - features[0, 0])
                fields[own] += slope
                constant -= float(g[0] - slope * features[0, 0])
    return PairwiseModel(space, couplings, fields, offset=constant)


def pair_machine(model: Any) -> BoltzmannMachine | IsingModel | None:
    """The Boltzmann machine or Ising model of two-valued units in pairs; None of other models."""
    is_two_valued = isinstance(getattr(model, "space", None), Binary | Spins)
    is_pairwise = is_two_valued and offered_form(model) is QuadraticForm
    machine: BoltzmannMachine | IsingModel | None = library_model(model) if is_pairwise else None
    return machine


def require_pair_machine(model: Any, others: str = "") -> BoltzmannMachine | IsingModel:
    """The machine of :func:`pair_machine`; other models are refused."""
    machine = pair_machine(model)
    if machine is None:
        refuse_result(model)
        raise ModelError(
            f"a BoltzmannMachine or an IsingModel is wanted, got {type(model).__name__}: "
            f"give a model of two-valued units with a quadratic_form{others}"
        )
    return machine


def couplings_of_pairs(model: Any) -> Array | None:
    """One coupling for each two units, (n, n): of two-valued ones, or of scores; None elsewhere."""
    machine = pair_machine(model)
    if machine is not None:
        return np.array(machine.quadratic_form().dense().matrix)
    features = getattr(model, "pair_features", None)
    if not (isinstance(checked_space(model), FiniteSpace) and callable(features)) or any(
        block.shape[1] != 1 for block in features().blocks
    ):
        return None
    n, n_fields = model.space.n, len(features().kept)
    couplings, pairs = np.zeros((n, n)), np.triu_indices(n, 1)
    couplings[pairs] = couplings[pairs[::-1]] = model.parameters[n_fields:]
    return couplings


def joint_machine(model: Any) -> BoltzmannMachine | IsingModel | None:
    """The same with the units of a hidden layer, the visible ones first; Gaussian ones summed out.

    None where hidden units are of another kind that is not two-valued.
    """
    if offered_form(model) is LayeredForm:
        layered: RestrictedBoltzmannMachine = library_model(model)
        if isinstance(layered.hidden_units, Gaussian) and isinstance(layered.space, FiniteSpace):
            return layered.pairwise()
        is_joint = layered.units in {(Bernoulli(), Bernoulli()), (Spin(), Spin())}
        joint: Any = layered.joint() if is_joint else None
        return joint  # type: ignore[no-any-return]
    return pair_machine(model)
