"""Interfaces of models: what a user writes, and what further parts of the library require."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._summary import Summarized, Summary
from ebm._types import Array, Flags, Indices
from ebm.errors import ModelError, require_memory
from ebm.spaces import StateSpace
from ebm.spaces._fixed_units import FixedUnits, fixed_units
from ebm.spaces._labels import require_order

__all__ = [
    "ConditionalModel",
    "EnergyModel",
    "PairFeatures",
    "ParametricConditional",
    "ParametricModel",
    "Penalized",
    "checked_energy",
    "checked_space",
]


class EnergyModel(Summarized, ABC):
    """A point of a family of energies, p(x) = exp(−E(x)) / Z; [EBM] Definition 1, eq 1.

    Two members are enough for exact enumeration, exact draws, landscapes and Metropolis sampling:

    ``space``
        An attribute, field or property: the :class:`~ebm.spaces.StateSpace` of the states.
    ``energy(states)``
        Energies in units of k_B T, (..., n) -> (...). ``+inf`` forbids a state; NaN and ``-inf``
        are errors.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> class HardCore(ebm.EnergyModel):
    ...     space = ebm.Binary(3)
    ...     def energy(self, states):
    ...         x = np.asarray(states)
    ...         blocked = (x[..., 1:] * x[..., :-1]).any(-1)
    ...         return np.where(blocked, np.inf, -0.5 * x.sum(-1))
    >>> round(float(np.exp(ebm.exact(HardCore()).log_partition)), 4)
    8.6644
    """

    space: StateSpace

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, 'space', None)!r})"

    def _summary(self) -> Summary:
        from ebm._model_summary import model_summary

        return model_summary(self)

    def _summary_values(self) -> tuple[tuple[str, str], ...]:
        """What a kind of models adds to the lines that all have."""
        return ()

    @abstractmethod
    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""

    def given(self, values: Any) -> EnergyModel:
        """The model of the other units where some have given values, E'(x_r) = E(x_r, x_c).

        Constants are kept: ln Z' − ln Z = ln p(x_c), and p'(x_r) = p(x_r | x_c).

        Parameters
        ----------
        values : mapping
            Values by unit, units by number or by name, such as ``{0: 1, "left": 0}`` or a series
            of pandas.

        Returns
        -------
        EnergyModel
            Over the other units, in their order and with their names. Models of the library stay of
            their kind; of other models it is a :class:`ebm.model.ConditionalModel`.

        Raises
        ------
        ShapeError
            If ``values`` is no mapping, holds a unit twice or all units, or a number of no unit.
        NamesError
            If no unit has one of the names.
        CodingError
            If a value does not belong to the coding of its unit.
        MissingValueError
            If a value is NaN.
        ModelError
            If a value is no number, or a table forbids all states with these values.

        Examples
        --------
        >>> import ebm
        >>> chain = ebm.IsingModel([[0, 1, 0], [1, 0, 1], [0, 1, 0]], [0, 0, 0], names=list("abc"))
        >>> chain.given({"a": 1, 2: 1}).fields
        array([2.])
        """
        fixed = fixed_units(values, checked_space(self), "values")
        return self._given(fixed) if len(fixed.units) else self

    def _given(self, fixed: FixedUnits) -> EnergyModel:
        return ConditionalModel(self, fixed)


class Penalized(NamedTuple):
    """Numbers φ = T θ whose squares a penalty sums, linear in the parameters.

    Parameters
    ----------
    of : callable
        From θ, (p,), to φ, (k,).
    transposed : callable
        From slopes by φ, (k,), to slopes by θ, (p,).
    is_coupling : ndarray of bool, (k,)
        Which φ couple units.

    Examples
    --------
    >>> import ebm
    >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).penalized().is_coupling
    array([False, False,  True])
    """

    of: Callable[[Array], Array]
    transposed: Callable[[Array], Array]
    is_coupling: Flags


class PairFeatures(NamedTuple):
    """Of which features the parameters of a pairwise energy of levels are fields and couplings.

    E = −Σ_c v_c f_c − Σ_{k<l} W_kl g_k g_l + k over f = ``space.features(x)`` and g_i = f_i B_i of
    each unit. The parameters are v_c, then W_kl of features of two units i < j: by pairs of units
    row by row, then by the features of i, then by those of j. A model offers them by a method
    ``pair_features()``, and is then fitted by pseudo-likelihood.

    Parameters
    ----------
    kept : ndarray of int, (k,)
        The features c that have a field.
    blocks : tuple of ndarray, (w_i, m_i)
        B_i of each unit, with w_i its number of features. The constant and the features kept must
        span those of B_i: what all other units add to a unit could be fields of its own.

    Examples
    --------
    >>> import ebm
    >>> ebm.OrdinalModel([[0, 1], [1, 0]], [[0, 0, 0], [0, 0, 0]]).pair_features().kept
    array([1, 2, 4, 5])
    """

    kept: Indices
    blocks: tuple[Array, ...]


class ParametricModel(EnergyModel):
    """An energy model with parameters: enough for learning and Fisher information.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> class Field(ebm.ParametricModel):
    ...     space = ebm.Spins(3)
    ...     parameters = np.zeros(1)
    ...     def with_parameters(self, theta):
    ...         changed = Field()
    ...         changed.parameters = np.asarray(theta)
    ...         return changed
    ...     def energy(self, states):
    ...         return -self.parameters[0] * np.sum(states, axis=-1)
    ...     def energy_gradient(self, states):
    ...         return -np.sum(states, axis=-1, keepdims=True)
    >>> rows = [[1, 1, -1], [1, -1, 1], [1, 1, 1], [-1, -1, 1]]
    >>> ebm.fit(Field(), rows).model.parameters.round(4), round(float(np.arctanh(1 / 3)), 4)
    (array([0.3466]), 0.3466)
    """

    def _given(self, fixed: FixedUnits) -> EnergyModel:
        return ParametricConditional(self, fixed)

    @property
    @abstractmethod
    def parameters(self) -> Array:
        """The independent parameters as one flat vector, (p,)."""

    @abstractmethod
    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same model at other parameters, (p,)."""

    @abstractmethod
    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ at each state, one side of the learning rule, [EBM] eq 7.

        Parameters
        ----------
        states : array_like, (..., n)
            States of ``space``.

        Returns
        -------
        ndarray, (..., p)
            In the order of ``parameters``.
        """

    @property
    def is_coupling(self) -> Flags:
        """Which parameters couple units, (p,): those that the penalty of a fit acts on.

        All of them, unless a model overrides this property.
        """
        return np.ones(len(self.parameters), dtype=bool)

    def penalized(self) -> Penalized:
        """The numbers that a penalty acts on: the parameters, unless a gauge is left in them."""
        return Penalized(np.asarray, np.asarray, np.asarray(self.is_coupling, dtype=bool))

    def mean_energy_gradient(self, average: Any) -> Array:
        """Average of ∂E/∂θ over an ensemble, (p,): one side of the learning rule, [EBM] eq 7.

        Parameters
        ----------
        average : Ensemble or Moments
            What to average over: an ensemble, or anything with ``moments()`` where the model needs
            no more, as pairwise models do.

        Returns
        -------
        ndarray, (p,)
            E_average[∂E/∂θ].

        Raises
        ------
        NamesError
            If the average is over units of other names, or in another order.
        """
        require_order(getattr(average, "space", self.space), self.space)
        # Where real units in pairs are integrated out there are no states, and slopes are of
        # second degree in them.
        quadratic = getattr(average, "quadratic_expectation", None)
        if quadratic is not None and average.model is self:
            return np.asarray(quadratic(self.energy_gradient))
        return np.asarray(average.expectation(self.energy_gradient))

    def mean_energy_hessian(self, average: Any) -> Array:
        """Average of ∂²E/∂θ² over an ensemble, (p, p): zero for energies affine in θ.

        Parameters
        ----------
        average : Ensemble
            What to average over.

        Returns
        -------
        ndarray, (p, p)
            E_average[∂²E/∂θ²], from a method ``energy_hessian(states)`` of the model, (..., n) ->
            (..., p, p), if it has one.

        Raises
        ------
        ModelError
            If ∂E/∂θ depends on θ at some of 64 states drawn at random, and there is no such method.
        MemoryLimitError
            If a matrix of all parameters would take too much memory.
        NamesError
            If the average is over units of other names, or in another order.
        """
        require_order(getattr(average, "space", self.space), self.space)
        p, hessian = len(self.parameters), getattr(self, "energy_hessian", None)
        require_memory(8.0 * p * p, f"second derivatives by {p} parameters", "take fewer of them")
        if callable(hessian):
            return np.asarray(average.expectation(hessian))
        states = self.space.random(64, 0)
        others = (0.5 * self.parameters + shift for shift in (0.3, -0.7))
        here, *there = (
            np.asarray(model.energy_gradient(states))
            for model in (self, *map(self.with_parameters, others))
        )
        if not all(np.allclose(here, g, rtol=1e-9, atol=1e-9, equal_nan=True) for g in there):
            raise ModelError(
                f"the derivatives of {type(self).__name__} depend on its parameters: give it a "
                f"method energy_hessian(states) with ∂²E/∂θ² of states (m, n), (m, {p}, {p})"
            )
        return np.zeros((p, p))

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """Directional derivative Σ_k direction_k ∂E/∂θ_k, the energy of these parameters.

        Parameters
        ----------
        states : array_like, (..., n)
            States of ``space``.
        direction : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        ndarray, (...)
            The derivative at each state.
        """
        return self.energy_gradient(states) @ np.asarray(direction, dtype=np.float64)


class ConditionalModel(EnergyModel):
    """E'(x_r) = E(x_r, x_c): a model at fixed values x_c of some units; made by ``model.given``.

    A form that the model offers is offered at these values, so that exact sums, compiled sweeps and
    expansions serve here as well.

    Parameters
    ----------
    model : EnergyModel
        The joint model.
    fixed : FixedUnits
        The fixed ``units`` with their ``values``, and ``rest``, the other units, in the order of
        ``space``.

    Examples
    --------
    >>> import ebm
    >>> class Triple(ebm.EnergyModel):
    ...     space = ebm.Spins(3)
    ...     def energy(self, states):
    ...         return -0.5 * states.prod(axis=-1)
    >>> Triple().given({1: -1}).energy([[1, 1], [1, -1]])
    array([ 0.5, -0.5])
    """

    def __init__(self, model: EnergyModel, fixed: FixedUnits) -> None:
        self.model, self.fixed = model, fixed
        self.space = model.space.subspace(fixed.rest)

    def __repr__(self) -> str:
        labels = [self.model.space.labels[unit] for unit in self.fixed.units]
        pairs = zip(labels, self.fixed.values, strict=True)
        given = ", ".join(f"{label!r}: {value:g}" for label, value in pairs)
        return f"{type(self).__name__}({self.model!r}, {{{given}}})"

    def energy(self, states: ArrayLike) -> Array:
        """Energy of the completed states in units of k_B T, (..., n) -> (...)."""
        return self.space.map(
            lambda others: checked_energy(self.model, self.fixed.completed(others)), states
        )

    @property
    def scaled(self) -> Callable[[float], EnergyModel]:
        """A method (β) -> the scaled joint model at these values, where that can be scaled."""
        joint: Any = self.model
        scaled = joint.scaled
        return lambda beta: scaled(beta)._given(self.fixed)

    @property
    def state_gradient(self) -> Callable[[ArrayLike], Array]:
        """A method (states) -> ∂E/∂x_r, where the joint model has one."""
        joint: Any = self.model
        slopes = joint.state_gradient
        return lambda states: np.asarray(slopes(self._completed(states)))[..., self.fixed.rest]

    @property
    def flat_directions(self) -> Callable[[], tuple[str, ...]]:
        """Those of the joint model, where it names some, whichever units are fixed."""
        joint: Any = self.model
        flat: Callable[[], tuple[str, ...]] = joint.flat_directions
        return flat

    def equals(self, other: Any) -> bool:
        """Whether ``other`` is an equal joint model at the same values of the same units.

        A joint model of one's own without a method ``equals`` equals itself alone.
        """
        if type(other) is not type(self):
            return False
        pairs = zip(self.fixed, other.fixed, strict=True)
        return are_equal(self.model, other.model) and all(np.array_equal(*pair) for pair in pairs)

    def _given(self, fixed: FixedUnits) -> EnergyModel:
        return self.model._given(self.fixed.joined(fixed))

    def _completed(self, states: ArrayLike) -> Array:
        return self.fixed.completed(self.space.check(states))


class OfJointParameters(ParametricModel):
    """A model made of another one, ``model``, whose parameters are its own."""

    model: Any

    @property
    def parameters(self) -> Array:
        """Those of the joint model, (p,)."""
        return np.asarray(self.model.parameters)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Those of the joint model, where it names them."""
        names: tuple[str, ...] = self.model.parameter_names
        return names

    @property
    def is_coupling(self) -> Flags:
        """Which parameters couple units of the joint model, (p,)."""
        return np.asarray(self.model.is_coupling, dtype=bool)

    def penalized(self) -> Penalized:
        """What a penalty acts on: that of the joint model."""
        penalized: Penalized = self.model.penalized()
        return penalized


