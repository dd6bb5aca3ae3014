"""Penalties of a fit, and which parameters it may change: the same for every loss."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_floats, as_number, holds_text, plain_array
from ebm._types import Array, Flags
from ebm.errors import EbmError, ModelError, NamesError, ShapeError, require_memory
from ebm.learning._pair_groups import PairGroups, pair_groups
from ebm.model import Penalized
from ebm.spaces._labels import held_labels, only_count, shown

__all__ = ["AppliedPenalty", "Penalty", "as_penalty"]

#: A penalty beyond this says nothing more, and its square overflows.
LARGEST_PENALTY = 1e100
#: Part of a direction that lies outside of the others, below which it is one of theirs.
DEPENDENT = 1e-10


@dataclass(frozen=True, eq=False)
class Penalty:
    """R(θ) = ½ l2 Σ W² + ½ l2_biases Σ b² + l1 Σ|W| + group_l1 Σ_ij |W_ij|, and θ = θ₀ + Aφ.

    W are the parameters that couple units, with each pair counted once, and b are all others;
    |W_ij| is the length √ΣW² of all couplings of a pair, and A says which parameters are tied. The
    penalty is added to minus the mean log-likelihood of a sample in nats, so that l2 = 1/N is a
    normal prior of width 1. Its value does not depend on the gauge, nor on the numbering of the
    values of a unit; it differs between the two codings of two-valued units, as W = 4J. For a Potts
    model the sums run over all q² couplings of a pair and all q fields of a unit in the zero-sum
    gauge, and for terms of more than two {0,1} units over the couplings of x − ½.

    Parameters
    ----------
    l2 : float
        Strength of the squares of couplings.
    l2_biases : float
        Strength of the squares of all other parameters, in the coding and at the center of the
        model given.
    l1 : float
        Strength of the absolute values of couplings. Where each pair has one coupling, as of
        two-valued units and of ordinal items, most become exactly zero, by
        :class:`ebm.ProximalNewton`. Gradient steps use its subgradient, so that couplings come
        close to zero without reaching it; other solvers refuse it.
    free : array_like of bool, (p,), or sequence of str, optional
        Flags or names of the parameters that the fit may change; the others keep the values of the
        model. Names are those of ``model.parameter_names``; so are the labels of flags in a series.
    ties : array_like, (p,) or (p, q), optional
        Labels of the parameters, where the differences between parameters with the same label are
        those of the model and do not change; or the matrix A.
    group_l1 : float
        Strength of the lengths of the couplings of pairs, all of which become exactly zero
        together :cite:`yuan2006`: of a Potts model the Frobenius norm of J_ij in the zero-sum
        gauge. Where each pair has one coupling it is ``l1``. Solvers are those of ``l1``.

    Raises
    ------
    EbmError
        If a strength is not a number from 0 to 1e100, ``free`` holds values other than True and
        False, ``ties`` are neither labels nor a finite matrix, or no parameter is left to change.
    NamesError
        In a fit, if no parameter of the model has one of the names in ``free``.
    ShapeError
        If ``free`` does not have one axis, or ``ties`` have neither one nor two.

    Examples
    --------
    One coupling for all pairs of three units:

    >>> import ebm
    >>> rows = [[0, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 1, 0], [1, 0, 0]]
    >>> start = ebm.BoltzmannMachine([[0, 0, 0], [0, 0, 0], [0, 0, 0]], [0, 0, 0])
    >>> uniform = ebm.Penalty(l2=0.01, ties=[0, 1, 2, 3, 3, 3])
    >>> ebm.fit(start, rows, penalty=uniform).model.weights.round(3)
    array([[0.   , 0.381, 0.381],
           [0.381, 0.   , 0.381],
           [0.381, 0.381, 0.   ]])
    """

    l2: float = 0.0
    l2_biases: float = 0.0
    l1: float = 0.0
    free: ArrayLike | Sequence[str] | None = None
    ties: ArrayLike | None = None
    group_l1: float = 0.0

    def __post_init__(self) -> None:
        for name in ("l2", "l2_biases", "l1", "group_l1"):
            value = as_number(getattr(self, name), name)
            if not 0 <= value <= LARGEST_PENALTY:
                raise EbmError(
                    f"{name} must be a number from 0 to {LARGEST_PENALTY:g}, got {value!r}"
                )
            object.__setattr__(self, name, value)
        if self.free is not None:
            object.__setattr__(self, "free", _checked_free(self.free))
        if self.ties is not None:
            object.__setattr__(self, "ties", _checked_ties(self.ties))

    @property
    def has_l1(self) -> bool:
        """Whether couplings, or those of pairs, are drawn to zero."""
        return self.l1 + self.group_l1 > 0

    def directions(self, n_parameters: int, names: Sequence[str] | None = None) -> Array | None:
        """A, the directions in which θ may go, (p, q); None where it may go anywhere.

        ``names`` are those of the parameters, for names in ``free``.
        """
        if self.free is None and self.ties is None:
            return None
        ties = np.arange(n_parameters) if self.ties is None else np.asarray(self.ties)
        free = np.ones(n_parameters, dtype=bool) if self.free is None else np.asarray(self.free)
        if isinstance(self.free, tuple):
            free = _flags_of_names(self.free, names)
        for name, array in (("free", free), ("ties", ties)):
            if array.shape[0] != n_parameters or (name == "free" and array.ndim != 1):
                raise ShapeError(
                    f"{name} must have an entry for each of the {n_parameters} parameters of the "
                    f"model, got {array.shape}"
                )
        if ties.ndim == 1:
            labels = np.unique(ties[free])
            require_memory(
                8.0 * n_parameters * len(labels),
                f"the {len(labels)} directions in which {n_parameters} parameters may change",
                "tie or hold more of them, or take a model with fewer parameters",
            )
            directions: Array = (free[:, None] & (ties[:, None] == labels)).astype(np.float64)
        else:
            directions = _independent(np.where(free[:, None], ties, 0.0))
        if not directions.shape[1]:
            raise EbmError("free and ties leave no parameter that may change")
        return np.asarray(directions)


def _checked_free(free: Any) -> Flags | tuple[str, ...]:
    """One truth value for each parameter, (p,), or names of some."""
    flags = plain_array(free, "free")
    if not flags.ndim:
        raise ShapeError(
            f"free must be flags (p,), one for each parameter, or a list of names, got {free!r}"
        )
    if holds_text(flags):
        return _checked_names(flags)
    if flags.dtype.kind != "b" and not np.isin(as_floats(flags, "free"), (0, 1)).all():
        raise EbmError("free must hold True and False, one for each parameter, not positions")
    flags, labels = flags.astype(bool), held_labels(free, 0)
    if labels is not None and not only_count(labels) and flags.ndim == 1:
        return tuple(str(name) for name, is_free in zip(labels, flags, strict=True) if is_free)
    return flags


def _checked_names(names: NDArray[Any]) -> tuple[str, ...]:
    """Text that may be names of parameters."""
    chosen = tuple(names.tolist()) if names.ndim == 1 else ()
    twice = [name for name in chosen if chosen.count(name) > 1]
    if twice or not all(isinstance(name, str) for name in chosen) or not chosen:
        what = f"{str(twice[0])!r} more than once" if twice else f"{str(names.flat[0])!r}"
        raise ModelError(
            f"free must hold numbers, got text {what}: names of parameters are given once each, "
            "without anything else"
        )
    return chosen


def _flags_of_names(chosen: tuple[str, ...], names: Sequence[str] | None) -> Flags:
    """Which parameters have one of the names, (p,)."""
    if names is None:
        raise NamesError(
            f"free holds {shown(chosen)}, but the model has no parameter_names: give flags"
        )
    unknown = [name for name in chosen if name not in names]
    if unknown:
        # The units of a pair in the other order are nearer than any others.
        close = [name for name in names if sorted(name) == sorted(unknown[0])]
        close = close or difflib.get_close_matches(unknown[0], names, n=3, cutoff=0.5)
        lead = "did you mean" if close else "the parameters are"
        raise NamesError(f"free holds {unknown[0]!r}: {lead} {shown(close or names)}")
    return np.array([name in chosen for name in names])


def _checked_ties(ties: Any) -> NDArray[Any]:
    """Labels that can be told apart, (p,), or a finite matrix, (p, q)."""
    array = plain_array(ties, "ties")
    if array.ndim not in {1, 2}:
        raise ShapeError(f"ties must be labels (p,) or a matrix (p, q), got {array.shape}")
    if array.ndim == 2:
        array = as_floats(array, "ties")
        sizes = np.abs(array[array != 0])
        if not ((sizes >= 1 / LARGEST_PENALTY) & (sizes <= LARGEST_PENALTY)).all():
            raise EbmError(
                f"ties must be a matrix of finite numbers, 0 or from {1 / LARGEST_PENALTY:g} to "
                f"{LARGEST_PENALTY:g} in size"
            )
        return array
    try:
        # Neither None nor NaN is a label.
        is_equal = bool((array == array).all() and len(np.unique(array)))
    except TypeError:
        is_equal = False
    if not is_equal:
        raise EbmError("ties must be labels of one kind, all numbers or all text, without NaN")
    return array


def _independent(directions: Array) -> Array:
    """Columns that span all of them, none within the span of others, (p, q')."""
    from scipy.linalg import qr

    directions = directions[:, directions.any(axis=0)]
    if not directions.shape[1]:
        return np.asarray(directions)
    lengths = np.linalg.norm(directions, axis=0)
    triangle, order = qr(directions / lengths, mode="r", pivoting=True)
    sizes = np.abs(triangle.diagonal())
    return directions[:, np.sort(order[: len(sizes)][sizes > DEPENDENT * sizes[0]])]


def as_penalty(penalty: Any) -> Penalty:
    """A penalty; a number is one on couplings."""
    if penalty is None:
        return Penalty()
    if isinstance(penalty, Penalty):
        return penalty
    if isinstance(penalty, type):
        raise EbmError(f"penalty must be an object: write {penalty.__name__}(l2=…)")
    try:
        return Penalty(l2=as_number(penalty, "penalty"))
    except EbmError as error:
        raise EbmError(
            f"penalty must be ebm.Penalty(l2=…) or its l2, a number from 0 to "
            f"{LARGEST_PENALTY:g}, got {penalty!r}"
        ) from error


@dataclass(frozen=True, eq=False)
class AppliedPenalty:
    """R(θ) of a family: W and b are linear in θ, (b, W) = T θ, and the model says how."""

    family: Any
    strength: Penalty

    def __post_init__(self) -> None:
        if self:
            # What would take too much memory is refused now, not at the first update.
            self._on.is_coupling  # noqa: B018
        if self.strength.group_l1:
            self._groups  # noqa: B018
        if isinstance(self.strength.free, tuple):
            # So are names that no parameter has.
            self.directions  # noqa: B018

    def __bool__(self) -> bool:
        return bool(self.strength.l2 or self.strength.l2_biases or self.strength.has_l1)

    @property
    def holds_couplings(self) -> bool:
        """Whether couplings cannot grow without bound."""
        return self.strength.l2 > 0 or self.strength.has_l1

    @property
    def holds_biases(self) -> bool:
        """Whether biases cannot grow without bound."""
        return self.strength.l2_biases > 0

    @cached_property
    def _on(self) -> Penalized:
        on: Penalized = self.family.penalized()
        return on

    @cached_property
    def _squares(self) -> Array:
        """l2 or l2_biases for each of (b, W), (k,)."""
        return np.where(self._on.is_coupling, self.strength.l2, self.strength.l2_biases)

    @cached_property
    def _absolutes(self) -> Array:
        """l1 for each W, 0 for each b, (k,)."""
        return np.where(self._on.is_coupling, self.strength.l1, 0.0)

    @cached_property
    def _groups(self) -> PairGroups:
        return pair_groups(self.family)

    def value(self, theta: Array) -> float:
        """R(θ)."""
        if not self:
            return 0.0
        values = self._on.of(theta)
        value = float(0.5 * self._squares @ values**2 + self._absolutes @ np.abs(values))
        if self.strength.group_l1:
            value += self.strength.group_l1 * float(self._groups.lengths(theta).sum())
        return value

    def gradient(self, theta: Array) -> Array:
        """∂R/∂θ = Tᵀ (l2_biases b, l2 W + l1 sign W + group_l1 W/|W_ij|), (p,)."""
        if not self:
            return np.zeros_like(theta)
        values = self._on.of(theta)
        slopes = self._squares * values
        if self.strength.l1:
            slopes += self._absolutes * np.sign(values)
        gradient = self._on.transposed(slopes)
        if self.strength.group_l1:
            gradient = gradient + self.strength.group_l1 * self._groups.slopes(theta)
        return gradient

    def strengths(self) -> tuple[Array, Array] | None:
        """l2 and l1 of each parameter, (p,) each; None where W and b are not the parameters."""
        if not self:
            return np.zeros(0), np.zeros(0)
        if self._on.of is not np.asarray or self.strength.group_l1:
            return None
        return self._squares, self._absolutes

    @cached_property
    def directions(self) -> Array | None:
        """A, the directions in which θ may go, (p, q); None where it may go anywhere."""
        # Names of a large model take more memory than its parameters.
        is_named = isinstance(self.strength.free, tuple)
        names = getattr(self.family, "parameter_names", None) if is_named else None
        return self.strength.directions(len(self.family.parameters), names)

    @property
    def is_tied(self) -> bool:
        """Whether some parameters may not change, or only together."""
        return self.directions is not None

    @property
    def is_absent(self) -> bool:
        """Whether every parameter may go anywhere at no cost."""
        return not self and not self.is_tied

    def unpenalized(self) -> Array:
        """An orthonormal basis of the ways open to θ along which R does not change, (p, k)."""
        p = len(self.family.parameters)
        open_ways = np.eye(p) if self.directions is None else np.linalg.qr(self.directions)[0]
        if not self:
            return open_ways
        is_held: Flags = self._squares > 0
        if self.strength.has_l1:
            is_held = is_held | self._on.is_coupling
        projected = np.array(
            [self._on.transposed(is_held * self._on.of(way)) for way in open_ways.T]
        )
        values, vectors = np.linalg.eigh(projected @ open_ways)
        return np.asarray(open_ways @ vectors[:, values <= 1e-10 * values[-1]])

    @cached_property
    def hessian(self) -> Array:
        """∂²R/∂θ² = Tᵀ diag(l2_biases, l2) T, (p, p); l1 and group_l1 have no part in it."""
        rows = np.eye(len(self.family.parameters))
        return np.array([self._on.transposed(self._squares * self._on.of(row)) for row in rows])
