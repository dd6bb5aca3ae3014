"""The pairwise model of ordered categories: a threshold for each, couplings of their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_finite, is_sparse
from ebm._types import Array, Flags, Indices
from ebm.ensembles.moments import as_moments
from ebm.errors import ModelError, ShapeError
from ebm.forms import QuadraticForm
from ebm.model import PairFeatures, ParametricModel, Penalized
from ebm.models import _couplings, _items
from ebm.models._edge_list import EdgeList
from ebm.models._frozen import Frozen
from ebm.models.any_units import PairwiseModel
from ebm.models.potts import PottsModel
from ebm.spaces import FiniteSpace, Levels
from ebm.spaces._fixed_units import FixedUnits
from ebm.spaces._labels import agreed_names

__all__ = ["OrdinalModel"]


@dataclass(frozen=True, eq=False, repr=False)
class OrdinalModel(EdgeList, Frozen, ParametricModel):
    """E(x) = −½ Σ_{i≠j} W_ij s_i(x_i) s_j(x_j) − Σ_i h_i(x_i) + offset, x_i ∈ {0, …, q_i−1}.

    The items of a questionnaire: h_i(a) is the threshold of category a of item i, s_i(a) its score,
    and each pair has one coupling :cite:`marsman2025`. A number added to all thresholds of an item
    changes no probability, so the parameters are the thresholds of all categories but the first, in
    the gauge in which that one is zero, and the couplings. Items of two categories with the scores
    0 and 1 are those of a Boltzmann machine.

    Parameters
    ----------
    weights : array_like, (n, n)
        Couplings W of the scores in units of k_B T, zero on the diagonal. Each pair is written in
        both orders and counts once in the energy. Of two different entries the mean is kept; a pair
        of which one is zero is refused.
    thresholds : array_like, (n, q), or sequence of n array_like, (q_i,)
        Thresholds h, whose shape says how many categories the items have.
    scores : array_like, (q,) or as ``thresholds``, optional
        Scores s of the categories, by default 0, …, q_i − 1. They are no parameters.
    offset : float
        A constant in the energy, not a parameter.
    names : sequence of str, optional
        Names of the items; by default the labels of frames.

    Raises
    ------
    ShapeError
        If the shapes do not agree, or an item has fewer than two categories.
    ModelError
        If a number or a product of weights and scores is not finite, an item is coupled to itself,
        a pair is written in one order, or all categories of an item have the same score.
    NamesError
        If labels are not the names of the items.

    Examples
    --------
    >>> import ebm
    >>> model = ebm.OrdinalModel([[0, 0.5], [0.5, 0]], [[0, 1, 0], [0, -1]], names=["a", "b"])
    >>> model.energy([[0, 0], [1, 1], [2, 1]])
    array([ 0. , -0.5,  0. ])
    >>> model.parameter_names
    ('h[a](1)', 'h[a](2)', 'h[b](1)', 'W[a, b]')
    """

    weights: Any
    thresholds: Any
    scores: Any = field(default=None, kw_only=True)
    offset: float = field(default=0.0, kw_only=True)
    names: Sequence[str] | None = field(default=None, kw_only=True)
    space: FiniteSpace = field(init=False)

    def __post_init__(self) -> None:
        names = agreed_names(
            self.names, ("thresholds", self.thresholds, 0), ("weights", self.weights, 0, 1)
        )
        thresholds = _items.by_item(self.thresholds, "thresholds", names)
        sizes = [len(row) for row in thresholds]
        space = _items.levels_of(sizes, names)
        scores = _items.scores_by_item(self.scores, sizes, names)
        self._freeze(
            space=space,
            names=space.names,
            weights=self._checked_weights(space),
            thresholds=thresholds,
            scores=scores,
            offset=as_finite(self.offset, "offset"),
        )
        largest = np.array([np.abs(row).max() for row in scores])
        with np.errstate(over="ignore", invalid="ignore"):
            bounds = np.abs(self.weights) * np.multiply.outer(largest, largest)
        if not np.isfinite(bounds.sum()):
            raise ModelError(
                f"weights times scores must be finite, got weights up to "
                f"{np.abs(self.weights).max():g} and scores up to {largest.max():g}: give smaller "
                "ones, a factor of the scores goes into the weights"
            )

    def _checked_weights(self, space: FiniteSpace) -> Array:
        """Symmetric, without a diagonal."""
        if is_sparse(self.weights):
            raise ModelError(
                "weights must be an array, got a sparse one: give .toarray(), and the pairs that a "
                "fit may change by ebm.Penalty(free=…)"
            )
        weights: Array = _couplings.symmetric(self.weights, space.n, "weights", space.names)
        to_itself = np.flatnonzero(weights.diagonal())
        if len(to_itself):
            item = to_itself[0]
            raise ModelError(
                f"weights[{item}, {item}] must be zero, got {weights[item, item]:g}: what acts on "
                f"the item {space.labels[item]!r} alone belongs to its thresholds"
            )
        return weights

    def __repr__(self) -> str:
        sizes = self.space.n_values.tolist()
        q = sizes[0] if len(set(sizes)) == 1 else sizes
        return f"OrdinalModel(n={self.n}, q={q}, {len(self.pairs[0])} pairs, names={self.names})"

    @property
    def n(self) -> int:
        """Number of items."""
        return self.space.n

    @property
    def pairs(self) -> tuple[Indices, Indices]:
        """Index arrays i < j of all pairs of items."""
        return _couplings.all_pairs(self.n)

    @cached_property
    def _item_of(self) -> Indices:
        """The item of each category, (Σ q_i,)."""
        return np.repeat(np.arange(self.n), self.space.n_values)

    @cached_property
    def _is_first(self) -> Flags:
        """Which categories are the first of their item, (Σ q_i,)."""
        return _items.starts_of(self.space.n_values.tolist())

    @cached_property
    def _scores(self) -> Array:
        """s of all categories, item by item, (Σ q_i,)."""
        return np.concatenate(self.scores)

    @cached_property
    def _thresholds(self) -> Array:
        """h of all categories, item by item, (Σ q_i,)."""
        return np.concatenate(self.thresholds)

    def _places(self, states: Array) -> Indices:
        """Places of the categories chosen among all, (..., n)."""
        return np.asarray(states.astype(np.intp) + np.flatnonzero(self._is_first))

    def energy(self, states: ArrayLike) -> Array:
        """Energy of each state in units of k_B T, (..., n) -> (...)."""

        def energies(x: Array) -> Array:
            places = self._places(x)
            scores = self._scores[places]
            coupled = 0.5 * ((scores @ self.weights) * scores).sum(axis=-1)
            return np.asarray(self.offset - self._thresholds[places].sum(axis=-1) - coupled)

        return self.space.map(energies, states)

    def quadratic_form(self) -> QuadraticForm:
        """The energy as −½ fAf − v·f + k over one-hot features, A_ia,jb = W_ij s_i(a) s_j(b)."""
        return QuadraticForm(self._matrix, self._thresholds, self.offset, is_checked=True)

    @cached_property
    def _matrix(self) -> Array:
        by_category = self.weights[np.ix_(self._item_of, self._item_of)]
        return _couplings.read_only(by_category * np.multiply.outer(self._scores, self._scores))

    def pair_features(self) -> PairFeatures:
        """The parameters are fields of all categories but the first, and couplings of scores."""
        blocks = tuple(scores[:, None] for scores in self.scores)
        return PairFeatures(np.flatnonzero(~self._is_first), blocks)

    def input(self, states: ArrayLike) -> Array:
        """What all other items add to the log weight of each unit of score.

        Parameters
        ----------
        states : array_like, (..., n)
            States; item i's own category does not enter.

        Returns
        -------
        ndarray, (..., n)
            Σ_{j≠i} W_ij s_j(x_j) in units of k_B T.

        Examples
        --------
        >>> import ebm
        >>> model = ebm.OrdinalModel([[0, 0.5], [0.5, 0]], [[0, 0, 0], [0, 0]])
        >>> model.input([2, 1])
        array([0.5, 1. ])
        """
        return self.space.map(lambda x: self._scores[self._places(x)] @ self.weights, states)

    def conditional(self, states: ArrayLike) -> Array:
        """p(x_i = a | all other items) ∝ exp(h_i(a) + s_i(a) input_i), for each item and category.

        Parameters
        ----------
        states : array_like, (..., n)
            States; item i's own category does not enter.

        Returns
        -------
        ndarray, (..., Σ q_i)
            Probabilities, item by item in the order of ``space.features``.

        Examples
        --------
        >>> import ebm
        >>> model = ebm.OrdinalModel([[0, 0.5], [0.5, 0]], [[0, 0, 0], [0, 0]])
        >>> model.conditional([2, 1]).round(3)
        array([0.186, 0.307, 0.506, 0.269, 0.731])
        """

        def probabilities(x: Array) -> Array:
            """Of the categories of all items side by side, (…, Σ q_i)."""
            inputs = self._scores[self._places(x)] @ self.weights
            logs = self._thresholds + self._scores * inputs[..., self._item_of]
            starts = np.flatnonzero(self._is_first)
            logs -= np.maximum.reduceat(logs, starts, axis=-1)[..., self._item_of]
            weights = np.exp(logs)
            return np.asarray(
                weights / np.add.reduceat(weights, starts, axis=-1)[..., self._item_of]
            )

        return self.space.map(probabilities, states)

    def canonical(self) -> Self:
        """The same energy in the gauge of the parameters.

        Returns
        -------
        OrdinalModel
            With h_i(0) = 0 for every item, and another offset.

        Examples
        --------
        >>> import ebm
        >>> ebm.OrdinalModel([[0]], [[1, 2, 4]]).canonical().thresholds
        (array([0., 1., 3.]),)
        """
        first = self._thresholds[self._is_first]
        thresholds = tuple(h - h[0] for h in self.thresholds)
        return self._replaced(thresholds=thresholds, offset=self.offset - float(first.sum()))

    def scaled(self, beta: float) -> Self:
        """The model with energy βE: weights, thresholds and offset times ``beta``."""
        beta = as_finite(beta, "beta")
        return self._replaced(
            weights=beta * self.weights,
            thresholds=tuple(beta * h for h in self.thresholds),
            offset=beta * self.offset,
        )

    def to_pairwise(self) -> PairwiseModel:
        """The same energy with a coupling for each two categories, W_ij s_i(a) s_j(b).

        Returns
        -------
        PairwiseModel
            Over the same space.

        Examples
        --------
        >>> import ebm
        >>> model = ebm.OrdinalModel([[0, 0.5], [0.5, 0]], [[0, 0, 0], [0, 0]])
        >>> model.to_pairwise().couplings[:3, 3:]
        array([[0. , 0. ],
               [0. , 0.5],
               [0. , 1. ]])
        """
        return PairwiseModel(self.space, self._matrix, self._thresholds, offset=self.offset)

    def to_potts(self) -> PottsModel:
        """The same energy as a Potts model, J_ij(a, b) = W_ij s_i(a) s_j(b).

        Returns
        -------
        PottsModel
            Over the same space.

        Raises
        ------
        ShapeError
            If the items have different numbers of categories.

        Examples
        --------
        >>> import ebm
        >>> ebm.OrdinalModel([[0, 1], [1, 0]], [[0, 0], [0, 0]]).to_potts().couplings[0, 1]
        array([[0., 0.],
               [0., 1.]])
        """
        if not isinstance(self.space, Levels):
            raise ShapeError(
                "a Potts model has as many categories for all items, got "
                f"{self.space.n_values.tolist()}: use to_pairwise()"
            )
        n, q = self.n, self.space.q
        couplings = self._matrix.reshape(n, q, n, q).transpose(0, 2, 1, 3)
        thresholds = self._thresholds.reshape(n, q)
        return PottsModel(couplings, thresholds, offset=self.offset, names=self.names)

    def _given(self, fixed: FixedUnits) -> Self:
        """h_r + s_r Σ_c W_rc s_c, and offset − Σ_c h_c − Σ_{c<c'} W_cc' s_c s_c'."""
        units, rest = fixed.units, fixed.rest
        levels = fixed.values.astype(np.intp)
        scores = np.array([self.scores[u][a] for u, a in zip(units, levels, strict=True)])
        own = sum(float(self.thresholds[u][a]) for u, a in zip(units, levels, strict=True))
        pushes = self.weights[:, units] @ scores
        return self._replaced(
            weights=self.weights[np.ix_(rest, rest)],
            thresholds=tuple(self.thresholds[r] + self.scores[r] * pushes[r] for r in rest),
            scores=tuple(self.scores[r] for r in rest),
            offset=self.offset - own - 0.5 * float(scores @ pushes[units]),
            names=self.space.subspace(rest).names,
        )

    @cached_property
    def _canonical_offset(self) -> float:
        return float(self.canonical().offset)

    @property
    def parameters(self) -> Array:
        """h_i(a), a ≥ 1, item by item, then W_ij for i < j, of ``canonical()``; (p,)."""
        first = self._thresholds[self._is_first]
        steps = self._thresholds - first[self._item_of]
        return np.concatenate([steps[~self._is_first], self.weights[self.pairs]])

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Such as ``"h[0](1)"`` and ``"W[0, 1]"``, in the order of ``parameters``."""
        labels = self.space.labels
        return (
            *(
                f"h[{label}]({a})"
                for label, q in zip(labels, self.space.n_values, strict=True)
                for a in range(1, q)
            ),
            *(f"W[{labels[i]}, {labels[j]}]" for i, j in zip(*self.pairs, strict=True)),
        )

    @property
    def _n_thresholds(self) -> int:
        """Number of thresholds among the parameters."""
        return self.space.n_features - self.n

    @property
    def is_coupling(self) -> Flags:
        """False for the thresholds, True for the couplings, (p,)."""
        return np.arange(self._n_thresholds + len(self.pairs[0])) >= self._n_thresholds

    def penalized(self) -> Penalized:
        """Steps of thresholds, h_i(a) − h_i(a−1), and the couplings of scores.

        They keep their size where the categories of an item are counted from the other end, and are
        the biases of items of two categories.
        """
        # In the parameters the first category has no entry, so its step is the second threshold.
        follows = ~self._is_first[np.flatnonzero(~self._is_first) - 1]
        later, p = np.flatnonzero(follows), len(self.is_coupling)

        def of(theta: Array) -> Array:
            steps = theta.copy()
            steps[later] -= theta[later - 1]
            return steps

        def transposed(slopes: Array) -> Array:
            back = slopes.copy()
            back[later - 1] -= slopes[later]
            return back

        return Penalized(of, transposed, np.arange(p) >= self._n_thresholds)

    def with_parameters(self, theta: ArrayLike) -> Self:
        """The model at other parameters, in their gauge, with the offset of ``canonical()``.

        Parameters
        ----------
        theta : array_like, (p,)
            In the order of ``parameters``.

        Returns
        -------
        OrdinalModel
            With the threshold of every first category zero, and the same scores.
        """
        return self._from_vector(theta, "theta", self._canonical_offset)

    def _from_vector(self, theta: ArrayLike, name: str, offset: float) -> Self:
        theta = _couplings.parameter_vector(theta, self, name)
        theta = _couplings.vector(np.atleast_1d(theta), len(self.is_coupling), name)
        thresholds = np.zeros(len(self._is_first))
        thresholds[~self._is_first] = theta[: self._n_thresholds]
        weights = np.zeros((self.n, self.n))
        weights[self.pairs] = weights[self.pairs[::-1]] = theta[self._n_thresholds :]
        for array in (weights, thresholds):
            array.setflags(write=False)
        by_item = np.split(thresholds, np.cumsum(self.space.n_values)[:-1])
        return self._remade(weights=weights, thresholds=tuple(by_item), offset=offset)

    def energy_gradient(self, states: ArrayLike) -> Array:
        """∂E/∂θ = −(δ(x_i, a), s_i(x_i) s_j(x_j)), (..., n) -> (..., p)."""

        def slopes(x: Array) -> Array:
            indicators = self.space.features(x)[..., ~self._is_first]
            scores, (i, j) = self._scores[self._places(x)], self.pairs
            return -np.concatenate([indicators, scores[..., i] * scores[..., j]], axis=-1)

        return self.space.map(slopes, states)

    def energy_derivative(self, states: ArrayLike, direction: ArrayLike) -> Array:
        """direction · ∂E/∂θ, (..., n) -> (...); memory does not grow with p."""
        return self._from_vector(direction, "direction", 0.0).energy(states)

    def mean_energy_gradient(self, average: Any) -> Array:
        """−E[δ(x_i, a), s_i(x_i) s_j(x_j)] from moments of one-hot features alone, (p,)."""
        moments = as_moments(average).to(self.space)
        starts = np.flatnonzero(self._is_first)
        scored = np.add.reduceat(moments.second * self._scores, starts, axis=1)
        products = np.add.reduceat(scored * self._scores[:, None], starts, axis=0)
        return -np.concatenate([moments.mean[~self._is_first], products[self.pairs]])
