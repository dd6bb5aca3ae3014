"""±J lattices without field beyond every elimination, through ``exact`` and ``ground_state``.

python -m tests.ground.large_glasses

"""

from __future__ import annotations

import time

import ebm
from tests.enumeration.test_planar import plus_or_minus, spin_glass


def signed_torus(side, seed):
    """The same signs on a torus: bond k = side r + c to the right of (r, c), side² + k below it."""
    graph = ebm.lattice((side, side))
    for u, v in graph.edges:
        k, is_right = next(
            (a, b == side * (a // side) + (a % side + 1) % side)
            for a, b in ((u, v), (v, u))
            if b in (side * (a // side) + (a % side + 1) % side, (a + side) % side**2)
        )
        graph[u][v]["weight"] = plus_or_minus(k if is_right else side**2 + k, seed)
    return ebm.from_graph(graph)


def timed(work):
    """The answer and the seconds of CPU time."""
    start = time.process_time()
    answer = work()
    return answer, time.process_time() - start


def show(name, model, betas, **settings):
    """ln Z and bond averages at some β with their error, the ground energy and its degeneracy."""
    print(name)
    for beta in betas:
        scaled = model.scaled(beta)
        ensemble, seconds = timed(lambda scaled=scaled: ebm.exact(scaled, **settings))
        averages, more = timed(lambda ensemble=ensemble: ensemble.bond_averages)
        # d ln Z/dβ = −⟨E⟩/β: all averages against a difference of sums.
        h = 1e-4
        ends = [ebm.exact(model.scaled(beta + s * h), **settings).log_partition for s in (1, -1)]
        slope, own = (ends[0] - ends[1]) / (2 * h), -ensemble.mean_energy() / beta
        print(
            f"  β = {beta}: ln Z = {ensemble.log_partition:.12f} ± "
            f"{ensemble.log_partition_error:.0e}, {len(averages)} bond averages, "
            f"|slope of ln Z / −⟨E⟩ − 1| = {abs(slope / own - 1):.0e}; {seconds + more:.1f} s"
        )
    ground, seconds = timed(lambda: ebm.ground_state(model, rng=0, **settings))
    is_met = len(ground.states) and bool((model.energy(ground.states) == ground.energy).all())
    print(f"  {ground}\n  a state of it: {is_met}; {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    show("32×32 open", spin_glass(32, 1), (0.5, 1.0, 2.0), max_seconds=1e3)
    for side in (16, 20):
        show(f"{side}×{side} torus", signed_torus(side, 1), (0.5, 1.0), max_seconds=1e3)
