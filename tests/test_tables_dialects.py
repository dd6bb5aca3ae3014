"""Text tables in every dialect: what was written is read, or the file is named for what it is."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ebm.errors import (
    CodingError,
    EbmError,
    FileFormatError,
    MemoryLimitError,
    MissingValueError,
    NamesError,
    ShapeError,
)
from ebm.tables import read_table, table
from ebm.tables._cells import Reading, parse, parse_lines
from ebm.tables._delimited_text import read_text

FILE_TEST = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ROWS = [[0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1]]
NAMES = ["a", 'the "b"', "How often\ndo you sleep?", "Größe; x, y|z", "e f", "12 h", "x\t1"]


def write(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


# Round trips


@st.composite
def dialects(draw: Any) -> dict[str, Any]:
    delimiter = draw(st.sampled_from([",", ";", "\t", "|", " "]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    has_empty_cells = delimiter != " " or quoting == csv.QUOTE_ALL
    return {
        "delimiter": delimiter,
        "quoting": quoting,
        "line_end": draw(st.sampled_from(["\n", "\r\n", "\r"])),
        "comma": draw(st.booleans()) and (delimiter != "," or quoting == csv.QUOTE_ALL),
        "missing": draw(st.sampled_from(["NA", ".", "?", "nan", "NULL"] + [""] * has_empty_cells)),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])),
        "suffix": draw(st.sampled_from([".csv", ".txt.gz"])),
        "header": draw(st.booleans()),
        "said": draw(st.booleans()),
        "trailing": draw(st.booleans()) and delimiter != " ",
    }


@st.composite
def tables(draw: Any) -> np.ndarray:
    n_rows, n_columns = draw(st.integers(3, 6)), draw(st.integers(2, 5))
    cell = draw(
        st.sampled_from(
            [
                st.integers(0, 1).map(float),
                st.integers(-9, 99).map(float),
                st.integers(-999, 999).map(lambda k: k / 8 + 0.0625),
            ]
        )
    )
    values = np.array([[draw(cell) for _ in range(n_columns)] for _ in range(n_rows)])
    for row, column in draw(st.sets(st.tuples(st.integers(1, n_rows - 1), st.integers(0, 1)))):
        values[row, column] = np.nan
    return values


def written(values: np.ndarray, dialect: dict[str, Any]) -> str:
    """The table as text; a delimiter at the ends of lines where the dialect has one."""
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=dialect["delimiter"], quoting=dialect["quoting"], lineterminator="\n"
    )
    if dialect["said"]:
        out.write(f"sep={dialect['delimiter']}\n")
    rows: list[list[str]] = [NAMES[: values.shape[1]]] if dialect["header"] else []
    for row in values.tolist():
        cells = [dialect["missing"] if np.isnan(x) else f"{x:.12g}" for x in row]
        rows.append([c.replace(".", ",") if dialect["comma"] and c != "." else c for c in cells])
    writer.writerows([*row, *[""] * dialect["trailing"]] for row in rows)
    return out.getvalue().replace("\n", dialect["line_end"])


@given(tables(), dialects())
@FILE_TEST
def test_every_dialect_gives_the_table_that_was_written(
    tmp_path: Path, values: np.ndarray, dialect: dict[str, Any]
) -> None:
    content = written(values, dialect).encode(dialect["encoding"])
    path = tmp_path / f"x{dialect['suffix']}"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    # Only a reader who says so can tell numbers of data from numbers that are names.
    raw = read_text(path, header=None if dialect["header"] else False)
    np.testing.assert_array_equal(raw.values, values)
    assert raw.texts == {}
    if dialect["header"]:
        wanted = NAMES[: values.shape[1]]
        if dialect["delimiter"] == " ":
            wanted = [name.replace("\t", " ") for name in wanted]
        assert raw.names == tuple(wanted)
    commas = dialect["comma"] and bool((values % 1 != 0)[~np.isnan(values)].any())
    assert raw.notes == (("Commas were read as decimal marks.",) if commas else ())


CELL = st.sampled_from(
    ["0", "1", "NA", "", ".", "TRUE", "False", " 1", "1 ", '"0"', '"NA"', '""', "-1.5", "1e3",
     "+2", "123456789", "-0.123456789", "x", "yes, no"[:3], "1_0", "Infinity", "-", "x" * 9, "é"]
)  # fmt: skip


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1, max_size=7)
    ),
    st.booleans(),
)
@FILE_TEST
def test_blocks_read_what_the_csv_module_reads(rows: list[list[str]], many: bool) -> None:
    rows = [[str(k), *row] for k, row in enumerate(rows * (200 if many else 1))]
    body = "".join(",".join(row) + "\n" for row in rows)
    cells = parse_lines(body, ",", len(rows[0]), Reading())
    records = csv.reader(io.StringIO(body), skipinitialspace=True)
    columns = list(zip(*([cell.strip() for cell in row] for row in records), strict=True))
    wanted_values, wanted_texts = parse(columns, Reading())
    assert cells is not None
    values, texts = cells
    np.testing.assert_array_equal(values, wanted_values)
    assert {k: list(v) for k, v in texts.items()} == {k: list(v) for k, v in wanted_texts.items()}


@pytest.mark.parametrize("body", ["0,1\n0\n", "0,1\n0,1,1\n0\n", '"0,1\n', '0,"1\n0,"1\n'])
def test_blocks_leave_lines_of_different_lengths_to_the_csv_module(body: str) -> None:
    assert parse_lines(body, ",", 2, Reading()) is None


@pytest.mark.parametrize(
    ("body", "text"),
    [('"a,b",1\n0,1\n', "a,b"), ('"0""",1\n0,1\n', '0"'), ('1"2",1\n0,1\n', '1"2"')],
)
def test_quotes_around_delimiters_and_quotes_inside_of_cells(
    tmp_path: Path, body: str, text: str
) -> None:
    """numpy by itself would read some of these as numbers."""
    raw = read_text(write(tmp_path, body), header=False)
    assert {k: list(v) for k, v in raw.texts.items()} == {0: [text, "0"]}
    assert raw.values[:, 1].tolist() == [1, 1]


