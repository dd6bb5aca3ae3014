"""Forks, threads, BLAS and folders that cannot be written to, for all that computes."""

import concurrent.futures
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

import ebm

ROOT = Path(__file__).parents[1]
#: Two fixed states: the smallest number of units for which more than one thread has work.
SHARED = 26


def model(n, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 0.5, (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.5, n))


def blas_threads():
    return [
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    ]


@pytest.fixture
def blas_of_three():
    """BLAS at three threads around a test: a number nobody else sets."""
    with threadpoolctl.threadpool_limits(3, user_api="blas"):
        threads = blas_threads()
        assert threads
        assert 1 not in threads
        yield threads


def run(script, **environment):
    """A fresh interpreter; its standard output, or its complaint."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestForks:
    SCRIPT = """
import os, sys, warnings
import numpy as np
import ebm
rng = np.random.default_rng(0)
machine = ebm.BoltzmannMachine(rng.normal(size=(26, 26)), rng.normal(size=26))
before = ebm.exact(machine, n_jobs=2).log_partition
warnings.simplefilter("ignore", DeprecationWarning)
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        ensemble = ebm.exact(machine, n_jobs=2)
        draws = ensemble.sample(100, rng=0)
        same = ensemble.log_partition == before and draws.shape == (100, 26)
        os._exit(0 if same else 3)
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
print(ebm.exact(machine, n_jobs=2).log_partition == before)
"""

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    def test_after_use(self):
        assert run(self.SCRIPT) == "[0, 0, 0]\nTrue\n"


class TestThreads:
    def test_four_at_once(self):
        models = [model(n, seed) for seed, n in enumerate([SHARED, 14, SHARED, 20, 9, 22, 12, 27])]
        alone = [ebm.exact(m) for m in models]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(ebm.exact, models))
            together += list(pool.map(lambda m: ebm.exact(m, n_jobs=2), models))
        for one, other in zip(alone * 2, together, strict=True):
            assert one.log_partition == other.log_partition
            np.testing.assert_array_equal(one.moments().covariance, other.moments().covariance)

    def test_fits_at_once(self):
        rows = [ebm.exact(model(5, seed)).sample(500, rng=seed) for seed in range(8)]
        family = ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5))
        alone = [ebm.fit(family, sample).model.parameters for sample in rows]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda sample: ebm.fit(family, sample), rows))
        for one, other in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one, other.model.parameters)

    def test_number_of_jobs_is_honoured(self, monkeypatch):
        sizes = []

        class Recording(concurrent.futures.ThreadPoolExecutor):
            def __init__(self, workers):
                sizes.append(workers)
                super().__init__(workers)

        monkeypatch.setattr(concurrent.futures, "ThreadPoolExecutor", Recording)
        machine = model(28)
        ebm.exact(machine, n_jobs=1)
        assert sizes == []
        # The thread of the caller is one of them.
        ebm.exact(machine, n_jobs=2)
        assert sizes == [1]
        # No more threads than blocks of work: one unit is fixed, so two.
        ebm.exact(machine, n_jobs=64)
        assert sizes == [1, 1]
        ebm.exact(model(20), n_jobs=64)
        assert sizes == [1, 1]

    def test_environment_limits_the_default(self):
        script = (
            "from ebm._parallel import number_of_jobs; print(number_of_jobs(), number_of_jobs(7))"
        )
        assert run(script, OMP_NUM_THREADS="1") == "1 7\n"

    def test_no_thread_is_left_behind(self):
        ebm.exact(model(SHARED), n_jobs=2)
        before = threading.active_count()
        ebm.exact(model(SHARED), n_jobs=4)
        ebm.exact(model(23), n_jobs=2).fourth_moments(np.zeros(23))
        assert threading.active_count() == before


class TestBlas:
    def test_restored_after_use(self, blas_of_three):
        ebm.exact(model(SHARED), n_jobs=2)
        assert blas_threads() == blas_of_three
        ebm.exact(model(12)).sample(10, rng=0)
        ebm.exact(model(12)).fourth_moments(np.zeros(12))
        assert blas_threads() == blas_of_three

    def test_one_thread_inside(self, blas_of_three):
        seen = []

        def average(machine):
            seen.append(blas_threads())
            return ebm.exact(machine)

        rows = ebm.exact(model(4)).sample(300, rng=0)
        ebm.fit(
            ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4)), rows, loss=ebm.Likelihood(average)
        )
        # The last calls are made inside the Newton search.
        assert set(seen[-1]) == {1}
        assert blas_threads() == blas_of_three

    def test_restored_after_concurrent_use(self, blas_of_three):
        seen = []

        def work(seed):
            ebm.exact(model([12, 22, SHARED][seed % 3], seed), n_jobs=2)
            seen.append(1)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(24)))
        assert len(seen) == 24
        assert blas_threads() == blas_of_three

    @pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
    def test_restored_after_a_failure(self, blas_of_three, error, monkeypatch):
        def fail(self, *arguments):
            raise error

        # Few units are summed in one table, more by products.
        monkeypatch.setattr("ebm.enumeration._halves.Halves.sums", fail)
        monkeypatch.setattr("ebm.enumeration._products.Buffers.fill", fail)
        for n, n_jobs in ((12, 1), (16, 1), (SHARED, 2)):
            with pytest.raises(error):
                ebm.exact(model(n), n_jobs=n_jobs)
            assert blas_threads() == blas_of_three

    def test_restored_after_an_interrupted_fit(self, blas_of_three):
        calls = []

        def average(machine):
            calls.append(1)
            if len(calls) == 5:
                raise KeyboardInterrupt
            return ebm.exact(machine)

        rows = ebm.exact(model(4)).sample(300, rng=0)
        family = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
        assert ebm.fit(family, rows, loss=ebm.Likelihood(average)).message.startswith("interrupted")
        assert blas_threads() == blas_of_three


class TestFolders:
    SCRIPT = """
