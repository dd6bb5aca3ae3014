"""Workbooks, SPSS, MATLAB and Arrow files: the cells as written, and sentences for others."""

import datetime
import gzip
import re
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ebm
from ebm import read_table
from ebm.errors import (
    CodingError,
    EbmError,
    FileFormatError,
    MissingExtraError,
    MissingValueError,
    NamesError,
    ShapeError,
)
from ebm.tables import read_labelled_table

openpyxl = pytest.importorskip("openpyxl")
pyreadstat = pytest.importorskip("pyreadstat")
pytest.importorskip("pyarrow")

KINDS = (".xlsx", ".sav", ".zsav", ".parquet", ".feather", ".arrow")


def write(path, frame):
    """A frame by the package that writes files of this kind."""
    kind = path.suffix
    if kind == ".xlsx":
        frame.to_excel(path, index=False)
    elif kind in (".sav", ".zsav"):
        pyreadstat.write_sav(frame, str(path), compress=kind == ".zsav")
    elif kind == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return path


def book(path, **sheets):
    """A workbook of sheets by name, each a list of rows."""
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    workbook.save(path)
    return path


@st.composite
def frames(draw):
    """Numbers of two-valued, whole and real columns, some cells missing but in the first row."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows, n = draw(st.integers(2, 6)), draw(st.integers(1, 5))
    kinds = draw(st.lists(st.sampled_from("bir"), min_size=n, max_size=n))
    makes = {"b": lambda: rng.integers(0, 2, n_rows), "i": lambda: rng.integers(-9, 99, n_rows),
             "r": lambda: rng.normal(size=n_rows)}  # fmt: skip
    cells = np.column_stack([makes[kind]() for kind in kinds]).astype(float)
    cells[1:][rng.random((n_rows - 1, n)) < 0.2] = np.nan
    return pd.DataFrame(cells, columns=[f"q{k}{kind}" for k, kind in enumerate(kinds)])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frame=frames())
def test_every_number_and_gap_is_read_as_it_was_written(kind, tmp_path, frame):
    # A row without any cell is no record of a sheet, and openpyxl writes 16 digits.
    frame = frame[frame.notna().any(axis=1)].round(12)
    table = read_table(write(tmp_path / f"rows{kind}", frame), drop_missing="never")
    assert table.names == tuple(frame.columns)
    np.testing.assert_array_equal(table.states, frame)
    if frame.isna().any(axis=None):
        with pytest.raises(MissingValueError, match="missing values in 'q"):
            read_table(tmp_path / f"rows{kind}")


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_those_of_text_files(kind, tmp_path):
    frame = pd.DataFrame({"a": [0, 1, 1, 0], "b": [3, 9, 5, 4], "g": ["x", "y", "x", None]})
    path = write(tmp_path / f"rows{kind}", frame)
    table = read_table(path, columns=["b"], missing=9, drop_missing=True, threshold=3.5)
    assert table.states[:, 0].tolist() == [0, 1, 1]
    table, labels = read_labelled_table(path, "g", drop_missing=True)
    assert table.names == ("a", "b")
    assert labels.tolist() == ["x", "y", "x"]
    with pytest.raises(CodingError, match="column 'g' holds the labels 'x' and 'y', wanted numb"):
        read_table(path)
    with pytest.raises(NamesError, match="no column is named 'c'"):
        read_table(path, columns=["c"])


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_refused_by_column(kind, tmp_path):
    frame = pd.DataFrame({"a": [0, 1], "day": pd.to_datetime(["2020-01-01", "2020-02-01"])})
    path = write(tmp_path / f"rows{kind}", frame)
    with pytest.raises(CodingError, match=r"column 'day' holds dates \('2020-01-01.*exclude=\['da"):
        read_table(path)
    assert read_table(path, exclude=["day"]).states.tolist() == [[0], [1]]


@pytest.mark.parametrize("kind", [".parquet", ".feather", ".xlsx"])
def test_flags_are_numbers_and_as_labels_words(kind, tmp_path):
    flags = pd.array([True, False, None, True], dtype="boolean")
    path = write(tmp_path / f"rows{kind}", pd.DataFrame({"f": flags, "a": [0, 1, 1, 1]}))
    table = read_table(path, columns=["f"], drop_missing=True)
    assert table.states[:, 0].tolist() == [1, 0, 1]
    _, labels = read_labelled_table(path, "f", drop_missing=True)
    assert labels.tolist() == ["True", "False", "True"]


@pytest.mark.parametrize("kind", [*KINDS, ".mat"])
def test_damaged_and_absent_files_are_named(kind, tmp_path):
    path = tmp_path / f"rows{kind}"
    with pytest.raises(FileNotFoundError, match="rows"):
        read_table(path)
    for content in (b"", b"PK\x03\x04 no archive", b"$FL2 PAR1 ARROW1" * 9):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=f"rows{re.escape(kind)} cannot be read as a"):
            read_table(path)
    (tmp_path / f"rows{kind}.gz").write_bytes(gzip.compress(b"a"))
    with pytest.raises(FileFormatError, match=r"has the suffix|is a compressed|\.gz"):
        read_table(tmp_path / f"rows{kind}.gz")


@pytest.mark.parametrize(
    ("kind", "module"),
    [(".xlsx", "openpyxl"), (".sav", "pyreadstat"), (".parquet", "pyarrow.parquet")],
)
def test_without_its_reader_the_extra_is_named(kind, module, tmp_path, monkeypatch):
    path = write(tmp_path / f"rows{kind}", pd.DataFrame({"a": [0, 1]}))
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"ebm-framework\[files\]"):
        read_table(path)


class TestWorkbooks:
    def test_one_of_several_sheets_is_asked_for(self, tmp_path):
        path = book(tmp_path / "x.xlsx", first=[["a"], [0], [1]], second=[["b"], [1], [1]])
        with pytest.raises(FileFormatError, match="several sheets, 'first', 'second': say which"):
            read_table(path)
        assert read_table(path, part="second").names == ("b",)
        assert read_table(path, part=0).names == ("a",)
        for wrong in ("third", 2, -1, True):
            with pytest.raises(EbmError, match=f"part must be one of .* got {wrong!r}"):
                read_table(path, part=wrong)

    def test_a_sheet_is_read_by_the_rules_of_text(self, tmp_path):
        rows = [["name", "a", "b"], ["x", 0, 1], [None] * 3, ["y", 1, "NA"], ["z", 1, " 0 "]]
        path = book(tmp_path / "x.xlsx", only=[*rows, [None, None, None, ""]])
        table = read_table(path, exclude=["name"], drop_missing=True)
        assert (table.names, table.states.tolist()) == (("a", "b"), [[0, 1], [1, 0]])
        assert read_table(book(path, only=[[0, 1], [1, 1], [1, 0]])).states.shape == (3, 2)
        named = read_table(book(path, only=[[0, 1], [1, 1], [1, 0]]), header=True)
        assert named.names == ("0", "1")
        long = [["id", "item", "resp"], *([i, k, (i + k) % 2] for i in range(3) for k in range(2))]
        table = read_table(book(path, only=long), layout=["id", "item", "resp"])
        assert table.states.tolist() == [[0, 1], [1, 0], [0, 1]]
        commas = [["a, b", 'say "c"'], [0, 1], [1, 0]]
        assert read_table(book(path, only=commas)).names == ("a, b", 'say "c"')

    def test_formulas_without_values_are_no_missing_cells(self, tmp_path):
        path = book(tmp_path / "x.xlsx", only=[["a", "b"], [0, 1], [1, "=A2+B2"]])
        with pytest.raises(FileFormatError, match=r"cell B3 of sheet 'only' .* formula without"):
            read_table(path, drop_missing="never")

    def test_an_empty_sheet_is_refused(self, tmp_path):
        with pytest.raises(ShapeError, match=r"x\.xlsx is empty"):
            read_table(book(tmp_path / "x.xlsx", only=[]))


class TestSpss:
    FRAME = pd.DataFrame({"x": [1.0, 2, 9, np.nan, 1], "y": [0.0, 1, 0, 1, 99], "z": [0.0] * 5})

    @pytest.fixture
    def path(self, tmp_path):
        words = {1: "no", 2: "yes", 9: "refused"}
        pyreadstat.write_sav(
            self.FRAME,
            str(tmp_path / "x.sav"),
            variable_value_labels={"x": words, "z": {0: "off"}},
            missing_ranges={"x": [9], "y": [{"lo": 90, "hi": 99}]},
        )
        return tmp_path / "x.sav"

    def test_declared_missing_values_are_missing_and_told_of(self, path):
        table = read_table(path, drop_missing="never")
        np.testing.assert_array_equal(
            table.states, [[1, 0, 0], [2, 1, 0], [np.nan, 0, 0], [np.nan, 1, 0], [1, np.nan, 0]]
        )
        assert table.notes == (
            "Codes of 'x': 1 'no', 2 'yes', 9 'refused'.",
            "Codes of 'z': 0 'off'.",
            "The file declares 9 of 'x' as missing, and so they were read.",
            "The file declares 90 to 99 of 'y' as missing, and so they were read.",
        )
        with pytest.raises(MissingValueError, match=r"'x' \(2 rows\), 'y' \(1 rows\)"):
            read_table(path)

    def test_columns_that_declare_the_same_values_share_a_note(self, tmp_path):
        frame = pd.DataFrame({f"q{k}": [0.0, 1.0, 9.0] for k in range(8)}).assign(z=[1.0, 0.0, 7.0])
        ranges = {name: [7 if name == "z" else 9] for name in frame}
        pyreadstat.write_sav(frame, str(tmp_path / "x.sav"), missing_ranges=ranges)
        assert read_table(tmp_path / "x.sav", drop_missing=True).notes[:2] == (
            "The file declares 9 of 'q0' and 7 more columns as missing, and so they were read.",
            "The file declares 7 of 'z' as missing, and so they were read.",
        )

    def test_words_of_codes_are_labels_of_groups(self, path):
        table, labels = read_labelled_table(path, "x", columns=["z"], drop_missing=True)
        assert labels.tolist() == ["no", "yes", "no"]
        assert table.states[:, 0].tolist() == [0, 0, 0]

    def test_settings_of_other_files_are_refused(self, path):
        with pytest.raises(EbmError, match="header is about the first line of a text"):
            read_table(path, header=True)
        with pytest.raises(EbmError, match="part is about files of several tables"):
            read_table(path, part=0)


class TestMatlab:
    def write(self, path, **variables):
        from scipy.io import savemat

        savemat(path, variables)
        return path

    @settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(frame=frames())
    def test_numbers_and_names_come_back(self, tmp_path, frame):
        names = np.array(list(frame.columns), dtype=object)
        path = self.write(tmp_path / "x.mat", X=frame.to_numpy(), names=names, step=0.1)
        if frame.shape[1] == 1:
            with pytest.raises(FileFormatError, match="no matrix"):
                read_table(path)
            return
        table = read_table(path, drop_missing="never")
        assert table.names == tuple(frame.columns)
        np.testing.assert_array_equal(table.states, frame)

    def test_flags_and_sparse_matrices_of_several(self, tmp_path):
        from scipy.sparse import csc_array

        flags = np.array([[True, False], [True, True], [False, True]])
        path = self.write(
            tmp_path / "x.mat", P=flags, Q=csc_array(np.eye(4)), w=np.ones(3), s={"a": 1}
        )
        with pytest.raises(FileFormatError, match=r"several matrices .* P \(3, 2\), Q \(4, 4\)"):
            read_table(path)
        table = read_table(path, part="P")
        np.testing.assert_array_equal(table.states, flags)
        assert "sample_weight=scipy.io.loadmat(path)['w']" in table.notes[0]
        np.testing.assert_array_equal(read_table(path, part="Q").states, np.eye(4))

    def test_arrays_of_numpy_files_are_chosen_alike(self, tmp_path):
        np.savez(tmp_path / "x.npz", P=np.eye(2), Q=np.eye(3))
        assert read_table(tmp_path / "x.npz", part="Q").states.shape == (3, 3)
        np.save(tmp_path / "x.npy", np.eye(2))
        with pytest.raises(EbmError, match="part is about files of several arrays"):
            read_table(tmp_path / "x.npy", part=0)

    def test_files_of_version_7_3_say_how_to_save_them(self, tmp_path):
        path = tmp_path / "x.mat"
        path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(116) + bytes(8) + b"\x00\x02IM" + bytes(400))
        with pytest.raises(FileFormatError, match=r"version 7\.3, .* save\(…, '-v7'\)"):
            read_table(path)


class TestArrow:
    def test_the_index_of_a_frame_is_left_out_with_a_note(self, tmp_path):
        frame = pd.DataFrame({"a": [0, 1], "b": [1, 1]}, index=["x", "y"])
        table = read_table(write(tmp_path / "x.parquet", frame))
        assert table.names == ("a", "b")
        assert table.notes == ("The index of the frame, '__index_level_0__', was left out.",)

    def test_columns_of_lists_times_and_decimals(self, tmp_path):
        import decimal

        frame = pd.DataFrame(
            {
                "a": [decimal.Decimal("0.5"), decimal.Decimal(1)],
                "l": [[0], [1]],
                "t": [datetime.time(1), datetime.time(2)],
            }
        )
        path = write(tmp_path / "x.parquet", frame)
        assert read_table(path, columns=["a"]).states[:, 0].tolist() == [0.5, 1]
        for name in ("l", "t"):
            with pytest.raises(CodingError, match=f"column '{name}' holds"):
                read_table(path, columns=[name])

    def test_categories_with_gaps(self, tmp_path):
        frame = pd.DataFrame({"c": pd.Categorical([3, None, 4]), "a": [0, 1, 1]})
        table = read_table(write(tmp_path / "x.parquet", frame), drop_missing="never")
        np.testing.assert_array_equal(table.states, [[3, 0], [np.nan, 1], [4, 1]])


def test_the_command_line_reads_them(tmp_path, capsys):
    from ebm.cli import main

    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (80, 3)).tolist()
    path = book(tmp_path / "x.xlsx", notes=[["read me"]], data=[["a", "b", "c"], *rows])
    assert main(["fit", str(path)]) != 0
    assert "--part" in capsys.readouterr().err
    assert main(["fit", str(path), "--part", "data"]) == 0
    assert "80 x 3" in capsys.readouterr().out
    assert ebm.read_table(path, part="data").names == ("a", "b", "c")


def test_words_of_codes_are_those_of_yes_and_no(tmp_path):
    """They had no effect beside numbers, even where the file says that 0 means yes."""
    frame = pd.DataFrame({"a": [0, 1, np.nan, 0], "b": [1, 2, 2, 1], "c": [1, 0, 1, 1]})
    words = {"a": {0: "Ja", 1: "Nein"}, "b": {1: "ja", 2: "nein"}}
    path = tmp_path / "t.sav"
    pyreadstat.write_sav(frame, str(path), variable_value_labels=words)
    table = read_table(path, yes="ja", no="nein", drop_missing="never")
    wanted = [[1, 1, 1], [0, 0, 0], [np.nan, 0, 1], [1, 1, 1]]
    np.testing.assert_array_equal(table.states, wanted)
    # Numbers stand for what the file says of them, not for what the words of others are.
    both = read_table(
        path, yes=["ja", "1"], no=["nein", "0"], columns=["a", "c"], drop_missing=True
    )
    np.testing.assert_array_equal(both.states, [[1, 1], [0, 0], [1, 1]])
    with pytest.raises(CodingError, match="column 'b' holds 2 in 2 cells beside ja and no"):
        read_table(path, yes="ja", no="no", columns=["b"])


@pytest.mark.parametrize("kind", [".parquet", ".feather"])
def test_numbers_that_stand_for_periods_are_no_values(tmp_path, kind):
    """Periods were read as days since 1970."""
    frame = pd.DataFrame({"a": pd.period_range("2020", periods=3, freq="D"), "b": [1, 0, 1]})
    path = write(tmp_path / f"t{kind}", frame)
    with pytest.raises(CodingError, match=r"column 'a' holds text \('pandas.period 18262'"):
        read_table(path)
    assert read_table(path, exclude=["a"]).states.tolist() == [[1], [0], [1]]
