"""Two-valued units in pairs: the Boltzmann machine over {0,1}, the Ising model over ±1."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite
from ebm._conditioning import given_form
from ebm._types import Array, Flags, Indices
from ebm.ensembles.moments import as_moments
from ebm.errors import ShapeError
from ebm.forms import QuadraticForm, energy_form
from ebm.model import ParametricModel
from ebm.models import _couplings
from ebm.models._edge_list import EdgeList
from ebm.models._frozen import Frozen
from ebm.spaces import Binary, HomogeneousSpace, Spins
from ebm.spaces._fixed_units import FixedUnits
from ebm.spaces._labels import agreed_names

__all__ = ["BoltzmannMachine", "IsingModel", "TwoValuedModel"]


class TwoValuedModel(EdgeList, Frozen, ParametricModel):
    """E(x) = −½ Σ A_ij (x_i − c_i)(x_j − c_j) − Σ v_i x_i + offset, A symmetric.

    The parameters are v, then the couplings A_ij of the pairs i < j. The diagonal of A, the center
    and the offset are constants of the family.
    """

    #: Names of the fields A and v, and what their entries are called.
    _numbers: ClassVar[tuple[str, str]]
    _symbols: ClassVar[tuple[str, str]]
    _coding: ClassVar[Any]
    space: HomogeneousSpace
    names: Any
    offset: float

    def __post_init__(self) -> None:
        (matrix, vector), about = self._numbers, getattr(self, "center", 0.0)
        names = agreed_names(
            self.names,
            (matrix, getattr(self, matrix), 1, 0),
            (vector, getattr(self, vector), 0),
            ("center", about, 0),
        )
        space = self._coding(_couplings.length(getattr(self, vector), vector), names=names)
        n, names = space.n, space.names
        numbers = {
            matrix: _couplings.symmetric(getattr(self, matrix), n, matrix, names),
            vector: _couplings.vector(getattr(self, vector), n, vector, names),
        }
        if hasattr(self, "center"):
            numbers["center"] = _couplings.vector(about, n, "center", names)
        offset = as_finite(self.offset, "offset")
        self._freeze(space=space, names=names, **numbers, offset=offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n={self.n}, {len(self.pairs[0])} couplings, {self.space!r})"

    @property
    def coupling_matrix(self) -> Any:
        """The symmetric couplings A, dense or CSR as stored."""
        return getattr(self, self._numbers[0])

    @property
    def _vector(self) -> Array:
        return np.asarray(getattr(self, self._numbers[1]))

    @property
    @abstractmethod
    def feature_center(self) -> Array:
        """The center c, (n,)."""

    @property
    def n(self) -> int:
        """Number of units."""
        return self.space.n

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of the couplings that are parameters.

        All pairs for a dense matrix, the stored entries of a sparse one.
        """
        return _couplings.free_pairs(self.coupling_matrix)

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""
        return self.space.map(
            lambda x: self._exponents(x, self.coupling_matrix, self._vector) + self.offset, states
        )

    def _exponents(self, x: Array, matrix: Any, vector: Array) -> Array:
        """−½ (x − c)A(x − c) − v·x of checked states, (..., n) -> (...)."""
        d = x - self.feature_center
        coupled = (_couplings.apply(matrix, d) * d).sum(axis=-1)
        return np.asarray(-0.5 * coupled - x @ vector)

    def quadratic_form(self) -> QuadraticForm:
        """The energy about its own center, the couplings dense or CSR as stored."""
        center = self.feature_center if self.feature_center.any() else None
        matrix, vector = self.coupling_matrix, self._vector
        return QuadraticForm(matrix, vector, self.offset, center, is_checked=True)

    def _given(self, fixed: FixedUnits) -> Self:
        """A_rr about its own center, v_r + u with u = A_rc(x_c − c_c)."""
        form: Any = given_form(energy_form(self), fixed, self.space)
        numbers = dict(zip(self._numbers, (form.matrix, form.vector), strict=True))
        if hasattr(self, "center"):
            numbers["center"] = self.feature_center[fixed.rest]
        names = self.space.subspace(fixed.rest).names
        return self._replaced(**numbers, offset=form.constant, names=names)

    @property
    def parameters(self) -> Array:
        """The linear parameters, then the couplings in the order of ``pairs``, (p,)."""
        return np.concatenate([self._vector, _couplings.at_pairs(self.coupling_matrix, self.pairs)])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"b[0]"`` and ``"W[0, 1]"``, or ``"h[0]"`` and ``"J[0, 1]"``."""
        (coupling, linear), labels = self._symbols, self.space.labels
        pairs = zip(*self.pairs, strict=True)
        return (
            *(f"{linear}[{label}]" for label in labels),
            *(f"{coupling}[{labels[i]}, {labels[j]}]" for i, j in pairs),
        )

    @property
    def is_coupling(self) -> Flags:
        """False for the linear parameters, True for the couplings, (p,)."""
        return np.arange(self.n + len(self.pairs[0])) >= self.n

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same family at other parameters.

        Parameters
        ----------
        theta : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        model
            The diagonal, center, offset and names stay.

        Raises
        ------
        ShapeError
            If ``theta`` does not have p entries.
        """
        theta = _couplings.parameter_vector(theta, self, "theta")
        p = self.n + len(self.pairs[0])
        if theta.shape != (p,):
            raise ShapeError(f"theta must have shape ({p},), got {theta.shape}")
        diagonal = _couplings.diagonal(self.coupling_matrix)
        matrix = self._with_pairs(theta[self.n :], diagonal)
        vector = _couplings.read_only(theta[: self.n])
        numbers = dict(zip(self._numbers, (matrix, vector), strict=True))
        if not _couplings.all_finite(theta):
            # The checks of the class say which number is not.
            return self._replaced(**numbers)
        model = self._remade(**numbers)
        vars(model)["pairs"] = self.pairs
        return model

    def _with_pairs(self, values: Array, diagonal: Array) -> Any:
        return _couplings.from_pairs(self.pairs, values, diagonal, like=self.coupling_matrix)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ = −(x_i, (x_i − c_i)(x_j − c_j) for the pairs), (..., n) -> (..., p).

        Without the ½ of the energy: A_ij and A_ji are one parameter.
        """
        x = self.space.check(states)
        d = x - self.feature_center
        i, j = self.pairs
        return -np.concatenate([x, d[..., i] * d[..., j]], axis=-1)

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """direction · ∂E/∂θ, (..., n) -> (...); memory does not grow with p."""
        step = _couplings.parameter_vector(direction, self, "direction")
        matrix = self._with_pairs(step[self.n :], np.zeros(self.n))
        return self.space.map(lambda x: self._exponents(x, matrix, step[: self.n]), states)

    def mean_energy_gradient(self, average: Any) -> Array:
        """−(m_i, C_ij + (m_i − c_i)(m_j − c_j)) from moments in either coding, (p,); O(n²)."""
        i, j = self.pairs
        if hasattr(average, "covariances") and average.space == self.space:
            # On a graph those of the pairs in it cost least.
            mean, covariances = average.means(), average.covariances(i, j)
        else:
            moments = as_moments(average).to(self.space)
            mean, covariances = moments.mean, moments.covariance[i, j]
        d = mean - self.feature_center
        return -np.concatenate([mean, covariances + d[i] * d[j]])

    def input(self, states: ArrayLike) -> Array:
        """Input to each unit from all others; the argument of σ in [EBM] eq 13.

        Over {0,1} the log-odds of unit i, over ±1 its local field, half of that.

        Parameters
        ----------
        states : array_like, (..., n)
            States; unit i's own value does not enter.

        Returns
        -------
        ndarray, (..., n)
            Σ_{j≠i} A_ij (x_j − c_j) + v_i + (μ − c_i) A_ii in units of k_B T, μ the mean of both
            values.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5]).input([1, 1])
        array([1. , 2.5])
        >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).input([1, -1])
        array([-0.5,  1. ])
        """
        diagonal, center = _couplings.diagonal(self.coupling_matrix), self.feature_center
        constant = self._vector + (np.mean(self.space.values) - center) * diagonal

        def inputs(x: Array) -> Array:
            d = x - center
            return np.asarray(_couplings.apply(self.coupling_matrix, d) - diagonal * d + constant)

        return self.space.map(inputs, states)

    def conditional(self, states: ArrayLike) -> Array:
        """p(x_i is the upper value | all other units) for each unit; [EBM] eq 13.

        σ(input_i) over {0,1} and σ(2 input_i) over ±1.

        Parameters
        ----------
        states : array_like, (..., n)
            States; unit i's own value does not enter.

        Returns
        -------
        ndarray, (..., n)
            Probabilities.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 1]).conditional([0, 1]).round(3)
        array([0.731, 0.731])
        >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).conditional([1, -1]).round(3)
        array([0.269, 0.881])
        """
        from scipy.special import expit

        return np.asarray(expit(np.ptp(self.space.values) * self.input(states)))

    def to_binary(self) -> BoltzmannMachine:
        """The same energy over x ∈ {0,1}: of an Ising model at x = (1 + s)/2, at center 0.

        W = 4J, b = 2h − 2ΣJ, and Σh − ½Σ_ij J_ij goes to the offset.

        Returns
        -------
        BoltzmannMachine
            With the same ln Z; a Boltzmann machine is returned unchanged.

        Examples
        --------
        >>> import ebm
        >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).to_binary().biases
        array([-1., -2.])
        """
        if isinstance(self, BoltzmannMachine):
            return self
        form = self.quadratic_form().folded(self.space).to_binary(self.space).at_origin()
        return BoltzmannMachine(form.matrix, form.vector, offset=form.constant, names=self.names)

    def to_spins(self) -> IsingModel:
        """The same energy over s ∈ {−1,1}: of a Boltzmann machine at s = 2x − 1.

        J = ¼W off the diagonal, h = ½b − ¼Wŝ with ŝ = 2x̂ − 1, and the constant
        −½Σb − ⅛ŝWŝ − ⅛tr W goes to the offset.

        Returns
        -------
        IsingModel
            With the same ln Z; an Ising model is returned unchanged.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[0, 4], [4, 0]], [0, 0]).to_spins().couplings
        array([[0., 1.],
               [1., 0.]])
        """
        if isinstance(self, IsingModel):
            return self
        form = self.quadratic_form().folded(self.space).substituted(0.5, 0.5).at_origin()
        return IsingModel(form.matrix, form.vector, offset=form.constant, names=self.names)


@dataclass(frozen=True, eq=False, repr=False)
class BoltzmannMachine(TwoValuedModel):
    """E(x) = −½ Σ_αβ W_αβ (x_α−x̂_α)(x_β−x̂_β) − Σ_α b_α x_α + offset; [EBM] eq 12.

    Parameters
    ----------
    weights : array_like or scipy.sparse, (n, n)
        Weights W. Each pair is written in both orders and counts once in the energy, as
        W_αβ (x_α−x̂_α)(x_β−x̂_β). Of two different entries the mean is kept, the symmetric part; a
        pair of which one is zero, as in one triangle or a directed list of edges, is refused. A
        diagonal is allowed and acts as a bias. The stored entries of a sparse matrix are the
        parameters.
    biases : array_like, (n,)
        Biases b, in the gauge of the given center.
    center : float or array_like, (n,)
        Center x̂, any real vector.
    offset : float
        A constant in the energy, not a parameter.
    names : sequence of str, optional
        Names of the units; by default the labels of frames and series. Labelled arguments are taken
        by their labels, in any order.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ModelError
        If a number is not finite, or a pair is written in one order, W_αβ ≠ 0 = W_βα.
    NamesError
        If labels are not the names of the units.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5])
    >>> machine.energy([[1, 0], [1, 1]])
    array([ 1. , -1.5])
    """

    weights: Any
    biases: Any
    center: Any = field(default=0.0, kw_only=True)
    offset: float = field(default=0.0, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    space: Binary = field(init=False)

    _numbers, _symbols, _coding = ("weights", "biases"), ("W", "b"), Binary
    _linear = (*_numbers, "offset")

    @property
    def feature_center(self) -> Array:
        """The center x̂, (n,)."""
        return np.asarray(self.center)

    def recentered(self, center: ArrayLike) -> BoltzmannMachine:
        """The same energy written about another center, a gauge change.

        b' = b + W(x̂'−x̂) and offset' = offset + ½(x̂'Wx̂' − x̂Wx̂): every E(x) and ln Z stay.

        Parameters
        ----------
        center : float or array_like, (n,)
            New center x̂'.

        Returns
        -------
        BoltzmannMachine
            With the same energies and other biases.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5]).recentered(0.5).biases
        array([0. , 1.5])
        """
        new = _couplings.vector(center, self.n, "center", self.names)
        form = self.quadratic_form().about(new)
        return replace(self, biases=form.vector, center=new, offset=form.constant)

    def canonical(self) -> BoltzmannMachine:
        """The same energy with the diagonal of W folded into biases and offset.

        x² = x turns ½W_αα(x−x̂)² into (½−x̂)W_αα x + ½W_αα x̂².

        Returns
        -------
        BoltzmannMachine
            With zero diagonal and the same energies.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[4, 2], [2, 0]], [-1, 0.5]).canonical().biases
        array([1. , 0.5])
        """
        form = self.quadratic_form().folded(self.space)
        return replace(self, weights=form.matrix, biases=form.vector, offset=form.constant)


@dataclass(frozen=True, eq=False, repr=False)
class IsingModel(TwoValuedModel):
    """E(s) = −½ Σ_ij J_ij s_i s_j − Σ_i h_i s_i + offset, s ∈ {−1,1}^n.

    Parameters
    ----------
    couplings : array_like or scipy.sparse, (n, n)
        Couplings J in units of k_B T. Each pair is written in both orders and counts once in the
        energy, as J_ij s_i s_j. Of two different entries the mean is kept, the symmetric part; a
        pair of which one is zero, as in one triangle or a directed list of edges, is refused. The
        stored entries of a sparse matrix are the parameters.
    fields : array_like, (n,)
        Fields h.
    offset : float
        A constant in the energy, not a parameter.
    names : sequence of str, optional
        Names of the units; by default the labels of frames and series. Labelled arguments are taken
        by their labels, in any order.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ModelError
        If a number is not finite, or a pair is written in one order, J_ij ≠ 0 = J_ji.
    NamesError
        If labels are not the names of the units.

    Examples
    --------
    >>> import ebm
    >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).energy([[1, 1], [1, -1]])
    array([-1.5,  0.5])
    """

    couplings: Any
    fields: Any
    offset: float = field(default=0.0, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    space: Spins = field(init=False)

    _numbers, _symbols, _coding = ("couplings", "fields"), ("J", "h"), Spins
    _linear = (*_numbers, "offset")

    @property
    def feature_center(self) -> Array:
        """Zero: spins are not centered, (n,)."""
        return np.zeros(self.n)
