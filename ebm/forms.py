"""Forms of an energy: quadratic, layered, a sum of products of units, or of tables over few units.

A model offers one of them by a method. Exact sums, Gibbs sweeps, annealing, expansions, messages,
graphs and Fisher information match on the form, never on the class of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ebm._arrays import as_csr, as_finite, dense, is_sparse, without_diagonal
from ebm._conditioning import given_form
from ebm._factor_form import FactorForm, checked_factors
from ebm._names import PACKAGE
from ebm._normalization import require_sum
from ebm._term_keys import checked_terms
from ebm._types import Array
from ebm.errors import ModelError
from ebm.model import ConditionalModel, checked_energy
from ebm.spaces import Binary, FiniteSpace, HomogeneousSpace, Spins, StateSpace
from ebm.units import Bernoulli, Spin, Unit

__all__ = [
    "Bernoulli",
    "FactorForm",
    "LayeredForm",
    "QuadraticForm",
    "TermForm",
    "as_terms",
    "energy_form",
    "offered_form",
    "summable_form",
]

#: Energies of pairwise models must stay below this, in units of k_B T.
LARGEST_ENERGY = 1e300
#: States at which the form of a user's model is compared with its energy, beside two extreme ones.
COMPARED = 8
#: Largest difference of both, in units of the sum of the magnitudes of all parts of the energy:
#: single precision passes, and parts that cancel leave their rounding.
ROUNDING = 1e-6

Units = tuple[int, ...]
ZERO_ONE = Bernoulli()


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """E = −½ Σ A_ij (f_i − c_i)(f_j − c_j) − Σ v_i f_i + k over f = ``space.features(states)``.

    A model offers it by a method ``quadratic_form()``, which may also return the triple (A, v, k)
    of a form at center 0. Unpacking a form gives this triple, with A dense.

    Parameters
    ----------
    matrix : ndarray or scipy.sparse, (d, d)
        Symmetric couplings A.
    vector : ndarray, (d,)
        Linear coefficients v.
    constant : float
        Constant k in units of k_B T.
    center : ndarray, (d,), optional
        Center c, 0 if not given. About a suitable center v holds no sums of large couplings.
    is_checked : bool
        True skips the checks of shape, symmetry and finiteness, for numbers already checked.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5], center=0.5)
    >>> machine.quadratic_form().at_origin().vector
    array([-2. , -0.5])
    """

    matrix: Any
    vector: Array
    constant: float
    center: Array | None = None
    is_checked: bool = field(default=False, repr=False)

    def __iter__(self) -> Iterator[Any]:
        origin = self.at_origin()
        return iter((dense(origin.matrix), origin.vector, origin.constant))

    def about(self, center: Array | None) -> QuadraticForm:
        """The same energy about another center: v' = v + A(c'−c), k' = k + ½(c'Ac' − cAc)."""
        to, to_term = self._center_terms(center)
        origin, origin_term = self._center_terms(self.center)
        constant = self.constant + 0.5 * (to_term - origin_term)
        return replace(self, vector=self.vector + to - origin, constant=constant, center=center)

    def at_origin(self) -> QuadraticForm:
        """The same energy about 0: v − Ac and k − ½cAc."""
        return self if self.center is None else self.about(None)

    def dense(self) -> QuadraticForm:
        """The same form with its matrix as an array."""
        return replace(self, matrix=dense(self.matrix)) if is_sparse(self.matrix) else self

    def linear_remainder(self) -> Array:
        """The rounding error of the vector of :meth:`at_origin`, (d,), in rational arithmetic."""
        origin = self.at_origin().vector
        return _exact_remainder(origin, self.vector, self.matrix, self.center)

    def substituted(self, shift: float, scale: float) -> QuadraticForm:
        """The same energy over y, where f = shift + scale·y."""
        center = (0.0 if self.center is None else self.center) - shift
        return replace(
            self,
            matrix=self.matrix * scale**2,
            vector=self.vector * scale,
            constant=self.constant - shift * float(self.vector.sum()),
            center=np.broadcast_to(center / scale, self.vector.shape),
        )

    def to_binary(self, space: HomogeneousSpace) -> QuadraticForm:
        """The same energy of two-valued units over x ∈ {0,1}^n, the upper value 1."""
        low, high = (float(value) for value in space.values)
        return self if (low, high) == (0, 1) else self.substituted(low, high - low)

    def folded(self, space: HomogeneousSpace) -> QuadraticForm:
        """The same energy with zero diagonal, for units of two values a < b.

        (f − c)² = (a + b − 2c) f + c² − ab.
        """
        low, high = (float(value) for value in space.values)
        diagonal = np.asarray(self.matrix.diagonal(), dtype=np.float64)
        if not diagonal.any():
            return self
        center = np.zeros(len(diagonal)) if self.center is None else self.center
        return replace(
            self,
            matrix=without_diagonal(self.matrix),
            vector=self.vector + 0.5 * (low + high - 2 * center) * diagonal,
            constant=self.constant - 0.5 * float(diagonal @ (center**2 - low * high)),
        )

    def _center_terms(self, center: Array | None) -> tuple[Any, float]:
        """Ac and cAc."""
        if center is None or not center.any():
            return 0.0, 0.0
        applied = center @ self.matrix
        return applied, float(center @ applied)


