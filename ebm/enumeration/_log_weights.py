"""Log weights whose differences are exact at large energies.

A double holds 53 bits: energies of 10¹⁰ are rounded by 10⁻⁶, and so would be the logs of all
probabilities, which depend on differences of energies alone. Beyond ``ORDINARY`` every number w of
an energy is therefore cut into w = w' + w''. The leading w' is a multiple of one power of 2 that
is so large that any sum of w' fits into 53 bits and is exact, in whatever order it is taken; the
rest w'' is so small that its sums are rounded by nothing that matters. A log weight is the pair of
both sums, and a difference of log weights is taken part by part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ebm._types import Array
from ebm.errors import PrecisionError
from ebm.forms import LayeredForm, QuadraticForm, TermForm, summable_form
from ebm.models._terms import Products
from ebm.spaces import FiniteSpace, HomogeneousSpace

#: A log weight: a float, or its exact value.
Scale = float | Fraction
Form = TypeVar("Form", bound=QuadraticForm | LayeredForm)

#: Largest sum of all |w| that is left to plain sums, which round energies by some 1e-11.
ORDINARY = 2.0**17
#: Bits of a sum of leading parts; three are left for their own rounding.
BITS = 50
#: Largest error of a difference of energies, in units of k_B T, that is not refused.
RESOLVED = 1e-9
#: Inputs of hidden units held at a time.
CHUNK = 2**19


class Parts(NamedTuple):
    """Log weights in two parts; the rest is 0 where a single part holds all."""

    leading: Any
    rest: Any = 0.0

    def about(self, scale: Scale, out: Array | None = None) -> Array:
        """The log weights less a number near the largest, ``out`` perhaps the leading part."""
        if not isinstance(scale, Fraction):
            about = np.subtract(self.leading, scale, out=out)
            return np.asarray(about + self.rest if np.ndim(self.rest) or self.rest else about)
        near = float(scale)
        about = np.subtract(self.leading, near, out=out)
        return np.asarray(about + (self.rest - float(scale - Fraction(near))))

    def top(self) -> Scale:
        """The largest log weight, exact where there are two parts."""
        if not np.ndim(self.rest):
            return float(np.max(self.leading)) + float(self.rest)
        total = self.leading + self.rest
        for _ in range(2):
            k = np.unravel_index(int(total.argmax()), total.shape)
            scale = Fraction(float(self.leading[k])) + Fraction(float(self.rest[k]))
            # Beside a near one, even the sum of both parts is sharp.
            total = self.about(scale)
        return scale

    def log_sum(self, axis: int) -> Parts:
        """ln Σ exp along an axis, again in parts."""
        if not np.ndim(self.rest):
            highest = self.leading.max(axis=axis)
            total = self.leading - np.expand_dims(highest, axis)
            return Parts(highest, self.rest + np.log(np.exp(total).sum(axis=axis)))
        total = self.leading + self.rest
        rest = np.broadcast_to(self.rest, total.shape)
        for _ in range(2):
            k = np.expand_dims(total.argmax(axis=axis), axis)
            top = [np.take_along_axis(part, k, axis) for part in (self.leading, rest)]
            total = (self.leading - top[0]) + (rest - top[1])
        sums = np.log(np.exp(total).sum(axis=axis))
        return Parts(top[0].squeeze(axis), top[1].squeeze(axis) + sums)

    def plus(self, other: Parts, axis: int) -> Parts:
        """These log weights and the sums of others along an axis."""
        return Parts(*(own + part.sum(axis=axis) for own, part in zip(self, other, strict=True)))

    def joined(self, other: Parts) -> Parts:
        """ln(e^a + e^b), element by element."""
        pairs = zip(self, other, strict=True)
        return Parts(*(np.stack(np.broadcast_arrays(*pair), axis=-1) for pair in pairs)).log_sum(-1)


class Resolution(NamedTuple):
    """How well differences of energies are known.

    ``bound`` is Σ|w| over all numbers, which no energy exceeds, and ``error`` the largest error of
    a difference of two energies cut in two, both in units of k_B T.
    """

    bound: float
    error: float

    @classmethod
    def of(cls, *arrays: Array) -> Resolution:
        """That of an energy which is a sum of at most all these numbers."""
        bound = sum(float(np.abs(array).sum()) for array in arrays)
        count = sum(array.size for array in arrays)
        return cls(bound, count**2 * math.ldexp(bound, -BITS - 53))

    def is_ordinary(self, constant: float) -> bool:
        """Whether plain sums of these numbers and a constant will do."""
        return self.bound + abs(constant) <= ORDINARY

    @property
    def suffices(self) -> bool:
        """Whether every difference is known."""
        return self.error <= RESOLVED

    @property
    def gap(self) -> float:
        """A difference that is known to a relative ``RESOLVED``, and leaves no weight."""
        return self.error / RESOLVED - math.log(np.finfo(float).eps)

    def cut(self, values: Array) -> tuple[Array, Array]:
        """Leading parts, multiples of one power of 2, and rests."""
        # Beside a large constant all other numbers may be tiny.
        unit = math.ldexp(1.0, max(math.frexp(self.bound)[1], -900) - BITS)
        leading = np.round(values / unit) * unit
        return leading, values - leading

    def require(self, log_shares: Array) -> None:
        """Refuse logs of probabilities of states that compete for the lowest energy unresolved."""
        # Of two within the gap one has at most half of the weight; beyond it nothing is left.
        if not self.suffices and ((log_shares > -self.gap) & (log_shares < -0.5)).any():
            raise self.refused()

    def refused(self) -> PrecisionError:
        """What to raise where a state near the lowest one may weigh anything."""
        return PrecisionError(
            f"energies reach {self.bound:.1e}, where double precision leaves their differences, "
            f"and so the logs of probabilities, uncertain by up to {self.error:.0e}, and several "
            f"states compete for the lowest one: give smaller numbers, such as those of "
            f"model.scaled({RESOLVED / self.error:.0e})"
        )


class Resolved(NamedTuple):
    """Log weights constant − E of states, (r, n) -> (r,), in two parts, and how far they go."""

    log_weights: Callable[[Array], Parts]
    constant: float
    resolution: Resolution


class Cut(NamedTuple, Generic[Form]):
    """A form at the origin, dense, and the parts that log weights are sums of.

    One part is the form itself, two are a leading form and a rest, without constants; the rest
    holds what rounding takes from the vectors when the center moves.
    """

    whole: Form
    parts: tuple[Form, ...]
    resolution: Resolution

    def resolved(self, log_weights: Callable[[Array], Parts]) -> Resolved | None:
        """The log weights where they come in two parts, else None."""
        if len(self.parts) == 1:
            return None
        return Resolved(log_weights, self.whole.constant, self.resolution)


def cut_form(form: QuadraticForm) -> Cut[QuadraticForm]:
    """A quadratic form cut in two where plain sums would round its energies."""
    whole = form.at_origin().dense()
    # Half the matrix is what energies sum.
    resolution = Resolution.of(whole.matrix / 2, whole.vector)
    if resolution.is_ordinary(whole.constant):
        return Cut(whole, (whole,), resolution)
    matrices, vectors = resolution.cut(whole.matrix / 2), resolution.cut(whole.vector)
    leading = QuadraticForm(2 * matrices[0], vectors[0], 0.0)
    rest = QuadraticForm(2 * matrices[1], vectors[1] + form.linear_remainder(), 0.0)
    return Cut(whole, (leading, rest), resolution)


def cut_layers(form: LayeredForm) -> Cut[LayeredForm]:
    """A layered form cut in two where plain sums would round its energies."""
    whole = form.at_origin()
    weights, visible, hidden, constant = whole
    resolution = Resolution.of(weights, visible, hidden)
    if resolution.is_ordinary(constant):
        return Cut(whole, (whole,), resolution)
    cut = resolution.cut
    leading, rest = zip(cut(weights), cut(visible), cut(hidden), strict=True)
    to_visible, to_hidden = form.linear_remainder()
    parts = (
        LayeredForm(*leading, 0.0),
        LayeredForm(rest[0], rest[1] + to_visible, rest[2] + to_hidden, 0.0),
    )
    return Cut(whole, parts, resolution)


def of_form(forms: tuple[QuadraticForm, ...], features: Array) -> Parts:
    """½ fAf + v·f of rows of features, (..., d) -> (...)."""
    sums = (
        features @ vector + 0.5 * ((features @ matrix) * features).sum(axis=-1)
        for matrix, vector, _ in forms
    )
    return Parts(*sums)


def inputs_of(forms: tuple[LayeredForm, ...], states: Array) -> Parts:
    """f_j(x) = c_j + Σ_i U_ij x_i of states of the visible layer, (..., n) -> (..., m)."""
    return Parts(*(states @ weights + hidden for weights, _, hidden, _ in forms))


def softplus(inputs: Parts) -> Parts:
    """s₊(f) = max(f, 0) + ln(1 + e^{−|f|}); the logarithm is no part of what leads."""
    total = inputs.leading + inputs.rest
    on = total > 0
    logs = np.log1p(np.exp(-np.abs(total)))
    return Parts(np.where(on, inputs.leading, 0), np.where(on, inputs.rest, 0) + logs)


def of_layers(forms: tuple[LayeredForm, ...], states: Array) -> Parts:
    """b·x + Σ_j s₊(f_j(x)) of rows of states of the visible layer, (r, n) -> (r,)."""
    sums = [states @ visible for _, visible, _, _ in forms]
    step = max(1, CHUNK // len(forms[0].hidden))
    for start in range(0, len(states), step):
        rows = slice(start, start + step)
        for own, part in zip(sums, softplus(inputs_of(forms, states[rows])), strict=True):
            own[rows] += part.sum(axis=-1)
    return Parts(*sums)


def resolved(model: Any) -> Resolved | None:
    """Log weights in two parts of a model of the library whose energies are not ordinary."""
    if callable(getattr(model, "resolved_log_weights", None)):
        answer: Resolved | None = model.resolved_log_weights()
        return answer
    space = model.space
    match summable_form(model):
        case QuadraticForm() as form:
            return resolved_form(cut_form(form), space)
        case LayeredForm() as form if form.is_binary:
            return resolved_layers(cut_layers(form))
        case TermForm() as form:
            return _resolved_terms(form, space)
    return None


def resolved_form(cut: Cut[QuadraticForm], space: FiniteSpace) -> Resolved | None:
    """Log weights of states of a space whose features a quadratic form is over."""
    return cut.resolved(partial(_of_states, cut.parts, space))


def _of_states(forms: tuple[QuadraticForm, ...], space: FiniteSpace, states: Array) -> Parts:
    return of_form(forms, space.features(states))


def resolved_layers(cut: Cut[LayeredForm]) -> Resolved | None:
    """Log weights of states of the visible layer."""
    return cut.resolved(partial(of_layers, cut.parts))


def _resolved_terms(form: TermForm, space: HomogeneousSpace) -> Resolved | None:
    coefficients = np.array(list(form.terms.values()), dtype=np.float64)
    count = np.zeros(space.n + 1) if form.count is None else form.count
    # The number of active units chooses one of its values.
    resolution = Resolution.of(coefficients, np.atleast_1d(np.abs(count).max()))
    if resolution.is_ordinary(form.constant):
        return None
    products = Products(form.terms)
    leading, rest = zip(resolution.cut(coefficients), resolution.cut(count), strict=True)

    def part(states: Array, values: Array, by_count: Array) -> Array:
        active = (states == space.values[-1]).sum(axis=-1)
        return np.asarray(products.combined(states, values) + by_count[active])

    return Resolved(
        lambda states: Parts(part(states, *leading), part(states, *rest)),
        form.constant,
        resolution,
    )
