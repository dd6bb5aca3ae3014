"""Gibbs sweeps beside those of other packages; nothing is asserted.

    python -m venv peers && peers/bin/pip install -e . dwave-samplers torch thrml && \
        OMP_NUM_THREADS=1 peers/bin/python tests/benchmarks/peers.py

One thread each, in one process, runs interleaved, the least processor time of each. A peer is the
Gibbs annealer of dwave-samplers at one temperature, a sweep in numpy or torch, or block Gibbs of
thrml on JAX: a checkerboard of float32 on a lattice, and one unit after the other in all chains on
dense couplings, where thrml is left out, as it compiles a program of as many blocks as units.
Printed are nanoseconds an update, and how many times as long the peers take. Runs are of at least
a hundred sweeps, so that no time is mostly that of random states to start from.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from ratios import features

import ebm

#: JAX would take all cores.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
#: Updates and least sweeps of one timed run, and how many runs.
UPDATES, SWEEPS, REPEATS = 6_000_000, 100, 5
#: Seconds of a run beyond which it has fewer sweeps, as those of slow peers.
LONGEST = 2.0


def nanoseconds(runs: dict[str, tuple[Callable[[int], object], int]]) -> dict[str, float]:
    """Least processor time an update of functions of a number of sweeps, of so many updates."""
    best, sweeps = dict.fromkeys(runs, np.inf), {}
    for name, (run, updates) in runs.items():
        # The first call compiles.
        run(3)
        start = time.process_time()
        run(3)
        longest = 3 * LONGEST / (time.process_time() - start)
        sweeps[name] = max(3, min(max(SWEEPS, UPDATES // updates), int(longest)))
        if name not in ("ebm", "dwave-samplers"):
            run(sweeps[name])
        else:
            sweeps[name] = max(SWEEPS, sweeps[name])
    for _ in range(REPEATS):
        for name, (run, updates) in runs.items():
            start = time.process_time()
            run(sweeps[name])
            spent = time.process_time() - start
            best[name] = min(best[name], spent / (sweeps[name] * updates) * 1e9)
    return best


def annealer(model: ebm.IsingModel, n_chains: int) -> Callable[[int], object] | None:
    """The sampler of dwave-samplers at β = 1; −E is J s s, so that its J is −J."""
    try:
        import dimod
        from dwave.samplers import SimulatedAnnealingSampler
    except ImportError:
        return None
    i, j = model.pairs
    values = model.parameters[model.n :]
    pairs = {(int(a), int(b)): -float(w) for a, b, w in zip(i, j, values, strict=True)}
    problem = dimod.BinaryQuadraticModel(dict.fromkeys(range(model.n), 0.0), pairs, "SPIN")
    sampler = SimulatedAnnealingSampler()

    def run(n_sweeps: int) -> object:
        return sampler.sample(
            problem,
            num_reads=n_chains,
            beta_schedule_type="custom",
            beta_schedule=[1.0],
            num_sweeps_per_beta=n_sweeps,
            proposal_acceptance_criteria="Gibbs",
            seed=1,
        )

    return run


def checkerboard(shape: tuple[int, ...], coupling: float, n_chains: int) -> Callable[[int], object]:
    """Both halves of a periodic lattice of even sides in turn, float32."""
    rng = np.random.default_rng(0)
    spins = rng.choice(np.array([-1, 1], dtype=np.float32), (n_chains, *shape))
    is_even = np.indices(shape).sum(axis=0) % 2 == 0
    axes = range(1, len(shape) + 1)

    def run(n_sweeps: int) -> None:
        for _ in range(n_sweeps):
            for half in (is_even, ~is_even):
                fields = sum(np.roll(spins, step, axis) for axis in axes for step in (-1, 1))
                up = rng.random(spins.shape, dtype=np.float32) < 1 / (
                    1 + np.exp(-2 * coupling * fields)
                )
                spins[:, half] = np.where(up, 1, -1)[:, half]

    return run


def one_by_one(couplings: np.ndarray, n_chains: int) -> Callable[[int], object]:
    """Units in turn, float32, all chains at once."""
    rng = np.random.default_rng(0)
    weights = couplings.astype(np.float32)
    spins = rng.choice(np.array([-1, 1], dtype=np.float32), (len(weights), n_chains))

    def run(n_sweeps: int) -> None:
        for _ in range(n_sweeps):
            uniform = rng.random(spins.shape, dtype=np.float32)
            for unit in range(len(weights)):
                odds = np.exp(-2 * (weights[unit] @ spins))
                spins[unit] = np.where(uniform[unit] * (1 + odds) < 1, 1, -1)

    return run


def in_torch(
    couplings: Any, n_chains: int, halves: list[np.ndarray]
) -> Callable[[int], object] | None:
    """Groups of units that are not coupled in turn, float32, all chains at once."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    spins = 2.0 * torch.randint(0, 2, (couplings.shape[0], n_chains)) - 1
    parts = []
    for group in map(np.asarray, halves):
        rows = couplings[group]
        if isinstance(rows, np.ndarray):
            weights = torch.from_numpy(2 * rows.astype(np.float32))
        else:
            starts, columns, values = rows.indptr, rows.indices, 2 * rows.data.astype(np.float32)
            weights = torch.sparse_csr_tensor(
                *map(torch.tensor, (starts, columns, values)), rows.shape
            )
        parts.append((torch.from_numpy(group), weights))

    def run(n_sweeps: int) -> None:
        for _ in range(n_sweeps):
            for units, weights in parts:
                up = torch.rand(len(units), n_chains) < torch.sigmoid(weights @ spins)
                spins[units] = 2.0 * up - 1

    return run