@dataclass(frozen=True, eq=False)
class LayeredForm:
    """E(v, h) = −(v−v̂)·U(h−ĥ) − b·v − c·h + k over two layers, of which h is summed out.

    Units have the measures of ``visible_units`` and ``hidden_units``, whose own energies belong to
    E. A model offers the form by a method ``layered_form()``, with {0,1} hidden units also as
    (U, b, c, k) at centers 0. Unpacking a form gives these four numbers.

    Parameters
    ----------
    weights : ndarray, (n, m)
        Couplings U between the layers.
    visible, hidden : ndarray, (n,) and (m,)
        Biases b and c.
    constant : float
        Constant k in units of k_B T.
    visible_center, hidden_center : ndarray, (n,) and (m,), optional
        Centers v̂ and ĥ, 0 if not given.
    visible_units, hidden_units : Unit
        Generating functions of the two layers, {0,1} units if not given.
    is_checked : bool
        True skips the checks of shape and finiteness, for numbers already checked.

    Examples
    --------
    >>> import ebm
    >>> rbm = ebm.RestrictedBoltzmannMachine([[2.0], [1.0]], [0.0, 0.5], [-1.0], hidden_center=0.5)
    >>> rbm.layered_form().at_origin().visible
    array([-1.,  0.])
    """

    weights: Array
    visible: Array
    hidden: Array
    constant: float
    visible_center: Array | None = None
    hidden_center: Array | None = None
    visible_units: Unit = ZERO_ONE
    hidden_units: Unit = ZERO_ONE
    is_checked: bool = field(default=False, repr=False)

    def __iter__(self) -> Iterator[Any]:
        origin = self.at_origin()
        return iter((origin.weights, origin.visible, origin.hidden, origin.constant))

    @property
    def is_binary(self) -> bool:
        """Whether both layers are of {0,1} units."""
        return self.visible_units == self.hidden_units == ZERO_ONE

    def at_origin(self) -> LayeredForm:
        """The same energy about 0: b − Uĥ, c − v̂U and k − v̂·Uĥ."""
        # Learning takes a form at every update, mostly at center 0.
        if self.visible_center is None and self.hidden_center is None:
            return self
        from_hidden = np.zeros(len(self.visible))
        visible, hidden, constant = self.visible, self.hidden, self.constant
        if self.hidden_center is not None and self.hidden_center.any():
            from_hidden = self.weights @ self.hidden_center
            visible = visible - from_hidden
        if self.visible_center is not None and self.visible_center.any():
            hidden = hidden - self.visible_center @ self.weights
            constant -= float(self.visible_center @ from_hidden)
        return replace(
            self,
            visible=visible,
            hidden=hidden,
            constant=constant,
            visible_center=None,
            hidden_center=None,
        )

    def transposed(self) -> LayeredForm:
        """The same energy with the two layers exchanged."""
        return replace(
            self,
            weights=self.weights.T,
            visible=self.hidden,
            hidden=self.visible,
            visible_center=self.hidden_center,
            hidden_center=self.visible_center,
            visible_units=self.hidden_units,
            hidden_units=self.visible_units,
        )

    def linear_remainder(self) -> tuple[Array, Array]:
        """The rounding errors of the vectors of :meth:`at_origin`, (n,) and (m,)."""
        origin, u = self.at_origin(), self.weights
        return (
            _exact_remainder(origin.visible, self.visible, u, self.hidden_center),
            _exact_remainder(origin.hidden, self.hidden, u.T, self.visible_center),
        )