def test_long_tables_are_read_across_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebm.tables._cells._BLOCK", 64)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 4)).round(5)
    values[7, 1] = np.nan
    rows = [",".join("NA" if np.isnan(x) else repr(x) for x in row) for row in values.tolist()]
    labels = [f"label {k}" for k in range(500)]
    lines = [f"{row},{label}\n" for row, label in zip(rows, labels, strict=True)]
    raw = read_text(write(tmp_path, "a,b,c,d,who\n" + "".join(lines)))
    np.testing.assert_array_equal(raw.values[:, :4], values)
    assert {k: list(v) for k, v in raw.texts.items()} == {4: labels}


# Header and first line


def test_quoted_line_breaks_in_a_header_are_part_of_a_name(tmp_path: Path) -> None:
    path = write(tmp_path, '"How often\r\n do you sleep?",b\r\n0,1\r\n1,1\r\n')
    table = read_table(path)
    assert table.names == ("How often\n do you sleep?", "b")
    assert table.notes == ()


FRACTIONS = "0.5,1.5,2.5,0.25\n" * 2 + "1.5,0.5,-2.5,0.125\n"
DIGITS = "0,1,0,1\n1,0,1,1\n0,0,1,0\n"


@pytest.mark.parametrize("body", [FRACTIONS, DIGITS])
@pytest.mark.parametrize("header", ["12,15,27,31", "1990,1991,1992,1993", "1,2,3,4"])
def test_a_first_line_of_another_kind_is_refused_until_it_is_said(
    tmp_path: Path, body: str, header: str
) -> None:
    path = write(tmp_path, f"{header}\n{body}")
    with pytest.raises(FileFormatError, match=r"first line .* header=True .* header=False"):
        read_table(path, threshold=0)
    named = read_table(path, header=True)
    assert named.names == tuple(header.split(","))
    assert len(named.states) == 3
    assert len(read_table(path, header=False).states) == 4


