"""Compiled kernels work whatever the cache on disk, and after forks, in threads, at once."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache

import ebm
from ebm._kernels.jit import kernel


def double(values: Any) -> None:
    """Twice the values, in place."""
    for i in range(values.shape[0]):
        values[i] *= 2


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for the cache."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def doubled(compiled: Any, dtype: Any = np.float64) -> list[float]:
    values = np.arange(3, dtype=dtype)
    compiled(values)
    return values.tolist()


def hits(compiled: Any) -> int:
    return sum(compiled.stats.cache_hits.values())


def files(cache: Path, suffix: str) -> list[Path]:
    found = sorted(cache.rglob(f"*{suffix}"))
    assert found
    return found


def test_a_second_process_finds_what_the_first_compiled(cache: Path) -> None:
    first, second = kernel(double), kernel(double)
    assert doubled(first) == [0, 2, 4]
    assert doubled(second) == [0, 2, 4]
    assert (hits(first), hits(second)) == (0, 1)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80", b"garbage", None], ids=str)
def test_a_damaged_cache_is_written_anew(cache: Path, suffix: str, content: bytes | None) -> None:
    """None for a file cut in half."""
    doubled(kernel(double))
    for path in files(cache, suffix):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    again, afterwards = kernel(double), kernel(double)
    assert doubled(again) == [0, 2, 4]
    assert hits(again) == 0
    assert doubled(afterwards) == [0, 2, 4]
    assert hits(afterwards) == 1


def test_a_function_filed_under_another_signature_is_not_called(cache: Path) -> None:
    """Two processes that start at once may both write the first file, for other types."""
    compiled = kernel(double)
    doubled(compiled, np.float64)
    doubled(compiled, np.int16)
    one, two = files(cache, ".nbc")
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    for dtype in (np.int16, np.float64):
        assert doubled(kernel(double), dtype) == [0, 2, 4]


def test_a_cache_that_cannot_be_written_does_no_harm(cache: Path) -> None:
    compiled = kernel(double)
    for folder in [path for path in cache.rglob("*") if path.is_dir()]:
        folder.rmdir()
        folder.write_text("a file where the folder was")
    assert doubled(compiled) == [0, 2, 4]


def test_no_folder_at_all_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FunctionCache._impl_class, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="no locator available"):
        numba.njit(cache=True)(double)
    assert doubled(kernel(double)) == [0, 2, 4]


def test_threads_that_compile_at_once(cache: Path) -> None:
    compiled = kernel(double)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: doubled(compiled), range(8)))
    assert results == [[0, 2, 4]] * 8


def started(script: str, **environment: str) -> subprocess.Popen[str]:
    path = {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | path | environment,
    )  # fmt: skip


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    return out


def test_processes_that_start_at_once_on_an_empty_cache(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(f"""
from typing import Any
import numpy as np
from ebm._kernels.jit import kernel

@kernel
{inspect.getsource(double)}
values = np.arange(3.0)
double(values)
print(values.sum(), sum(double.stats.cache_hits.values()))
""")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import small"
    processes = [started(script, NUMBA_CACHE_DIR=str(tmp_path / "cache")) for _ in range(8)]
    outputs = [output(process) for process in processes]
    assert {out.split()[0] for out in outputs} == {"6.0"}
    assert output(started(script, NUMBA_CACHE_DIR=str(tmp_path / "cache"))) == "6.0 1\n"


def test_forks_and_threads_draw_what_one_process_draws() -> None:
    """A child that hangs is ended by its alarm, and shows in its exit status."""
    script = """
import os, signal, warnings
from concurrent.futures import ThreadPoolExecutor
import numpy as np, ebm
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, since Python 3.12
rng = np.random.default_rng(0)
model = ebm.BoltzmannMachine(rng.normal(size=(40, 40)), rng.normal(size=40))

def draws(seed, n_chains=600):
    return ebm.sample(model, n_draws=2, n_chains=n_chains, burn_in=2, rng=seed,
        run=ebm.sampling.SamplingRun(n_jobs=2)).chains

with ThreadPoolExecutor(4) as pool:
    at_once = list(pool.map(draws, range(4)))
alone = [draws(seed) for seed in range(4)]
assert all(np.array_equal(a, b) for a, b in zip(at_once, alone))
few = draws(9, 3)
child = os.fork()
if child == 0:
    signal.alarm(60)
    good = np.array_equal(draws(1), alone[1]) and np.array_equal(draws(9, 3), few)
    os._exit(0 if good else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(np.unique(alone[0])))
"""
    assert output(started(script)) == "0 2\n"
