"""All moments of a pairwise model up to fourth order, from about 2n/3 further matrix products.

With the features of each group taken about a center, d = f − c, and one constant feature more,
E[d_i d_j d_k d_l] holds every lower moment too. Moments inside two groups follow from the pair
marginals; those across all three take one product for each feature of a and of b.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise, permutations

import numpy as np

from ebm._parallel import map_blocks, single_threaded_blas
from ebm._types import Array
from ebm.enumeration._factors import CERTIFIED, FactorMatrices, Factors, log_lost_share
from ebm.enumeration._splitting import Group, Split, split
from ebm.forms import QuadraticForm
from ebm.spaces import FiniteSpace

#: Bits of state up to which no unit is fixed, so that one set of factors holds everything.
MOST_BITS = 33
#: Number of states up to which one thread is fastest.
SINGLE_THREADED = 2**22


def fourth_moments(
    form: QuadraticForm, space: FiniteSpace, center: Array, n_jobs: int
) -> Array | None:
    """E[d_i d_j d_k d_l] for d = (features − center, 1), (n_features + 1, …) four times.

    Parameters
    ----------
    form : QuadraticForm
        The energy.
    space : FiniteSpace
        The states, at most 2^33.
    center : ndarray, (n_features,)
        Where features are taken about.
    n_jobs : int
        Threads; the result does not depend on it.

    Returns
    -------
    ndarray, (n_features + 1,) * 4, or None
        Symmetric in all four indices; index −1 is the constant. None where the factors could not
        be certified to lose nothing to underflow, even with a potential.
    """
    parts = split(space, group_bits=MOST_BITS / 3, undivided_bits=MOST_BITS + 1)
    # Threads cost more than they save on small products.
    jobs = n_jobs if float(space.size) > SINGLE_THREADED else 1
    with single_threaded_blas():
        for with_potential in (False, True):
            factors = Factors(form, parts, with_potential=with_potential)
            moments = _FourthMoments(parts, factors.matrices(0, *factors.buffers()), center)
            if log_lost_share(float(space.size), 0.0, moments.log_total) < CERTIFIED:
                return moments.tensor(jobs)
    return None


class _FourthMoments:
    """Features of the three groups, and the products over their factors."""

    def __init__(self, parts: Split, matrices: FactorMatrices, center: Array) -> None:
        self._f, self._g, self._r, _ = matrices
        self._singles = [_about(group, center) for group in parts[:3]]
        # The constant belongs to the last group.
        self._singles[2] = np.column_stack([self._singles[2], np.ones(parts.c.size)])
        self._doubles = [_products(x, x) for x in self._singles]
        edges = [group.features.start for group in parts[:3]] + [len(center) + 1]
        self._indices = [slice(i, j) for i, j in pairwise(edges)]
        self._joint = self._pair_marginals()
        self._total = float(self._joint[0, 2].sum())

    @property
    def log_total(self) -> float:
        """ln Σ F G R; the factors' scale is left out."""
        return math.log(self._total) if self._total > 0 else -math.inf

    def tensor(self, n_jobs: int) -> Array:
        """The whole tensor, each block put in place under all permutations of its indices."""
        size = self._indices[2].stop
        tensor = np.empty((size,) * 4)
        joint = self._joint
        for (i, j), p in joint.items():
            self._put_two_groups(tensor, i, j, p)
        self._put_one_group(tensor, 0, joint[0, 1].sum(axis=1))
        self._put_one_group(tensor, 1, joint[0, 1].sum(axis=0))
        self._put_one_group(tensor, 2, joint[0, 2].sum(axis=0))
        self._put_three_groups(tensor, n_jobs)
        tensor /= self._total
        return tensor

    def _pair_marginals(self) -> dict[tuple[int, int], Array]:
        f, g, r = self._f, self._g, self._r
        return {(0, 1): f * (r @ g.T), (1, 2): g * (f.T @ r), (0, 2): r * (f @ g)}

    def _put_one_group(self, tensor: Array, i: int, marginal: Array) -> None:
        double = self._doubles[i]
        self._put(tensor, (i, i, i, i), double.T @ (marginal[:, None] * double))

    def _put_two_groups(self, tensor: Array, i: int, j: int, p: Array) -> None:
        x, xx, y, yy = self._singles[i], self._doubles[i], self._singles[j], self._doubles[j]
        p_y, x_p = p @ y, x.T @ p
        self._put(tensor, (i, i, j, j), xx.T @ (p @ yy))
        self._put(tensor, (i, j, j, j), x_p @ _products(yy, y))
        self._put(tensor, (i, i, i, j), _products(xx, x).T @ p_y)

    def _put_three_groups(self, tensor: Array, n_jobs: int) -> None:
        a, b, c = self._singles
        aa, bb, cc = self._doubles

        def for_b(k: int) -> tuple[Array, Array]:
            p = self._r * (self._f @ (b[:, k, None] * self._g))
            return aa.T @ (p @ c), (a.T @ p) @ cc

        def for_a(k: int) -> Array:
            p = self._g * ((a[:, k, None] * self._f).T @ self._r)
            return bb.T @ (p @ c)

        by_b = list(map_blocks(for_b, range(b.shape[1]), n_jobs))
        by_a = list(map_blocks(for_a, range(a.shape[1]), n_jobs))
        if by_b:
            self._put(tensor, (1, 0, 0, 2), np.stack([block for block, _ in by_b]))
            self._put(tensor, (1, 0, 2, 2), np.stack([block for _, block in by_b]))
        if by_a:
            self._put(tensor, (0, 1, 1, 2), np.stack(by_a))

    def _put(self, tensor: Array, groups: tuple[int, ...], values: Array) -> None:
        """Write moments of features of these groups at every permutation of the four indices."""
        block = values.reshape([tensor[self._indices[group]].shape[0] for group in groups])
        for order in _distinct_orders(groups):
            place = tuple(self._indices[groups[k]] for k in order)
            tensor[place] = block.transpose(order)


@cache
def _distinct_orders(groups: tuple[int, ...]) -> list[tuple[int, ...]]:
    """One permutation of the four indices for each distinct arrangement of the groups."""
    arrangements = {tuple(groups[k] for k in order): order for order in permutations(range(4))}
    return list(arrangements.values())


def _about(group: Group, center: Array) -> Array:
    return np.asarray(group.table - center[group.features])


def _products(x: Array, y: Array) -> Array:
    """Columns x_i y_j, (m, k l)."""
    return (x[:, :, None] * y[:, None, :]).reshape(len(x), -1)