@pytest.mark.parametrize(
    "text", [FRACTIONS, DIGITS, "3,1,2\n0.5,1.5,2\n1.5,0.5,3\n2.5,2.5,1\n", "1,5\n2,4\n0,7\n1,6\n"]
)
def test_a_first_line_of_the_same_kind_is_data_without_a_note(tmp_path: Path, text: str) -> None:
    table = read_table(write(tmp_path, text))
    assert len(table.states) == text.count("\n")
    assert table.notes == ()


def test_names_in_quotes_over_numbers_without_are_names(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, '"12","15"\n0,1\n1,0\n'))
    assert table.names == ("12", "15")
    assert table.notes == ()


def test_what_is_said_of_the_header_is_done(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n0,1\n")
    with pytest.raises(CodingError, match="holds text \\('a'"):
        read_table(path, header=False)
    np.save(tmp_path / "x.npy", np.eye(2))
    with pytest.raises(EbmError, match="header is about the first line of a text"):
        read_table(tmp_path / "x.npy", header=True)


# Row names and delimiters at the ends of lines


@pytest.mark.parametrize("header", ['"a" "b"', '"" "a" "b"'])
@pytest.mark.parametrize("first", ["1 2 3", "0 1 2", '"1" "2" "3"', "Ann Bob Cid"])
def test_names_of_rows_that_r_and_pandas_write_are_left_out(
    tmp_path: Path, header: str, first: str
) -> None:
    rows = [
        f"{name} {bits}" for name, bits in zip(first.split(), ("0 1", "1 1", "1 0"), strict=True)
    ]
    table = read_table(write(tmp_path, "\n".join([header, *rows])))
    assert table.names == ("a", "b")
    assert table.states.tolist() == [[0, 1], [1, 1], [1, 0]]
    assert "names of the rows" in table.notes[0]


@pytest.mark.parametrize("text", ["a,b\n0,1,1\n1,1,1\n", "a,b\nx,0,1\nx,1,1\n"])
def test_cells_that_tell_no_rows_apart_are_no_names_of_rows(tmp_path: Path, text: str) -> None:
    with pytest.raises(ShapeError, match="3 cells, the first line has 2"):
        read_table(write(tmp_path, text))


@pytest.mark.parametrize("header", ["a;b;c\n", "a;b;c;\n"])
@pytest.mark.parametrize("end", [";", ""])
def test_a_delimiter_at_the_ends_of_lines_is_no_column(
    tmp_path: Path, header: str, end: str
) -> None:
    body = "".join(";".join(map(str, row)) + end + "\n" for row in ROWS)
    table = read_table(write(tmp_path, header + body))
    assert table.names == ("a", "b", "c")
    assert table.states.tolist() == ROWS
    assert table.notes == ()


def test_an_empty_last_column_with_a_name_is_a_column(tmp_path: Path) -> None:
    with pytest.raises(EbmError, match=r"missing values in 'c' \(2 rows\).*exclude=\['c'\]"):
        read_table(write(tmp_path, "a,b,c\n0,1,\n1,1,\n"))


# Decimal commas, digits


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a;b\n0,25;1\n1,5;2\n", [[0.25, 1], [1.5, 2]]),
        ('a,b\n"0,5","1,5"\n"1,25","2"\n', [[0.5, 1.5], [1.25, 2]]),
        ("0,5;1,5;1\n1,5;0,5;2\n0,25;0,5;3\n", [[0.5, 1.5, 1], [1.5, 0.5, 2], [0.25, 0.5, 3]]),
        ("a;b;who\n0,5;1,125;x, y\n1,5;2;z\n", [[0.5, 1.125], [1.5, 2]]),
    ],
)
def test_decimal_commas_are_read_where_they_are_beyond_doubt(
    tmp_path: Path, text: str, values: list[list[float]]
) -> None:
    exclude = ["who"] if "who" in text else None
    table = read_table(write(tmp_path, text), exclude=exclude)
    assert table.states.tolist() == values
    assert table.notes == ("Commas were read as decimal marks.",)