class ParametricConditional(ConditionalModel, OfJointParameters):
    """A model with parameters at fixed values of some units; they are those of the joint model.

    Parameters
    ----------
    model : ParametricModel
        The joint model.
    fixed : FixedUnits
        The fixed units.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm
    >>> class Pair(ebm.ParametricModel):
    ...     space, parameters = ebm.Spins(2), np.array([0.5])
    ...     def with_parameters(self, theta):
    ...         changed = Pair()
    ...         changed.parameters = np.asarray(theta)
    ...         return changed
    ...     def energy(self, states):
    ...         return -self.parameters[0] * np.prod(states, axis=-1)
    ...     def energy_gradient(self, states):
    ...         return -np.prod(states, axis=-1, keepdims=True)
    >>> Pair().given({0: -1}).energy_gradient([1])
    array([1.])
    """

    model: Any

    @property
    def energy_hessian(self) -> Callable[[ArrayLike], Array]:
        """A method (states) -> ∂²E/∂θ², (..., n) -> (..., p, p), where the joint model has one."""
        hessian = self.model.energy_hessian
        return lambda states: np.asarray(hessian(self._completed(states)))

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The joint model at other parameters, (p,), at the same values of the fixed units."""
        return type(self)(self.model.with_parameters(theta), self.fixed)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ at the completed states, (..., n) -> (..., p)."""
        return np.asarray(self.model.energy_gradient(self._completed(states)))

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """Σ_k direction_k ∂E/∂θ_k at the completed states, (..., n) -> (...)."""
        return np.asarray(self.model.energy_derivative(self._completed(states), direction))