@dataclass(frozen=True, eq=False)
class TermForm:
    """E(x) = −Σ_A J_A Π_{i∈A} x_i − ν(K) + k over {0,1} or ±1, K the number of active units.

    A model offers it by a method ``term_form()``.

    Parameters
    ----------
    terms : mapping of tuple of int to float
        Coefficients J_A, keyed by the units of the term A.
    constant : float
        Constant k in units of k_B T.
    count : ndarray, (n + 1,), optional
        The values ν(0), …, ν(n), 0 if not given.
    is_checked : bool
        True skips the checks of units and finiteness, for numbers already checked.

    Examples
    --------
    >>> import ebm
    >>> class Triple(ebm.EnergyModel):
    ...     space = ebm.Spins(3)
    ...     def energy(self, states):
    ...         return -0.5 * states.prod(axis=-1)
    ...     def term_form(self):
    ...         return ebm.forms.TermForm({(0, 1, 2): 0.5}, 0.0)
    >>> ebm.forms.energy_form(Triple()).terms
    {(0, 1, 2): 0.5}
    """

    terms: Mapping[Units, float]
    constant: float
    count: Array | None = None
    is_checked: bool = field(default=False, repr=False)


EnergyForm = QuadraticForm | LayeredForm | TermForm | FactorForm

#: Forms of which β times the energy is the same form of β times its numbers.
LINEAR_FORMS = (QuadraticForm, TermForm, FactorForm)


def as_terms(form: TermForm | FactorForm, space: HomogeneousSpace) -> TermForm:
    """The same energy of two-valued units as a sum of products."""
    if isinstance(form, TermForm):
        return form
    terms = form.products(*map(float, space.values))
    return TermForm(terms, form.constant - terms.pop((), 0.0), is_checked=True)


def offered_form(model: Any) -> type[EnergyForm] | None:
    """The kind of form that a model offers, without making it; None if it offers none."""
    if isinstance(model, ConditionalModel):
        return offered_form(model.model)
    for kind, (method, _) in _OFFERS.items():
        # A class has methods, and no numbers.
        if callable(getattr(model, method, None)) and not isinstance(model, type):
            return kind
    return None


def has_pairs(model: Any) -> bool:
    """Whether the energy is a quadratic form of two-valued units, its numbers the parameters.

    These are its vector v, then the couplings A_ij of ``model.pairs``, index arrays i < j.
    """
    is_quadratic = offered_form(model) is QuadraticForm
    return is_quadratic and isinstance(model.space, Binary | Spins) and hasattr(model, "pairs")


