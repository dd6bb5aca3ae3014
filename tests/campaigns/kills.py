"""kill -9 at random moments: files are the old or the new whole one, runs go on to the same bits.

    python -m tests.campaigns.kills [--times 50] [--runs fit minimize …]

Every run is made once undisturbed. Then, in a folder where an older result lies, a fork of this
process makes it and is killed, with the workers that it has, at a random moment of its duration,
three times; what lies in the folder is looked at, and the run is made again to its end.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import ebm
from ebm._files import atomic_write
from ebm.cli import main as command
from ebm.report import sampled
from ebm.sampling._ladder import LadderState
from tests.campaigns.small_runs import machine, python, write_data

#: What lies in the folder before: a result that a run may replace.
OLD = b"an older result"
#: Times that a run is killed before it is let go on to its end.
DEATHS = 3


def fit_on_the_command_line() -> None:
    """An exact fit."""
    command(["fit", "small.csv", *"--l2 0.01 --checkpoint kept.npz -o result.npz --force".split()])


def fit_by_chains() -> None:
    """A fit by chains, with fewer of them and fewer epochs than usual."""
    sampled.N_CHAINS, sampled.N_EPOCHS, sampled.N_DRAWS, sampled.ANNEALING_STEPS = 50, 60, 20, 40
    command(["fit", "large.csv", *"--l2 0.05 --checkpoint kept.npz -o result.npz --force".split()])


def fit_by_gradient_steps() -> None:
    """A restricted machine, learnt by persistent chains."""
    rows = ebm.read_table("small.csv")
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 6, rng=0)
    loss = ebm.Likelihood(ebm.PersistentChains(50))
    steps = ebm.GradientSteps(n_epochs=60, batch_size=50)
    result = ebm.fit(start, rows, loss=loss, solver=steps, rng=1, checkpoint="kept.npz")
    ebm.save(result.model, "result.npz", overwrite=True)


def minimize() -> None:
    """A network, trained by Adam on batches."""
    import torch

    import ebm.networks

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 5))
    action = ebm.networks.SoftmaxMLPAction(inputs, (inputs[:, 0] > 0).astype(int), n_hidden=8)
    solver = ebm.networks.TorchSteps("adam", n_epochs=60, batch_size=30)
    result = ebm.networks.minimize(action, solver=solver, rng=1, checkpoint="kept.npz")
    with atomic_write("result.npz", overwrite=True) as file:
        np.savez(file, theta=result.theta)


def sample() -> None:
    """Draws on the command line, into a table."""
    command(["sample", "model.npz", *"-n 200000 --seed 1 -o result.csv --force".split()])


def bootstrap() -> None:
    """Fits to resamples in processes, each of them with its file."""
    rows = ebm.read_table("small.csv")
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as executor:
        result = ebm.inversion.bootstrap(
            ebm.inversion.tap, rows, n_resamples=60, rng=2, executor=executor, checkpoint="kept"
        )
    with atomic_write("result.npz", overwrite=True) as file:
        np.savez(file, parameters=result.parameters)


def temper() -> None:
    """Tempered chains, which are taken up from where the last part of them was written."""
    model, sampler = machine(14), ebm.ParallelTempering([0.7, 0.4])
    parts, final = [], None
    if Path("kept.npz").exists():
        with np.load("kept.npz") as kept:
            parts = [kept["draws"]]
            state = {name: kept[name] for name in ("states", "streams", "copies")}
            swaps = [kept[field.name][()] for field in fields(LadderState)]
            ladder = LadderState(*swaps[:-1], int(swaps[-1]))
            final = ebm.sampling.ChainState(space=model.space, ladder=ladder, **state)
    while sum(part.shape[1] for part in parts) < 400:
        part = ebm.sample(model, sampler, n_draws=20, n_chains=8, initial=final, rng=3)
        final, parts = part.final, [*parts, part.chains]
        draws = np.concatenate(parts, axis=1)
        with atomic_write("kept.npz", overwrite=True) as file:
            swaps = {field.name: getattr(final.ladder, field.name) for field in fields(LadderState)}
            state = {name: getattr(final, name) for name in ("states", "streams", "copies")}
            np.savez(file, draws=draws, **state, **swaps)
    with atomic_write("result.npz", overwrite=True) as file:
        np.savez(file, draws=np.concatenate(parts, axis=1))


RUNS: dict[str, Callable[[], None]] = {
    "fit": fit_on_the_command_line,
    "chains": fit_by_chains,
    "gradient": fit_by_gradient_steps,
    "minimize": minimize,
    "sample": sample,
    "bootstrap": bootstrap,
    "temper": temper,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--runs", nargs="*", default=list(RUNS))
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()
    moments = random.Random(settings.seed)
    for name in settings.runs:
        print(_campaign(name, settings.times, moments), flush=True)


def _campaign(name: str, n_times: int, moments: random.Random) -> str:
    with tempfile.TemporaryDirectory() as folder:
        data, whole = Path(folder, "data"), Path(folder, "whole")
        data.mkdir()
        write_data(data)
        # The first run compiles what the others find compiled.
        for _ in range(2):
            seconds, _ = _made(name, data, whole, None)
        result = "result.csv" if name == "sample" else "result.npz"
        expected = (whole / result).read_bytes()
        n_kills = n_lost = n_wrong = n_new = 0
        while n_kills < n_times:
            trial = Path(folder, f"trial{n_kills}")
            shutil.copytree(data, trial)
            (trial / result).write_bytes(OLD)
            for _ in range(DEATHS):
                _, was_killed = _made(name, None, trial, moments.uniform(0, seconds))
                if not was_killed:
                    break
                n_kills += 1
                there = (trial / result).read_bytes()
                n_lost += there not in (OLD, expected)
                n_new += there == expected
            _made(name, None, trial, None)
            n_wrong += (trial / result).read_bytes() != expected
            left = [path.name for path in trial.rglob("*.part") if time_since(path) > 60]
            n_lost += len(left)
            shutil.rmtree(trial)
        return (
            f"{name} ({seconds:.1f} s): {n_kills} kills, {n_lost} files lost, {n_wrong} resumed "
            f"wrong, {n_new} found the new file"
        )


def time_since(path: Path) -> float:
    """Seconds since a file was written."""
    return time.time() - path.stat().st_mtime


def _made(name: str, data: Path | None, folder: Path, moment: float | None) -> tuple[float, bool]:
    """The seconds that a run took in a fork of this process, and whether it was killed."""
    if data is not None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(data, folder)
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        _be(name, folder)
    if moment is not None:
        time.sleep(moment)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, status = os.waitpid(child, 0)
    was_killed = os.WIFSIGNALED(status)
    if not was_killed and os.waitstatus_to_exitcode(status) not in (0, 1):
        raise RuntimeError(f"{name} ended with the code {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - began, was_killed


def _be(name: str, folder: Path) -> None:
    """What the fork does, in a group of processes of its own."""
    os.setsid()
    os.chdir(folder)
    code = 3
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.stdout = sys.stderr = os.fdopen(quiet, "w")
        if name == "minimize":
            # Threads of torch do not survive a fork.
            lines = "from tests.campaigns import kills; kills.minimize()"
            os.execv(sys.executable, python(lines))
        RUNS[name]()
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
