"""The command line on groups of rows: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ebm
from ebm.cli import comparing, main
from ebm.errors import MissingValueError, NamesError
from ebm.tables import read_labelled_table
from tests.test_cli import failure

NAMES = ["Ann", "Bob", "Cid"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Two groups that differ in a coupling, in turn, with a cell and a label that are missing."""
    parts = []
    for label, coupling in (("yes", 1.5), ("no", -0.5)):
        machine = ebm.BoltzmannMachine(
            [[0, coupling, 0], [coupling, 0, 0.5], [0, 0.5, 0]], [-0.5, 0.2, 0.4]
        )
        rows = pd.DataFrame(ebm.exact(machine).sample(300, rng=1), columns=NAMES).astype(object)
        parts.append(rows.assign(side=label))
    whole = pd.concat(parts).sample(frac=1, random_state=0, ignore_index=True)
    whole.loc[4, "Bob"] = ""
    whole.loc[7, "side"] = "NA"
    return whole


@pytest.fixture
def table(frame: pd.DataFrame, tmp_path: Path) -> Path:
    frame.to_csv(tmp_path / "votes.csv", index=False)
    return tmp_path / "votes.csv"


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(index=[4, 7]).astype({name: int for name in NAMES})


def test_the_command_prints_and_writes_what_the_library_finds(
    table: Path, frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure, written = tmp_path / "d.png", tmp_path / "d.csv"
    argv = ["compare-groups", str(table), "--by", "side", "--drop-missing", "--seed", "3"]
    draws = ["--permutations", "19", "--parametric", "9"]
    assert main([*argv, *draws, "--figure", str(figure), "--table", str(written)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    comparison = ebm.compare_groups(complete(frame), by="side")
    tests = comparison.permutation_tests(19, rng=3), comparison.parametric_tests(9, rng=3)
    for text in (comparison, *tests):
        assert str(text) in out
    assert "2 of 600 rows have a missing value and were left out" in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    lines = list(csv.DictReader(written.read_text().splitlines()))
    (differences,) = comparison.differences
    assert [line["coupling"] for line in lines] == list(differences.names)
    assert {(line["reference"], line["group"]) for line in lines} == {("no", "yes")}
    for column, values in (
        ("difference", differences.values),
        ("standard_error", differences.standard_errors),
        ("p_holm", differences.p_holm),
        ("p_benjamini_hochberg", differences.p_benjamini_hochberg),
        ("p_max (permutations)", tests[0].p_max),
        ("p (equal couplings)", tests[1].p_values),
    ):
        assert [float(line[column]) for line in lines] == pytest.approx(values, rel=1e-5)


def test_settings_reach_the_library(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["compare-groups", str(table), "--by", "3", "--columns", "Ann,side,Bob", "--missing"]
    argv += ["9", "--drop-missing", "--equal", "couplings", "--pseudolikelihood", "--l2", "0.01"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 groups over 2 units, by pseudo-likelihood")
    assert "couplings            Wald           -   1  -" in out
    assert "biases" not in out


def test_incomplete_rows_are_kept_when_asked(
    table: Path, frame: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["compare-groups", str(table), "--by", "side", "--missing-at-random"]
    assert main([*argv, "--permutations", "5"]) == 0
    out = capsys.readouterr().out
    labelled = frame.drop(index=7).replace("", np.nan).astype({name: float for name in NAMES})
    comparison = ebm.compare_groups(labelled, by="side", missing_at_random=True)
    assert str(comparison) in out
    assert str(comparison.permutation_tests(5, rng=0)) in out
    assert "by exact likelihood, cells taken as missing at random" in out
    assert "300 rows, 1 cells missing" in out
    assert "1 of 600 rows have no label and were left out" in out


def test_ordered_categories_are_compared_by_their_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Codes 1 to 3, of one item 0 to 1; by the library from levels."""
    model = ebm.OrdinalModel(
        [[0, 0.8, 0], [0.8, 0, 0.3], [0, 0.3, 0]], [[0, 0.1, 0.2], [0, 0.3, 0], [0, 0.1]],
        names=["mood", "sleep", "pain"],
    )  # fmt: skip
    levels = ebm.exact(model).sample(300, rng=1)
    rows = pd.DataFrame(levels + np.array([1, 1, 0]), columns=model.space.names)
    by = np.where(np.arange(300) < 160, "first", "second")
    path = tmp_path / "answers.csv"
    rows.assign(wave=by).to_csv(path, index=False)
    monkeypatch.setattr(comparing, "_SLOW_UNITS", 4)
    argv = ["compare-groups", str(path), "--by", "wave", "--ordinal", "1-3,pain=0-1"]
    assert main([*argv, "--permutations", "5"]) == 0
    out, err = capsys.readouterr()
    assert "exact fits of 3 columns sum over 3^2 · 2^1 states" in err
    comparison = ebm.compare_groups(levels, by=by, model=model)
    assert str(comparison) in out
    assert str(comparison.permutation_tests(5, rng=0)) in out
    assert main([*argv, "--pseudolikelihood"]) == 0
    assert "by pseudo-likelihood" in capsys.readouterr().out


def test_large_groups_are_announced(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(comparing, "_SLOW_UNITS", 3)
    assert main(["compare-groups", str(table), "--by", "side", "--drop-missing"]) == 0
    assert "exact fits of 3 columns sum over 2^3 states" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            (),
            "drop those rows with --drop-missing, keep them for a likelihood of cells missing at ",
        ),
        ((), "with --missing-at-random, or leave columns out with --exclude"),
        (
            ("--missing-at-random", "--pseudolikelihood"),
            "group 'yes': 1 of 300 rows have missing cells, and pseudo-likelihood takes complete "
            "rows: leave the others out with --drop-missing, or sum over",
        ),
        (("--drop-missing", "--ordinal", "0-1", "--threshold", "1"), "--threshold is for two-val"),
        (("--drop-missing", "--ordinal", "1-3"), "column 'Ann' has the values 0 where a code"),
        (("--drop-missing", "--ordinal", "0-2"), "group 'no': codes 2 of 'Ann', 2 of 'Bob'"),
        (("--drop-missing", "--by", "none"), "no column is named 'none'"),
        (("--drop-missing", "--by", "0-1"), "by must be one column, '0-1' stands for 2"),
        (("--drop-missing", "--table", "t.npz"), "--table t.npz is text"),
        (("--drop-missing", "--figure", "t.xyz"), "t.xyz has no suffix of a figure"),
        (
            ("--drop-missing", "--permutations", "9999999", "--max-seconds", "1"),
            "take fewer draws, --pseudolikelihood, or raise --max-seconds",
        ),
    ],
)
def test_refusals_name_options(
    table: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = failure(capsys, "compare-groups", table, "--by", "side", *options)
    assert said in message
    assert "drop_missing" not in message
    assert "executor" not in message


def test_groups_that_cannot_be_compared_are_refused_in_sentences(
    frame: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = complete(frame)
    cases: dict[str, pd.DataFrame] = {
        "two groups or more are wanted, got 'no' alone": rows[rows["side"] == "no"],
        "--by has 598 different labels": rows.assign(side=[f"r{k}" for k in range(len(rows))]),
        "group 'yes': unit 'Cid' never changes": rows.assign(
            Cid=np.where(rows["side"] == "yes", 1, rows["Cid"])
        ),
        "penalty on couplings, such as --l2": rows.assign(
            Bob=np.where(rows["side"] == "yes", rows["Ann"], rows["Bob"])
        ),
    }
    for said, part in cases.items():
        path = tmp_path / "part.csv"
        part.to_csv(path, index=False)
        assert said in failure(capsys, "compare-groups", path, "--by", "side")


def test_labels_are_read_beside_rows(table: Path, frame: pd.DataFrame, tmp_path: Path) -> None:
    read, labels = read_labelled_table(table, "side", drop_missing=True)
    assert read.names == tuple(NAMES)
    assert np.array_equal(read.states, complete(frame)[NAMES])
    assert labels.tolist() == complete(frame)["side"].tolist()
    assert read.n_rows_dropped == 2
    kept, every = read_labelled_table(table, "side", drop_missing="never")
    assert len(kept.states) == len(every) == 600
    assert every[7] is None
    with pytest.raises(MissingValueError, match="'side' \\(1 rows\\)"):
        read_labelled_table(table, "side")
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("a,wave,b\n0,10,9\n1,9,1\n1,,0\n")
    read, labels = read_labelled_table(numbers, "wave", missing=[9], drop_missing=True)
    # The code of a missing answer may be the name of a group.
    assert (read.states.tolist(), labels.tolist()) == ([[1, 1]], [9])
    with pytest.raises(NamesError, match="exclude leaves no column"):
        read_labelled_table(numbers, "a", exclude=["0-2"])
    with pytest.raises(NamesError, match="no column beside 'a'"):
        read_labelled_table(numbers, "a", columns=["a"])


def test_an_interrupt_of_the_draws_ends_the_command(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("ebm.comparison.resampled_tests.run_jobs", stop)
    argv = ["compare-groups", str(table), "--by", "side", "--drop-missing", "--permutations", "9"]
    assert main(argv) == 130
    assert capsys.readouterr() == ("", "ebm: interrupted\n")