@pytest.mark.parametrize("text", ["a;b\n1,250;1\n2,500;0\n", "a;b\n0,25;1.5\n2,5;0\n"])
def test_commas_that_may_part_thousands_are_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(CodingError, match="decimal marks or part thousands"):
        read_table(write(tmp_path, text))


def test_commas_for_both_are_named(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match=r"4 cells.* 2: if commas are decimal marks"):
        read_table(write(tmp_path, "a,b\n0,5,1,5\n1,5,2,5\n"))


@pytest.mark.parametrize("rows", list(itertools.permutations(["011", "110", "101"])))
def test_digits_without_delimiters_are_columns(tmp_path: Path, rows: tuple[str, ...]) -> None:
    table = read_table(write(tmp_path, "\n".join(rows) + "\n", "spikes.txt"))
    assert table.states.tolist() == [list(map(int, row)) for row in rows]
    assert table.notes == ("Lines of 3 digits without delimiters were read as 3 columns.",)


@pytest.mark.parametrize("text", ["10\n11\n", "0\n1\n", "01\n2\n", "011\n10\n"])
def test_other_digits_are_numbers(tmp_path: Path, text: str) -> None:
    table = read_table(write(tmp_path, text))
    assert table.states.ravel().tolist() == list(map(float, text.split()))


# Missing cells


@pytest.mark.parametrize("missing", [[9], ["9"], [9, 99], ["9", "refused"], "9"])
def test_codes_for_no_answer_are_missing(tmp_path: Path, missing: Any) -> None:
    path = write(tmp_path, "a,b\n0,1\n9,0\n1,9.0\n1,1\n")
    table = read_table(path, missing=missing, drop_missing=True)
    assert table.states.tolist() == [[0, 1], [1, 1]]
    assert table.n_rows_dropped == 2


def test_a_number_for_no_answer_may_also_be_that_of_a_person(tmp_path: Path) -> None:
    answers = [f"{person},{item},{99 if person == 7 else person % 2}\n"
               for person in range(1, 121) for item in "abc"]  # fmt: skip
    path = write(tmp_path, "id,item,resp\n" + "".join(answers))
    options = {"layout": ["id", "item", "resp"], "missing": [99]}
    table = read_table(path, **options, drop_missing=True)
    assert (table.states.shape, table.n_rows_dropped) == ((119, 3), 1)
    np.testing.assert_array_equal(table.states[97], [1, 1, 1])


def test_words_for_no_answer_are_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n0,1\nRefused,0\n1,did not know\n1,1\n")
    with pytest.raises(CodingError, match="with missing="):
        read_table(path)
    options = {"missing": ["refused", "did not know"], "drop_missing": True}
    assert read_table(path, **options).states.tolist() == [[0, 1], [1, 1]]


def test_one_code_may_stand_alone_and_several_are_a_list(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n0,9\n1,1\n1,9\n0,1\n")
    for missing in (9, "9", np.int64(9), 9.0, [9, 99], ("9",)):
        states = read_table(path, missing=missing, drop_missing=True).states
        assert states.tolist() == [[1, 1], [0, 1]]
    with pytest.raises(EbmError, match=r"missing='9,99' .*: give missing=\['9', '99'\]"):
        read_table(path, missing="9,99")
    with pytest.raises(EbmError, match=r"missing must be a value or several, .* got None"):
        read_table(path, missing=None)


def test_codes_in_an_array_are_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[0, 1], [99, 1], [1, 0]]))
    table = read_table(tmp_path / "x.npy", missing=[99], drop_missing=True)
    assert table.states.tolist() == [[0, 1], [1, 0]]


