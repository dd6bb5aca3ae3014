"""The complete graph of four sites: Σ_ijkl u_i u_j u_k u_l W_ij W_ik W_il W_jk W_jl W_kl."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["dense_adjoint", "dense_value", "sparse_adjoint", "sparse_value"]

Array = NDArray[Any]

#: Columns of a block of a triangular product.
COLUMNS = 128
#: The six couplings of four sites.
PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def dense_value(matrix: Array, vector: Array) -> Any:
    """The sum over all sites, by about n⁴/6 operations in matrix products.

    Parameters
    ----------
    matrix : ndarray, (n, n)
        W, symmetric with zero diagonal, so that the four sites are different.
    vector : ndarray, (n,)
        u.

    Returns
    -------
    number
        24 times the sum over i < j < k < l.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.perturbation.diagrams._four_sites import dense_value
    >>> int(dense_value(1 - np.eye(4), np.ones(4)))
    24
    """
    upper = np.triu(matrix, 1)
    n, total = len(vector), 0.0
    for i in range(n - 3):
        block = upper[i + 1 :, i + 1 :]
        a = vector[i + 1 :] * matrix[i, i + 1 :]
        for start in range(0, len(a), COLUMNS):
            stop = start + COLUMNS
            # j < k and k < l, k in the block: rows j end with it, columns l begin with it.
            paths = (block[:stop, start:stop] * a[start:stop]) @ block[start:stop, start:]
            paths *= block[:stop, start:]
            total = total + vector[i] * (a[:stop] @ (paths @ a[start:]))
    return 24 * total


def dense_adjoint(matrix: Array, vector: Array) -> tuple[Array, Array]:
    """Derivatives of :func:`dense_value`, by about n⁴/2 operations in matrix products.

    Parameters
    ----------
    matrix : ndarray, (n, n)
        W, symmetric with zero diagonal.
    vector : ndarray, (n,)
        u.

    Returns
    -------
    ndarray, (n, n)
        G, symmetric with zero diagonal: the sum changes by Σ_ij G_ij dW_ij over ordered pairs.
    ndarray, (n,)
        The derivative with respect to u.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.perturbation.diagrams._four_sites import dense_adjoint
    >>> dense_adjoint(1 - np.eye(4), np.ones(4))[1]
    array([24., 24., 24., 24.])
    """
    n = len(vector)
    to_matrix = np.zeros_like(matrix)
    to_vector = np.zeros(n, np.result_type(matrix, vector))
    # i is the smallest site, one of four: 4 Σ_i u_i Σ_jkl>i a_j a_k a_l W_jk W_kl W_jl, a = u W_i.
    for i in range(n - 3):
        block, spokes = matrix[i + 1 :, i + 1 :], matrix[i, i + 1 :]
        a = vector[i + 1 :] * spokes
        triangles = (block * a) @ block
        opposite = triangles * (12 * vector[i] * a[:, None] * a)
        to_matrix[i + 1 :, i + 1 :] += opposite
        triangles *= block
        ends = triangles @ a
        to_a = 12 * vector[i] * ends
        to_vector[i] += 4 * (a @ ends)
        to_vector[i + 1 :] += to_a * spokes
        to_matrix[i, i + 1 :] += to_a * vector[i + 1 :] / 2
        to_matrix[i + 1 :, i] += to_a * vector[i + 1 :] / 2
    np.fill_diagonal(to_matrix, 0)
    return to_matrix, to_vector


def sparse_value(matrix: Any, vector: Array) -> Any:
    """The same from the complete graphs of four sites that a sparse matrix holds.

    Parameters
    ----------
    matrix : scipy.sparse, (n, n)
        W, symmetric with zero diagonal.
    vector : ndarray, (n,)
        u.

    Returns
    -------
    number
        24 times the sum over i < j < k < l.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from ebm.perturbation.diagrams._four_sites import sparse_value
    >>> int(sparse_value(csr_array(1 - np.eye(4)), np.ones(4)))
    24
    """
    sites, couplings = _cliques(matrix)
    return 24 * (np.prod(vector[sites], axis=0) * np.prod(couplings, axis=0)).sum()


def sparse_adjoint(matrix: Any, vector: Array) -> tuple[Any, Array]:
    """Derivatives of :func:`sparse_value`, as those of :func:`dense_value`.

    Parameters
    ----------
    matrix : scipy.sparse, (n, n)
        W, symmetric with zero diagonal.
    vector : ndarray, (n,)
        u.

    Returns
    -------
    scipy.sparse.csr_array, (n, n)
        G, symmetric.
    ndarray, (n,)
        The derivative with respect to u.
    """
    from scipy.sparse import csr_array

    sites, couplings = _cliques(matrix)
    weights = vector[sites]
    to_vector = np.zeros(len(vector), np.result_type(vector, couplings))
    for k in range(4):
        change = 24 * np.prod(np.delete(weights, k, 0), axis=0) * np.prod(couplings, axis=0)
        np.add.at(to_vector, sites[k], change)
    changes = [
        12 * np.prod(weights, axis=0) * np.prod(np.delete(couplings, k, 0), axis=0)
        for k in range(6)
    ]
    rows = np.concatenate([sites[a] for a, _ in PAIRS])
    columns = np.concatenate([sites[b] for _, b in PAIRS])
    upper = csr_array((np.concatenate(changes), (rows, columns)), shape=matrix.shape)
    return (upper + upper.T).tocsr(), to_vector


class _Upward(NamedTuple):
    """The stored entries as edges from sites of few neighbors to those of many, in order.

    Numbered so, no site of many neighbors makes all their pairs.
    """

    n: int
    first: Array
    second: Array
    values: Array
    #: The row of the matrix that each site is.
    rows: Array

    def joining(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Where a < b are neighbors, and the edge that joins them."""
        if not len(self.first):
            return np.zeros(len(a), bool), np.zeros(len(a), np.intp)
        keys, wanted = self.first * self.n + self.second, a * self.n + b
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return keys[found] == wanted, found


