"""The complete graph of four sites: Σ_ijkl u_i u_j u_k u_l W_ij W_ik W_il W_jk W_jl W_kl."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["dense_adjoint", "dense_value", "sparse_adjoint", "sparse_value"]

Array = NDArray[Any]

#: Columns of a block of a triangular product.
COLUMNS = 128


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
    >>> from ebm.perturbation.diagrams.four_sites import dense_value
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
    >>> from ebm.perturbation.diagrams.four_sites import dense_adjoint
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
    >>> from ebm.perturbation.diagrams.four_sites import sparse_value
    >>> int(sparse_value(csr_array(1 - np.eye(4)), np.ones(4)))
    24
    """
    sites, couplings, _ = _cliques(matrix)
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

    sites, couplings, pairs = _cliques(matrix)
    weights = vector[sites]
    to_vector = np.zeros(len(vector), np.result_type(vector, couplings))
    for k in range(4):
        change = 24 * np.prod(np.delete(weights, k, 0), axis=0) * np.prod(couplings, axis=0)
        np.add.at(to_vector, sites[k], change)
    changes = [
        12 * np.prod(weights, axis=0) * np.prod(np.delete(couplings, k, 0), axis=0)
        for k in range(6)
    ]
    rows = np.concatenate([sites[a] for a, _ in pairs])
    columns = np.concatenate([sites[b] for _, b in pairs])
    upper = csr_array((np.concatenate(changes), (rows, columns)), shape=matrix.shape)
    return (upper + upper.T).tocsr(), to_vector


def _cliques(matrix: Any) -> tuple[Array, Array, list[tuple[int, int]]]:
    """Complete graphs of four sites: (4, m) sites, (6, m) couplings, and which pair is which."""
    # From sites of few neighbors to those of many, so that none of many makes all their pairs.
    degrees = np.diff(matrix.indptr)
    place = np.empty(len(degrees), np.int64)
    place[np.argsort(degrees, kind="stable")] = np.arange(len(degrees))
    entries = matrix.tocoo()
    first, second = place[entries.row], place[entries.col]
    upward = first < second
    order = np.lexsort((second[upward], first[upward]))
    first, second = first[upward][order], second[upward][order]
    values = entries.data[upward][order]
    n = len(degrees)
    keys = first * n + second

    def coupled(a: Array, b: Array) -> tuple[Array, Array]:
        """Where a < b are neighbors, and the edge that joins them."""
        if not len(keys):
            return np.zeros(len(a), bool), np.zeros(len(a), np.intp)
        wanted = a * n + b
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return keys[found] == wanted, found

    ij, ik = _pairs_within(first)
    there, jk = coupled(second[ij], second[ik])
    ij, ik, jk = ij[there], ik[there], jk[there]
    # Two triangles on the same edge ij, of which k and l are the third sites.
    one, two = _pairs_within(ij)
    there, kl = coupled(second[ik[one]], second[ik[two]])
    one, two, kl = one[there], two[there], kl[there]
    edges = np.stack([ij[one], ik[one], ik[two], jk[one], jk[two], kl])
    site_at = np.argsort(place)
    ordered = np.stack([first[ij[one]], second[ij[one]], second[ik[one]], second[ik[two]]])
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    return site_at[ordered], values[edges], pairs


def _pairs_within(labels: Array) -> tuple[Array, Array]:
    """Index pairs p < q of equal labels; the labels stand in order."""
    _, starts, sizes = np.unique(labels, return_index=True, return_counts=True)
    ends = np.repeat(starts + sizes, sizes)
    following = ends - np.arange(len(labels)) - 1
    p = np.repeat(np.arange(len(labels)), following)
    offsets = np.arange(len(p)) - np.repeat(np.cumsum(following) - following, following)
    return p, p + 1 + offsets