def test_where_no_row_is_complete_columns_are_to_leave_out(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,c\n0,NA,1\n1,NA,NA\n1,NA,0\n")
    with pytest.raises(EbmError) as error:
        read_table(path)
    assert "drop_missing" not in str(error.value)
    assert str(error.value).endswith("exclude=['b'] leaves 2 complete rows")
    table = read_table(path, exclude=["b"], drop_missing=True)
    assert table.states.tolist() == [[0, 1], [1, 0]]


@given(hnp.arrays(bool, st.tuples(st.integers(1, 6), st.integers(1, 5))))
def test_columns_to_leave_out_are_the_emptiest_until_a_row_is_complete(lacking: Any) -> None:
    """The remedy by the loop that it sums up: one column after the other, counted anew."""
    lacking[:, 0] |= ~lacking.any(axis=1)
    kept, emptiest = list(range(lacking.shape[1])), []
    while kept and lacking[:, kept].any(axis=1).all():
        emptiest.append(kept.pop(int(lacking[:, kept].sum(axis=0).argmax())))
    said = table._remedy(lacking, [f"c{k}" for k in range(lacking.shape[1])])
    if not kept:
        assert said.startswith("every row lacks something")
        return
    n_complete = int((~lacking[:, kept].any(axis=1)).sum())
    names = [f"c{k}" for k in emptiest]
    assert said.endswith(f"exclude={names} leaves {n_complete} complete rows")


def test_of_many_columns_to_leave_out_a_handful_is_named(tmp_path: Path) -> None:
    """A long table of pairs that are there once each."""
    pairs = "\n".join(["id,item,v", *(f"i{k},u{k},1" for k in range(300))])
    with pytest.raises(MissingValueError) as error:
        read_table(write(tmp_path, pairs), layout=("id", "item", "v"))
    assert "1 of 300 rows are complete without the 299 emptiest, 'u0', 'u1'" in str(error.value)
    assert len(str(error.value)) < 600


# Files of other programs


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("x.ods", r"spreadsheet .* as \.xlsx"), ("x.xls", "spreadsheet"),
        ("x.mat", "MATLAB"), ("x.sav", "SPSS"), ("x.dta", "Stata"),
        ("x.RDS", r"write\.csv"), ("x.por", r"as \.sav"), ("x.h5", "HDF5"),
        ("x.csv.zip", "unpack"), ("x.pkl", "numpy.save"), ("x.doc", "wanted .csv"),
    ],
)  # fmt: skip
def test_files_of_other_programs_are_named(tmp_path: Path, name: str, word: str) -> None:
    with pytest.raises(FileFormatError, match=word):
        read_table(write(tmp_path, "", name))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"PK\x03\x04 \x00", "Excel"), (gzip.compress(b"a,b\n0,1\n"), "end with .gz"),
        (b"MATLAB 5.0 MAT-file", "MATLAB"), (b"\x93NUMPY\x01\x00", "end with .npy"),
        (b"a,b\n0,\x001\n", "NUL bytes .*byte 6"),
    ],
    ids=["zip", "gzip", "matlab", "numpy", "nul"],
)  # fmt: skip
def test_content_that_is_no_text_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=word):
        read_table(path)


