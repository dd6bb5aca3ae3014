"""Elimination on large lattices beside three independent sums: a table, nothing is asserted.

    python -m tests.enumeration.lattices_by_elimination

Tori of coupling .44 against Kaufman's four products, an open lattice of 20 × 20 with couplings ±.5
and fields against a transfer of 2^20 states site by site, and open ±J lattices of 16 × 16 and
24 × 24 against signed Pfaffians. Seconds are of ln Z, on a machine that others were using:

    torus 8 × 8     width 16      3 MiB   0.03 s   60.076307527215   difference 7e-15
    torus 10 × 10         19     60       0.10     93.509066460590              0
    torus 12 × 12         23   1040       1.27    134.371886778359              3e-14
    20 × 20, fields       20    188       0.31    501.208143068251             −6e-14
    16 × 16, signs        16     11       0.06    372.782748626614              6e-14
    24 × 24, signs        24   3264       5.59    861.854899965251              1e-13
"""

from __future__ import annotations

import time

import numpy as np

import ebm
from ebm.enumeration._limits import Limits
from ebm.enumeration._planar import planar_ensemble
from tests.enumeration.test_elimination import (
    eliminated,
    kaufman,
    plus_minus_lattice,
    transferred,
    uniform_lattice,
    with_fields,
)


def main() -> None:
    """Print the table."""
    stream = np.random.default_rng(0)
    cases = [
        (
            f"torus {n} x {n}",
            uniform_lattice(n, 0.44, periodic=True),
            lambda m, n=n: kaufman(n, 0.44),
        )
        for n in (4, 6, 8, 10, 12)
    ]
    cases.append(("open 20 x 20, fields", with_fields(20, stream), lambda m: transferred(m, 20)))
    cases += [
        (f"open {n} x {n}, signs", plus_minus_lattice(n, 1, 1.0), lambda m: pfaffian(m))
        for n in (16, 24)
    ]
    for name, model, known in cases:
        start = time.process_time()
        ensemble = eliminated(model)
        seconds = time.process_time() - start
        value = ensemble.log_partition
        plan = ensemble._eliminated.plan
        print(
            f"{name:22s}{ensemble.route}, {plan.n_bytes / 2**20:.0f} MiB, {seconds:.2f} s "
            f"(stated {plan.seconds:.2f} s with marginals): {value:.12f}, "
            f"{value - known(model):.0e}",
            flush=True,
        )


def pfaffian(model: ebm.IsingModel) -> float:
    """ln Z by the signed Pfaffian of a planar graph."""
    return float(planar_ensemble(model, model.space, Limits()).log_partition)


if __name__ == "__main__":
    main()
