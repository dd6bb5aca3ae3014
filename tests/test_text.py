"""Texts for people: widths, alignment, names and numbers."""

from ebm._text import WIDTH, columns, labelled, number, short, table, with_error, wrapped


def test_sentences_are_wrapped_and_indented_as_their_first_line() -> None:
    lines = wrapped("word " * 60, "  - ")
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith("  - word")
    assert all(line.startswith("    word") for line in lines[1:])


def test_tables_align_each_column() -> None:
    rows = [["a", "1.5", "x"], ["bcd", "12.25", ""]]
    assert table(rows, "<><") == ["  a      1.5  x", "  bcd  12.25"]
    assert table(rows, "<><", indent=0, gap=1) == ["a     1.5 x", "bcd 12.25"]


def test_cells_fill_lines() -> None:
    lines = columns([f"cell {k}" for k in range(30)])
    assert max(map(len, lines)) <= WIDTH
    assert "".join(lines).split() == [word for k in range(30) for word in ("cell", str(k))]
    assert columns(["x" * 100]) == ["    " + "x" * 100]


def test_names_are_one_short_line() -> None:
    assert short("a\n b") == "a b"
    assert short("x" * 20) == "x" * 20
    assert short("x" * 21) == "x" * 19 + "…"


def test_numbers_have_their_errors_or_say_that_they_are_unknown() -> None:
    assert with_error(1.23456, None) == "1.2346"
    assert with_error(1.23456, 0.05, 2) == "1.23 ± 0.05"
    assert (number(1234.5), number(None), number(None, unknown="unknown")) == (
        "1.23e+03",
        "-",
        "unknown",
    )
    assert labelled("rows", "7").split() == ["rows", "7"]