# Layouts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cell 0,0,1,1,0\ncell 1,1,1,0,0\n", ("cell 0", "cell 1")),
        (",s1,s2,s3,s4\ncell 0,0,1,1,0\ncell 1,1,1,0,0\n", ("cell 0", "cell 1")),
        ("unit,s1,s2,s3,s4,\ncell 0,0,1,1,0,\ncell 1,1,1,0,0,\n", ("cell 0", "cell 1")),
        ("0,1,1,0\n1,1,0,0\n", ("column 0", "column 1")),
    ],
)
def test_a_transposed_table_is_turned(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    table = read_table(write(tmp_path, text), layout="transposed")
    assert table.names == names
    assert table.states.tolist() == [[0, 1], [1, 1], [1, 0], [0, 0]]


def test_turning_an_array_twice_is_nothing(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (5, 3))
    np.save(tmp_path / "x.npy", rows.T)
    assert read_table(tmp_path / "x.npy", layout="transposed").states.tolist() == rows.tolist()


def test_transposed_names_must_differ(tmp_path: Path) -> None:
    path = write(tmp_path, "u,s1,s2\na,0,1\na,1,1\n")
    with pytest.raises(NamesError, match=r"first column .* 'a' 2 times"):
        read_table(path, layout="transposed")


LONG = "id,item,resp\n7,q1,0\n7,q2,1\n8,q2,0\n8,q1,1\n9,q1,1\n"


def test_a_long_table_is_named_and_turned(tmp_path: Path) -> None:
    path = write(tmp_path, LONG)
    layout = ["id", "item", "resp"]
    with pytest.raises(FileFormatError, match="long table") as error:
        read_table(path)
    assert str(error.value).endswith(f"layout={layout} turns it")
    with pytest.raises(EbmError, match=r"'q2' \(1 rows\)"):
        read_table(path, layout=layout)
    table = read_table(path, layout=layout, drop_missing=True)
    assert table.names == ("q1", "q2")
    assert table.states.tolist() == [[0, 1], [1, 0]]
    assert "5 rows of a long table make 3 rows of 2 columns; 1 of these" in table.notes[0]


@given(st.permutations(range(12)))
@FILE_TEST
def test_any_order_of_a_long_table_gives_the_same_cells(tmp_path: Path, order: list[int]) -> None:
    values = np.arange(12).reshape(4, 3)
    lines = [f"{k % 3},{values[k // 3, k % 3]},s{k // 3}" for k in order]
    path = write(tmp_path, "\n".join(["unit,x,who", *lines]))
    raw = read_table(path, layout=["who", "unit", "x"])
    columns = [raw.names.index(str(k)) for k in range(3)]
    assert sorted(raw.states[:, columns].tolist()) == values.tolist()


def test_a_value_twice_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, LONG + "9,q1,0\n")
    with pytest.raises(CodingError, match="id '9' with item 'q1' more than once"):
        read_table(path, layout=["id", "item", "resp"])


def test_three_columns_of_all_pairs_may_be_a_long_table(tmp_path: Path) -> None:
    pairs = [f"{i},{j},{(i * j) % 2}" for i in range(4) for j in range(5)]
    path = write(tmp_path, "\n".join(["a,b,c", *pairs]))
    assert "layout=['a', 'b', 'c']" in read_table(path).doubt
    assert read_table(path, columns=["a", "b", "c"]).doubt == ""
    assert read_table(write(tmp_path, "\n".join(["a,b,c", *pairs[1:]]))).doubt == ""


def test_a_long_table_that_would_not_fit_is_refused_before_it_is_made(tmp_path: Path) -> None:
    n = 20_000
    path = write(tmp_path, "\n".join(["id,item,v", *(f"i{k},u{k},1" for k in range(n))]))
    words = "table of 20000 'id' and 20000 'item' would take 6.71 GiB, the limit is 4 GiB"
    with pytest.raises(MemoryLimitError, match=words):
        read_table(path, layout=["id", "item", "v"])
    # The twin: as many rows of few units.
    few = "\n".join(["id,item,v", *(f"i{k // 2},u{k % 2},1" for k in range(n))])
    states = read_table(write(tmp_path, few), layout=["id", "item", "v"]).states
    assert states.shape == (n // 2, 2)


@pytest.mark.parametrize(
    "layout", ["long", "transpose", ["id", "item"], ["id", "item", "x"], None, 3]
)
def test_other_layouts_are_refused(tmp_path: Path, layout: Any) -> None:
    with pytest.raises(EbmError):
        read_table(write(tmp_path, LONG), layout=layout)
