"""Ctrl-C during chains, and memory that does not grow with their sweeps."""

import importlib
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest

import ebm
from ebm.errors import EbmWarning
from ebm.sampling import SamplingRun
from tests.sampling import kernels


@pytest.fixture(autouse=True)
def portions_do_not_follow_the_clock(monkeypatch):
    """A busy machine, or a kernel that is compiled first, keeps other draws."""
    monkeypatch.setattr(sys.modules["ebm.sampling._drawing"], "LONG_PORTION", np.inf)


@dataclass(frozen=True)
class Interrupted:
    """Gibbs sweeps that Ctrl-C ends at a call, in the block that makes it."""

    after: int
    calls: list = field(default_factory=list)

    def sweeper(self, model, n_chains):
        sweeper = ebm.Gibbs().sweeper(model, n_chains)
        advance = sweeper.advance

        def counted(work, stream, n_sweeps):
            self.calls.append(n_sweeps)
            if len(self.calls) == self.after:
                raise KeyboardInterrupt
            advance(work, stream, n_sweeps)

        sweeper.advance = counted
        return sweeper


@pytest.mark.parametrize("n_chains", [3, 600])
def test_an_interrupt_leaves_the_draws_so_far_and_chains_that_go_on(n_chains):
    """In any block: draws that only some of them made are left out, and made again."""
    model = kernels.pairs()
    settings = {"n_chains": n_chains, "rng": 1}
    n_blocks = -(-n_chains // 256)
    run = SamplingRun(n_jobs=1)
    whole = ebm.sample(model, n_draws=200, run=run, **settings)
    with pytest.warns(EbmWarning, match="interrupted after 16 of 200 draws of each chain"):
        cut = ebm.sample(model, Interrupted(40 * n_blocks), n_draws=200, run=run, **settings)
    rest = ebm.sample(model, n_draws=184, initial=cut.final)
    np.testing.assert_array_equal(cut.chains, whole.chains[:, :16])
    np.testing.assert_array_equal(rest.chains, whole.chains[:, 16:])


def test_errors_of_few_draws_are_refused_after_an_interrupt():
    with pytest.warns(EbmWarning, match="interrupted after 16"):
        cut = ebm.sample(kernels.pairs(), Interrupted(40), n_draws=200, rng=1)
    with pytest.warns(ebm.errors.PoorMixingWarning, match="an error needs 100"):
        assert np.isnan(cut.estimate(lambda x: x.sum(axis=1)).standard_error)


def test_an_interrupt_before_there_are_draws_is_raised():
    for n_draws in (1, 200):
        with pytest.raises(KeyboardInterrupt):
            ebm.sample(kernels.pairs(), Interrupted(1), n_draws=n_draws, rng=1)


class Gaussian(ebm.EnergyModel):
    space = ebm.Reals(2)

    def energy(self, states):
        return 0.5 * (np.asarray(states) ** 2).sum(-1)

    def state_gradient(self, states):
        return np.asarray(states)


def test_an_interrupt_leaves_the_values_recorded_over_real_numbers():
    seen = []

    def observe(x):
        seen.append(len(x))
        if len(seen) == 41:
            raise KeyboardInterrupt
        return x.sum(axis=-1)

    sampler, settings = ebm.Langevin(0.8), {"n_draws": 60, "rng": 2}
    run = SamplingRun(observe=lambda x: x.sum(axis=-1))
    whole = ebm.sample(Gaussian(), sampler, run=run, **settings)
    with pytest.warns(EbmWarning, match="interrupted after 40 of 60"):
        cut = ebm.sample(Gaussian(), sampler, run=SamplingRun(observe=observe), **settings)
    np.testing.assert_array_equal(cut.values, whole.values[:, :40])
    rest = ebm.sample(Gaussian(), sampler, n_draws=20, initial=cut.final, run=run)
    np.testing.assert_array_equal(rest.values, whole.values[:, 40:])


def peak(call, *settings):
    """Bytes that a call holds at most."""
    call(*settings)
    tracemalloc.start()
    call(*settings)
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


def test_memory_does_not_grow_with_sweeps():
    """But with draws, which are kept."""
    model = kernels.pairs()

    def finite(n_draws, thin, burn_in):
        run = SamplingRun(thin=thin)
        ebm.sample(model, n_draws=n_draws, burn_in=burn_in, n_chains=256, rng=1, run=run)

    def real(n_draws, thin, burn_in):
        run = SamplingRun(thin=thin, observe=lambda x: x[:, 0])
        settings = {"n_draws": n_draws, "burn_in": burn_in, "n_chains": 64, "rng": 1}
        ebm.sample(Gaussian(), ebm.Langevin(0.5), run=run, **settings)

    for call in (finite, real):
        few, many, kept = (peak(call, *n) for n in ((40, 1, 9), (40, 30, 900), (4000, 1, 9)))
        assert many < few + 50_000
        assert kept > few + 1_000_000


@pytest.mark.parametrize(
    "settings",
    [
        ebm.Annealing(n_chains=2000, n_steps=40, sampler=Interrupted(30)),
        ebm.PopulationAnnealing(n_members=2000, n_steps=40, sampler=Interrupted(30)),
    ],
)
def test_an_interrupt_of_annealing_leaves_one_step_to_the_model(settings):
    """ln Z is as unbiased as before; the error is honest, or none."""
    model = kernels.pairs()
    settings.sampler.calls.clear()
    with pytest.warns(EbmWarning, match="interrupted after .* of 40 steps"):
        found = ebm.log_partition(model, settings, rng=0)
    truth = ebm.exact(model).log_partition
    assert abs(found.value - truth) < 0.2
    assert np.isnan(found.standard_error) or abs(found.value - truth) < 4 * found.standard_error


def test_an_interrupt_of_both_ways_is_raised():
    """Steps back would be those of another path."""
    settings = ebm.Annealing(n_chains=50, n_steps=40, sampler=Interrupted(30))
    with pytest.raises(KeyboardInterrupt):
        ebm.log_partition(kernels.pairs(), ebm.sampling.BennettRatio(settings), rng=0)


def run_and_interrupt(call, seconds):
    """Seconds from SIGINT to the end of a call in a process of two threads."""
    code = (
        "import signal, sys, time, numpy as np, ebm\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "model = ebm.from_graph(ebm.lattice((16, 16), coupling=0.4))\n"
        "run = lambda sampler, burn_in: ebm.sample(\n"
        "    model, sampler, n_draws=1, n_chains=520, burn_in=burn_in, rng=1)\n"
        f"sampler = {call}\n"
        "run(sampler, 1)\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    run(sampler, 10**6)\n"
        "except KeyboardInterrupt:\n"
        "    print(time.time(), flush=True)\n"
        "    run(sampler, 1)\n"
        "    print('again', flush=True)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        # A thread that does not hear it would take minutes.
        output = process.communicate(timeout=60)[0].split()
    assert output[1:] == ["again"]
    return float(output[0]) - sent


@pytest.mark.parametrize("sampler", ["ebm.Gibbs()", "ebm.SwendsenWang()", "ebm.Wolff(64)"])
def test_an_interrupt_is_heard_by_all_threads_between_portions_of_sweeps(sampler):
    """Not at the end of a long burn-in, and the next call is right."""
    assert run_and_interrupt(sampler, 0.5) < 5


@pytest.mark.parametrize(
    ("model", "kernel"),
    [
        (kernels.pairs(), "ebm._kernels.heat_bath.sweep_dense_few"),
        (kernels.levels(), "ebm._kernels.levels.sweep_few_chains"),
    ],
)
def test_fields_that_follow_flips_are_made_anew_every_hundred_sweeps(model, kernel, monkeypatch):
    """Else their rounding errors would add up along a burn-in, or between thinned draws."""
    home, name = kernel.rsplit(".", 1)
    original, fields, calls = getattr(importlib.import_module(home), name), [], []

    def counted(*parts):
        place = 1 if name == "sweep_dense_few" else 2
        if not fields or parts[place] is not fields[-1]:
            fields.append(parts[place])
            calls.append(0)
        calls[-1] += parts[place + 3]
        return original(*parts)

    monkeypatch.setattr(kernel, counted)
    run = SamplingRun(thin=150)
    ebm.sample(model, n_draws=2, burn_in=250, rng=1, run=run)
    assert calls == [100, 100, 50, 100, 50, 100, 50]


INTERRUPTED_IMPORT = """
import os, signal, sys, threading, time
import ebm

def interrupt():
    # As soon as the import has begun.
    while {first!r} not in sys.modules:
        time.sleep(0.0005)
    time.sleep({delay})
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
try:
    {work}
    time.sleep(1)
except KeyboardInterrupt:
    print("interrupted")
{work}
print("works")
"""


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1])
def test_an_interrupt_in_the_first_import_of_numba_leaves_a_session_that_works(delay):
    script = INTERRUPTED_IMPORT.format(
        first="numba.core", delay=delay, work="ebm.sample(machine, n_draws=10, rng=0)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.split() == ["interrupted", "works"], run.stderr


WHOLE_IMPORT = """
import os, signal
from ebm._imports import whole_imports

signal.signal(signal.SIGINT, {handler})
try:
    with whole_imports():
        os.kill(os.getpid(), signal.SIGINT)
        print("whole", flush=True)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("handler", "printed", "code"),
    [
        ("signal.default_int_handler", ["whole", "interrupted"], 0),
        ("signal.SIG_IGN", ["whole"], 0),
        ("signal.SIG_DFL", ["whole"], -signal.SIGINT),
    ],
)
def test_an_interrupt_after_an_import_does_what_it_would_have_done(handler, printed, code):
    script = WHOLE_IMPORT.format(handler=handler)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (run.stdout.split(), run.returncode) == (printed, code)
