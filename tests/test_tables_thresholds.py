"""Numbers cut in two: thresholds of columns, and codes that are no measured values."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ebm.errors import CodingError, EbmError, MissingValueError, NamesError
from ebm.tables import binarize, read_table
from ebm.tables.binarize import codes_doubt

VALUES = hnp.arrays(np.float64, (5, 3), elements=st.integers(-9, 9).map(float))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1.5,10,0\n2,30,1\n4,20,0\n0,40,1\n")
    return path


@given(VALUES)
def test_one_threshold_for_each_column(values: np.ndarray) -> None:
    cuts = values.mean(axis=0)
    wanted = [[int(x > cut) for x, cut in zip(row, cuts, strict=True)] for row in values]
    assert binarize(values, cuts).tolist() == wanted
    assert binarize(values, list(cuts)).tolist() == wanted


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ([1, 2], r"shape \(2,\), wanted one number, or one for each column"),
        (np.zeros((4, 3)), r"shape \(4, 3\)"),
        ([1, np.nan, 2], "finite"),
        ("mean", "must be numbers, got 'mean'"),
        (None, "finite|numbers"),
    ],
)
def test_thresholds_that_do_not_fit_are_refused(threshold: Any, message: str) -> None:
    with pytest.raises(CodingError, match=message):
        binarize(np.zeros((4, 3)), threshold)


@pytest.mark.parametrize(
    ("threshold", "cuts"),
    [
        ("mean", [1.875, 25, 0.5]),
        ("median", [1.75, 25, 0.5]),
        ([1, "mean", 0], [1, 25, 0]),
        ({"a": 1, "b": "median", "c": 0}, [1, 25, 0]),
        (1, [1, 1, 1]),
    ],
)
def test_thresholds_of_a_file(path: Path, threshold: Any, cuts: list[float]) -> None:
    values = read_table(path).states
    table = read_table(path, threshold=threshold)
    assert table.states.tolist() == (values > np.array(cuts)).astype(int).tolist()
    assert table.states.dtype == np.int8


def test_columns_without_a_threshold_stay_as_they_are(path: Path) -> None:
    table = read_table(path, threshold={"b": 25})
    assert table.states[:, [0, 2]].tolist() == [[1.5, 0], [2, 1], [4, 0], [0, 1]]
    assert table.states[:, 1].tolist() == [0, 1, 0, 1]
    assert "b 25" in table.notes[0]


def test_averages_are_those_of_complete_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,1\n3,2\n100,NA\n")
    table = read_table(path, threshold="mean", drop_missing=True)
    assert table.states.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        ([1, 2], "2 numbers for 3 columns"),
        ("mode", "'mean' or 'median', got 'mode'"),
        ({"d": 1}, "no column is named 'd'"),
        ({}, "names no column"),
        ([1, None, 2], "got None"),
        (float("nan"), "finite"),
    ],
)
def test_other_thresholds_of_a_file_are_refused(path: Path, threshold: Any, message: str) -> None:
    with pytest.raises((CodingError, NamesError), match=message):
        read_table(path, threshold=threshold)


# Codes


def survey(code: int, folder: Path) -> Path:
    values = (np.random.default_rng(0).random((200, 3)) < 0.4).astype(int)
    values[::17, 1] = code
    path = folder / "survey.csv"
    np.savetxt(path, values, fmt="%d", delimiter=",", header="a,b,c", comments="")
    return path


@pytest.mark.parametrize(("highest", "code"), [(5, 9), (5, 8), (7, 9), (3, 9), (5, -1)])
def test_codes_beyond_a_scale_are_told(highest: int, code: int) -> None:
    """No answer to a question with answers from 1 to 5, or to 7."""
    scale = np.arange(120.0) % highest + 1
    scale[::10] = code
    assert f"{code} (12 times" in codes_doubt(scale[:, None], ["q"])


@pytest.mark.parametrize("code", [9, 99, 98, 77, -1, -9, -99, -2147483648])
def test_codes_under_a_threshold_are_named_with_their_number(tmp_path: Path, code: int) -> None:
    table = read_table(survey(code, tmp_path), threshold=0)
    assert f"{code} (12 times, in 'b')" in table.doubt
    assert f"missing=[{code}]" in table.doubt
    side = f"to {int(code > 0)} "
    assert f"{code} (12 times)" in table.notes[0].partition(side)[2].partition(";")[0]
    cleaned = read_table(survey(code, tmp_path), threshold=0, missing=[code], drop_missing=True)
    assert cleaned.doubt == ""
    assert cleaned.n_rows_dropped == 12


@pytest.mark.parametrize(
    "column",
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [-1, 1, -1, 1],
        [0, 3, 1, 7],
        [0.5, -1, 2.5, -9],
        [1, 2, 3, 4, 5],
        [80, 90, 99, 99, 85],
        [9, 9, 0, 0],
        [5, 5, 5],
    ],
)
def test_ordinary_values_are_no_codes(column: list[float]) -> None:
    assert codes_doubt(np.array([column], dtype=float).T, ["a"]) == ""


@given(
    hnp.arrays(np.float64, 8, elements=st.integers(1, 5).map(float), unique=False),
    st.sampled_from([[99], [98, 99], [-9], [-8, -9, 99], [9999]]),
)
def test_codes_are_found_whatever_their_number(column: np.ndarray, codes: list[int]) -> None:
    column[:2] = 1, 5
    doubt = codes_doubt(np.concatenate([column, codes, codes])[:, None], ["a"])
    assert sorted(ast.literal_eval(doubt.partition("missing=")[2])) == sorted(codes)


def test_codes_of_many_columns_are_told_together() -> None:
    values = np.tile([0.0, 1, 99], (7, 1)).T
    assert "99 (7 times, in 'u0' and 6 more columns)" in codes_doubt(
        values, [f"u{k}" for k in range(7)]
    )


def test_what_is_missing_is_not_cut() -> None:
    with pytest.raises(MissingValueError):
        binarize([[0.0, np.nan]], [0, 0])


def test_a_threshold_leaves_no_doubt_in_a_clean_table(path: Path) -> None:
    table = read_table(path, threshold="mean")
    assert table.doubt == ""
    assert table.notes == (
        "Values greater than the mean of their column were set to 1, all others to 0.",
    )


def test_sides_are_told_of_few_whole_values(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3,1\n2,3\n")
    assert read_table(path, threshold=2).notes[0] == (
        "Values greater than 2 were set to 1, all others to 0: to 0 1 (2 times), 2 (2 times); "
        "to 1 3 (2 times)."
    )


def test_an_empty_choice_is_an_error_of_the_library(path: Path) -> None:
    with pytest.raises(EbmError):
        read_table(path, columns=[], threshold="mean")
