"""All moments of a pairwise model up to fourth order, from about 2n/3 further matrix products.

With the features of each group taken about a center, d = f − c, and one constant feature more,
E[d_i d_j d_k d_l] holds every lower moment too. Moments inside two groups follow from the pair
marginals; those across all three take one product for each feature of a and of b.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, permutations
from typing import NamedTuple

import numpy as np

from ebm._parallel import map_blocks, single_threaded_blas
from ebm._types import Array, Indices
from ebm.enumeration._factors import CERTIFIED, FactorMatrices, Factors, log_lost_share
from ebm.enumeration._halves import Halves
from ebm.enumeration._log_weights import Scale
from ebm.enumeration._products import borrowed_buffers
from ebm.enumeration._splitting import Group, split
from ebm.forms import QuadraticForm
from ebm.spaces import FiniteSpace

#: Bits of state up to which no unit is fixed, so that one set of factors holds everything.
MOST_BITS = 33
#: Number of states up to which one thread is fastest.
SINGLE_THREADED = 2**22

#: Sums Σ p d_i d_j d_k d_l by the groups that the four indices belong to.
Blocks = dict[tuple[int, int, int, int], Array]


def fourth_moments(
    form: QuadraticForm, space: FiniteSpace, center: Array, n_jobs: int
) -> Array | None:
    """E[d_i d_j d_k d_l] for d = (features − center, 1), (n_features + 1, …) four times.

    None where the factors could not be certified to lose nothing to underflow, even with a
    potential. Independent of the number of threads.
    """
    parts = split(space, group_bits=MOST_BITS, undivided_bits=MOST_BITS + 1)
    # Threads cost more than they save on small products.
    jobs = n_jobs if float(space.size) > SINGLE_THREADED else 1
    with single_threaded_blas():
        for with_potential in (False, True):
            factors = Factors(form, parts, with_potential=with_potential)
            with borrowed_buffers(parts) as buffers:
                matrices = buffers.fill(factors, 0)
                total = float(buffers.p_ac.sum())
                log_total = math.log(total) if total > 0 else -math.inf
                if log_lost_share(float(space.size), log_total) < CERTIFIED:
                    # The constant belongs to the last group.
                    a, b = _about(parts.a, center), _about(parts.b, center)
                    c = _about(parts.c, center, with_one=True)
                    blocks = _across_three(matrices, a, b, c, jobs)
                    blocks |= _across_two(buffers.p_ab, 0, 1, (a, b, c))
                    blocks |= _across_two(buffers.p_bc, 1, 2, (a, b, c))
                    blocks |= _across_two(buffers.p_ac.T, 2, 0, (a, b, c))
                    return _assembled(blocks, (a, b, c), total)
    return None


def fourth_moments_by_halves(halves: Halves, top: Scale, center: Array, n_jobs: int) -> Array:
    """The same in the log domain, right at any magnitude of the energies."""
    second = _about(halves.second, center, with_one=True)

    def of_block(index: int) -> tuple[_Products, Blocks]:
        group, _, p = halves.weights(index, top)
        first = _about(group, center)
        of_second = {(1, 1, 1, 1): _within(p.sum(axis=0), second)}
        return first, of_second | _across_two(p, 0, 1, (first, second))

    (first, blocks), *others = halves.map(of_block, n_jobs)
    for _, other in others:
        blocks = {groups: block + other[groups] for groups, block in blocks.items()}
    return _assembled(blocks, (first, second), float(blocks[1, 1, 1, 1][-1, -1]))


class _Products(NamedTuple):
    """Features of a group about the center, (k, m), and their products by twos, (k², m)."""

    single: Array
    double: Array


def _about(group: Group, center: Array, *, with_one: bool = False) -> _Products:
    m, k = group.table.shape
    single = np.ones((k + with_one, m))
    np.subtract(group.table.T, center[group.features, None], out=single[:k])
    return _Products(single, _times(single, single))


def _times(x: Array, y: Array) -> Array:
    """Products of each row of the one with each of the other, (k, m) and (l, m) -> (k l, m)."""
    return (x[:, None] * y).reshape(-1, x.shape[1])


def _within(marginal: Array, x: _Products) -> Array:
    """Moments of one group."""
    return (x.double * marginal) @ x.double.T


def _across_two(p: Array, i: int, j: int, features: tuple[_Products, ...]) -> Blocks:
    """Moments of group i, and with indices in both i and j, from the joint weights of the two."""
    x, y = features[i], features[j]
    return {
        (i, i, i, i): _within(p.sum(axis=1), x),
        (i, i, j, j): x.double @ (p @ y.double.T),
        (i, i, i, j): x.double @ _times(x.single, y.single @ p.T).T,
        (i, j, j, j): _times(x.single @ p, y.single) @ y.double.T,
    }


def _across_three(
    matrices: FactorMatrices, a: _Products, b: _Products, c: _Products, n_jobs: int
) -> Blocks:
    """Moments with indices in all of three groups."""
    f, g, r, _ = matrices

    def for_b(of_b: Array) -> tuple[Array, Array]:
        p = r * (f @ (of_b[:, None] * g))
        return a.double @ (p @ c.single.T), (a.single @ p) @ c.double.T

    def for_a(of_a: Array) -> Array:
        p = g * ((of_a[:, None] * f).T @ r)
        return b.double @ (p @ c.single.T)

    by_b = list(map_blocks(for_b, b.single, n_jobs))
    return {
        (1, 0, 0, 2): np.array([block for block, _ in by_b]),
        (1, 0, 2, 2): np.array([block for _, block in by_b]),
        (0, 1, 1, 2): np.array(list(map_blocks(for_a, a.single, n_jobs))),
    }


def _assembled(blocks: Blocks, features: tuple[_Products, ...], total: float) -> Array:
    """The whole tensor, each block put in place under all permutations of its indices."""
    entries = np.concatenate([block.ravel() for block in blocks.values()]) / total
    return entries[_places(tuple(len(x.single) for x in features), tuple(blocks))]


@lru_cache(maxsize=4)
def _places(widths: tuple[int, ...], blocks: tuple[tuple[int, ...], ...]) -> Indices:
    """Where among the entries of all blocks each entry of the tensor stands, (d, d, d, d)."""
    edges, start = [0, *accumulate(widths)], 0
    places = np.empty((edges[-1],) * 4, dtype=np.intp)
    for groups in blocks:
        shape = [widths[group] for group in groups]
        block = np.arange(start, start := start + math.prod(shape)).reshape(shape)
        for order in permutations(range(4)):
            part = (slice(edges[groups[k]], edges[groups[k] + 1]) for k in order)
            places[tuple(part)] = block.transpose(order)
    return places
