"""Files of every kind, and every way in which a file can be wrong."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ebm
from ebm.cli.options import in_options
from ebm.errors import (
    CodingError,
    EbmError,
    FileFormatError,
    MissingValueError,
    NamesError,
    ShapeError,
)
from ebm.tables import Table, binarize, read_table

ROWS = [[0, 1, 1], [1, 0, 1], [0, 0, 1], [0, 1, 1]]
BIT = st.integers(0, 1)
FILE_TEST = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def saved(write: Callable[..., None]) -> bytes:
    file = io.BytesIO()
    write(file, np.eye(2))
    return file.getvalue()


NPY, NPZ = saved(np.save), saved(np.savez)


def write(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def lines(delimiter: str, header: str | None = None) -> str:
    rows = [delimiter.join(map(str, row)) for row in ROWS]
    return "\n".join(([header] if header is not None else []) + rows) + "\n"


def same(table: Table, rows: object = ROWS) -> bool:
    return bool(np.array_equal(table.states, np.asarray(rows)))


# Reading


@pytest.mark.parametrize("delimiter", [",", ";", "\t", " ", "   "])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".csv.gz", ".TXT"])
def test_every_delimiter_and_suffix_gives_the_same_table(
    tmp_path: Path, delimiter: str, suffix: str
) -> None:
    text = lines(delimiter, delimiter.join(["a", "b", "c"])).encode()
    path = tmp_path / f"data{suffix}"
    path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    table = read_table(path)
    assert table.names == ("a", "b", "c")
    assert same(table)
    assert table.states.dtype == np.int8
    assert (table.n_rows_read, table.n_rows_dropped, table.notes) == (4, 0, ())


def test_without_a_header_the_first_line_is_data(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, lines(",")))
    assert table.names == ("column 0", "column 1", "column 2")
    assert same(table)


def test_a_missing_cell_in_the_first_line_does_not_make_it_a_header(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "NA,1\n" + "1,0\n" * 3), drop_missing=True)
    assert table.names == ("column 0", "column 1")
    assert (table.n_rows_read, table.n_rows_dropped) == (4, 1)


@pytest.mark.parametrize("header", ["a,b,c", '"a","b","c"', "\ufeffa,b,c", "# a,b,c", "a, b, c"])
def test_header_with_quotes_mark_or_byte_order_mark(tmp_path: Path, header: str) -> None:
    assert read_table(write(tmp_path, lines(",", header))).names == ("a", "b", "c")


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("cell", ["1", "x"])
def test_line_ends_and_blank_lines(tmp_path: Path, line_end: str, cell: str) -> None:
    # The text column sends the file through the slow reader.
    rows = ["", "a,b,t", f"0,1,{cell}", f"1,1,{cell}", ""]
    path = tmp_path / "data.csv"
    path.write_bytes(line_end.join(rows).encode())
    assert same(read_table(path, columns=["a", "b"]), [[0, 1], [1, 1]])


def test_file_of_one_column_with_a_name_of_two_words(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "cell 0\n1\n0\n"))
    assert table.names == ("cell 0",)
    assert same(table, [[1], [0]])


def test_quoted_empty_cell_of_one_column_is_a_missing_value(tmp_path: Path) -> None:
    with pytest.raises(MissingValueError, match="1 of 3 rows"):
        read_table(write(tmp_path, 'a\n1\n""\n0\n'))


def test_an_unnamed_index_column_is_named_by_its_place(tmp_path: Path) -> None:
    assert read_table(write(tmp_path, ",a\n0,1\n1,0\n")).names == ("column 0", "a")


def test_numbers_among_header_names_are_pointed_out(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "0,1,yes\n1,0,1\n"))
    assert "if it is data, say header=False" in table.notes[0]


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("index", [False, True])
def test_counted_names_of_a_pandas_frame_are_names(tmp_path: Path, quote: str, index: bool) -> None:
    header = ",".join([""] * index + [f"{quote}{k}{quote}" for k in range(3)])
    rows = [",".join(map(str, [place] * index + row)) for place, row in enumerate(ROWS)]
    table = read_table(write(tmp_path, "\n".join([header, *rows])))
    assert table.names == ("0", "1", "2")
    assert same(table)
    counted = [note for note in table.notes if "read as the names of the columns" in note]
    # Quotes around names alone leave no doubt.
    assert len(counted) == (quote == "" or index)
    assert len(table.notes) == len(counted) + index


def test_two_counted_names_stay_data_and_this_is_said(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "0,1\n1,1\n"))
    assert same(table, [[0, 1], [1, 1]])
    assert "was read as data" in table.notes[0]


@pytest.mark.parametrize("first", ["1,0,1", "0,2,1", "0,1,2.0", "1,2,3"])
def test_other_numbers_in_the_first_line_are_data(tmp_path: Path, first: str) -> None:
    table = read_table(write(tmp_path, f"{first}\n0,1,1\n"))
    assert len(table.states) == 2
    assert table.notes == ()


def test_pandas_writes_what_is_read(tmp_path: Path) -> None:
    frame = pytest.importorskip("pandas").DataFrame(ROWS)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "b.csv")
    assert same(read_table(tmp_path / "a.csv"))
    assert same(read_table(tmp_path / "b.csv"))


@pytest.mark.parametrize("options", [{"delimiter": ","}, {}, {"delimiter": "\t"}])
def test_header_of_savetxt_is_a_header(tmp_path: Path, options: dict[str, str]) -> None:
    header = options.get("delimiter", " ").join("abc")
    np.savetxt(tmp_path / "x.txt", ROWS, fmt="%d", header=header, **options)
    table = read_table(tmp_path / "x.txt")
    assert table.names == ("a", "b", "c")
    assert same(table)


@pytest.mark.parametrize(
    "text",
    [
        "# recorded in 2020\na,b\n0,1\n",
        "# recorded in 2020\n0,1\n",
        "#a,b\nc,d\n0,1\n",
        "# 1,0\n0,1\n",
        "#\n0,1\n",
        "#\n",
        "#",
        "# a,b\n",
        "# a\n# b\n0,1\n",
    ],
)
def test_comments_are_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileFormatError, match="comments are not read"):
        read_table(write(tmp_path, text))


def test_a_comment_among_the_data_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="comments are not read"):
        read_table(write(tmp_path, "a,b\n0,1\n# pause\n1,1\n"))


@given(
    states=hnp.arrays(np.int8, hnp.array_shapes(min_dims=2, max_dims=2), elements=BIT),
    cell=st.sampled_from(["{}", "{}.0", "{}e0", " {} ", '"{}"']),
    text_column=st.booleans(),
)
@FILE_TEST
def test_any_binary_table_survives_any_way_of_writing_numbers(
    tmp_path: Path, states: np.ndarray, cell: str, text_column: bool
) -> None:
    names = [f"u{i}" for i in range(states.shape[1])]
    out = io.StringIO()
    out.write(",".join(names + ["label"] * text_column) + "\n")
    for row in states:
        out.write(",".join([cell.format(x) for x in row] + ["p"] * text_column) + "\n")
    table = read_table(write(tmp_path, out.getvalue()), columns=names)
    assert same(table, states)


@given(
    names=st.lists(
        st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1).filter(
            lambda name: name == name.strip() and not name.lstrip("-+.").isnumeric()
        ),
        min_size=2,
        max_size=4,
        unique=True,
    ).filter(lambda names: not names[0].startswith(("# ", "\ufeff")))
)
@FILE_TEST
def test_names_survive_quoting(tmp_path: Path, names: list[str]) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerows([["name " + name for name in names], [1] * len(names)])
    table = read_table(write(tmp_path, out.getvalue()))
    assert table.names == tuple("name " + name for name in names)


@pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE")])
def test_logical_words_are_read_as_numbers(tmp_path: Path, words: tuple[str, str]) -> None:
    table = read_table(write(tmp_path, f"a,b\n{words[0]},{words[1]}\n{words[1]},1\n"))
    assert same(table, [[1, 0], [0, 1]])


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numpy_files_of_every_type(tmp_path: Path, dtype: type, order: str) -> None:
    array = np.array(ROWS, dtype=dtype, order=order)
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", X=array, weights=np.ones(4), names=["a", "b", "c"])
    assert same(read_table(tmp_path / "x.npy"))
    assert same(read_table(tmp_path / "x.npz"))
    assert read_table(tmp_path / "x.npz").names == ("a", "b", "c")


@pytest.mark.parametrize("name", ["weights", "sample_weight", "counts", "rate", "trial"])
def test_arrays_beside_the_rows_are_noted_where_they_have_an_entry_for_each(
    name: str, tmp_path: Path
) -> None:
    array, path = np.array(ROWS), tmp_path / "x.npz"
    for entries in (np.arange(float(len(ROWS))), np.ones((len(ROWS), 1, 2))):
        np.savez(path, X=array, **{name: entries})
        (note,) = read_table(path).notes
        assert repr(name) in note
        assert "not read: weights of samples go in as sample_weight=" in note
    np.savez(path, X=array, other=np.zeros(len(ROWS) + 1), scalar=1.0, names=["a", "b", "c"])
    assert read_table(path).notes == ()


def test_npz_of_text_cells_is_parsed_and_columns_names_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.array([["0", "y"], ["1", "n"]]), columns=["a", "b"])
    assert same(read_table(tmp_path / "x.npz", columns=["a"]), [[0], [1]])


def test_only_matrix_of_an_archive_is_the_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", anything=np.array(ROWS), rate=np.ones(3))
    assert same(read_table(tmp_path / "x.npz"))


def test_values_that_are_no_small_integers_stay_floats(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a,b\n0.5,300\n1,2\n"))
    assert table.states.dtype == np.float64
    assert same(table, [[0.5, 300], [1, 2]])


def test_the_table_is_read_only_and_its_source_is_not(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, lines(",")))
    with pytest.raises(ValueError, match="read-only"):
        table.states[0, 0] = 1


# Columns


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, lines(",", "a,b,c"))
    table = read_table(path, columns=["c", "a"])
    assert table.names == ("c", "a")
    assert same(table, np.array(ROWS)[:, [2, 0]])


def test_a_number_is_a_position_unless_it_is_a_name(tmp_path: Path) -> None:
    by_position = read_table(write(tmp_path, lines(",", "a,b,c")), columns=["2", 0])
    assert by_position.names == ("c", "a")
    by_name = read_table(write(tmp_path, lines(",", "x,0,2")), columns=["2", "0"])
    assert by_name.names == ("2", "0")


@pytest.mark.parametrize(
    ("columns", "exclude", "names"),
    [
        (None, ["b"], "acd"),
        (None, ["0", "d"], "bc"),
        (["d", "a", "b"], ["a"], "db"),
        (["a"], ["c"], "a"),
        (["1-3"], None, "bcd"),
        (["1-3"], ["2"], "bd"),
        (None, ["1-2"], "ad"),
        (["2-2"], None, "c"),
        (["3", "0-1"], None, "dab"),
    ],
)
def test_columns_taken_and_left_out(
    tmp_path: Path, columns: list[str] | None, exclude: list[str] | None, names: str
) -> None:
    path = write(tmp_path, "a,b,c,d\n0,1,0,1\n")
    assert "".join(read_table(path, columns=columns, exclude=exclude).names) == names


def test_a_range_may_be_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, "18-30,31-60,0-1\n0,1,0\n")
    assert read_table(path, columns=["0-1"]).names == ("0-1",)
    assert read_table(path, exclude=["18-30"]).names == ("31-60", "0-1")


@pytest.mark.parametrize(
    ("exclude", "message"),
    [
        (["Kenedy"], "did you mean 'Kennedy'"),
        (["0-2"], "no column is named '0-2'"),
        (["1-0"], "no column is named '1-0'"),
        (["0", "1"], "exclude leaves no column"),
    ],
)
def test_wrong_columns_to_leave_out_are_named(
    tmp_path: Path, exclude: list[str], message: str
) -> None:
    with pytest.raises(NamesError, match=message):
        read_table(write(tmp_path, "Kennedy,Souter\n0,1\n1,1\n"), exclude=exclude)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["Kenedy"], "did you mean 'Kennedy'"),
        (["kennedy"], "'Kennedy'"),
        (["7"], "no column is named '7'"),
        (["-1"], "no column is named '-1'"),
        (["Kennedy", "0"], "'Kennedy' 2 times"),
        ([], "columns is empty"),
    ],
)
def test_wrong_columns_are_named(tmp_path: Path, columns: list[str], message: str) -> None:
    path = write(tmp_path, "Kennedy,Souter\n0,1\n1,1\n")
    with pytest.raises(NamesError, match=message):
        read_table(path, columns=columns)


def test_repeated_header_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NamesError, match=r"'a' 2 times.*distinct"):
        read_table(write(tmp_path, "a,b,a\n0,1,0\n"))


# Missing values


@pytest.mark.parametrize("cell", ["", "NA", "NaN", "nan", "?", "N/A", "null", " ", ".", "<NA>"])
@pytest.mark.parametrize("drop_missing", [False, True])
def test_missing_cells(tmp_path: Path, cell: str, drop_missing: bool) -> None:
    path = write(tmp_path, f"a,b,c\n0,1,1\n{cell},0,1\n0,0,{cell}\n{cell},1,1\n")
    if drop_missing:
        table = read_table(path, drop_missing=True)
        assert same(table, [[0, 1, 1]])
        assert (table.n_rows_read, table.n_rows_dropped) == (4, 3)
        assert any("3 of 4 rows" in note for note in table.notes)
    else:
        with pytest.raises(MissingValueError) as error:
            read_table(path)
        for part in ("'a' (2 rows)", "'c' (1 rows)", "3 of 4 rows", "drop_missing=True"):
            assert part in str(error.value)
        assert "'b'" not in str(error.value)


def test_only_chosen_columns_count_as_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n0,1\n1,NA\n")
    table = read_table(path, columns=["a"], drop_missing=True)
    assert same(table, [[0], [1]])
    assert table.n_rows_dropped == 0


@pytest.mark.parametrize("drop_missing", [False, True])
def test_nothing_left_after_dropping_is_an_error(tmp_path: Path, drop_missing: bool) -> None:
    with pytest.raises(MissingValueError, match="2 of 2 rows"):
        read_table(write(tmp_path, "a,b\nNA,1\n1,NA\n"), drop_missing=drop_missing)


def test_nan_in_a_numpy_file(tmp_path: Path) -> None:
    array = np.array(ROWS, dtype=float)
    array[2, 1] = np.nan
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(MissingValueError, match=r"'column 1' \(1 rows\)"):
        read_table(tmp_path / "x.npy")


# Threshold


def test_threshold_is_strict() -> None:
    assert binarize([1, 2, 3], 2).tolist() == [0, 0, 1]


@given(
    hnp.arrays(np.float64, 5, elements=st.floats(-9, 9)),
    st.floats(-9, 9),
)
def test_binarize_matches_its_definition(values: np.ndarray, threshold: float) -> None:
    assert binarize(values, threshold).tolist() == [int(v > threshold) for v in values]


def test_binarize_reads_bytes_that_would_wrap() -> None:
    assert binarize(np.array([127, -128], dtype=np.int8), 126.5).tolist() == [1, 0]
    assert binarize(np.array([0, 200], dtype=np.uint8), -1).tolist() == [1, 1]


@pytest.mark.parametrize("threshold", [np.nan, np.inf])
def test_threshold_must_be_finite(threshold: float) -> None:
    with pytest.raises(CodingError, match="finite"):
        binarize([0, 1], threshold)


def test_binarize_does_not_call_nan_zero() -> None:
    with pytest.raises(MissingValueError, match="1 missing"):
        binarize([0.0, np.nan], 0.5)


def test_threshold_of_a_file_is_noted(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a,b\n0,3\n1,2\n"), threshold=1)
    assert same(table, [[0, 1], [0, 1]])
    assert "greater than 1" in table.notes[-1]


def test_columns_that_number_the_rows_are_named_with_a_threshold(tmp_path: Path) -> None:
    path = write(tmp_path, "day,x,time h,flat\n1,0,0.5,2\n2,9,0.7,2\n3,1,0.71,2\n9,7,4,2\n")
    table = read_table(path, threshold=2)
    assert any(
        "'day', 'time h'" in note and "exclude=['day', 'time h']" in note for note in table.notes
    )
    assert not any("'x'" in note or "'flat'" in note for note in table.notes)
    assert len(read_table(path, threshold=2, exclude=["day", "time h"]).notes) == 1


def test_two_rows_in_order_are_no_index(tmp_path: Path) -> None:
    assert len(read_table(write(tmp_path, "a,b\n0,3\n1,5\n"), threshold=1).notes) == 1


# Files that are wrong


@pytest.mark.parametrize(
    ("first", "second", "yes"),
    [
        ("y", "n", "y"),
        ("n", "y", "y"),
        ("Yes", "No", "Yes"),
        ("T", "F", "T"),
        ("On", "OFF", "On"),
        ("present", "absent", "present"),
        ("yea", "nay", "yea"),
        ("rep", "dem", "rep"),
    ],
)
def test_two_labels_suggest_which_is_one(tmp_path: Path, first: str, second: str, yes: str) -> None:
    path = write(tmp_path, f"a,b\n{first},1\n{second},0\n{first},0\n")
    no = first if yes == second else second
    with pytest.raises(CodingError, match=r"column 'a' .*exclude=\['a'\]$") as error:
        read_table(path)
    assert f"yes={yes!r} with no={no!r}" in str(error.value)
    assert ("or the other way round" in str(error.value)) == (first == "rep")
    table = read_table(path, yes=yes, no=no)
    assert table.states[:, 0].tolist() == [int(word == yes) for word in (first, second, first)]


@pytest.mark.parametrize(
    ("header", "row", "advice"),
    [
        ("id,a,b,c", "x{},0,1,1", "exclude=['id']"),
        ("id,name,a", "x{},y,0", "columns=['a']"),
        ("cell 1,cell 2,u 3", "x{},y,0", "columns=['u 3']"),
        ('"a, b",c,d', "x{},0,1", "exclude=['a, b']"),
        ("id," + ",".join(f"c{k}" for k in range(30)), "x{}" + ",0" * 30, "exclude=['id']"),
        ("id,name", "x{},y", ""),
    ],
)
def test_advice_about_text_columns_can_be_pasted(
    tmp_path: Path, header: str, row: str, advice: str
) -> None:
    path = write(tmp_path, "\n".join([header, *(row.format(k % 40) for k in range(90))]))
    with pytest.raises(CodingError) as error:
        read_table(path)
    if not advice:
        assert "exclude=" not in str(error.value)
        assert "columns=" not in str(error.value)
        return
    assert str(error.value).endswith(advice)
    # The shell's way, through the option.
    name, option = in_options(advice).removeprefix("--").split(" ", 1)
    pasted = next(csv.reader(shlex.split(option)))
    for names in (pasted, ast.literal_eval(advice.split("=", 1)[1])):
        assert read_table(path, **{name: names}).states.max() <= 1


def test_words_that_most_columns_hold_are_the_answers(tmp_path: Path) -> None:
    """Not the labels of groups in a column before them, nor the numbers of respondents."""
    path = write(tmp_path, "id,group,a,b\n1,one,yes,no\n2,two,no,yes\n3,two,yes,yes\n")
    with pytest.raises(CodingError) as error:
        read_table(path)
    message = str(error.value)
    assert message.startswith("column 'a' holds the labels 'yes' and 'no'")
    assert "yes='yes' with no='no'" in message
    assert message.endswith("exclude=['group']")
    table = read_table(path, yes="yes", no="no", exclude=["id", "group"])
    assert table.states.tolist() == [[1, 0], [0, 1], [1, 1]]


def test_text_column_is_named_with_its_row(tmp_path: Path) -> None:
    path = write(tmp_path, "a,party,c\n0,0,x\n1,rep,y\n0,dem,z\n1,ind,z\n")
    with pytest.raises(CodingError) as error:
        read_table(path)
    for part in ("'party'", "'rep'", "data row 2", "1 more columns", "columns=['a']"):
        assert part in str(error.value)


@pytest.mark.parametrize("cell", ["o", "1,500", "1.2,5", "1_0", "0x1"])
def test_first_bad_cell_is_named(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, f"a;b\n0;1\n0;{cell}\n1;1\n")
    with pytest.raises(CodingError, match=r"column 'b'.*data row 2"):
        read_table(path)


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_infinite_cells_are_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(CodingError, match=r"column 'b'.*inf.*data row 2"):
        read_table(write(tmp_path, f"a,b\n0,1\n0,{cell}\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n0,1\n0,1,1\n", "data row 2 .* has 3 cells, the first line has 2"),
        ("a,b\n0\n0\n", "data row 1 .* has 1 cells"),
        ("a,b\n0,1,1\n1,1,1\n", "data row 1 .*without row names"),
        ("0,1\n0,1\n0\n", "data row 3"),
        ("", "is empty"),
        ("\n \n", "is empty"),
        ('"\n"\n"\n"\n', "holds no cells"),
        ("a,b\n", "no rows of data"),
    ],
)
def test_ragged_and_empty_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        read_table(write(tmp_path, text))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"a,b\n0,\xff\xfe1\n", "not UTF-8"),
        ("x.csv", "a,b\n0,1\n".encode("utf-16-le"), "NUL bytes .*UTF-16"),
        ("x.csv", "a,b\n0,1\n".encode("utf-16")[:-1], "not UTF-16"),
        ("x.csv", b'a,b\n0,"1\n0,1\n', "text table"),
        ("x.csv.gz", b"a,b\n0,1\n", "text table"),
        ("x.csv.gz", gzip.compress(b"a,b\n0,1\n" * 99)[:-9], "text table"),
        ("x.npy", b"a,b\n0,1\n", "numpy file"),
        ("x.npz", b"", "numpy file"),
        ("x.npz", NPY, "rename it to .npy"),
        ("x.npy", NPZ, "rename it to .npz"),
        ("x.npz", b"PK\x03\x04 no archive", "numpy file"),
        ("x.ods", b"", "suffix .ods"),
        ("x.xlsx", b"", "cannot be read as a workbook"),
        ("x", b"0,1", "suffix none"),
        ("x.npy.gz", b"", "suffix .npy.gz"),
        (".gz", b"", "suffix none"),
    ],
    # Compressed bytes hold the time, which must not get into the names of tests.
    ids=lambda value: value if isinstance(value, str) else f"{len(value)} bytes",
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=message) as error:
        read_table(tmp_path / name)
    assert name in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        read_table(tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(2), "states": np.eye(2)}, "several matrices"),
        ({"a": np.eye(2), "b": np.eye(2)}, r"several matrices.*a \(2, 2\), b \(2, 2\)"),
        ({"a": np.ones(2)}, "no matrix"),
        ({"times": np.ones(9), "unit": np.ones(9)}, "become rows by counts in bins"),
        ({}, "no arrays"),
        ({"X": np.array([[object()]])}, "not of objects"),
        ({"X": np.eye(2) * 1j}, "complex128"),
        ({"data": np.ones(2), "indices": np.ones(2), "indptr": np.ones(2)}, "scipy.sparse"),
        ({"ebm_model": np.array("{}"), "weights": np.eye(2)}, r"saved model.*ebm\.load"),
    ],
)
def test_archives_that_are_not_one_matrix(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(FileFormatError, match=message):
        read_table(tmp_path / "x.npz")


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), (0, 3), (3, 0), ()])
def test_arrays_of_a_wrong_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape))
    with pytest.raises(ShapeError, match="wanted \\(rows, units\\)"):
        read_table(tmp_path / "x.npy")


def test_names_that_do_not_fit_the_matrix(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.eye(3), names=["a", "b"])
    with pytest.raises(NamesError, match="3 columns but 2 names"):
        read_table(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("shape", "doubtful"),
    [
        ((15, 40000), True),
        ((60, 300), True),
        ((40, 41), True),
        ((2, 30), True),
        ((40000, 15), False),
        ((41, 40), False),
        ((5, 10), False),
    ],
)
def test_tables_that_may_be_transposed(
    tmp_path: Path, shape: tuple[int, int], doubtful: bool
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(shape, dtype=np.int8))
    table = read_table(tmp_path / "x.npy")
    assert ("transposed" in table.doubt) == doubtful
    assert table.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "cell 0,0,1,1,0\ncell 1,1,1,0,0\n",
        ",s1,s2,s3,s4\ncell 0,0,1,1,0\ncell 1,1,1,0,0\n",
        "unit,s1,s2,s3,s4\na,0,1,1,0\nb,1,1,0,0\nc,1,0,0,0\n",
    ],
)
def test_names_in_the_first_column_may_mean_a_transposed_table(tmp_path: Path, text: str) -> None:
    with pytest.raises(EbmError, match="the table is transposed"):
        read_table(write(tmp_path, text))


def test_years_are_names_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "country,1990,1991\nFR,0,1\nDE,1,1\n")
    assert same(read_table(path, exclude=["country"]), [[0, 1], [1, 1]])


@given(st.binary(max_size=60), st.sampled_from([".csv", ".txt", ".csv.gz", ".npy", ".npz"]))
@settings(FILE_TEST, max_examples=200)
def test_no_bytes_raise_anything_but_a_named_error(
    tmp_path: Path, content: bytes, suffix: str
) -> None:
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(content)
    try:
        table = read_table(path)
    except EbmError:
        return
    assert np.isfinite(table.states).all()


def test_rows_with_missing_cells_can_be_kept(tmp_path: Path) -> None:
    """As NaN, for a likelihood that sums over what they might hold; no row is counted as lost."""
    path = write(tmp_path, "a,b,c\n0,NA,9\n1,1,0\n,,\n1,1,0\n")
    table = read_table(path, drop_missing="never", missing=9)
    np.testing.assert_array_equal(
        table.states, [[0, np.nan, np.nan], [1, 1, 0], [np.nan] * 3, [1, 1, 0]]
    )
    assert (table.n_rows_read, table.n_rows_dropped) == (4, 0)
    data = ebm.IncompleteEnsemble.from_data(table)
    assert data.space.names == ("a", "b", "c")
    np.testing.assert_array_equal(data.levels, [[0, -1, -1], [1, 1, 0]])


@pytest.mark.parametrize(
    ("threshold", "wanted"),
    [(2, [[0, np.nan], [1, 0], [1, 1]]), ("mean", [[0, np.nan], [0, 0], [1, 1]])],
)
def test_thresholds_are_those_of_the_cells_seen(
    tmp_path: Path, threshold: Any, wanted: Any
) -> None:
    """A missing cell stays one, and enters no mean."""
    path = write(tmp_path, "a,b\n1,\n3,2\n8,4\n")
    table = read_table(path, drop_missing="never", threshold=threshold)
    np.testing.assert_array_equal(table.states, wanted)
    assert "to 1" in table.notes[0]


def test_what_is_to_be_done_with_missing_cells_is_one_of_three(tmp_path: Path) -> None:
    """Anything else is a slip."""
    path = write(tmp_path, "a,b\n0,1\n")
    with pytest.raises(EbmError, match="drop_missing must be True, False or 'never', got 'no'"):
        read_table(path, drop_missing="no")  # type: ignore[arg-type]
