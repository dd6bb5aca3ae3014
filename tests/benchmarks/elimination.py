"""Exact sums on graphs beside the tree decomposition of dwave-samplers; nothing is asserted.

    python -m venv peers && peers/bin/pip install -e . dwave-samplers && \
        OMP_NUM_THREADS=1 peers/bin/python tests/benchmarks/elimination.py

Both follow the order of elimination that is found here, on one thread in one process, runs
interleaved, the least processor time of each: ln Z alone, and ln Z with the distributions of all
units and pairs. The peer draws one state in either. Models of levels and of triples, which it does
not have, are printed by the entry of a clique.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse

import ebm
from ebm.enumeration._elimination import Eliminated
from ebm.enumeration._elimination_factors import factors_of
from ebm.enumeration._elimination_plan import plan_of

#: Runs of each.
REPEATS = 7


def spins(graph: nx.Graph, seed: int) -> ebm.IsingModel:
    """Couplings ±.44 on the edges of a graph and fields of scatter .1."""
    graph, stream = nx.convert_node_labels_to_integers(graph), np.random.default_rng(seed)
    i, j = np.array(graph.edges).T
    signs = 0.44 * stream.choice([-1.0, 1.0], len(i))
    half = scipy.sparse.coo_array((signs, (i, j)), shape=(len(graph), len(graph)))
    return ebm.IsingModel(
        scipy.sparse.csr_array(half + half.T), 0.1 * stream.normal(size=half.shape[0])
    )


def pairs() -> Iterator[tuple[str, ebm.IsingModel]]:
    """Models of pairs by name."""
    for length in (16, 32):
        yield f"lattice 16 x {length}", spins(nx.grid_2d_graph(16, length), 0)
    for seed in range(1, 4):
        graph = nx.random_regular_graph(3, 60, seed=seed)
        yield f"3-regular, 60 units, seed {seed}", spins(graph, seed)


def others() -> Iterator[tuple[str, Any]]:
    """Potts levels on a strip, and triples of a frontier, by name."""
    stream, graph = np.random.default_rng(0), nx.grid_2d_graph(8, 20)
    graph = nx.convert_node_labels_to_integers(graph)
    couplings = {edge: stream.normal(size=(3, 3)) for edge in graph.edges}
    dense = np.zeros((len(graph), len(graph), 3, 3))
    for (i, j), table in couplings.items():
        dense[i, j], dense[j, i] = table, table.T
    yield "Potts, q = 3, lattice 8 x 20", ebm.PottsModel(dense, np.zeros((len(graph), 3)))
    triples = {(k, k + 7, k + 14): float(stream.normal()) for k in range(86)}
    yield "triples k, k + 7, k + 14 of 100 spins", ebm.InteractionModel(triples, ebm.Spins(100))


def least_seconds(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least processor time of each, runs interleaved."""
    best = dict.fromkeys(runs, np.inf)
    for repeat in range(REPEATS + 1):
        for name, run in runs.items():
            start = time.process_time()
            run()
            # The first run compiles.
            if repeat:
                best[name] = min(best[name], time.process_time() - start)
    return best


def of_peer(model: ebm.IsingModel, order: list[int]) -> Callable[[bool], float]:
    """ln Z by dwave-samplers at β = 1, with or without marginals; −E is J s s + h s."""
    import dimod
    from dwave.samplers import TreeDecompositionSampler

    i, j = model.pairs
    values = -model.parameters
    weights = zip(i.tolist(), j.tolist(), values[model.n :], strict=True)
    quadratic = {(a, b): float(w) for a, b, w in weights}
    linear = dict(enumerate(values[: model.n].tolist()))
    problem, sampler = (
        dimod.BinaryQuadraticModel(linear, quadratic, "SPIN"),
        TreeDecompositionSampler(),
    )

    def log_partition(marginals: bool) -> float:
        answer = sampler.sample(problem, 1, elimination_order=order, marginals=marginals)
        return float(answer.info["log_partition_function"])

    return log_partition


def main() -> None:
    """Print both, and how many times as long the peer takes."""
    print(f"{'':32s}{'width':>6s}{'ln Z, ms':>10s}{'and all, ms':>12s}{'ratios':>14s}")
    for name, model in [*pairs(), *others()]:
        factors = factors_of(model, model.space)
        plan = plan_of(factors)
        runs: dict[str, Callable[[], object]] = {
            "ln Z": lambda factors=factors, plan=plan: Eliminated(factors, plan),
            "all": lambda factors=factors, plan=plan: Eliminated(factors, plan).marginals(),
        }
        note = ""
        if isinstance(model, ebm.IsingModel):
            peer = of_peer(model, plan.order.units.tolist())
            runs |= {
                "peer": lambda peer=peer: peer(False),
                "peer, all": lambda peer=peer: peer(True),
            }
            difference = peer(False) - Eliminated(factors, plan).log_total - factors.constant
            note = f"   ln Z differs by {difference:.0e}"
        best = least_seconds(runs)
        row = f"{name:38s}{plan.order.width:.3g}{best['ln Z'] * 1e3:10.2f}{best['all'] * 1e3:12.2f}"
        if note:
            row += f"{best['peer'] / best['ln Z']:8.1f}{best['peer, all'] / best['all']:6.1f}"
        else:
            per_entry = [1e9 * best[part] / plan.order.work for part in ("ln Z", "all")]
            note = "   {:.2f} and {:.2f} ns an entry".format(*per_entry)
        print(row + note, flush=True)


if __name__ == "__main__":
    main()