def checked_space(model: Any) -> StateSpace:
    """The space of a model, or an error saying what a model must have."""
    if isinstance(model, type):
        raise ModelError(f"model must be a model, got the class {model.__name__}: give its numbers")
    space = getattr(model, "space", None)
    if not isinstance(space, StateSpace):
        refuse_result(model)
        _refuse_other_packages(model)
        raise ModelError(
            f"{type(model).__name__}.space must be a state space such as ebm.Binary(5), "
            f"got {type(space).__name__}"
        )
    if not callable(getattr(model, "energy", None)):
        raise ModelError(f"{type(model).__name__} must have a method energy(states)")
    return space


def _refuse_other_packages(model: Any) -> None:
    """Name the function that makes a model of a graph or of a binary quadratic model."""
    name = type(model).__name__
    if hasattr(model, "vartype") and hasattr(model, "quadratic"):
        raise ModelError(f"model must be a model, got {name}: ebm.from_dimod(…) makes one of it")
    if hasattr(model, "adjacency") and hasattr(model, "nodes"):
        raise ModelError(f"model must be a model, got {name}: ebm.from_graph(…) makes one of it")


def are_equal(first: Any, second: Any) -> bool:
    """Whether two models are one, or equal as the first one sees it."""
    return first is second or bool(getattr(first, "equals", lambda _: False)(second))


