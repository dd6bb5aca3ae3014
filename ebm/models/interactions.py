"""Models with interactions of any number of two-valued units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite
from ebm._conditioning import terms_given
from ebm._term_keys import checked_terms
from ebm._types import Array, Flags
from ebm.ensembles.ensemble import require_units
from ebm.ensembles.moments import as_moments
from ebm.errors import ModelError
from ebm.forms import QuadraticForm, TermForm, energy_form
from ebm.model import ParametricModel, Penalized, checked_space
from ebm.models import _couplings
from ebm.models._conversions import couplings_about_half, expanded, quadratic_of_terms
from ebm.models._frozen import Frozen
from ebm.models._terms import Products, Units
from ebm.models.pairwise import BoltzmannMachine, IsingModel
from ebm.spaces import Binary, Spins
from ebm.spaces._fixed_units import FixedUnits

__all__ = ["InteractionModel"]


@dataclass(frozen=True, eq=False, repr=False)
class InteractionModel(Frozen, ParametricModel):
    """E(x) = −Σ_A J_A Π_{i∈A} x_i + offset, over terms A of any number of units.

    Parameters
    ----------
    terms : mapping of tuple of int to float
        Coefficients J in units of k_B T, keyed by units, such as ``{(0,): 0.5, (0, 1, 2): -1.0}``.
        The order of the units in a key does not matter; that of the keys is the order of the
        parameters. An empty key is a constant and goes to the offset.
    space : Binary or Spins
        Coding and names of the units.
    offset : float
        A constant in the energy, not a parameter.

    Raises
    ------
    ModelError
        If ``space`` is no two-valued space, a key is no tuple of different units, two keys hold
        the same units, or a number is not finite.

    Examples
    --------
    >>> import ebm
    >>> triple = ebm.InteractionModel({(0, 1, 2): 1.0, (0,): 0.5}, ebm.Spins(3))
    >>> triple.energy([[1, 1, 1], [1, -1, 1]])
    array([-1.5,  0.5])
    """

    terms: Mapping[Units, float]
    space: Binary | Spins
    offset: float = field(default=0.0, kw_only=True)

    _linear = ("offset",)

    def __post_init__(self) -> None:
        if not isinstance(self.space, Binary | Spins):
            raise ModelError(
                f"space must be ebm.Binary(n) or ebm.Spins(n), got {self.space!r}; for more values "
                "per unit there is ebm.PottsModel"
            )
        terms, constant = checked_terms(self.terms, self.space)
        offset = as_finite(self.offset, "offset") - constant
        self._freeze(terms=MappingProxyType(terms), offset=offset)

    def __repr__(self) -> str:
        return f"InteractionModel({len(self.terms)} terms, order {self.order}, {self.space!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled, its contents can.
        return _rebuilt, (dict(self.terms), self.space, self.offset)

    @property
    def n(self) -> int:
        """Number of units."""
        return self.space.n

    @cached_property
    def order(self) -> int:
        """Number of units of the largest term, 0 without terms."""
        return max(map(len, self.terms), default=0)

    @cached_property
    def _products(self) -> Products:
        return Products(self.terms)

    @cached_property
    def parameters(self) -> Array:
        """J in the order of ``terms``, (p,)."""
        return _couplings.read_only(list(self.terms.values()))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"J[0, 1, 2]"``, in the order of ``parameters``."""
        labels = self.space.labels
        return tuple(f"J[{', '.join(labels[i] for i in units)}]" for units in self.terms)

    @cached_property
    def is_coupling(self) -> Flags:
        """False for terms of one unit, True for all others, (p,)."""
        return np.array([len(units) > 1 for units in self.terms], dtype=bool)

    def penalized(self) -> Penalized:
        """J of single units, and couplings: over ±1 the other J, over {0,1} those about ½."""
        if isinstance(self.space, Spins):
            return super().penalized()
        return couplings_about_half(self.terms)

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same terms with other coefficients, (p,); the offset stays."""
        theta = _couplings.parameter_vector(theta, self, "theta")
        theta = _couplings.vector(np.atleast_1d(theta), len(self.terms), "theta")
        model = replace(self, terms=dict(zip(self.terms, theta.tolist(), strict=True)))
        # These depend on the terms alone.
        for name in ("_products", "is_coupling"):
            if name in self.__dict__:
                model.__dict__[name] = self.__dict__[name]
        return model

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""
        return np.asarray(self.offset + self.energy_derivative(states, self.parameters))

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """−Σ_A direction_A Π_{i∈A} x_i, (..., n) -> (...); memory does not grow with p."""
        direction = _couplings.parameter_vector(direction, self, "direction")
        direction = _couplings.vector(np.atleast_1d(direction), len(self.terms), "direction")

        def sums(x: Array) -> Array:
            combined = self._products.combined(x.reshape(-1, self.n), direction)
            return np.asarray(-combined.reshape(x.shape[:-1]))

        return self.space.map(sums, states)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂J_A = −Π_{i∈A} x_i in the order of ``terms``, (..., n) -> (..., p)."""
        x = self.space.check(states)
        table = self._products.table(x.reshape(-1, self.n))
        return -table.reshape(*x.shape[:-1], len(self.terms))

    def mean_energy_gradient(self, average: Any) -> Array:
        """E[∂E/∂J_A] = −E[Π_{i∈A} x_i], (p,), in the order of ``terms``.

        Parameters
        ----------
        average : Ensemble or Moments
            If no term has more than two units, any object with ``moments()`` in either coding;
            otherwise an ensemble over the space of the model, summed block by block.

        Returns
        -------
        ndarray, (p,)
            No array of p numbers for each state is made.
        """
        if hasattr(average, "mean_products") and average.space == self.space:
            # On a graph those of its terms cost least.
            return -np.asarray(average.mean_products(list(self.terms)))
        if self.order <= 2:
            moments = as_moments(average).to(self.space)
            mean, second = moments.mean, moments.second
            return -np.array([mean[a[0]] if len(a) == 1 else second[a] for a in self.terms])
        require_units(average, self.space)
        total = np.zeros(len(self.terms))
        for states, weights in average.blocks():
            total -= self._products.mean(states, weights)
        return total

    @property
    def quadratic_form(self) -> Callable[[], QuadraticForm]:
        """A method that exists only if no term has more than two units: −½ xAx − v·x + k.

        Raises
        ------
        AttributeError
            If a term has more units.
        """
        # A capability is asked for by hasattr, so a model that lacks it lacks the attribute.
        if self.order > 2:
            raise AttributeError(f"a model of order {self.order} has no quadratic form")
        return self._quadratic_form

    def _quadratic_form(self) -> QuadraticForm:
        matrix, vector = quadratic_of_terms(self.terms, self.n)
        return QuadraticForm(matrix, vector, self.offset, is_checked=True)

    def term_form(self) -> TermForm:
        """The terms themselves."""
        return TermForm(self.terms, self.offset, is_checked=True)

    def _given(self, fixed: FixedUnits) -> Self:
        """Terms times the fixed values, equal rests added; what a 0 multiplies is no term."""
        form = terms_given(self.term_form(), fixed, self.space)
        space = self.space.subspace(fixed.rest)
        return self._replaced(terms=form.terms, space=space, offset=form.constant)

    def scaled(self, beta: float) -> Self:
        """The model with energy βE: coefficients and offset times ``beta``."""
        model = super().scaled(beta)
        return model.with_parameters(float(beta) * self.parameters)

    def to_spins(self) -> InteractionModel:
        """The same energy over s = 2x − 1: each product of x = (1 + s)/2 expanded, exactly.

        Returns
        -------
        InteractionModel
            With a term for every subset of every term, so up to 2^k for k units, and the same ln Z.

        Examples
        --------
        >>> import ebm
        >>> dict(ebm.InteractionModel({(0, 1): 4.0}, ebm.Binary(2)).to_spins().terms)
        {(0,): 1.0, (1,): 1.0, (0, 1): 1.0}
        """
        if isinstance(self.space, Spins):
            return self
        space = Spins(self.n, names=self.space.names)
        return InteractionModel(expanded(self.terms, 0.5, 0.5), space, offset=self.offset)

    def to_binary(self) -> InteractionModel:
        """The same energy over x = (1 + s)/2: each product of s = 2x − 1 expanded, exactly.

        Returns
        -------
        InteractionModel
            With a term for every subset of every term, so up to 2^k for k units, and the same ln Z.
        """
        if isinstance(self.space, Binary):
            return self
        space = Binary(self.n, names=self.space.names)
        return InteractionModel(expanded(self.terms, 2.0, -1.0), space, offset=self.offset)

    @classmethod
    def from_pairwise(cls, model: Any) -> InteractionModel:
        """The same energy, with a term for each unit and each coupling that is a parameter.

        Parameters
        ----------
        model : BoltzmannMachine, IsingModel or another with a quadratic form of two-valued units
            Its center and the diagonal of its couplings are folded into terms and offset.

        Returns
        -------
        InteractionModel
            In the coding of ``model``.

        Raises
        ------
        ModelError
            If the model has no such form.
        """
        form, space = energy_form(model), checked_space(model)
        if not (isinstance(form, QuadraticForm) and isinstance(space, Binary | Spins)):
            raise ModelError(
                f"a BoltzmannMachine or an IsingModel is wanted, got {type(model).__name__}: "
                "give a model of two-valued units with a quadratic_form"
            )
        form = form.folded(space).at_origin()
        pairs = _couplings.free_pairs(form.matrix)
        keys = [(i,) for i in range(space.n)] + list(zip(*(k.tolist() for k in pairs), strict=True))
        values = np.concatenate([form.vector, _couplings.at_pairs(form.matrix, pairs)]).tolist()
        return cls(dict(zip(keys, values, strict=True)), space, offset=form.constant)

    def to_boltzmann(self) -> BoltzmannMachine:
        """The same energy as a Boltzmann machine over {0,1}, at center 0.

        Returns
        -------
        BoltzmannMachine
            With dense weights, so every pair is a parameter.

        Raises
        ------
        ModelError
            If a term has more than two units.

        Examples
        --------
        >>> import ebm
        >>> ebm.InteractionModel({(0, 1): 1.0}, ebm.Spins(2)).to_boltzmann().biases
        array([-2., -2.])
        """
        model = self._at_most_pairs("a Boltzmann machine").to_binary()
        matrix, vector = quadratic_of_terms(model.terms, self.n)
        return BoltzmannMachine(matrix, vector, offset=model.offset, names=self.space.names)

    def to_ising(self) -> IsingModel:
        """The same energy as an Ising model over ±1.

        Returns
        -------
        IsingModel
            With dense couplings, so every pair is a parameter.

        Raises
        ------
        ModelError
            If a term has more than two units.
        """
        model = self._at_most_pairs("an Ising model").to_spins()
        matrix, vector = quadratic_of_terms(model.terms, self.n)
        return IsingModel(matrix, vector, offset=model.offset, names=self.space.names)

    def _at_most_pairs(self, wanted: str) -> InteractionModel:
        for units in self.terms:
            if len(units) > 2:
                raise ModelError(
                    f"{wanted} has terms of at most two units, this model has the term {units}"
                )
        return self


def _rebuilt(terms: Mapping[Units, float], space: Any, offset: float) -> InteractionModel:
    return InteractionModel(terms, space, offset=offset)