def _upward(matrix: Any) -> _Upward:
    degrees = np.diff(matrix.indptr)
    rows = np.argsort(degrees, kind="stable")
    place = np.empty(len(degrees), np.int64)
    place[rows] = np.arange(len(degrees))
    entries = matrix.tocoo()
    first, second = place[entries.row], place[entries.col]
    order = np.lexsort((second, first))
    order = order[(first < second)[order]]
    return _Upward(len(degrees), first[order], second[order], entries.data[order], rows)


def _cliques(matrix: Any) -> tuple[Array, Array]:
    """Complete graphs of four sites: (4, m) sites, and (6, m) couplings of ``PAIRS`` of them."""
    edges = _upward(matrix)
    ij, ik = _pairs_within(edges.first)
    there, jk = edges.joining(edges.second[ij], edges.second[ik])
    ij, ik, jk = ij[there], ik[there], jk[there]
    # Two triangles on the same edge ij, of which k and l are the third sites.
    one, two = _pairs_within(ij)
    there, kl = edges.joining(edges.second[ik[one]], edges.second[ik[two]])
    one, two, kl = one[there], two[there], kl[there]
    joined = np.stack([ij[one], ik[one], ik[two], jk[one], jk[two], kl])
    i, j = edges.first[ij[one]], edges.second[ij[one]]
    sites = np.stack([i, j, edges.second[ik[one]], edges.second[ik[two]]])
    return edges.rows[sites], edges.values[joined]


def _pairs_within(labels: Array) -> tuple[Array, Array]:
    """Index pairs p < q of equal labels; the labels stand in order."""
    _, starts, sizes = np.unique(labels, return_index=True, return_counts=True)
    ends = np.repeat(starts + sizes, sizes)
    following = ends - np.arange(len(labels)) - 1
    p = np.repeat(np.arange(len(labels)), following)
    offsets = np.arange(len(p)) - np.repeat(np.cumsum(following) - following, following)
    return p, p + 1 + offsets
