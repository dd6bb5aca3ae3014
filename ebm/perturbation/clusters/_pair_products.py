"""Units of any number of levels in pairs: low orders as products of matrices of size Σ q_i.

With J centered, E_i over p_i, A_ij(s) = E_j[J_ij(s, ·)²] and P = J diag(p) J:

    L_2 = ½ Σ_{i<j} E[J²],   L_3 = Σ_{i<j} E[J³]/6 + Σ_△ E[JJJ]
    L_4 = Σ_{i<j} (E[J⁴] − 3 E[J²]²)/24 + ¼ Σ_i Σ_{j<k} Cov_i(A_ij, A_ik)
          + ½ Σ_△ Σ_edges E[J_a² J_b J_c] + Σ_□ E[JJJJ]

over different units, from which the orders 2 and 3 of probabilities and 1 and 2 of covariances
follow with a leg at one unit, or at two.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ebm._types import Array

#: Highest orders of ln Z, probabilities and covariances that are products of matrices.
MOST_ORDERS = (4, 3, 2)
#: Matrices of size Σ q_i that are held at a time.
MATRICES = 6


class PairProducts:
    """Orders of p_i, (n, q), coupled by centered J_ij(s, t), (n, n, q, q)."""

    def __init__(self, couplings: Array, p: Array) -> None:
        self.p, self.couplings = p, couplings
        (self.n, self.q), d = p.shape, p.size
        self.weights = p.ravel()
        self.J = np.ascontiguousarray(couplings.transpose(0, 2, 1, 3).reshape(d, d))

    def log_partition(self, order: int) -> Array:
        """L_1 … L_K, K ≤ 4, (K,)."""
        orders = [0.0, *(self._second, self._third, self._fourth)[: order - 1]][:order]
        return np.array([value() if callable(value) else value for value in orders])

    def probabilities(self, order: int) -> Array:
        """Orders 1 … K, K ≤ 3, of p_i(s), (K, n, q)."""
        result = np.zeros((order, self.n, self.q))
        if order >= 2:
            result[1] = 0.5 * self._local(self._around.reshape(self.p.shape))
        if order >= 3:
            J, w = self.J, self.weights
            cubes = J * J
            cubes *= J
            direct = cubes @ w / 6 + ((J * self._paths) @ w) / 2
            # A unit j beside i whose other neighbors k shift it: those k are not i itself.
            away = self._around[:, None] - self._squares
            pushed = self.p[:, :, None] * away.reshape(self.n, self.q, self.n)
            led = np.einsum("isjt,jti->is", J.reshape(self.n, self.q, self.n, self.q), pushed)
            result[2] = self._local(direct.reshape(self.p.shape) + led / 2)
        return result

    def covariances(self, order: int) -> Array:
        """Orders 1 … K, K ≤ 2, of p_ij(s, t) − p_i(s) p_j(t), i ≠ j, (K, n, q, n, q)."""
        n, q, d = self.n, self.q, self.p.size
        pp = np.outer(self.weights, self.weights)
        result = np.zeros((order, d, d))
        result[0] = pp * self.J
        if order >= 2:
            by_first = np.repeat(self._squares, q, axis=1)
            by_both = np.repeat(np.repeat(self._mean_squares, q, axis=0), q, axis=1)
            centered = self.J**2 - by_first - by_first.T + by_both
            result[1] = pp * (0.5 * centered + self._paths)
        result = result.reshape(order, n, q, n, q)
        result[:, np.arange(n), :, np.arange(n), :] = 0
        return result

    def _second(self) -> float:
        return 0.25 * float(self.weights @ self._around)

    def _third(self) -> float:
        J, w = self.J, self.weights
        return float(w @ (J**3) @ w) / 12 + float(w @ (J * self._paths) @ w) / 6

    def _fourth(self) -> float:
        w = self.weights
        squares = self.J**2
        pairs = (float(w @ squares**2 @ w) - 3 * float((self._mean_squares**2).sum())) / 48
        triangles = float(w @ (squares * self._paths) @ w) / 4
        # Σ_{j≠k} Cov_i(A_ij, A_ik) = Var_i(Σ_j A_ij) − Σ_j Var_i(A_ij).
        around = self._around.reshape(self.p.shape)
        whole = (self.p * around**2).sum() - ((self.p * around).sum(axis=1) ** 2).sum()
        each = float(w @ (self._squares**2).sum(axis=1)) - float((self._mean_squares**2).sum())
        doubles = float(whole - each) / 8
        return pairs + doubles + triangles + (self._walks() - self._turned_back()) / 8

    def _walks(self) -> float:
        """Closed walks i j k l with i ≠ k."""
        squared = self._paths**2
        all_pairs = float(self.weights @ squared @ self.weights)
        within = squared.reshape(self.n, self.q, self.n, self.q)
        own = within[np.arange(self.n), :, np.arange(self.n), :]
        return all_pairs - float(np.einsum("is,ist,it->", self.p, own, self.p))

    def _turned_back(self) -> float:
        """Those of them with j = l, by H_ij(t, u) = E_i[J_ij(·, t) J_ij(·, u)]."""
        total = 0.0
        for j in range(self.n):
            toward = self.couplings[:, j]
            both = np.matmul((toward * self.p[:, :, None]).transpose(0, 2, 1), toward)
            different = both.sum(axis=0) ** 2 - (both**2).sum(axis=0)
            total += float(self.p[j] @ different @ self.p[j])
        return total

    @cached_property
    def _paths(self) -> Array:
        """P, (d, d)."""
        return np.asarray((self.J * self.weights) @ self.J)

    @cached_property
    def _squares(self) -> Array:
        """A_ij(s), (d, n)."""
        weighted = (self.J**2 * self.weights).reshape(-1, self.n, self.q)
        return np.asarray(weighted.sum(axis=2))

    @cached_property
    def _around(self) -> Array:
        """Σ_j A_ij(s), (d,)."""
        return np.asarray(self._squares.sum(axis=1))

    @cached_property
    def _mean_squares(self) -> Array:
        """E[J_ij²], (n, n)."""
        by_unit = self._squares.reshape(self.n, self.q, self.n)
        return np.asarray(np.einsum("is,isj->ij", self.p, by_unit))

    def _local(self, x: Array) -> Array:
        """p_i(s) (x_i(s) − E_i x_i), (n, q)."""
        return np.asarray(self.p * (x - (self.p * x).sum(axis=1, keepdims=True)))
