"""What would not fit in memory is refused with its size, before any work."""

import tracemalloc

import numpy as np
import pytest

import ebm
from ebm.errors import MemoryLimitError
from ebm.sampling import SamplingRun
from ebm.tables import write_table
from ebm.tables.write_table import text_blocks

BILLION = 10**9
PAIR = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
UNIT = ebm.BoltzmannMachine([[0]], [0.1])
ROWS = np.random.default_rng(0).integers(0, 2, (50, 4))
MACHINE = ebm.RestrictedBoltzmannMachine.for_data(ROWS, 3, rng=0)
SQUARES = SamplingRun(observe=lambda x: x[:, 0])


class Well(ebm.EnergyModel):
    space = ebm.Reals(2)

    def energy(self, states):
        return 2 * (np.asarray(states) ** 2).sum(-1)

    def state_gradient(self, states):
        return 4 * np.asarray(states)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ebm.sample(UNIT, n_draws=1, n_chains=BILLION),
        lambda: ebm.sample(PAIR, n_draws=1, n_chains=BILLION, initial=[0, 1]),
        lambda: ebm.sample(PAIR, n_draws=100 * BILLION),
        lambda: ebm.sample(Well(), ebm.Langevin(0.1), n_draws=1, n_chains=BILLION),
        lambda: ebm.sample(Well(), ebm.Langevin(0.1), n_draws=1, n_chains=BILLION, run=SQUARES),
        lambda: ebm.log_partition(PAIR, ebm.Annealing(n_chains=BILLION)),
        lambda: ebm.log_partition(MACHINE, ebm.Annealing(n_chains=BILLION)),
        lambda: ebm.log_partition(PAIR, ebm.Annealing(n_steps=100 * BILLION)),
        lambda: ebm.PopulationAnnealing(BILLION).run(UNIT),
        lambda: ebm.RestrictedBoltzmannMachine.for_data(ROWS, BILLION),
        lambda: ebm.RestrictedBoltzmannMachine.for_data(ROWS, BILLION**2),
        lambda: ebm.fit(MACHINE, ROWS, loss=ebm.Likelihood(ebm.PersistentChains(BILLION))),
        lambda: ebm.observables.triples(3000),
        lambda: ebm.Binary(3).random(BILLION),
        lambda: ebm.Reals(3).random(BILLION),
        lambda: ebm.Product(v=ebm.Binary(2), h=ebm.Spins(1)).random(BILLION),
        lambda: ebm.inversion.bootstrap(ebm.inversion.bethe, ROWS, n_resamples=BILLION),
    ],
)
def test_a_billion_is_refused_at_once(ask):
    tracemalloc.start()
    try:
        with pytest.raises(MemoryLimitError, match=r"would take .* the limit is .* GiB: "):
            ask()
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


def test_text_is_written_block_by_block(tmp_path):
    rows = np.zeros((2**20, 4), dtype=np.int8)
    blocks = text_blocks(rows, tuple("abcd"))
    tracemalloc.start()
    try:
        n_bytes = sum(map(len, blocks))
        assert tracemalloc.get_traced_memory()[1] < n_bytes
    finally:
        tracemalloc.stop()
    assert n_bytes == 8 * (1 + 2**20)
    write_table(tmp_path / "draws.csv", rows, list("abcd"))
    assert (tmp_path / "draws.csv").stat().st_size == n_bytes
