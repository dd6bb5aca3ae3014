"""Words for yes and no in tables: which are read, and what is said of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebm
from ebm.cli import main
from ebm.errors import CodingError, EbmError
from tests.test_cli import failure


def read(tmp_path: Path, text: str, **settings: Any) -> Any:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    return ebm.read_table(tmp_path / "t.csv", **settings)


@pytest.mark.parametrize(
    ("text", "settings", "wanted"),
    [
        ("a,b\nyes,no\nno,no\n", {"yes": "yes", "no": "no"}, [[1, 0], [0, 0]]),
        ("a,b\nJa, nein\nn,JA\n", {"yes": "ja", "no": ["nein", "n"]}, [[1, 0], [0, 1]]),
        ("a,b\nTRUE,FALSE\nFALSE,FALSE\n", {"yes": "TRUE", "no": "FALSE"}, [[1, 0], [0, 0]]),
        # A survey's codes, the second of which means no.
        ("a,b\n1,2\n2,2\n", {"yes": "1", "no": "2"}, [[1, 0], [0, 0]]),
        ("a,b\ny,1\n2,n\n", {"yes": ["y", "1"], "no": ["n", "2"]}, [[1, 1], [0, 0]]),
        # Numbers stay where no word is one.
        ("a,b\ny,3\nn,4\n", {"yes": "y", "no": "n"}, [[1, 3], [0, 4]]),
        ("a,b\ny,n\n?,y\ndk,y\n", {"yes": "y", "no": "n", "missing": "dk", "drop_missing": True},
         [[1, 0]]),
        ("u,s,t\na,y,n\nb,n,n\n", {"yes": "y", "no": "n", "layout": "transposed"},
         [[1, 0], [0, 0]]),
        ("id,item,resp\n1,a,y\n1,b,n\n2,a,n\n2,b,n\n",
         {"yes": "y", "no": "n", "layout": ["id", "item", "resp"]}, [[1, 0], [0, 0]]),
        ("a,b,name\ny,n,Ann\nn,n,Bob\n", {"yes": "y", "no": "n", "exclude": ["name"]},
         [[1, 0], [0, 0]]),
    ],
)  # fmt: skip
def test_words_are_read_as_one_and_zero(
    tmp_path: Path, text: str, settings: dict[str, Any], wanted: list[list[int]]
) -> None:
    np.testing.assert_array_equal(read(tmp_path, text, **settings).states, wanted)


@pytest.mark.parametrize(
    ("text", "settings", "parts"),
    [
        ("a,b\nyes,no\nmaybe,no\nmaybe,no\n", {"yes": "yes", "no": "no"},
         ["column 'a' holds 'maybe' in 2 cells", "exclude=['a']", "missing="]),
        ("a,b\n1,2\n2,3\n", {"yes": "1", "no": "2"}, ["column 'b' holds 3 in 1 cells"]),
        ("a\n0\n1\n", {"yes": "1"}, ["yes=['1'] needs the words of no"]),
        ("a\n0\n1\n", {"yes": "x", "no": ["n", "X "]}, ["'X ' is in yes and in no"]),
        ("a\n0\n1\n", {"yes": "1", "no": "1.0"}, ["yes and no both name"]),
        ("a\n0\n1\n", {"yes": 1, "no": 0}, ["yes must be a word or several"]),
        # A missing cell is no answer, and is refused as ever.
        ("a,b\ny,n\nNA,y\n", {"yes": "y", "no": "n"}, ["missing values in 'a'"]),
    ],
)  # fmt: skip
def test_other_words_are_named_with_their_column(
    tmp_path: Path, text: str, settings: dict[str, Any], parts: list[str]
) -> None:
    with pytest.raises(EbmError) as error:
        read(tmp_path, text, **settings)
    for part in parts:
        assert part in str(error.value)


def test_words_without_the_setting_are_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(CodingError, match="holds the labels 'yes' and 'no'"):
        read(tmp_path, "a,b\nyes,no\nno,no\n")
    with pytest.raises(CodingError, match="which of them is 1, yes='yes' with no='no'"):
        read(tmp_path, "a,b\nyes,no\nno,no\n")


def test_the_command_reads_words_and_names_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\nja,n\nnein,ja\nj,j\nn,n\n", encoding="utf-8")
    assert main(["fit", str(path), "--yes", "ja,j", "--no", "nein,n"]) == 0
    assert "4 x 2" in capsys.readouterr().out
    said = failure(capsys, "fit", path, "--yes", "ja", "--no", "nein,n")
    assert "column 'a' holds 'j' in 1 cells beside ja and nein/n" in said
    assert "--yes or --no" in said
    assert "--exclude a" in said
    said = failure(capsys, "fit", path, "--columns", "b")
    assert "--yes" not in said
    path.write_text("a,b\nja,n\nnein,ja\n", encoding="utf-8")
    said = failure(capsys, "fit", path, "--columns", "a")
    assert "say which of them is 1, --yes nein with --no ja, or the other way round" in said


@pytest.mark.parametrize("yes", ["", " ", ["ja", None], ["ja", ""]])
def test_a_missing_cell_is_no_word(tmp_path: Path, yes: Any) -> None:
    with pytest.raises(EbmError, match=r"yes must be words, got .* among them"):
        read(tmp_path, "a\nja\nnein\n", yes=yes, no="nein")