def in_thrml(
    model: ebm.IsingModel, n_chains: int, halves: list[np.ndarray]
) -> Callable[[int], object] | None:
    """Block Gibbs of thrml, chains side by side, one compiled program for each number of sweeps."""
    try:
        import jax
        from thrml import Block, SamplingSchedule, SpinNode, sample_states
        from thrml.models import IsingEBM, IsingSamplingProgram, hinton_init
    except ImportError:
        return None
    nodes = [SpinNode() for _ in range(model.n)]
    i, j = model.pairs
    edges = [(nodes[int(a)], nodes[int(b)]) for a, b in zip(i, j, strict=True)]
    fields, couplings = np.split(model.parameters.astype(np.float32), [model.n])
    energies = IsingEBM(nodes, edges, jax.numpy.array(fields), jax.numpy.array(couplings), 1.0)
    blocks = [Block([nodes[unit] for unit in half]) for half in halves]
    program = IsingSamplingProgram(energies, blocks, clamped_blocks=[])
    start = hinton_init(jax.random.key(0), energies, blocks, (n_chains,))
    keys = jax.random.split(jax.random.key(1), n_chains)

    @partial(jax.jit, static_argnums=0)
    def chains(n_sweeps: int, states: Any) -> Any:
        schedule = SamplingSchedule(n_sweeps, 1, 1)

        def chain(key: Any, state: Any) -> Any:
            return sample_states(key, program, schedule, state, [], [Block(nodes)])

        return jax.vmap(chain)(keys, states)

    return lambda n_sweeps: jax.block_until_ready(chains(n_sweeps, start))


def own(model: Any, n_chains: int) -> Callable[[int], object]:
    """The chains of this package, one draw after all sweeps."""

    def run(n_sweeps: int) -> object:
        thin = ebm.sampling.SamplingRun(thin=n_sweeps)
        return ebm.sample(model, n_draws=1, n_chains=n_chains, burn_in=0, rng=0, run=thin)

    return run


def compared(
    name: str,
    model: Any,
    n_chains: int,
    numpy_sweep: Callable[[int], object],
    groups: list[np.ndarray],
) -> None:
    """A line of the table; units of a group are not coupled."""
    updates = model.n * n_chains
    runs = {"ebm": (own(model, n_chains), updates), "numpy": (numpy_sweep, updates)}
    peer = annealer(model, n_chains)
    if peer is not None:
        runs["dwave-samplers"] = (peer, updates)
    of_torch = in_torch(model.couplings, n_chains, groups)
    if of_torch is not None:
        runs["torch"] = (of_torch, updates)
    of_thrml = in_thrml(model, n_chains, groups) if len(groups) == 2 else None
    if of_thrml is not None:
        runs["thrml"] = (of_thrml, updates)
    times = nanoseconds(runs)
    others = ", ".join(
        f"{peer} {spent:.1f} ns ({spent / times['ebm']:.1f}×)"
        for peer, spent in times.items()
        if peer != "ebm"
    )
    print(f"{name}, {n_chains} chains: ebm {times['ebm']:.2f} ns; {others}", flush=True)


def main() -> None:
    """Lattices and dense couplings."""
    print(features())
    coupling = 0.44
    for shape in ((32, 32), (128, 128)):
        torus = ebm.from_graph(ebm.lattice(shape, coupling=coupling))
        is_even = np.indices(shape).sum(axis=0).ravel() % 2 == 0
        halves = [np.flatnonzero(is_even), np.flatnonzero(~is_even)]
        for n_chains in (1, 4, 64) if shape == (128, 128) else (1, 4, 64, 1024):
            sweep = checkerboard(shape, coupling, n_chains)
            compared(f"torus {shape[0]}×{shape[1]}", torus, n_chains, sweep, halves)
    for n in (100, 500, 1000):
        upper = np.triu(np.random.default_rng(0).normal(0, 1 / np.sqrt(n), (n, n)), 1)
        glass = ebm.IsingModel(upper + upper.T, np.zeros(n))
        for n_chains in (4, 64, 1000):
            sweep = one_by_one(glass.couplings, n_chains)
            compared(f"dense {n}", glass, n_chains, sweep, list(np.arange(n)[:, None]))


if __name__ == "__main__":
    main()
