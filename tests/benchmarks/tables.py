"""Reading tables beside pandas: 10⁵ rows of 50 columns, CPU times, runs interleaved.

    python tests/benchmarks/tables.py [task ...]

Times are minima over the repeats; nothing asserts on them. Every table that is read is compared
with that of pandas, cell by cell.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from ratios import features, interleaved

from ebm.tables import read_table

ROWS, COLUMNS = 100_000, 50


def cells(task: str) -> np.ndarray:
    """The texts of a table."""
    rng = np.random.default_rng(0)
    if task == "TRUE and FALSE":
        return np.where(rng.random((ROWS, COLUMNS)) < 0.3, "TRUE", "FALSE")
    if task.startswith("real"):
        values = rng.normal(size=(ROWS, COLUMNS)).round(4).astype("U8")
    else:
        values = rng.integers(0, 2, (ROWS, COLUMNS)).astype("U4")
    if task.endswith("one NA"):
        values[5, 3] = "NA"
    if task.endswith("2 % NA"):
        values[rng.random(ROWS) < 0.02, 7] = "NA"
    return values


TASKS = (
    "0 and 1",
    "0 and 1, one NA",
    "0 and 1, 2 % NA",
    "TRUE and FALSE",
    "real numbers",
    "real numbers, one NA",
)


def main(tasks: list[str]) -> None:
    """Print one line for each task."""
    print(features())
    path = Path(tempfile.mkdtemp(), "table.csv")
    for task in tasks or TASKS:
        header = ",".join(f"unit {k}" for k in range(COLUMNS))
        rows = "\n".join(",".join(row) for row in cells(task).tolist())
        path.write_text(f"{header}\n{rows}\n", encoding="utf-8")
        wanted = pd.read_csv(path).dropna().to_numpy(dtype=float)
        assert np.array_equal(read_table(path, drop_missing=True).states, wanted)
        other, own = interleaved(
            [lambda: pd.read_csv(path), lambda: read_table(path, drop_missing=True)],
            clock=time.process_time,
        )
        print(
            f"{task:<22} pandas {other:6.3f} s   ebm {own:6.3f} s   ebm/pandas {own / other:5.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