import numpy as np
import ebm
rows = ebm.datasets.spikes().states[:, :5]
result = ebm.fit(ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5)), rows)
print(result.converged, len(ebm.local_minima(result.model)))
print(ebm.exact(result.model).sample(3, rng=0).shape)
"""

    def test_home_that_cannot_exist(self):
        # Not even root can make a folder below a file.
        nowhere = "/dev/null/nowhere"
        out = run(
            self.SCRIPT,
            HOME=nowhere,
            XDG_CACHE_HOME=nowhere,
            XDG_CONFIG_HOME=nowhere,
            MPLCONFIGDIR="",
            NUMBA_CACHE_DIR="",
            PYTHONDONTWRITEBYTECODE="1",
        )
        assert out == "True 1\n(3, 5)\n"

    def test_several_processes_starting_at_once(self):
        environment = {**os.environ, "HOME": "/dev/null/nowhere"}
        running = [
            subprocess.Popen(
                [sys.executable, "-c", self.SCRIPT],
                stdout=subprocess.PIPE,
                cwd=ROOT,
                env=environment,
                text=True,
            )
            for _ in range(4)
        ]
        for process in running:
            out, _ = process.communicate(timeout=120)
            assert process.returncode == 0
            assert out == "True 1\n(3, 5)\n"


class TestBits:
    """What BLAS adds on several threads it adds in another order."""

    SCRIPT = """
import hashlib
import numpy as np
import ebm
from ebm.perturbation import bethe, expand, plefka

rng = np.random.default_rng(0)

def bits(name, *values):
    words = b"".join(np.asarray(value, dtype=float).tobytes() for value in values)
    print(name, hashlib.blake2b(words, digest_size=8).hexdigest())

def glass(n, width):
    couplings = np.triu(rng.normal(0, width / np.sqrt(n), (n, n)), 1)
    return ebm.IsingModel(couplings + couplings.T, rng.normal(0, 0.3, n))

def layers(n, m, width):
    parts = rng.normal(0, width, (n, m)), rng.normal(0, 0.3, n), rng.normal(0, 0.3, m)
    return ebm.RestrictedBoltzmannMachine(*parts)

expansion = expand(glass(100, 0.3), 2)
bits("expansion", expansion.log_partition, expansion.mean, expansion.covariance)
bits("its errors", expansion.log_partition_error, expansion.covariance_error)
bits("its sums", expansion.inverse_series().covariance, expansion.pade())
for solve in (bethe, lambda model: plefka(model, 2)):
    solution = solve(glass(100, 0.3))
    bits("solution", solution.log_partition, solution.mean, solution.covariance)
wide = layers(784, 500, 5.0)
bits("annealing", ebm.Annealing(n_chains=100, n_steps=5).run(wide, rng=0).log_weights)
populations = ebm.PopulationAnnealing(n_populations=2, n_members=100, n_steps=3)
bits("populations", populations.run(layers(784, 500, 0.05), rng=0).log_partitions)
ratio = ebm.sampling.BennettRatio(ebm.Annealing(n_chains=300, n_steps=8))
bits("ratio", ebm.log_partition(layers(100, 80, 0.05), ratio, rng=0).value)
bits("pairs", ebm.Annealing(n_chains=300, n_steps=5).run(glass(300, 2.0), rng=0).log_weights)
"""

    def test_they_are_the_same_for_any_number_of_threads(self):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
        one, two = (run(self.SCRIPT, **dict.fromkeys(names, n)) for n in "12")
        assert one.count("\n") == 9
        assert one == two
