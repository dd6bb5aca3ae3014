"""The Ising model on {−1,1}^n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.models import _couplings
from ebm.models._pairwise import PairwiseModel
from ebm.spaces import Spins
from ebm.spaces._labels import agreed_names

if TYPE_CHECKING:
    from ebm.models.boltzmann import BoltzmannMachine

__all__ = ["IsingModel"]


@dataclass(frozen=True, eq=False, repr=False)
class IsingModel(PairwiseModel):
    """E(s) = −½ Σ_ij J_ij s_i s_j − Σ_i h_i s_i + offset, s ∈ {−1,1}^n.

    Parameters
    ----------
    couplings : array_like or scipy.sparse, (n, n)
        J in units of k_B T. Each pair is written in both orders and counts once in the energy, as
        J_ij s_i s_j. Of two different entries the mean is kept, the symmetric part; a pair of which
        one is zero, as in one triangle or a directed list of edges, is refused. Of a sparse matrix
        the stored entries are the parameters.
    fields : array_like, (n,)
        h.
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
        If a number is not finite, or a pair is written in one order, J_ij ≠ 0 = J_ji.
    NamesError
        If labels are not the names.

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

    def __post_init__(self) -> None:
        names = agreed_names(
            self.names,
            ("couplings", self.couplings, 1, 0),
            ("fields", self.fields, 0),
        )
        space = Spins(_couplings.length(self.fields, "fields"), names=names)
        n, names = space.n, space.names
        checked = {
            "space": space,
            "names": names,
            "couplings": _couplings.symmetric(self.couplings, n, "couplings", names),
            "fields": _couplings.vector(self.fields, n, "fields", names),
            "offset": _couplings.scalar(self.offset, "offset"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"IsingModel(n={self.n}, {len(self.pairs[0])} couplings, {self.space!r})"

    @property
    def _matrix(self) -> Any:
        return self.couplings

    @property
    def _vector(self) -> Array:
        return np.asarray(self.fields)

    @property
    def feature_center(self) -> Array:
        """Zero: spins are not centered, (n,)."""
        return np.zeros(self.space.n)

    def _replaced(self, matrix: Any, vector: Array, offset: float) -> Self:
        return replace(self, couplings=matrix, fields=vector, offset=offset)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"h[0]"`` and ``"J[0, 1]"``, in the order of ``parameters``."""
        return self._named_parameters("h", "J")

    def input(self, states: ArrayLike) -> Array:
        """Local field of each unit, Σ_{j≠i} J_ij s_j + h_i.

        Parameters
        ----------
        states : array_like, (..., n)
            States; unit i's own value does not enter.

        Returns
        -------
        ndarray, (..., n)
            In units of k_B T.

        Examples
        --------
        >>> import ebm
        >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).input([1, -1])
        array([-0.5,  1. ])
        """
        own = _couplings.diagonal(self.couplings)
        return self.space.map(
            lambda s: _couplings.apply(self.couplings, s) - own * s + self.fields, states
        )

    def conditional(self, states: ArrayLike) -> Array:
        """p(s_i = 1 | all other units) = σ(2 input_i) for each unit.

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
        >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).conditional([1, -1]).round(3)
        array([0.269, 0.881])
        """
        from scipy.special import expit

        return np.asarray(expit(2 * self.input(states)))

    def to_binary(self) -> BoltzmannMachine:
        """The same energy over x = (1 + s)/2, at center 0.

        W = 4J, b = 2h − 2ΣJ, and Σh − ½Σ_ij J_ij goes to the offset.

        Returns
        -------
        BoltzmannMachine
            With E(x) = E(s) at s = 2x − 1, so the same ln Z.

        Examples
        --------
        >>> import ebm
        >>> ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]).to_binary().biases
        array([-1., -2.])
        """
        from ebm.models.boltzmann import BoltzmannMachine

        off = _couplings.without_diagonal(self.couplings)
        row_sums = _couplings.apply(off, np.ones(self.n))
        # s² = 1: a diagonal of J is a constant.
        trace = float(_couplings.diagonal(self.couplings).sum())
        constant = float(self.fields.sum()) - 0.5 * float(row_sums.sum()) - 0.5 * trace
        return BoltzmannMachine(
            4 * off, 2 * self.fields - 2 * row_sums, offset=self.offset + constant, names=self.names
        )