def energy_form(model: Any) -> EnergyForm | None:
    """The energy of a model as a checked form; None if the model offers none.

    The form of a user's own model is compared with its ``energy`` at ten states: all units at the
    lowest value, all at the highest, and eight states drawn at random, the same ones each time.

    Parameters
    ----------
    model : EnergyModel
        With ``quadratic_form()``, ``layered_form()``, ``term_form()`` or ``factor_form()``, asked
        for in this order.

    Returns
    -------
    QuadraticForm, LayeredForm, TermForm, FactorForm or None
        Finite float64 arrays of the right shapes.

    Raises
    ------
    ModelError
        If a form has another shape or space than it must have, is not finite, its matrix is not
        symmetric, or it gives a state another energy than ``model.energy``, the constant included.

    Examples
    --------
    >>> import ebm
    >>> from ebm.forms import energy_form
    >>> energy_form(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0])).vector
    array([0.5, 0. ])
    >>> energy_form(ebm.TabularModel([0, 0], ebm.Binary(1))) is None
    True
    """
    if isinstance(model, ConditionalModel):
        joint = energy_form(model.model)
        return joint and given_form(joint, model.fixed, model.model.space)
    kind = offered_form(model)
    if kind is None:
        return None
    method, check = _OFFERS[kind]
    offer = getattr(model, method)
    form = offer()
    if not (isinstance(form, kind) and form.is_checked):
        form = check(form, f"{type(model).__name__}.{method}", model.space)
    # Tests compare those that the library defines.
    homes = offer.__module__, model.energy.__module__
    if not all(home.startswith(f"{PACKAGE}.") for home in homes):
        _require_own_energy(model, form, method)
    return form


def summable_form(model: Any) -> Any:
    """The form of a model as :func:`energy_form`, refused where exact sums would overflow."""
    form = energy_form(model)
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(form, QuadraticForm):
            _require_bounded(form, f"{type(model).__name__}.quadratic_form")
        if isinstance(form, LayeredForm) and not all(np.isfinite(x).all() for x in form):
            raise ModelError(f"{type(model).__name__}.layered_form must be finite, got NaN or inf")
    return form


#: Frozen models whose form was compared with their energy, by identity.
_COMPARED: WeakValueDictionary[int, Any] = WeakValueDictionary()

_FORMULAS: dict[type[EnergyForm], str] = {
    QuadraticForm: "E = −½ Σ A_ij f_i f_j − Σ v_i f_i + k, where each pair stands in A at (i, j) "
    "and at (j, i) and counts once",
    LayeredForm: "E = −ln Σ_h exp(v·Uh + b·v + c·h) + k, the hidden units summed out, with the own "
    "energies of all units",
    TermForm: "E = −Σ_A J_A Π x_i − ν(K) + k",
    FactorForm: "E = +Σ_A t_A(x_A) + k, an axis of t_A for each unit in the order of the key",
}


def _require_own_energy(model: Any, form: EnergyForm, method: str) -> None:
    """Refuse a form that gives some state another energy than the model itself."""
    if _COMPARED.get(id(model)) is model:
        return
    space, name, states = model.space, type(model).__name__, compared_states(model.space)
    energies = checked_energy(model, states)
    with np.errstate(over="ignore", invalid="ignore"):
        by_form, magnitudes = (_energies(form, space, states, size) for size in (False, True))
        gaps = energies - by_form
        allowed = ROUNDING * (magnitudes + ROUNDING * magnitudes.max())
        # Energies that overflow are refused by those who sum them.
        wrong = np.flatnonzero(np.isfinite(by_form) & ~(np.abs(gaps) <= allowed))
    if len(wrong):
        k = wrong[0]
        remedy = f"look for a sign or a factor of 2 in {_FORMULAS[type(form)]}"
        if np.isfinite(gaps).all() and np.ptp(gaps) <= 2 * allowed.max():
            remedy = f"add {gaps[k]:.10g} to the constant of the form"
        raise ModelError(
            f"{name}.{method} gives the state {states[k]} the energy {by_form[k]:.10g}, and "
            f"{name}.energy gives it {energies[k]:.10g}; both must agree, constants included: "
            f"{remedy}"
        )
    settings = getattr(type(model), "__dataclass_params__", None)
    if settings is not None and settings.frozen:
        # A class without weak references is compared each time.
        with suppress(TypeError):
            _COMPARED[id(model)] = model


@lru_cache(maxsize=16)
def compared_states(space: StateSpace) -> Array:
    """States drawn from a fixed stream; of a finite space first its lowest and its highest."""
    states = space.random(COMPARED, 0)
    if not isinstance(space, FiniteSpace):
        return states
    extreme = space.states(np.stack([np.zeros_like(space.n_values), space.n_values - 1]))
    return np.concatenate([extreme, states])


