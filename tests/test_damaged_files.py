"""Files with wrong bytes are read as they were, or refused by an error of ours."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import ebm
from ebm.errors import EbmError, FileFormatError
from ebm.tables import read_table

MODELS = [
    ebm.IsingModel([[0, 1], [1, 0]], [0.1, 0.2], names=["a", "b"]),
    ebm.BoltzmannMachine(sparse.csr_array([[0, 1.0], [1, 0]]), [0.1, 0.2]),
    ebm.InteractionModel({(0, 1): 1.0, (0,): 0.5}, ebm.Spins(2)),
    ebm.TabularModel([0.0, 1, 2, 3], ebm.Binary(2)),
    ebm.RestrictedBoltzmannMachine(np.ones((2, 2)), [0, 0], [0, 0]),
]
DAMAGES = st.lists(
    st.tuples(st.integers(0, 10_000), st.binary(max_size=12), st.integers(0, 12)), max_size=4
)
FILE_TEST = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def damaged(content: bytes, damages: list[tuple[int, bytes, int]]) -> bytes:
    """Some bytes replaced, left out or put in between."""
    for place, new, n_old in damages:
        start = place % len(content) if content else 0
        content = content[:start] + new + content[start + n_old :]
    return content


def written(write: Callable[[Any], None]) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


@given(st.sampled_from(range(len(MODELS))), DAMAGES)
@FILE_TEST
@pytest.mark.filterwarnings("ignore")
def test_models(tmp_path: Path, which: int, damages: list[tuple[int, bytes, int]]) -> None:
    path, model = tmp_path / "model.npz", MODELS[which]
    ebm.save(model, path, overwrite=True)
    path.write_bytes(damaged(path.read_bytes(), damages))
    try:
        back = ebm.load(path)
    except FileFormatError:
        return
    assert back.equals(model)


@given(st.sampled_from([".npy", ".npz"]), DAMAGES)
@FILE_TEST
@pytest.mark.filterwarnings("ignore")
def test_tables(tmp_path: Path, suffix: str, damages: list[tuple[int, bytes, int]]) -> None:
    rows, path = np.eye(3, dtype=np.int8), tmp_path / f"x{suffix}"
    content = written(
        (lambda file: np.save(file, rows))
        if suffix == ".npy"
        else lambda file: np.savez(file, X=rows, names=["a", "b", "c"])
    )
    path.write_bytes(damaged(content, damages))
    with contextlib.suppress(EbmError):
        table = read_table(path)
        assert table.states.shape == (len(table.states), len(table.names))


@pytest.mark.parametrize(
    ("place", "value"),
    [(4, 255), (6, 1), (8, 99), (8, 12)],
    ids=["newer version", "encrypted", "unknown compression", "other compression"],
)
def test_archives_that_zipfile_refuses(tmp_path: Path, place: int, value: int) -> None:
    """NotImplementedError, RuntimeError and OSError of zipfile; fields are in both headers."""
    path = tmp_path / "model.npz"
    ebm.save(MODELS[0], path)
    content = bytearray(path.read_bytes())
    for start in (content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02") + 2):
        content[start + place] = value
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="not a model file"):
        ebm.load(path)


def test_a_table_that_claims_to_be_huge(tmp_path: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2000000000, 2000000000), }"
    header += b" " * (117 - len(header)) + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    (tmp_path / "x.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", content)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(FileFormatError, match="cannot be read"):
            read_table(tmp_path / name)


@pytest.mark.parametrize("blank", [" ", "\x0b", "\x1c", "\x1f", "\u00a0", "\u2028"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_blanks_of_every_kind_are_no_part_of_a_number(tmp_path, blank, suffix):
    mark = "," if suffix == "csv" else "\t"
    path = tmp_path / f"rows.{suffix}"
    path.write_text(f"a{mark}b\n0{mark}1{blank}\n{blank}1{mark}0\n0{mark}1\n", encoding="utf-8")
    np.testing.assert_array_equal(ebm.read_table(path).states, [[0, 1], [1, 0], [0, 1]])
