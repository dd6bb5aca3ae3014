"""Ctrl-C at random moments of the command line: code 130, a sentence, no traceback.

    python -m tests.campaigns.interrupts [--times 50] [--commands fit chains …]

Each command is run once undisturbed for its duration, and is then sent SIGINT at random moments of
it. An interrupt that comes when the command is done leaves its own code.
"""

from __future__ import annotations

import argparse
import collections
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.campaigns.small_runs import default_interrupts, write_data

#: Stands for the code of a command that was done before its interrupt.
OVER = 1000
#: Commands by name; the fit by chains is cut short by its size alone.
COMMANDS = {
    "version": ["--version"],
    "fit": ["fit", "small.csv", "--l2", "0.01", "-o", "fit.npz", "--force"],
    "figure": ["fit", "small.csv", "--l2", "0.01", "--figure", "fit.png", "--force"],
    "chains": ["fit", "large.csv", "--l2", "0.05", "-o", "chains.npz", "--force"],
    "sample": ["sample", "model.npz", "-n", "200000", "-o", "draws.csv", "--force"],
    "chain draws": ["sample", "model.npz", "-n", "100000", "--chains", "20", "--seed", "1"],
    "landscape": ["landscape", "model.npz"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--commands", nargs="*", default=list(COMMANDS))
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()
    moments = random.Random(settings.seed)
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder))
        for name in settings.commands:
            began = time.perf_counter()
            _run(COMMANDS[name], folder, None)
            whole = time.perf_counter() - began
            codes: collections.Counter[str] = collections.Counter()
            slowest = 0.0
            for _ in range(settings.times):
                moment = moments.uniform(0.05, whole)
                code, said, waited = _run(COMMANDS[name], folder, moment)
                is_told = code == 130 and said.rstrip().endswith("ebm: interrupted")
                is_kept = code == 130 and "interrupted" in said.lower()
                kind = "told" if is_told else "kept" if is_kept else f"code {code}"
                kind = {OVER: "over", -2: "ended before Python heard"}.get(code, kind)
                if "Traceback" in said:
                    last = said.strip().splitlines()[-1]
                    kind = f"traceback after {moment:.2f} s: {last}"
                codes[kind] += 1
                slowest = max(slowest, waited)
            told = ", ".join(f"{n} {kind}" for kind, n in codes.most_common())
            print(f"{name} ({whole:.1f} s): {told}; at most {slowest:.2f} s to the end", flush=True)


def _run(command: list[str], folder: str, moment: float | None) -> tuple[int, str, float]:
    """The code, what was said, and how long the end took after the interrupt."""
    with subprocess.Popen(
        [sys.executable, "-m", "ebm", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=default_interrupts,
    ) as child:
        if moment is not None:
            time.sleep(moment)
            if child.poll() is not None:
                return OVER, "", 0.0
            child.send_signal(signal.SIGINT)
        began = time.perf_counter()
        said, _ = child.communicate(timeout=600)
        return child.returncode, said, time.perf_counter() - began


if __name__ == "__main__":
    main()
