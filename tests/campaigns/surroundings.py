"""Surroundings that are not as usual: each ends with the same numbers, or with a sentence.

    python -m tests.campaigns.surroundings [--only NAME …] [--pythons /path/to/python …]

Every case is made of processes of their own. A further interpreter needs numpy, numba, scipy and
threadpoolctl.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.campaigns.small_runs import HOME, default_interrupts, write_data

#: Draws, an exact sum and a fit, and what they give, digit by digit.
WORK = """
import numpy as np, ebm
rng = np.random.default_rng(0)
w = np.triu(rng.normal(0, 0.3, (8, 8)), 1)
model = ebm.BoltzmannMachine(w + w.T, rng.normal(0, 0.3, 8))
samples = ebm.sample(model, n_draws=20, n_chains=8, rng=1)
result = ebm.fit(model, samples.chains.reshape(-1, 8), penalty=0.01)
numbers = ebm.exact(model).log_partition, samples.chains.sum(), float(result.model.weights.sum())
# One write, so that lines of several threads stay apart.
import os
os.write(1, f"{numbers!r}\\n".encode())
"""
FORKS = """
import os
{work}
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        exec(work)
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""
THREADS = """
from threading import Thread
answers = []
def work():
    names = {{}}
    exec(text, names)
threads = [Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
#: A disk is full from so many bytes of a file on.
FULL = 512


def run(code: str, folder: str, /, *, python: str = sys.executable, **settings: str) -> str:
    """The answer of lines in a process, or its last words."""
    done = subprocess.run(
        [python, "-c", code],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout if done.returncode == 0 else f"FAILED {done.stderr.strip()[-300:]}"


def once(folder: str) -> str:
    return run(WORK, folder)


def eight_processes(folder: str) -> str:
    """On an empty cache, at once."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", WORK],
            env={**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    answers = [child.communicate(timeout=600)[0] for child in children]
    codes = {child.returncode for child in children}
    return answers[0] if codes == {0} and len(set(answers)) == 1 else f"FAILED {codes}"


def forks(folder: str) -> str:
    """Three forks of a process that has used the library."""
    code = f"work = {WORK!r}\n" + FORKS.format(work="exec(work, globals())")
    return _alike(run(code, folder), 4)


def four_threads(folder: str) -> str:
    """At once, on an empty cache."""
    code = f"text = {WORK!r}\n" + THREADS.format()
    return _alike(run(code, folder, NUMBA_CACHE_DIR=f"{folder}/cache"), 4)


def unwritable_home(folder: str) -> str:
    """No home, and no place for a cache."""
    caches = {"NUMBA_CACHE_DIR": "/proc/nowhere", "XDG_CACHE_HOME": "/proc"}
    return run(WORK, folder, HOME="/nonexistent", **caches)


def without_compilation(folder: str) -> str:
    """NUMBA_DISABLE_JIT=1."""
    return run(WORK, folder, NUMBA_DISABLE_JIT="1")


def full_disk(folder: str) -> str:
    """Files end at so many bytes: a sentence, and the older file stays."""
    write_data(Path(folder))
    result = Path(folder, "result.npz")
    result.write_bytes(b"older")

    def fill() -> None:
        default_interrupts()
        # Beyond the limit a write fails as on a full disk, if no signal comes before.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, FULL))

    words = ["fit", "small.csv", "--l2", "0.1", "--out", "result.npz", "--force"]
    done = subprocess.run(
        [sys.executable, "-m", "ebm", *words],
        cwd=folder, capture_output=True, text=True, preexec_fn=fill, check=False, timeout=600,
    )  # fmt: skip
    is_whole = result.read_bytes() == b"older" and not list(Path(folder).glob(".*.part"))
    is_told = done.returncode == 2 and "Traceback" not in done.stderr
    return "told" if is_told and is_whole else f"FAILED {done.returncode} {done.stderr[-300:]}"


def closed_pipes(folder: str) -> str:
    """The reader of a table or a report leaves after a line."""
    write_data(Path(folder))
    for words in ("sample model.npz -n 300000 --seed 1", "fit small.csv --l2 0.1", "--help"):
        command = f"{sys.executable} -m ebm {words} | head -1"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=folder, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        if (
            "Traceback" in done.stderr
            or "BrokenPipe" in done.stderr
            or done.returncode not in (0, 1)
        ):
            return f"FAILED {words}: {done.returncode} {done.stderr[-300:]}"
    return "told"


def _alike(text: str, n_answers: int) -> str:
    lines = text.splitlines()
    return f"{lines[0]}\n" if len(lines) == n_answers and len(set(lines)) == 1 else text


CASES: Mapping[str, Callable[[str], str]] = {
    "as usual": once,
    "eight processes on an empty cache": eight_processes,
    "three forks after use": forks,
    "four threads on an empty cache": four_threads,
    "no home, no cache": unwritable_home,
    "no compilation": without_compilation,
    "a full disk": full_disk,
    "closed pipes": closed_pipes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--pythons", nargs="*", default=[])
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        usual = once(folder)
    for name in settings.only:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            answer = CASES[name](folder)
        _say(name, answer, usual, began)
    for python in settings.pythons:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            cache = f"{folder}/cache"
            answer = run(WORK, folder, python=python, PYTHONPATH=str(HOME), NUMBA_CACHE_DIR=cache)
        _say(python, answer, usual, began)


def _say(name: str, answer: str, usual: str, began: float) -> None:
    verdict = "same numbers" if answer == usual else answer.strip()
    print(f"{name}: {verdict}, {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
