"""S₁ … S₄ of the softmax-MLP term by term, for any activation and any p(m).

With D_α[g] = Σ_z (p(z)/M − p(z, α)) g(z), E over p(z), κ_n the joint cumulants over the classes
with weights 1/M, F_1 = c + s_0 U1 and F_{k+1} = (s_k/k!) U a^k:

    S_1 = D[F_1]                                         (D[F] = Σ_α D_α[F_α])
    S_2 = D[F_2] + ½ E κ(F_1, F_1)
    S_3 = D[F_3] + E κ(F_1, F_2) + E κ(F_1, F_1, F_1)/6
    S_4 = D[F_4] + E κ(F_1, F_3) + ½ E κ(F_2, F_2) + ½ E κ(F_1, F_1, F_2)
          + E κ(F_1, F_1, F_1, F_1)/24

Each F_k is split by its degrees in U, W, b and c, and so is each S_n. J_αγ… is never formed:
Σ J_αγδ Σ U_αβ W_βγ W_βδ is D of U (Wz)², one pass over the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebm._arrays import as_integer
from ebm._types import Array
from ebm.errors import LimitError, require_memory
from ebm.networks._labelled_rows import LabelledRows
from ebm.networks.action._energy import MLPEnergy, Parameters, require_action
from ebm.networks.series.power_series import checked_order, require_finite_orders

__all__ = [
    "HIGHEST_ORDER",
    "ClosedForms",
    "class_covariance",
    "class_moments",
    "closed_forms",
    "main_terms",
]

HIGHEST_ORDER = 4

#: Parts of F_k by their name; those that no row changes are (1, M), others (B, M).
Parts = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class ClosedForms:
    """The terms of S_1 … S_K by name.

    Attributes
    ----------
    terms : mapping of str to float
        A name lists the degrees: ``"UWW"`` is the part of S_3 that is linear in U and quadratic in
        W. The order of the letters is U, W, b, c. For ReLU, whose terms cannot be split by W and b,
        the letter a stands for both.
    coefficients : ndarray, (K+1,)
        S_0 = ln M, and the sum of the terms of each order.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], n_hidden=1)
    >>> forms = ebm.networks.closed_forms(system, [1, 0, 1, 0, 2, 0], 2)
    >>> {name: round(term, 3) for name, term in forms.terms.items()}
    {'c': 0.167, 'Ub': 0.0, 'UW': 0.833, 'cc': 0.125}
    """

    terms: Mapping[str, float]
    coefficients: Array

    def at_order(self, n: int) -> dict[str, float]:
        """The terms of S_n.

        Parameters
        ----------
        n : int
            The order, from 1 to K.

        Returns
        -------
        dict of str to float
            Terms by name, in descending order of their absolute values.
        """
        chosen = {name: term for name, term in self.terms.items() if len(name) == n}
        return dict(sorted(chosen.items(), key=lambda item: -abs(item[1])))


def closed_forms(action: MLPEnergy, theta: Any, order: int = HIGHEST_ORDER) -> ClosedForms:
    """S_1 … S_K of S(tθ) as named sums.

    For balanced classes and s_0 = 0, with P = δ/M − 1/M², Z = E[z] and the moments J:

    S_2 = ½ cᵀPc + (s_1/M) Σ J_αγ (UW)_αγ;
    S_3 = κ(c, c, c)/6 + s_1 cᵀP(Ub) + s_1 cᵀP(UWZ) + (s_2/M) Σ J_αγ Σ_β U_αβ W_βγ b_β
    + (s_2/2M) Σ J_αγδ Σ_β U_αβ W_βγ W_βδ.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system, with any activation, whose classes need not be balanced.
    theta : array_like or Tensor, (d,)
        Direction of the ray.
    order : int
        K, from 0 to 4.

    Returns
    -------
    ClosedForms
        Terms ``cc``, ``UW``, …, each the part of S(tθ) of these degrees in U, W, b, c.

    Raises
    ------
    LimitError
        If ``order`` is above 4.
    ModelError
        If a term overflows the dtype, or the activation has too few Taylor coefficients.

    Notes
    -----
    [ACT] eq 6 and [ACT-R] eq 9 print half of ``UW``; the third order of [ACT] has a sixth of
    ``Ubc``, ``UWc`` and ``UWb``, and a third of ``UWW``. The terms here are those of the exact
    expansion, and their sums are those of :meth:`SoftmaxMLPAction.expand`.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> ebm.networks.closed_forms(system, [1, 0, 1, 0, 2, 0], 2).at_order(2)
    {'UW': 0.25, 'cc': 0.125, 'Ub': 0.0}
    """
    order = checked_order(order)
    if order > HIGHEST_ORDER:
        raise LimitError(
            f"order must be at most {HIGHEST_ORDER} for closed forms, got {order}: "
            "SoftmaxMLPAction.expand goes to any order, main_terms too"
        )
    require_action(action)
    vector = action.one_vector(theta).detach()
    blocks = action.blocks_of(vector)
    totals: dict[str, Tensor] = {}
    for block in action.rows.blocks(action.block_size()):
        parts = _parts(action, blocks, block.inputs, order)
        for name, term in _terms(parts, block.labels, block.weights, order):
            totals[name] = totals.get(name, 0) + term.double()
    terms = {name: float(total) for name, total in totals.items()}
    coefficients = np.zeros(order + 1)
    coefficients[0] = math.log(action.rows.n_classes)
    for name, value in terms.items():
        coefficients[len(name)] += value
    require_finite_orders(coefficients, action.dtype)
    coefficients.setflags(write=False)
    return ClosedForms(terms, coefficients)


def _terms(
    parts: list[Parts], labels: Tensor, weights: Tensor, order: int
) -> Iterator[tuple[str, Tensor]]:
    """Every S_n, n = 1 … order, as a sum over partitions of n into orders of F."""
    for n in range(1, order + 1):
        for name, F in parts[n].items():
            yield name, (_surplus(F, labels) * weights).sum()
        for powers in _partitions(n):
            yield from _cumulant_terms(parts, powers, weights)


def _surplus(F: Tensor, labels: Tensor) -> Tensor:
    """⟨F⟩ − F_m of each row, (B,), whose mean over p(z, m) is D[F]; F is (B, M) or (1, M)."""
    labelled = F.expand(len(labels), -1).gather(1, labels[:, None]).squeeze(1)
    return F.mean(1) - labelled


def _cumulant_terms(
    parts: list[Parts], powers: tuple[int, ...], weights: Tensor
) -> Iterator[tuple[str, Tensor]]:
    """E κ_j(F_{n_1}, …, F_{n_j}) times its multiplicity/j!, for one partition of n."""
    multiplicity = math.prod(math.factorial(powers.count(k)) for k in set(powers))
    for choice in itertools.product(*(parts[k].items() for k in powers)):
        names, factors = zip(*choice, strict=True)
        centered = [F - F.mean(1, keepdim=True) for F in factors]
        name = "".join(sorted("".join(names), key="UaWbc".index))
        yield name, (_cumulant(centered) * weights).sum() / multiplicity


def _cumulant(x: list[Tensor]) -> Tensor:
    """Joint cumulant over the classes of 2, 3 or 4 centered variables."""
    whole = math.prod(x[1:], start=x[0]).mean(1)
    if len(x) < 4:
        return whole
    for i, j, k in ((1, 2, 3), (2, 1, 3), (3, 1, 2)):
        whole = whole - (x[0] * x[i]).mean(1) * (x[j] * x[k]).mean(1)
    return whole


def _partitions(n: int) -> list[tuple[int, ...]]:
    """Partitions of n into two or more orders, such as (1, 1, 2) of 4."""
    choices = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(range(1, n), j) for j in range(2, n + 1)
    )
    return [powers for powers in choices if sum(powers) == n]


def _parts(action: MLPEnergy, theta: Parameters, inputs: Tensor, order: int) -> list[Parts]:
    """F_1 … F_K split by degree; F_{k+1} holds (s_k/k!) binom(k, i) Σ_β U_αβ b_β^i w_β^{k−i}."""
    U, c, b = theta.U, theta.c, theta.b
    parts: list[Parts] = [{} for _ in range(order + 1)]
    if order:
        parts[1]["c"] = c[None]
    if action.activation.is_one_sided:
        if order > 1:
            a = torch.addmm(b, inputs, theta.W.mT)
            parts[2]["Ua"] = action.activation.function(a) @ U.mT
        return parts
    s = action.activation.coefficients(max(order - 1, 0))
    if order and s[0] != 0:
        parts[1]["U"] = s[0] * U.sum(1)[None]
    w = inputs @ theta.W.mT
    # Only one power of w is held at a time.
    power = torch.ones_like(w[:1])
    for j in range(order):
        power = power if j == 0 else (w if j == 1 else power * w)
        for k in range(max(j, 1), order):
            if s[k] != 0:
                scale = s[k] * math.comb(k, j)
                name = "U" + "W" * j + "b" * (k - j)
                parts[k + 1][name] = scale * (power @ (U * b ** (k - j)).mT)
    return parts


def class_covariance(n_classes: int) -> Array:
    """P = δ/M − 1/M², the matrix of ½ cᵀPc in S_2.

    It is positive semi-definite: its eigenvalues are 1/M on all vectors of sum zero, and 0 along
    (1, …, 1), the shift of all logits that softmax does not depend on. Its determinant is therefore
    0, from which [ACT] §2.3 concludes, wrongly, that c = 0 is unstable.

    Parameters
    ----------
    n_classes : int
        M, a positive integer.

    Returns
    -------
    ndarray, (M, M)
        P.

    Raises
    ------
    ShapeError
        If M is no positive integer.

    Examples
    --------
    >>> import ebm.networks
    >>> ebm.networks.class_covariance(2)
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    m = as_integer(n_classes, "n_classes")
    return np.eye(m) / m - 1 / m**2