def _energies(form: EnergyForm, space: StateSpace, states: Array, size: bool) -> Array:
    """E by a form of states (m, n), (m,); with ``size`` the sum of the magnitudes of its parts."""
    part: Callable[[Any], Any] = abs if size else lambda number: number
    features, constant, sign = space.features(states), part(form.constant), 1 if size else -1
    if isinstance(form, QuadraticForm):
        about = part(features if form.center is None else features - form.center)
        pairs = 0.5 * ((about @ part(form.matrix)) * about).sum(axis=1)
        return np.asarray(constant + sign * (pairs + part(features) @ part(form.vector)))
    if isinstance(form, LayeredForm):
        u = form.weights
        about = states if form.visible_center is None else states - form.visible_center
        free = part(form.hidden_units.log_partition(about @ u + form.hidden)).sum(axis=1)
        # Inputs round as their largest parts do.
        free += (part(about) @ part(u) + part(form.hidden)).sum(axis=1) if size else 0.0
        own = constant + form.visible_units.energy(states).sum(axis=1)
        if form.hidden_center is not None:
            own = own + part(about) @ (part(u) @ part(form.hidden_center))
        return np.asarray(own + sign * (part(states) @ part(form.visible) + free))
    if isinstance(form, FactorForm):
        return (form.magnitudes() if size else form).energies(space, states)
    total = np.zeros(len(states))
    if form.count is not None:
        total += part(form.count[(states > 0).sum(axis=1)])
    for length in set(map(len, form.terms)):
        units = [key for key in form.terms if len(key) == length]
        products = part(states[:, np.array(units, dtype=np.intp)].prod(axis=-1))
        total += products @ part(np.array([form.terms[key] for key in units]))
    return np.asarray(constant + sign * total)


def _checked_quadratic(answer: Any, name: str, space: StateSpace) -> QuadraticForm:
    d, center = space.n_features, None
    if isinstance(answer, QuadraticForm):
        center = answer.center
        answer = answer.matrix, answer.vector, answer.constant
    try:
        matrix, vector, constant = answer
        matrix = as_csr(matrix) if is_sparse(matrix) else np.asarray(matrix, dtype=np.float64)
        vector, constant = (np.asarray(x, dtype=np.float64) for x in (vector, constant))
        center = None if center is None else np.asarray(center, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} must return (matrix, vector, constant)") from error
    if (matrix.shape, vector.shape, constant.shape) != ((d, d), (d,), ()):
        raise ModelError(
            f"{name} must return a matrix ({d}, {d}), a vector ({d},) and a number, over the "
            f"{d} features of {space!r}; got {matrix.shape}, {vector.shape} and {constant.shape}"
        )
    if center is not None and center.shape != (d,):
        raise ModelError(f"{name} must have a center ({d},) or None, got {center.shape}")
    numbers = [matrix.data if is_sparse(matrix) else matrix, vector, constant]
    numbers += [] if center is None else [center]
    if not all(np.isfinite(x).all() for x in numbers):
        raise ModelError(f"{name} must be finite, got NaN or inf")
    if abs(matrix - matrix.T).max() > 1e-9 * abs(matrix).max():
        raise ModelError(f"{name} must have a symmetric matrix: give (A + A.T) / 2")
    form = QuadraticForm(matrix, vector, float(constant), center, is_checked=True)
    with np.errstate(over="ignore", invalid="ignore"):
        _require_bounded(form, name)
    return form


def _require_bounded(form: QuadraticForm, name: str) -> None:
    origin = form.at_origin()
    bound = abs(origin.matrix).sum() + np.abs(origin.vector).sum() + abs(origin.constant)
    if not bound < LARGEST_ENERGY:
        raise ModelError(f"{name} allows energies above {LARGEST_ENERGY:g}: they would overflow")


