"""The Boltzmann machine on {0,1}^n; [EBM] Example 10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.models import _couplings
from ebm.models._pairwise import PairwiseModel
from ebm.spaces import Binary
from ebm.spaces._labels import agreed_names

if TYPE_CHECKING:
    from ebm.models.ising import IsingModel

__all__ = ["BoltzmannMachine"]


@dataclass(frozen=True, eq=False, repr=False)
class BoltzmannMachine(PairwiseModel):
    """E(x) = −½ Σ_αβ W_αβ (x_α−x̂_α)(x_β−x̂_β) − Σ_α b_α x_α + offset; [EBM] eq 12.

    Parameters
    ----------
    weights : array_like or scipy.sparse, (n, n)
        W. Each pair is written in both orders and counts once in the energy, as
        W_αβ (x_α−x̂_α)(x_β−x̂_β). Of two different entries the mean is kept, the symmetric part; a
        pair of which one is zero, as in one triangle or a directed list of edges, is refused. A
        diagonal is allowed and acts as a bias. Of a sparse matrix the stored entries are the
        parameters.
    biases : array_like, (n,)
        b, in the gauge of the given center.
    center : float or array_like, (n,)
        x̂, any real vector.
    offset : float
        A constant in the energy, no parameter.
    names : sequence of str, optional
        Unit names; the labels of frames and series where there are any. What has labels is taken by
        them, in any order.

    Raises
    ------
    ShapeError
        If the shapes do not belong together.
    ModelError
        If a number is not finite, or a pair is written in one order, W_αβ ≠ 0 = W_βα.
    NamesError
        If labels are not the names.

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

    def __post_init__(self) -> None:
        names = agreed_names(
            self.names,
            ("weights", self.weights, 1, 0),
            ("biases", self.biases, 0),
            ("center", self.center, 0),
        )
        space = Binary(_couplings.length(self.biases, "biases"), names=names)
        n, names = space.n, space.names
        checked = {
            "space": space,
            "names": names,
            "weights": _couplings.symmetric(self.weights, n, "weights", names),
            "biases": _couplings.vector(self.biases, n, "biases", names),
            "center": _couplings.vector(self.center, n, "center", names),
            "offset": _couplings.scalar(self.offset, "offset"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        n_pairs = len(self.pairs[0])
        return f"BoltzmannMachine(n={self.n}, {n_pairs} couplings, {self.space!r})"

    @property
    def _matrix(self) -> Any:
        return self.weights

    @property
    def _vector(self) -> Array:
        return np.asarray(self.biases)

    @property
    def feature_center(self) -> Array:
        """The center x̂, (n,)."""
        return np.asarray(self.center)

    def _replaced(self, matrix: Any, vector: Array, offset: float) -> Self:
        return replace(self, weights=matrix, biases=vector, offset=offset)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"b[0]"`` and ``"W[0, 1]"``, in the order of ``parameters``."""
        return self._named_parameters("b", "W")

    def input(self, states: ArrayLike) -> Array:
        """Log-odds of each unit given all others; the argument of σ in [EBM] eq 13.

        Parameters
        ----------
        states : array_like, (..., n)
            States; unit α's own value does not enter its input.

        Returns
        -------
        ndarray, (..., n)
            Σ_{β≠α} W_αβ (x_β−x̂_β) + b_α + (½−x̂_α) W_αα.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5]).input([1, 1])
        array([1. , 2.5])
        """
        own = _couplings.diagonal(self.weights)
        constant = self.biases + (0.5 - self.center) * own

        def log_odds(x: Array) -> Array:
            d = x - self.center
            return np.asarray(_couplings.apply(self.weights, d) - own * d + constant)

        return self.space.map(log_odds, states)

    def conditional(self, states: ArrayLike) -> Array:
        """p(x_α = 1 | all other units) = σ(input_α) for each unit; [EBM] eq 13.

        Parameters
        ----------
        states : array_like, (..., n)
            States; unit α's own value does not enter.

        Returns
        -------
        ndarray, (..., n)
            Probabilities.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 1]).conditional([0, 1]).round(3)
        array([0.731, 0.731])
        """
        from scipy.special import expit

        return np.asarray(expit(self.input(states)))

    def recentered(self, center: ArrayLike) -> BoltzmannMachine:
        """The same energy written about another center, a gauge change.

        b' = b + W(x̂'−x̂) and offset' = offset + ½(x̂'Wx̂' − x̂Wx̂): every E(x) and ln Z stay.

        Parameters
        ----------
        center : float or array_like, (n,)
            The new center x̂'.

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
        w_new, w_old = (
            _couplings.apply(self.weights, new),
            _couplings.apply(self.weights, self.center),
        )
        shift = 0.5 * float(new @ w_new - self.center @ w_old)
        return replace(
            self, biases=self.biases + w_new - w_old, center=new, offset=self.offset + shift
        )

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
        own = _couplings.diagonal(self.weights)
        return replace(
            self,
            weights=_couplings.without_diagonal(self.weights),
            biases=self.biases + (0.5 - self.center) * own,
            offset=self.offset - 0.5 * float(own @ self.center**2),
        )

    def to_spins(self) -> IsingModel:
        """The same energy over s = 2x − 1.

        J = ¼W off the diagonal, h = ½b − ¼Wŝ with ŝ = 2x̂ − 1, and the constant
        −½Σb − ⅛ŝWŝ − ⅛tr W goes to the offset.

        Returns
        -------
        IsingModel
            With E(s) = E(x) at s = 2x − 1, so the same ln Z.

        Examples
        --------
        >>> import ebm
        >>> ebm.BoltzmannMachine([[0, 4], [4, 0]], [0, 0]).to_spins().couplings
        array([[0., 1.],
               [1., 0.]])
        """
        from ebm.models.ising import IsingModel

        s_hat = 2 * self.center - 1
        ws = _couplings.apply(self.weights, s_hat)
        trace = float(_couplings.diagonal(self.weights).sum())
        constant = -0.5 * float(self.biases.sum()) - float(s_hat @ ws) / 8 - trace / 8
        return IsingModel(
            _couplings.without_diagonal(self.weights) / 4,
            self.biases / 2 - ws / 4,
            offset=self.offset + constant,
            names=self.names,
        )
