"""Families as learning knows them: by their forms, and by which numbers in them are parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import ModelError
from ebm.forms import LayeredForm, QuadraticForm, energy_form, offered_form
from ebm.forms import has_pairs as has_pairs
from ebm.model import ParametricModel
from ebm.models._counts import has_counts as has_counts
from ebm.spaces import Spins


def require_own_pairs(model: Any) -> None:
    """Refuse a family whose parameters are not those that its ``pairs`` announce."""
    n, n_pairs, p = model.space.n, len(model.pairs[0]), len(model.parameters)
    if p != n + n_pairs:
        raise ModelError(
            f"{type(model).__name__} has {p} parameters, but its attribute pairs announces "
            f"{n + n_pairs}: one for each of {n} units, then one for each of the pairs"
        )


def has_fixed_features(model: Any) -> bool:
    """Whether E_D[∂E/∂θ] is the same at all parameters and known in advance: pairs and counts."""
    return has_pairs(model) or has_counts(model)


def has_hidden_units(model: Any) -> bool:
    """Whether the parameters are those of two {0,1} layers, (b, c, rows of U), one summed out."""
    if offered_form(model) is not LayeredForm or not hasattr(model, "parameters"):
        return False
    form = layers_of(model)
    n, m = form.weights.shape
    return form.is_binary and bool(len(model.parameters) == n + m + n * m)


def joint_model(model: Any) -> Any:
    """The joint model whose parameters a marginal has, (v, h) -> E; None of any other model."""
    joint = getattr(model, "model", None)
    return joint if isinstance(joint, ParametricModel) and hasattr(model, "traced") else None


def moments_alone(model: Any) -> ModelError:
    """What to raise where moments do not suffice."""
    return ModelError(f"{type(model).__name__} does not learn from moments alone: give rows")


def pairs_of(model: Any) -> QuadraticForm:
    """The quadratic form of a pairwise family."""
    form = energy_form(model)
    if not isinstance(form, QuadraticForm):
        raise ModelError(f"{type(model).__name__} has no quadratic form")
    return form


def center_of(model: Any) -> Array:
    """The center of a pairwise family, (n,); 0 beside a potential of counts."""
    if has_counts(model):
        return np.zeros(model.space.n)
    center = pairs_of(model).center
    return np.zeros(model.space.n) if center is None else center


def layers_of(model: Any) -> LayeredForm:
    """The layered form of a family with hidden units."""
    form = energy_form(model)
    if not isinstance(form, LayeredForm):
        raise ModelError(f"{type(model).__name__} has no layered form")
    return form


def diagonal_input(form: QuadraticForm, space: Any) -> Array:
    """What the diagonal adds to the log-odds of {0,1} units, A_ii (½ − c_i), (n,); 0 for spins."""
    diagonal = np.asarray(form.matrix.diagonal(), dtype=np.float64)
    if isinstance(space, Spins):
        return np.zeros(len(diagonal))
    return diagonal * (0.5 - (0.0 if form.center is None else form.center))