def refuse_result(model: Any) -> None:
    """Refuse the result of a fit in place of its model."""
    fitted = getattr(model, "model", None)
    if not hasattr(model, "space") and isinstance(getattr(fitted, "space", None), StateSpace):
        raise ModelError(f"{type(model).__name__} is no model: give result.model")


def checked_energy(model: EnergyModel, states: Array) -> Array:
    """Energies of ``states``, with the model's answer checked."""
    states = np.asarray(states)
    # A copy: a model may write into its argument.
    energies = as_floats(model.energy(states.copy()), f"{type(model).__name__}.energy")
    if energies.shape != states.shape[:-1]:
        raise ModelError(
            f"{type(model).__name__}.energy must map states of shape {states.shape} to "
            f"{states.shape[:-1]}, got {energies.shape}: sum over the last axis"
        )
    wrong = np.isnan(energies) | (energies == -np.inf)
    if wrong.any():
        first = states[tuple(np.argwhere(wrong)[0])]
        raise ModelError(
            f"{type(model).__name__}.energy is {energies[wrong][0]} at the state {first}; "
            "energies must be finite, or +inf to forbid a state"
        )
    return energies


def checked_slopes(model: Any, states: Array) -> Array:
    """Checked ∂E/∂x at states (m, n) of a continuous model; NaN only where E is not finite."""
    name = f"{type(model).__name__}.state_gradient"
    slopes = as_floats(model.state_gradient(states.copy()), name)
    if slopes.shape != states.shape:
        raise ModelError(
            f"{name} must map states {states.shape} to the same shape, got {slopes.shape}"
        )
    undefined = np.isnan(slopes).any(-1)
    if undefined.any() and np.isfinite(checked_energy(model, states)[undefined]).any():
        raise ModelError(f"{name} must not be NaN at a state of finite energy")
    return slopes
