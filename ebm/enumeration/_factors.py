"""The three factor matrices of a pairwise model, scaled so that none exceeds 1.

For fixed z:  exp(−E) = exp(scale) F[a, b] G[b, c] R[a, c].  Row maxima of F and column maxima of G
move into R, whose own maximum is the scale. What can go wrong is underflow: a product F G R below
the smallest double is lost although its (a, c) matters. Two things guard against it:

* the *certificate*: everything lost, relative to Z, is at most 2^n · tiny · exp(max scale − ln Z);
* the *potential*: F is multiplied and G divided by exp(v_b), which balances the two about a mode.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ebm._types import Array
from ebm.enumeration._exponentials import Exponentials, exponentiate
from ebm.enumeration._splitting import Split, own_log_weights
from ebm.forms import QuadraticForm

#: Log of the share of Z that underflow may have taken where a result is accepted.
CERTIFIED = -40.0
#: Random starts of the search for the mode that the potential is built on.
N_STARTS = 20


def log_lost_share(n_states: float, top_scale: float, log_total: float) -> float:
    """The certificate: log of an upper bound of the share of Z lost to underflow."""
    if log_total == -math.inf:
        return math.inf
    tiny = math.log(np.finfo(np.float64).tiny)
    return math.log(n_states) + tiny + top_scale - log_total


class FactorMatrices(NamedTuple):
    """F (a, b), G (b, c) and R (a, c) of one state of the fixed units, all ≤ 1, and their scale."""

    f: Array
    g: Array
    r: Array
    scale: float


class Factors:
    """What the factor matrices of one model are made from; shared by all workers.

    Parameters
    ----------
    form : QuadraticForm
        The energy; its constant is left to the caller.
    parts : Split
        The groups.
    with_potential : bool
        Whether to balance F and G.
    """

    def __init__(self, form: QuadraticForm, parts: Split, *, with_potential: bool) -> None:
        a, b, c, fixed = self.parts = parts
        self.with_potential = with_potential
        self._own = [own_log_weights(form, group) for group in parts]
        self._to_fixed = [form.matrix[group.features, fixed.features] for group in (a, b, c)]
        self._ab, self._ac = Exponentials(form, a, b), Exponentials(form, a, c)
        self._bc = Exponentials(form, b, c)
        if not with_potential:
            # Without the potential G is the same for every state of the fixed units.
            self._g = np.empty((b.size, c.size))
            self._g_maxima = self._bc.fill_scaled_columns(self._g)

    def buffers(self) -> tuple[Array, Array]:
        """Arrays for F and R, to be handed to :meth:`matrices` again and again."""
        a, b, c, _ = self.parts
        return np.empty((a.size, b.size)), np.empty((a.size, c.size))

    def matrices(self, z: int, f: Array, r: Array) -> FactorMatrices:
        """F, G, R for one state of the fixed units.

        Parameters
        ----------
        z : int
            Row of the fixed group's table.
        f, r : ndarray
            Buffers that receive F and R.

        Returns
        -------
        FactorMatrices
            With exp(−E) = exp(scale) F G R, apart from the constant of the form.
        """
        own_a, own_b, own_c = self._own_given_fixed(z)
        if self.with_potential:
            log_f, log_g = self._ab.logs() + own_b, self._bc.logs()
            potential = self._potential(log_f, log_g, own_a, own_c)
            f_maxima = exponentiate(log_f + potential, 1, f)
            g = np.empty_like(log_g)
            g_maxima = exponentiate(log_g - potential[:, None], 0, g)
        else:
            f_maxima = self._ab.fill_scaled_rows(own_b, f)
            g, g_maxima = self._g, self._g_maxima
        top = self._ac.fill_scaled(own_a + f_maxima, own_c + g_maxima, r)
        return FactorMatrices(f, g, r, top + float(self._own[3][z]))

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

    def _potential(self, log_f: Array, log_g: Array, own_a: Array, own_c: Array) -> Array:
        """v_b = ½(ln G[b, c*] − ln F[a*, b]) at an approximate mode (a*, b*, c*)."""
        log_h = self._ac.logs() + own_a[:, None] + own_c
        starts = np.random.default_rng(0)
        i, j, k = (starts.integers(0, group.size, N_STARTS) for group in self.parts[:3])
        for _ in range(10):
            # Each group in turn to its best state given the other two.
            i = (log_f[:, j] + log_h[:, k]).argmax(axis=0)
            j = (log_f[i].T + log_g[:, k]).argmax(axis=0)
            k = (log_g[j].T + log_h[i].T).argmax(axis=0)
        best = int((log_f[i, j] + log_g[j, k] + log_h[i, k]).argmax())
        return np.asarray((log_g[:, k[best]] - log_f[i[best]]) / 2)
