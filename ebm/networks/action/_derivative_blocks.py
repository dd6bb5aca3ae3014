"""Arrays of the second and third derivatives of S at θ = 0, block by block.

With c̃ = c + s_0 U1, a = Wz + b and the joint cumulants over the classes of equal weight,

    ∂²S = κ_2(c̃, c̃) + D[F_2],    ∂³S = κ_3(c̃, c̃, c̃) + 3 κ_2(c̃, E[F_2]) + D[F_3],

F_2 = s_1 U a and F_3 = s_2 U a²/2, all of them polarized. A letter of a name stands for the axes of
its parameter: U (class, unit), c (class), W (unit, input), b (unit).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import ModelError, require_memory
from ebm.networks.action._energy import MLPEnergy
from ebm.networks.action.terms import class_covariance, class_sums, surplus_moments

#: Letters in the order of θ, and in that of the names of terms.
ORDER_OF_THETA, ORDER_OF_NAMES = "UcWb", "UWbc"
#: Indices of the classes, units and inputs of up to three letters.
CLASSES, UNITS, INPUTS = "abc", "ijk", "xyz"


def block_names(order: int, s: tuple[float, ...]) -> tuple[str, ...]:
    """Names of the blocks of ∂²S or ∂³S that do not vanish for all rows, given s_0, s_1, s_2."""
    chosen = itertools.combinations_with_replacement(ORDER_OF_NAMES, order)
    return tuple(name for name in map("".join, chosen) if _is_present(name, s))


def _is_present(name: str, s: tuple[float, ...]) -> bool:
    n_inner, n_weights, n_biases = (sum(map(name.count, x)) for x in ("Wb", "U", "c"))
    if n_inner == 0:
        return n_weights == 0 or s[0] != 0
    # An inner letter needs one U; what is left is c, or s_0 times another U.
    if n_weights == 0 or (n_inner > 1 and n_weights + n_biases > 1):
        return False
    return s[n_inner] != 0 and (n_weights == 1 or s[0] != 0)


def checked_name(name: Any, order: int) -> str:
    """A name of as many letters as derivatives, in any order."""
    if not (isinstance(name, str) and len(name) == order and set(name) <= set(ORDER_OF_THETA)):
        raise ModelError(
            f"name must be {order} of the letters U, c, W, b, such as {'UWW'[:order]}, got {name!r}"
        )
    return name


def derivative_block(action: MLPEnergy, name: str, s: tuple[float, ...]) -> Array:
    """The array of one block, with the axes of its letters in turn."""
    shape = [n for letter in name for n in action.shapes[letter]]
    require_memory(
        8.0 * math.prod(map(float, shape)),
        f"the block {name} of derivatives, {' × '.join(map(str, shape))},",
        "use products, which make no block",
    )
    block = np.zeros(shape)
    if not _is_present(name, s):
        return block
    rows, m = action.rows, action.rows.n_classes
    inner = [k for k, letter in enumerate(name) if letter in "Wb"]
    outer = [k for k, letter in enumerate(name) if letter in "Uc"]
    classes = "".join(CLASSES[k] for k in outer)
    inputs = "".join(INPUTS[k] for k in inner if name[k] == "W")
    if not inner:
        cumulant = class_covariance(m) if len(name) == 2 else third_cumulant(m)
        _add(block, _indices(name, ()), s[0] ** name.count("U") * cumulant, classes)
    elif len(outer) == 2:
        means = s[1] * class_sums(rows, len(inputs)).sum(0)
        for own in (k for k in outer if name[k] == "U"):
            # F_2 holds this U; the other factor is c, or s_0 times the U of any unit.
            value = s[0] ** (name.count("U") - 1) * np.multiply.outer(class_covariance(m), means)
            _add(block, _indices(name, [own, *inner]), value, classes + inputs)
    else:
        moments = s[len(inner)] * surplus_moments(rows, len(inputs))
        _add(block, _indices(name, range(len(name))), moments, classes + inputs)
    return block


def third_cumulant(n_classes: int) -> Array:
    """K = δ_αβγ/M − (δ_αβ + δ_αγ + δ_βγ)/M² + 2/M³, (M, M, M), the third derivative by c."""
    m, same = n_classes, np.eye(n_classes)
    every = same[:, :, None] * same[:, None, :]
    pairs = same[:, :, None] + same[:, None, :] + same[None, :, :]
    return np.asarray(every / m - pairs / m**2 + 2 / m**3)


def _indices(name: str, equal: Collection[int]) -> str:
    """Indices of the axes of a block; letters at ``equal`` positions share their unit, h."""
    answer = ""
    for k, letter in enumerate(name):
        a, i, x = CLASSES[k], "h" if k in equal else UNITS[k], INPUTS[k]
        answer += {"c": a, "U": a + i, "W": i + x, "b": i}[letter]
    return answer


def _add(block: Array, indices: str, value: Array, of_value: str) -> None:
    """Add a value where indices that occur twice are equal, the same for those it does not have."""
    distinct = "".join(dict.fromkeys(indices))
    # A view of the diagonal, through which the block changes.
    diagonal = np.einsum(f"{indices}->{distinct}", block)
    known = [of_value.index(x) for x in distinct if x in of_value]
    axes = tuple(slice(None) if x in of_value else None for x in distinct)
    diagonal += value.transpose(known)[axes]