def _checked_layers(answer: Any, name: str, space: StateSpace) -> LayeredForm:
    centers: dict[str, Any] = {}
    kinds: dict[str, Any] = {
        # Four numbers say nothing of the units: the visible ones are those of the space.
        "visible_units": Spin() if isinstance(space, Spins) else ZERO_ONE,
        "hidden_units": ZERO_ONE,
    }
    if isinstance(answer, LayeredForm):
        kinds = {kind: getattr(answer, kind) for kind in kinds}
        if not all(isinstance(units, Unit) for units in kinds.values()):
            raise ModelError(
                f"{name} must have units of {{0,1}}, ebm.units.Bernoulli(), or others of ebm.units "
                f"in both layers, got {kinds}"
            )
        centers = {k: getattr(answer, k) for k in ("visible_center", "hidden_center")}
        answer = answer.weights, answer.visible, answer.hidden, answer.constant
    home = kinds["visible_units"].space(space.n)
    if home.is_bounded.any() or not isinstance(space, type(home)):
        wanted = "one that can be visible" if home.is_bounded.any() else f"ebm.{home!r}"
        raise ModelError(f"{name} needs the space {wanted}, got {space!r}")
    try:
        arrays = [np.asarray(x, dtype=np.float64) for x in answer]
        weights, visible, hidden, constant = arrays
    except (TypeError, ValueError) as error:
        raise ModelError(f"{name} must return (weights, visible, hidden, constant)") from error
    shapes = weights.shape, visible.shape, hidden.shape, constant.shape
    if shapes != ((space.n, hidden.size), (space.n,), (hidden.size,), ()) or not hidden.size:
        raise ModelError(
            f"{name} must return weights ({space.n}, m), vectors ({space.n},) and (m,) and a "
            f"number; got {', '.join(str(shape) for shape in shapes)}"
        )
    for key, like in (("visible_center", visible), ("hidden_center", hidden)):
        if centers.get(key) is not None:
            centers[key] = np.asarray(centers[key], dtype=np.float64)
            arrays.append(centers[key])
            if centers[key].shape != like.shape:
                raise ModelError(
                    f"{name} must have a {key} {like.shape} or None, got {centers[key].shape}"
                )
    if not all(np.isfinite(array).all() for array in arrays):
        raise ModelError(f"{name} must be finite, got NaN or inf")
    form = LayeredForm(
        weights, visible, hidden, float(constant), **centers, **kinds, is_checked=True
    )
    require_sum(form)
    return form


def _checked_terms(answer: Any, name: str, space: StateSpace) -> TermForm:
    if not isinstance(space, Binary | Spins):
        raise ModelError(f"{name} needs the space ebm.Binary or ebm.Spins, got {space!r}")
    if not isinstance(answer, TermForm):
        raise ModelError(f"{name} must return a TermForm, got {type(answer).__name__}")
    terms, empty = checked_terms(answer.terms, space)
    constant = as_finite(answer.constant, f"the constant of {name}")
    count = None
    if answer.count is not None:
        count = np.asarray(answer.count, dtype=np.float64)
        if count.shape != (space.n + 1,) or not np.isfinite(count).all():
            raise ModelError(f"{name} must have a finite count ({space.n + 1},), got {count!r}")
    return TermForm(terms, constant - empty, count, is_checked=True)


_OFFERS: dict[type[EnergyForm], tuple[str, Callable[[Any, str, StateSpace], EnergyForm]]] = {
    QuadraticForm: ("quadratic_form", _checked_quadratic),
    LayeredForm: ("layered_form", _checked_layers),
    TermForm: ("term_form", _checked_terms),
    FactorForm: ("factor_form", checked_factors),
}


def _exact_remainder(rounded: Array, vector: Array, matrix: Any, center: Array | None) -> Array:
    """v − A c − w for w as floats gave it, by fractions, (k,)."""
    if center is None or not center.any():
        return np.zeros(len(vector))
    exact_center = [Fraction(value) for value in center.tolist()]

    def applied(row: list[float]) -> Fraction:
        pairs = zip(row, exact_center, strict=True)
        return sum((Fraction(a) * c for a, c in pairs if a), Fraction(0))

    rows = zip(vector.tolist(), dense(matrix).tolist(), rounded.tolist(), strict=True)
    return np.array([float(Fraction(v) - applied(row) - Fraction(w)) for v, row, w in rows])
