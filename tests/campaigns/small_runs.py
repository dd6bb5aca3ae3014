"""Small data, models and processes that the campaigns disturb."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

import ebm
from ebm.tables import write_table

#: The folder of the library, which children import from as well.
HOME = Path(ebm.__file__).parent.parent
os.environ["PYTHONPATH"] = os.pathsep.join([str(HOME), os.environ.get("PYTHONPATH", "")])


def machine(n: int, seed: int = 0) -> ebm.BoltzmannMachine:
    """Couplings of the order of 1/√n."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 1 / np.sqrt(n), (n, n)), 1)
    names = [f"u{i}" for i in range(n)]
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.3, n), names=names)


def write_data(folder: Path) -> None:
    """A model of 14 units, draws of it, and draws of 34 units, too many to be summed over."""
    ebm.save(machine(14), folder / "model.npz")
    for name, n, rows in (("small.csv", 14, 500), ("large.csv", 34, 300)):
        model = machine(n)
        draws = ebm.sample(model, n_draws=rows // 10, n_chains=10, rng=1).chains.reshape(-1, n)
        write_table(folder / name, draws, model.space.names)


def default_interrupts() -> None:
    """In a child: Ctrl-C is heard even where its parent was started in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(code: str) -> list[str]:
    """A process that runs some lines."""
    return [sys.executable, "-c", code]


def same_files(one: Path, other: Path) -> bool:
    """Whether two files of arrays hold the same bits."""
    with np.load(one, allow_pickle=False) as a, np.load(other, allow_pickle=False) as b:
        return sorted(a) == sorted(b) and all(_same(a[name], b[name]) for name in a)


def _same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