def class_moments(action: MLPEnergy, degree: int, *, max_bytes: float = 2**30) -> Array:
    """J_{αγ₁…γ_k} = E[z_γ₁ … z_γk] − E[z_γ₁ … z_γk | α], as one array.

    It serves to inspect the elements of J; the other functions contract sums over J row by row.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system, of which only the rows enter.
    degree : int
        k, a positive integer.
    max_bytes : float
        Largest size of J, which has M E^k elements of 8 bytes.

    Returns
    -------
    ndarray, (M, E, …, E)
        J in float64; that of [ACT-R] is J/M.

    Raises
    ------
    ShapeError
        If ``degree`` is no positive integer.
    MemoryLimitError
        If J would take more than ``max_bytes``.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> ebm.networks.class_moments(system, 1)
    array([[ 0.5],
           [-0.5]])
    """
    degree = as_integer(degree, "degree")
    rows = action.rows
    m, e = rows.n_classes, rows.n_inputs
    try:
        n_bytes = 8.0 * m * float(e) ** degree
    except OverflowError:
        n_bytes = math.inf
    require_memory(n_bytes, f"J of degree {degree}", "raise max_bytes", limit=max_bytes)
    sums = class_sums(rows, degree)
    whole = sums.sum(0)
    sums /= -rows.class_probabilities.numpy().reshape(-1, *[1] * degree)
    sums += whole
    return sums


