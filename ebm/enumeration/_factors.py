"""The three factor matrices of a pairwise model, scaled so that none exceeds 1.

For fixed z:  exp(−E) = exp(scale) F[a, b] G[b, c] R[a, c], each with the terms that couple its rows
to its columns, F also with those of b alone, R with those of a and of c. What can go wrong is
underflow: a product F G R below the smallest double is lost although it matters. Two things guard
against it:

* the *certificate*: everything lost, relative to Z, is at most 2^n · tiny · exp(max scale − ln Z);
* the *potential*: F is multiplied and G divided by exp(v_b), which balances the two about a mode;
  then row maxima of F and column maxima of G move into R, whose own maximum is the scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ebm._types import Array
from ebm.enumeration._exponentials import Exponentials, exponentiate
from ebm.enumeration._splitting import Split, couplings, own_log_weights
from ebm.forms import QuadraticForm

#: Log of the share of Z that underflow may have taken where a result is accepted.
CERTIFIED = -40.0
#: Random starts of the search for the mode that the potential is built on.
N_STARTS = 20
LOG_TINY = math.log(np.finfo(np.float64).tiny)


def log_lost_share(n_states: float, log_total: float) -> float:
    """The certificate, with ln Z counted from the largest scale.

    Log of an upper bound of the share of Z that is lost to underflow.
    """
    return math.inf if log_total == -math.inf else math.log(n_states) + LOG_TINY - log_total


class FactorMatrices(NamedTuple):
    """F (a, b), G (b, c) and R (a, c) of one state of the fixed units, all ≤ 1, and their scale."""

    f: Array
    g: Array
    r: Array
    scale: float


class Factors:
    """The factor matrices of one model, its constant left out, for any state of the fixed units."""

    def __init__(self, form: QuadraticForm, parts: Split, *, with_potential: bool) -> None:
        a, b, c, fixed = self.parts = parts
        self.with_potential = with_potential
        self._own = [own_log_weights(form, group) for group in parts]
        self._to_fixed = [form.matrix[group.features, fixed.features] for group in (a, b, c)]
        pairs = (a, b), (b, c), (a, c)
        coupled = [(rows, couplings(form, rows, columns)) for rows, columns in pairs]
        if with_potential:
            self._logs = [rows.table @ side for rows, side in coupled]
            return
        self._ab, bc, self._ac = (Exponentials.of(rows, side) for rows, side in coupled)
        # Without the potential G is the same for every state of the fixed units.
        self._g = np.empty((b.size, c.size))
        self._g_bounds = bc.fill(np.zeros(c.size), 0, self._g)

    def matrices(self, z: int, f: Array, r: Array) -> FactorMatrices:
        """The factors for row z of the fixed group's table, F and R in the arrays given."""
        own_a, own_b, own_c = self._own_given_fixed(z)
        if self.with_potential:
            g, scale = self._balanced(own_a, own_b, own_c, f, r)
        else:
            g = self._g
            row_logs = own_a + self._ab.fill(own_b, 1, f)
            row_logs += self._ac.fill(own_c + self._g_bounds, 1, r)
            scale = float(row_logs.max())
            r *= np.exp(row_logs - scale)[:, None]
        return FactorMatrices(f, g, r, scale + float(self._own[3][z]))

    def _own_given_fixed(self, z: int) -> list[Array]:
        """Log weights of each group alone, with what the fixed units add to its linear term."""
        fixed = self.parts.fixed
        if fixed.size == 1:
            return self._own[:3]
        state = fixed.table[z]
        return [
            own + group.table @ (coupling @ state)
            for own, group, coupling in zip(self._own, self.parts, self._to_fixed, strict=False)
        ]

    def _balanced(
        self, own_a: Array, own_b: Array, own_c: Array, f: Array, r: Array
    ) -> tuple[Array, float]:
        """Fill F and R with the potential taken in; G and the scale."""
        log_f, log_g = self._logs[0] + own_b, self._logs[1]
        log_r = self._logs[2] + own_a[:, None] + own_c
        potential = _potential(log_f, log_g, log_r)
        g = np.empty_like(log_g)
        f_maxima = exponentiate(log_f + potential, 1, f)
        g_maxima = exponentiate(log_g - potential[:, None], 0, g)
        return g, float(exponentiate(log_r + f_maxima[:, None] + g_maxima, None, r))


def _potential(log_f: Array, log_g: Array, log_r: Array) -> Array:
    """v_b = ½(ln G[b, c*] − ln F[a*, b]) at an approximate mode (a*, b*, c*)."""
    starts, (n_b, n_c) = np.random.default_rng(0), log_g.shape
    i, j, k = (starts.integers(0, size, N_STARTS) for size in (len(log_f), n_b, n_c))
    for _ in range(10):
        # Each group in turn to its best state given the other two.
        i = (log_f[:, j] + log_r[:, k]).argmax(axis=0)
        j = (log_f[i].T + log_g[:, k]).argmax(axis=0)
        k = (log_g[j].T + log_r[i].T).argmax(axis=0)
    best = int((log_f[i, j] + log_g[j, k] + log_r[i, k]).argmax())
    return np.asarray((log_g[:, k[best]] - log_f[i[best]]) / 2)
