"""Share of a tempering run that its swaps take, and its cost against plain sweeps.

    python tests/benchmarks/tempering.py

It prints, for 32 temperatures and some chains, how much of the CPU time of scans goes into swaps,
and the time of scans over that of plain Gibbs sweeps of as many chains at one temperature, which
follow no energies. One block of chains, so one thread. On a machine that was used by others, too,
swaps took .2 to .5 % of the time of 500 and 1000 spins with 8 chains and 1.2 % of 500 spins with
one, 1 to 2 % of lattices of 32² and 64² with 8, and 4 to 13 % of systems of 100 or 256 spins. Scans
cost 2 to 8 % more than plain sweeps of dense couplings, 14 to 40 % more on lattices, and 16 to 85 %
more for systems of 100 or 256 spins.
"""

from __future__ import annotations

import numpy as np
from ratios import features
from sampling import fastest, glass

import ebm
from ebm.sampling._streams import new_streams

N_SLOTS, UPDATES = 32, 3_000_000


def torus(side: int) -> ebm.IsingModel:
    """A square lattice, not far from its transition at β = 1."""
    return ebm.from_graph(ebm.lattice((side, side))).scaled(0.44)


def compared(name: str, model: ebm.IsingModel, n_chains: int) -> None:
    """One line for a model and a number of chains."""
    n_states = N_SLOTS * n_chains
    n_sweeps = max(3, UPDATES // (model.space.n * n_states))
    rng = np.random.default_rng(0)
    states = model.space.random(n_states, rng)
    betas = np.linspace(1, 0.2, N_SLOTS)[1:]
    # Any swap of temperatures costs the same, so the ladder need not be a good one.
    ladder = ebm.ParallelTempering(betas).sweeper(model, n_chains)
    plain = ebm.Gibbs().sweeper(model, n_states)
    still = ebm.ParallelTempering(betas).sweeper(model, n_chains)
    still._sweep = lambda work, stream: None
    work = ladder.load(states.reshape(n_chains, N_SLOTS, -1))
    plain_work, streams = plain.load(states), new_streams(0, 2)

    def plainly() -> None:
        for _ in range(n_sweeps):
            plain.advance(plain_work, streams[1], 1)

    (_, scans), (_, swaps), (_, sweeps) = fastest(
        [
            lambda: ladder.advance(work, streams[0], n_sweeps),
            lambda: still.advance(work, streams[0], n_sweeps),
            plainly,
        ]
    )
    updates = n_sweeps * n_states * model.space.n
    print(
        f"{name}, {n_chains} chains: swaps {100 * swaps / scans:.2f} % of "
        f"{1e9 * scans / updates:.2f} ns an update; scans / plain sweeps {scans / sweeps:.2f}",
        flush=True,
    )


def main() -> None:
    """Dense glasses and lattices."""
    print(features())
    for n in (100, 500, 1000):
        for n_chains in (1, 8):
            compared(f"glass of {n} spins", glass(n), n_chains)
    for side in (16, 32, 64):
        for n_chains in (1, 8):
            compared(f"{side}×{side} torus", torus(side), n_chains)


if __name__ == "__main__":
    main()
