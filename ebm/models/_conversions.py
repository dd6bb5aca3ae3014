"""Terms of an energy in another coding, and between pairwise models and lists of terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ebm._types import Array
from ebm.errors import ShapeError, require_memory
from ebm.model import Penalized
from ebm.models._terms import Units

#: Bytes of one term in a dictionary.
TERM_BYTES = 200.0


def expanded(terms: Mapping[Units, float], scale: float, shift: float) -> dict[Units, float]:
    """The same polynomial in y, where x = shift + scale·y; the empty term is its constant."""
    n_subsets = sum(2.0 ** len(units) for units in terms)
    require_memory(
        TERM_BYTES * n_subsets,
        f"all {n_subsets:.3g} subsets of the terms",
        "stay in the coding of the terms, or drop terms of many units",
    )
    sums: dict[Units, float] = {(): 0.0}
    for units, coefficient in terms.items():
        for k in range(len(units) + 1):
            part = coefficient * scale**k * shift ** (len(units) - k)
            for subset in combinations(units, k):
                sums[subset] = sums.get(subset, 0.0) + part
    return {units: sums[units] for units in sorted(sums, key=lambda units: (len(units), units))}


def couplings_about_half(terms: Iterable[Units]) -> Penalized:
    """Couplings of binary units about ½, −Σ_A K_A Π_{i∈A} (x_i − ½), after the J of single units.

    K_A = Σ_{B⊇A} J_B 2^{|A|−|B|} for all sets A of two or more units of some term B. Exchanging
    the values 0 and 1 of a unit changes the sign of K_A at most; for pairs alone K = J.
    """
    terms = list(terms)
    n_subsets = sum(2.0 ** len(units) for units in terms if len(units) > 2)
    require_memory(
        TERM_BYTES * n_subsets,
        f"a penalty on all {n_subsets:.3g} subsets of the terms",
        "fit without a penalty, or over ±1, where it acts on the terms alone",
    )
    number: dict[Units, int] = {}
    parts = [
        (number.setdefault(subset, len(number)), k, 0.5 ** (len(units) - size))
        for k, units in enumerate(terms)
        for size in range(min(2, len(units)), len(units) + 1)
        for subset in combinations(units, size)
    ]
    sets, positions = (np.array([part[c] for part in parts], dtype=np.intp) for c in (0, 1))
    shares = np.array([share for _, _, share in parts])

    def of(theta: Array) -> Array:
        return np.asarray(np.bincount(sets, shares * theta[positions], len(number)), np.float64)

    def transposed(slopes: Array) -> Array:
        return np.asarray(np.bincount(positions, shares * slopes[sets], len(terms)), np.float64)

    return Penalized(of, transposed, np.array([len(units) > 1 for units in number], dtype=bool))


def quadratic_of_terms(terms: Mapping[Units, float], n: int) -> tuple[Array, Array]:
    """Symmetric matrix (n, n) and vector (n,) of terms of one or two units each."""
    matrix, vector = np.zeros((n, n)), np.zeros(n)
    for units, coefficient in terms.items():
        if len(units) == 1:
            vector[units] = coefficient
        else:
            matrix[units] = matrix[units[::-1]] = coefficient
    return matrix, vector


def arrays_of_terms(terms: Mapping[Units, float]) -> dict[str, NDArray[np.generic]]:
    """Terms as arrays of their numbers of units, their units one after another, coefficients."""
    return {
        "sizes": np.array([len(units) for units in terms], dtype=np.int64),
        "units": np.array([unit for units in terms for unit in units], dtype=np.int64),
        "coefficients": np.array(list(terms.values()), dtype=np.float64),
    }


def terms_of_arrays(
    sizes: NDArray[np.int64], units: NDArray[np.int64], coefficients: Array
) -> dict[Units, float]:
    """The inverse of :func:`arrays_of_terms`."""
    if sizes.shape != coefficients.shape or (int(sizes.sum()),) != units.shape:
        raise ShapeError("the arrays of the terms do not belong together")
    parts = np.split(units, np.cumsum(sizes)[:-1])
    keys = (tuple(part.tolist()) for part in parts)
    return dict(zip(keys, coefficients.tolist(), strict=False))
