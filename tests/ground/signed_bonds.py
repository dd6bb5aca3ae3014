"""±J square lattices with open edges whose signs are drawn by splitmix64, and their ground states.

    python -m tests.ground.signed_bonds 24

printed E₀ = −802 and the degeneracy 934093298073600 of side 24, seed 1, and a state with this
energy: 17 s of CPU time on a machine that others were using. Side 16 has −346 and 1105920, side
20 −544 and 1597378170528 (.8 s), side 22 −660 and 18112935737088 (3.9 s).
"""

from __future__ import annotations

import sys
import time

import numpy as np

import ebm

MASK = (1 << 64) - 1


def sign(k, seed):
    """The sign of bond k: the top bit of splitmix64(2³² seed + k)."""
    z = (seed * 2**32 + k + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return 1 - 2 * int((z ^ (z >> 31)) >> 63)


def signed_lattice(side, seed):
    """−E = Σ J s s: bond k = side r + c to the right of (r, c), side² + k below it."""
    from scipy.sparse import coo_array

    rows, columns, signs = [], [], []
    for r in range(side):
        for c in range(side):
            k = side * r + c
            if c + 1 < side:
                rows, columns, signs = [*rows, k], [*columns, k + 1], [*signs, sign(k, seed)]
            if r + 1 < side:
                rows, columns = [*rows, k], [*columns, k + side]
                signs = [*signs, sign(side**2 + k, seed)]
    n = side**2
    half = coo_array((np.array(signs, dtype=float), (rows, columns)), shape=(n, n)).tocsr()
    return ebm.IsingModel(half + half.T, np.zeros(n))


if __name__ == "__main__":
    for side in map(int, sys.argv[1:]):
        start = time.process_time()
        ground = ebm.ground_state(signed_lattice(side, 1), max_seconds=1200)
        seconds = time.process_time() - start
        print(side, ground, ground.degeneracy, f"{seconds:.1f} s")
