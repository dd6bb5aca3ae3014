"""Pairs of {0,1} units and a potential of the number of units that are active at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, as_floats, as_integer, is_sparse
from ebm._types import Array, Flags, Indices
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_units
from ebm.errors import ModelError, ShapeError
from ebm.forms import TermForm
from ebm.model import ParametricModel
from ebm.models import _couplings
from ebm.models._counts import (
    FIRST_FREE,
    pair_terms,
    pooled,
    quadratics_within,
    shares_of_counts,
)
from ebm.models._frozen import Frozen
from ebm.models.pairwise import BoltzmannMachine
from ebm.spaces import Binary
from ebm.spaces._fixed_units import FixedUnits
from ebm.spaces._labels import agreed_names

__all__ = ["KPairwiseModel"]


@dataclass(frozen=True, eq=False, repr=False)
class KPairwiseModel(Frozen, ParametricModel):
    """E(x) = −Σ_{i<j} W_ij x_i x_j − Σ_i b_i x_i − V(K) + offset with K = Σ_i x_i.

    The model of largest entropy with the means, the pair moments and the distribution P(K) of the
    data :cite:`tkacik2014`. A quadratic function of K can be moved between V, b, W and the offset;
    V(0), V(1) and V(2) are therefore constants of the family, zero in the canonical gauge, and the
    parameters are b, then W, then V(3), …, V(n). Where V is one number over several counts, fewer
    quadratic functions can be moved: none but a constant over three or more counts, so that V(1)
    and V(2) are then parameters as well, and every P(K) is matched.

    Parameters
    ----------
    weights : array_like, (n, n)
        Symmetric weights W with zero diagonal. Each pair is written in both orders and counts once.
    biases : array_like, (n,)
        Biases b.
    potential : array_like, (n + 1,)
        V(0), …, V(n).
    pools : sequence of int, optional
        The first K of each run of counts that share one value of V, which is then one parameter: 3
        comes first, each run goes on to the next one, and the last to n. By default every K ≥ 3 has
        its own. A K that never occurs in the data asks for V(K) = −∞, so that such counts are
        pooled with others.
    offset : float
        A constant in the energy, not a parameter.
    names : sequence of str, optional
        Names of the units; by default the labels of frames and series.

    Raises
    ------
    ShapeError
        If the shapes do not agree.
    ModelError
        If a number is not finite, W has a diagonal or is sparse, pools do not begin with 3 and
        increase, or V differs within one of them.
    NamesError
        If labels are not the names of the units.

    Examples
    --------
    >>> import ebm
    >>> weights = [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    >>> model = ebm.KPairwiseModel(weights, [-1, -1, 0.5], [0, 0, 0, 2.0])
    >>> model.energy([[1, 1, 0], [1, 1, 1]])
    array([ 1. , -1.5])
    """

    weights: Any
    biases: Any
    potential: Any
    pools: Sequence[int] | None = None
    offset: float = field(default=0.0, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    space: Binary = field(init=False)

    _linear = ("weights", "biases", "potential", "offset")

    def __post_init__(self) -> None:
        if is_sparse(self.weights):
            raise ModelError(
                "weights must be an array, got a sparse matrix: V(K) acts on all pairs; give "
                "weights.toarray()"
            )
        names = agreed_names(
            self.names, ("weights", self.weights, 1, 0), ("biases", self.biases, 0)
        )
        space = Binary(_couplings.length(self.biases, "biases"), names=names)
        n, names = space.n, space.names
        weights = _couplings.symmetric(self.weights, n, "weights", names)
        if np.diag(weights).any():
            raise ModelError(
                "weights must have a zero diagonal: x² = x, so give W_ii / 2 as a part of biases"
            )
        potential = as_floats(self.potential, "potential")
        if potential.shape != (n + 1,):
            raise ShapeError(
                f"potential must have shape ({n + 1},), V(0) … V({n}), got {potential.shape}"
            )
        if not np.isfinite(potential).all():
            k = int(np.flatnonzero(~np.isfinite(potential))[0])
            raise ModelError(
                f"potential must be finite, got V({k}) = {potential[k]}: a count that never occurs "
                "is pooled with others, see pools"
            )
        pools = _checked_pools(self.pools, n)
        for start, stop in zip(pools, (*pools[1:], n + 1), strict=False):
            if np.ptp(potential[start:stop]):
                raise ModelError(
                    f"potential must be one number in the pool K = {start} … {stop - 1}, got "
                    f"{potential[start:stop]}"
                )
        self._freeze(
            space=space,
            names=names,
            weights=weights,
            biases=_couplings.vector(self.biases, n, "biases", names),
            potential=_couplings.read_only(potential),
            pools=pools,
            offset=as_finite(self.offset, "offset"),
        )

    def __repr__(self) -> str:
        return f"KPairwiseModel(n={self.n}, {len(self.starts)} values of V, {self.space!r})"

    @classmethod
    def for_data(cls, data: Any, *, fewest: int = 5) -> KPairwiseModel:
        """Independent units with the rates of the data, as a start for a fit.

        Counts K are pooled, from the largest one down, until every pool holds enough rows and
        enough different counts for a fit to have a maximum.

        Parameters
        ----------
        data : array_like, DataFrame or Ensemble
            Rows of {0,1} units, or an ensemble of them.
        fewest : int
            Smallest number of rows in a pool.

        Returns
        -------
        KPairwiseModel
            W = 0, V = 0 and b the log-odds of the rates, moved off 0 and 1 by half a row.

        Raises
        ------
        ModelError
            If rows with three or more active units are too few or too much alike, or there are less
            than three units.

        Examples
        --------
        >>> import ebm
        >>> rows = ebm.exact(ebm.BoltzmannMachine([[0] * 8] * 8, [-1.0] * 8)).sample(1000, rng=0)
        >>> ebm.KPairwiseModel.for_data(rows).pools
        (3, 4, 5)
        """
        fewest = as_integer(fewest, "fewest")
        rows = data if isinstance(data, Ensemble) else Ensemble.from_data(data)
        require_units(rows, Binary(rows.space.n, names=rows.space.names))
        shares, n = shares_of_counts(rows), rows.space.n
        pools = pooled(shares, rows.sample_size, fewest)
        size = min(rows.sample_size, 1e14)
        rate = (rows.moments().mean * size + 0.5) / (size + 1)
        odds = np.log(rate / (1 - rate))
        potential = np.zeros(n + 1)
        return cls(np.zeros((n, n)), odds, potential, pools, names=rows.space.names)

    @property
    def n(self) -> int:
        """Number of units."""
        return self.space.n

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of all pairs, row by row."""
        return _couplings.all_pairs(self.n)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first K of each value of V that is a parameter."""
        pools = tuple(self.pools or ())
        first = min(len(quadratics_within(pools, self.n)), self.n + 1)
        return (*range(first, min(FIRST_FREE, self.n + 1)), *pools)

    @cached_property
    def pool_of_count(self) -> Indices:
        """Which value of V each K = 0, …, n takes, −1 for those that are constants, (n + 1,)."""
        starts = np.asarray(self.starts, dtype=np.intp)
        return np.searchsorted(starts, np.arange(self.n + 1), side="right") - 1

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""
        return self.space.map(
            lambda x: self.offset - self._sums(x, self.weights, self.biases, self.potential), states
        )

    def _sums(self, x: Array, weights: Array, biases: Array, potential: Array) -> Array:
        """½ xWx + b·x + V(K) of checked states, (..., n) -> (...)."""
        pairs = 0.5 * (_couplings.apply(weights, x) * x).sum(axis=-1)
        return np.asarray(pairs + x @ biases + potential[x.sum(axis=-1).astype(np.intp)])

    def term_form(self) -> TermForm:
        """The biases and weights as terms of one and two units, and V as ν."""
        terms = pair_terms(self.biases, self.weights[self.pairs])
        return TermForm(terms, self.offset, self.potential, is_checked=True)

    def _given(self, fixed: FixedUnits) -> KPairwiseModel:
        """W_rr, b_r + W_rc x_c, and V(K + K_c) of the K_c fixed units that are active."""
        units, rest, x = fixed.units, fixed.rest, fixed.values
        active, n = int(x.sum()), len(rest)
        own = self.weights[np.ix_(units, units)]
        later = [start - active for start in self.pools or () if start - active > FIRST_FREE]
        return KPairwiseModel(
            self.weights[np.ix_(rest, rest)],
            self.biases[rest] + self.weights[np.ix_(rest, units)] @ x,
            self.potential[active : active + n + 1],
            (FIRST_FREE, *(k for k in later if k <= n)) if n >= FIRST_FREE else (),
            offset=self.offset - float(self.biases[units] @ x + 0.5 * x @ own @ x),
            names=self.space.subspace(rest).names,
        )

    @cached_property
    def parameters(self) -> Array:
        """The biases, then W in the order of ``pairs``, then V of each pool, (p,)."""
        values = self.potential[np.asarray(self.starts, dtype=np.intp)]
        parts = self.biases, self.weights[self.pairs], values
        return _couplings.read_only(np.concatenate(parts))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"b[0]"``, ``"W[0, 1]"``, ``"V[3]"`` and ``"V[8–15]"`` of a pool."""
        labels, starts = self.space.labels, self.starts
        ends = (*(start - 1 for start in starts[1:]), self.n)
        runs = zip(starts, ends, strict=False)
        return (
            *(f"b[{label}]" for label in labels),
            *(f"W[{labels[i]}, {labels[j]}]" for i, j in zip(*self.pairs, strict=True)),
            *(f"V[{k}]" if k == end else f"V[{k}–{end}]" for k, end in runs),
        )

    @property
    def is_coupling(self) -> Flags:
        """False for the biases, True for W and V, which both couple units, (p,)."""
        return np.arange(len(self.parameters)) >= self.n

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The same family at other parameters.

        Parameters
        ----------
        theta : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        KPairwiseModel
            The values of V that are constants, the pools, the offset and the names stay.

        Raises
        ------
        ShapeError
            If ``theta`` does not have p entries.
        """
        theta = _couplings.parameter_vector(theta, self, "theta")
        n, n_pairs, n_pools = self.n, len(self.pairs[0]), len(self.starts)
        if theta.shape != (n + n_pairs + n_pools,):
            wanted = n + n_pairs + n_pools
            raise ShapeError(f"theta must have shape ({wanted},), got {theta.shape}")
        _couplings.require_finite(theta, "theta")
        no_diagonal = np.zeros(n)
        values = theta[n : n + n_pairs]
        potential = self.potential.copy()
        is_free = self.pool_of_count >= 0
        potential[is_free] = theta[n + n_pairs :][self.pool_of_count[is_free]]
        model = self._remade(
            biases=_couplings.read_only(theta[:n]),
            weights=_couplings.from_pairs(self.pairs, values, no_diagonal, like=self.weights),
            potential=_couplings.read_only(potential),
        )
        vars(model).update(pool_of_count=self.pool_of_count, starts=self.starts)
        return model

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ = −(x_i, x_i x_j for the pairs, 1 where K is in the pool), (..., n) -> (..., p)."""
        x = self.space.check(states)
        i, j = self.pairs
        pool = self.pool_of_count[x.sum(axis=-1).astype(np.intp)]
        is_in = pool[..., None] == np.arange(len(self.starts))
        return -np.concatenate([x, x[..., i] * x[..., j], is_in], axis=-1)

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """direction · ∂E/∂θ, (..., n) -> (...); memory does not grow with p."""
        origin = replace(self, potential=np.zeros(self.n + 1), offset=0.0)
        return origin.with_parameters(direction).energy(states)

    def mean_energy_gradient(self, average: Any) -> Array:
        """−(m_i, E[x_i x_j], P(K in the pool)), (p,); from moments and the shares of K."""
        require_units(average, self.space)
        moments, shares = average.moments(), shares_of_counts(average)
        is_free = self.pool_of_count >= 0
        n_pools = len(self.starts)
        of_pools = np.bincount(self.pool_of_count[is_free], shares[is_free], minlength=n_pools)
        return -np.concatenate([moments.mean, moments.second[self.pairs], of_pools])

    def canonical(self) -> KPairwiseModel:
        """The same energy in the gauge V(0) = V(1) = V(2) = 0.

        With c₀ = V(0), c₁ = V(1) − V(0) and c₂ = V(2) − 2V(1) + V(0), V(K) loses
        c₀ + c₁K + ½c₂K(K−1), every b gains c₁, every W gains c₂, and c₀ goes to the offset.

        Returns
        -------
        KPairwiseModel
            With the same energies. Pools are kept where V stays one number in each of them, and
            every K ≥ 3 is a pool of its own otherwise.

        Examples
        --------
        >>> import ebm
        >>> model = ebm.KPairwiseModel([[0.0] * 3] * 3, [0, 0, 0], [1, 1.5, 2.5, 5])
        >>> model.canonical().potential, model.canonical().biases
        (array([0., 0., 0., 1.]), array([0.5, 0.5, 0.5]))
        """
        v, n = self.potential, self.n
        first = v[1] - v[0]
        second = v[2] - 2 * v[1] + v[0] if n > 1 else 0.0
        k = np.arange(n + 1)
        potential = v - v[0] - first * k - 0.5 * second * k * (k - 1)
        # Exactly zero, whatever the rounding of the sums.
        potential[:FIRST_FREE] = 0
        is_same = first == second == 0
        return replace(
            self,
            weights=self.weights + second * (1 - np.eye(n)),
            biases=self.biases + first,
            potential=potential,
            pools=self.pools if is_same else None,
            offset=self.offset - float(v[0]),
        )

    @classmethod
    def from_pairwise(cls, model: Any, *, pools: Sequence[int] | None = None) -> KPairwiseModel:
        """A pairwise model as one with V = 0, such as a start for a fit.

        Parameters
        ----------
        model : BoltzmannMachine or IsingModel
            Its center and the diagonal of its couplings are folded into biases and offset.
        pools : sequence of int, optional
            As those of the class.

        Returns
        -------
        KPairwiseModel
            With the same energies.

        Raises
        ------
        ModelError
            If the model is not pairwise over two-valued units.

        Examples
        --------
        >>> import ebm
        >>> pair = ebm.IsingModel([[0, 1.0], [1.0, 0]], [0.5, 0])
        >>> ebm.KPairwiseModel.from_pairwise(pair).biases
        array([-1., -2.])
        """
        if not hasattr(model, "to_binary"):
            raise ModelError(
                f"a BoltzmannMachine or an IsingModel is wanted, got {type(model).__name__}"
            )
        binary: Any = model.to_binary()
        if not isinstance(binary, BoltzmannMachine):
            binary = binary.to_boltzmann()
        machine = binary.canonical().recentered(0.0)
        matrix, names = _couplings.dense(machine.weights), machine.names
        potential = np.zeros(machine.n + 1)
        return cls(matrix, machine.biases, potential, pools, offset=machine.offset, names=names)


def _checked_pools(pools: Any, n: int) -> tuple[int, ...]:
    """The first K of each pool, 3 < … ≤ n, or every K ≥ 3."""
    if pools is None:
        return tuple(range(FIRST_FREE, n + 1))
    if not isinstance(pools, list | tuple | range | np.ndarray) or np.ndim(pools) != 1:
        raise ShapeError(f"pools must be a list of counts, such as [3, 4], got {pools!r}")
    starts = tuple(as_integer(start, "an entry of pools") for start in pools)
    begins = starts[:1] == (FIRST_FREE,) if n >= FIRST_FREE else not starts
    if not begins or list(starts) != sorted(set(starts)) or any(start > n for start in starts):
        raise ModelError(
            f"pools must be increasing counts from {FIRST_FREE} on, up to {n}, such as "
            f"{tuple(range(FIRST_FREE, n + 1))[:4]}; got {starts}"
        )
    return starts