def class_sums(rows: LabelledRows, degree: int) -> Array:
    """Σ_z p(z, α) z_γ₁ … z_γk, (M, E, …, E), in float64; their sum over α is E[z_γ₁ … z_γk]."""
    m, e = rows.n_classes, rows.n_inputs
    if degree == 0:
        return rows.class_probabilities.numpy().copy()
    total = torch.zeros(m, e, e ** (degree - 1), dtype=torch.float64, device="cpu")
    # Outer powers of so few rows at a time that they take no more memory than the sums.
    for block in rows.blocks(max(1, min(1024, m * e))):
        z, labels = block.inputs.cpu().double(), block.labels.cpu()
        weighted = z * block.weights.cpu().double()[:, None]
        others = z.new_ones(len(z), 1)
        for _ in range(degree - 1):
            others = (others[:, :, None] * z[:, None, :]).flatten(1)
        for alpha in labels.unique().tolist():
            mine = labels == alpha
            total[alpha] += weighted[mine].T @ others[mine]
    return total.reshape(m, *[e] * degree).numpy()


def surplus_moments(rows: LabelledRows, degree: int) -> Array:
    """D_α[z_γ₁ … z_γk] = E[z_γ₁ … z_γk]/M − Σ_z p(z, α) z_γ₁ … z_γk, (M, E, …, E)."""
    sums = class_sums(rows, degree)
    return np.asarray(sums.sum(0) / rows.n_classes - sums)


def main_terms(action: MLPEnergy, theta: Any, order: int) -> Array:
    """The main terms of [ACT] §2.5: the parts of S_{n+1} linear in U and independent of b and c.

    For balanced classes they are (s_n/(n! M)) Σ J_{αγ₁…γn} Σ_β U_αβ W_βγ₁ … W_βγn, in general
    (s_n/n!) Σ U_αβ D_α[(Wz)_β^n]. The source prints (n+1)! for n!. For SiLU s_3 = 0, so that order
    4 has no main term, but the term ``UUWW`` of :func:`closed_forms`, ⅛ of a variance, is positive.

    Parameters
    ----------
    action : SoftmaxMLPAction
        The system, whose activation must have a Taylor series.
    theta : array_like or Tensor, (d,)
        Direction of the ray, of which only U and W enter.
    order : int
        K, from 0 to 1000.

    Returns
    -------
    ndarray, (K+1,)
        ln M, 0, and the main terms of S_2 … S_K; their sum approximates S in [ACT].

    Raises
    ------
    ModelError
        If the activation has no Taylor series to this order, or a term overflows.

    Examples
    --------
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0], [3.0]], [0, 1, 1, 0], 1)
    >>> ebm.networks.main_terms(system, [1, 0, 9, 9, 2, 9], 3).round(3)
    array([0.693, 0.   , 0.25 , 1.25 ])
    """
    order = checked_order(order)
    require_action(action)
    blocks = action.blocks_of(action.one_vector(theta).detach())
    s = action.activation.coefficients(max(order - 1, 0))
    totals = np.zeros(order + 1)
    totals[0] = math.log(action.rows.n_classes)
    for block in action.rows.blocks(action.block_size()):
        w = block.inputs @ blocks.W.mT
        power = torch.ones_like(w)
        for n in range(1, order):
            power = power * w
            surplus = _surplus(power @ blocks.U.mT, block.labels)
            totals[n + 1] += s[n] * float((surplus * block.weights).double().sum())
    require_finite_orders(totals, action.dtype)
    return totals
