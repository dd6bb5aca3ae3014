"""The model of both layers of a machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm.errors import ModelError, require_memory
from ebm.models._layers import joint_names
from ebm.models.any_units import PairwiseModel
from ebm.models.pairwise import BoltzmannMachine, IsingModel
from ebm.spaces import Product
from ebm.units import Bernoulli, Exponential, Gaussian, ReLU, Spin, Uniform


def joint_of_layers(machine: Any) -> BoltzmannMachine | IsingModel | PairwiseModel:
    """W = [[0, U], [Uᵀ, 0]] with b and c, visible units first.

    Own energies γh²/2 are −γ on the diagonal, and λh is −λ in the fields.
    """
    n, size = machine.n, machine.n + machine.n_hidden
    require_memory(
        3 * 8.0 * size**2,
        f"the weights between all of {size} units",
        "stay with the restricted machine, whose weights join its layers alone",
    )
    weights = np.zeros((size, size))
    weights[:n, n:] = machine.weights
    weights[n:, :n] = machine.weights.T
    names = joint_names(machine)
    if machine.units == (Bernoulli(), Bernoulli()):
        return BoltzmannMachine(
            weights,
            np.concatenate([machine.visible_biases, machine.hidden_biases]),
            center=np.concatenate([machine.visible_center, machine.hidden_center]),
            offset=machine.offset,
            names=names,
        )
    form = machine.layered_form().at_origin()
    fields, offset = np.concatenate([form.visible, form.hidden]), form.constant
    if machine.units == (Spin(), Spin()):
        return IsingModel(weights, fields, offset=offset, names=names)
    spaces = [units.space(m) for units, m in zip(machine.units, form.weights.shape, strict=True)]
    for units, block in zip(machine.units, (slice(n), slice(n, None)), strict=True):
        match units:
            case Gaussian(precision) | ReLU(precision):
                np.fill_diagonal(weights[block, block], -np.asarray(precision))
            case Exponential(rate):
                fields[block] -= rate
            case Bernoulli() | Spin() | Uniform():
                pass
            case _:
                raise ModelError(f"a joint model needs units of ebm.units, got {units!r}")
    # A name of a unit may be that of a block: then the blocks have none.
    space: Any = Product(*spaces, names=names)
    if not {"visible", "hidden"} & set(names or ()):
        space = Product(visible=spaces[0], hidden=spaces[1], names=names)
    return PairwiseModel(space, weights, fields, offset=offset)
