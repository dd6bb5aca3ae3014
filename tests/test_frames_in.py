"""Frames of pandas, polars and pyarrow as they are: read by name, refused alike."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.comparison._grouped_rows import read_groups
from ebm.errors import CodingError, EbmError, MissingValueError, NamesError
from ebm.spaces._reading import dense, readable
from tests.strategies import generators

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

NAMES = ["a", "b", "c"]
SPACE = ebm.Binary(3, names=NAMES)


def in_chunks(columns):
    """A table of pyarrow whose columns are in two pieces, cut at different rows."""
    chunked = {
        name: pa.chunked_array([values[: k + 1], values[k + 1 :]])
        for k, (name, values) in enumerate(columns.items())
    }
    return pa.table(chunked)


def bits(columns, kind):
    """Columns of 0, 1 and None as columns of flags."""
    flags = {None: None, 0: False, 1: True}
    return {name: kind([flags[x] for x in values]) for name, values in columns.items()}


#: Every make of a table, from columns of 0, 1 and None.
MAKES = {
    "pandas": lambda columns: pd.DataFrame(columns, dtype=float),
    "pandas objects": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas Int64": lambda columns: pd.DataFrame(columns, dtype="Int64"),
    "pandas boolean": lambda columns: pd.DataFrame(columns, dtype="boolean"),
    "pandas of arrow": lambda columns: pd.DataFrame(columns, dtype="int8[pyarrow]"),
    "pandas categories": lambda columns: pd.DataFrame(columns, dtype=float).astype("category"),
    "pandas whole categories": lambda columns: pd.DataFrame(
        {name: pd.Categorical(values, [0, 1]) for name, values in columns.items()}
    ),
    "pandas mixed": lambda columns: pd.DataFrame(columns, dtype=float).astype({"a": "Int8"}),
    "polars": pl.DataFrame,
    "polars UInt8": lambda columns: pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.UInt8)),
    "polars Boolean": lambda columns: pl.DataFrame(bits(columns, pl.Series)),
    "polars decimal": lambda columns: pl.DataFrame(columns).cast(pl.Decimal(10, 2)),
    "pyarrow": pa.table,
    "pyarrow batch": pa.record_batch,
    "pyarrow flags": lambda columns: pa.table(bits(columns, pa.array)),
    "pyarrow chunks": in_chunks,
    "pyarrow dictionary": lambda columns: pa.table(
        {name: pa.array(values, pa.int8()).dictionary_encode() for name, values in columns.items()}
    ),
}


def columns_of(cells, order):
    """Cells (m, 3), NaN where missing, as columns in an order of their own."""
    whole = {name: [None if x != x else int(x) for x in column] for name, column in cells.items()}
    return {name: whole[name] for name in order}


@st.composite
def cells_with_gaps(draw, share):
    """Columns by name, some cells missing below the third row."""
    rng, n_rows = draw(generators()), draw(st.integers(4, 12))
    cells = rng.integers(0, 2, (n_rows, 3)).astype(float)
    cells[3:][rng.random((n_rows - 3, 3)) < share] = np.nan
    return dict(zip(NAMES, cells.T, strict=True))


@pytest.mark.parametrize("make", MAKES)
@settings(max_examples=8)
@given(cells=cells_with_gaps(0.0), order=st.permutations(NAMES))
def test_every_make_is_read_as_its_array_by_the_names_of_the_space(make, cells, order):
    frame = MAKES[make](columns_of(cells, order))
    array = np.column_stack([cells[name] for name in NAMES])
    data, wanted = (ebm.Ensemble.from_data(rows, space=SPACE) for rows in (frame, array))
    np.testing.assert_array_equal(data.states, wanted.states)
    np.testing.assert_array_equal(data.weights, wanted.weights)
    assert ebm.Ensemble.from_data(frame).space.names == tuple(order)
    model = ebm.BoltzmannMachine(np.zeros((3, 3)), [1.0, 2.0, 4.0], names=NAMES)
    np.testing.assert_array_equal(model.energy(frame), model.energy(array))


@pytest.mark.parametrize("make", MAKES)
@settings(max_examples=8)
@given(cells=cells_with_gaps(0.3), order=st.permutations(NAMES))
def test_missing_cells_of_every_make_are_missing(make, cells, order):
    frame = MAKES[make](columns_of(cells, order))
    array = np.column_stack([cells[name] for name in NAMES])
    np.testing.assert_array_equal(
        dense(readable(frame, "data")), np.column_stack([cells[name] for name in order])
    )
    data = ebm.IncompleteEnsemble.from_data(frame, space=SPACE)
    wanted = ebm.IncompleteEnsemble.from_data(array, space=SPACE)
    np.testing.assert_array_equal(data.levels, wanted.levels)
    levels, _ = ebm.tables.as_levels(frame, NAMES, (0, 1), keep_missing=True)
    np.testing.assert_array_equal(levels, array)
    if not np.isnan(array).any():
        above = ebm.tables.binarize(frame, 0.5)
        np.testing.assert_array_equal(above, dense(readable(frame, "data")))
        return
    gaps = [name for name in order if np.isnan(cells[name]).any()]
    with pytest.raises(MissingValueError, match=f"have missing values.*'{gaps[0]}'"):
        ebm.Ensemble.from_data(frame)
    with pytest.raises(MissingValueError, match="missing values, neither above nor below"):
        ebm.tables.binarize(frame, 0.5)


START = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), names=NAMES)
DAYS = [datetime.date(1970, 1, 1), datetime.date(1970, 1, 2), datetime.date(1970, 1, 2)]
HOURS = [datetime.timedelta(0), datetime.timedelta(1), datetime.timedelta(1)]
NO_NUMBERS = {
    "text": ["0", "1", "1"],
    "words": ["no", "yes", "yes"],
    "dates": DAYS,
    "times": HOURS,
    "lists": [[0], [1], [1]],
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_columns_of_other_things_than_numbers_are_refused_by_name(make, kind):
    """Dates of polars were read as the days since 1970, which a coding of 0 and 1 did not see."""
    frame = make({"a": [1, 1, 0], "b": NO_NUMBERS[kind], "c": [0, 0, 1]})
    uses = (
        ebm.Ensemble.from_data,
        START.energy,
        lambda X: ebm.tables.binarize(X, 0.5),
        lambda X: ebm.tables.as_levels(X, NAMES, (0, 1)),
    )
    for use in uses:
        with pytest.raises(CodingError, match=r"column 'b' holds .* where numbers are wanted"):
            use(frame)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series(["no", "yes", "yes"], dtype=pl.Categorical),
        pl.Series(["no", "yes", "yes"], dtype=pl.Enum(["no", "yes"])),
        pd.Series(pd.Categorical(["no", "yes", "yes"], ["yes", "no"], ordered=True)),
        pa.array(["no", "yes", "yes"]).dictionary_encode(),
    ],
)
def test_categories_of_words_are_refused(column):
    make = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "pyarrow": pa.table}
    frame = make[type(column).__module__.split(".")[0]]({"a": [1, 1, 0], "b": column})
    with pytest.raises(CodingError, match="column 'b' holds 'no', 'yes' where numbers"):
        ebm.Ensemble.from_data(frame)


def ordered_of_arrow(values, categories):
    places = pa.array([None if x is None else categories.index(x) for x in values], pa.int8())
    return pa.DictionaryArray.from_arrays(places, pa.array(categories), ordered=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda values, order: pd.DataFrame(
            {"a": [1, 1, 0], "b": pd.Categorical(values, order, True)}
        ),
        lambda values, order: pa.table({"a": [1, 1, 0], "b": ordered_of_arrow(values, order)}),
    ],
)
def test_ordered_categories_of_numbers_in_another_order_are_refused(make):
    """Either the numbers or their places could be meant."""
    expected = dense(readable(make([0, None, 1], [0, 1]), "data"))
    np.testing.assert_array_equal(expected, [[1, 0], [1, np.nan], [0, 1]])
    with pytest.raises(CodingError, match=re.escape("column 'b' has ordered categories [1, 0]")):
        ebm.Ensemble.from_data(make([0, 1, 1], [1, 0]))
    with pytest.raises(CodingError, match="not in the order of these numbers"):
        ebm.Ensemble.from_data(make([0, None, 1], [1, 0]))


def test_a_plan_for_rows_is_refused():
    with pytest.raises(EbmError, match=r"got a LazyFrame, a plan for some: give data.collect\(\)"):
        ebm.Ensemble.from_data(pl.LazyFrame({"a": [0, 1]}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_names_beside_a_frame_are_not_taken_against_its_own(make, tmp_path):
    frame = make({"b": [0, 1, 1], "a": [2, 2, 1]})
    path = tmp_path / "rows.csv"
    ebm.tables.write_table(path, frame)
    assert path.read_text() == "b,a\n0,2\n1,2\n1,1\n"
    ebm.tables.write_table(path, frame, ["a", "b"], overwrite=True)
    assert path.read_text() == "a,b\n2,0\n2,1\n1,1\n"
    codes = {"a": (1, 2), "b": (0, 1)}
    levels, _ = ebm.tables.as_levels(frame, ["a", "b"], codes)
    np.testing.assert_array_equal(levels, [[1, 0], [1, 1], [0, 1]])
    for use in (
        lambda names: ebm.tables.write_table(path, frame, names, overwrite=True),
        lambda names: ebm.tables.as_levels(frame, names, (0, 2)),
        lambda names: ebm.report.analyze_items(frame, (0, 2), names=names),
    ):
        with pytest.raises(NamesError, match="missing: 'x', unknown: 'b'"):
            use(["a", "x"])


def test_thresholds_with_labels_are_those_of_their_columns():
    frame = pd.DataFrame({"b": [0, 1, 1], "a": [20, 20, 10]})
    thresholds = pd.Series({"a": 15, "b": 0.5})
    np.testing.assert_array_equal(ebm.tables.binarize(frame, thresholds), [[0, 1], [1, 1], [1, 0]])
    with pytest.raises(NamesError, match="the labels of threshold must be 'b', 'a'"):
        ebm.tables.binarize(frame, pd.Series({"a": 15, "c": 0.5}))
    with pytest.raises(CodingError, match="values must hold numbers, got text"):
        ebm.tables.binarize([["0", "1"]], 0.5)


@pytest.mark.parametrize("make", ["pandas Int64", "polars", "pyarrow"])
def test_ordinal_answers_of_every_make_give_one_report(make):
    rng = np.random.default_rng(1)
    cells = dict(zip(NAMES, rng.integers(0, 2, (3, 60)).astype(float), strict=True))
    cells["b"][:4] = np.nan
    wanted = ebm.report.analyze_items(pd.DataFrame(cells), (0, 1), missing_at_random=True).to_dict()
    frame = MAKES[make](columns_of(cells, NAMES))
    assert ebm.report.analyze_items(frame, (0, 1), missing_at_random=True).to_dict() == wanted


class TestGroups:
    ROWS = np.random.default_rng(2).integers(0, 2, (40, 2))
    FLAGS = np.arange(40) % 3 == 0

    def labels(self, column, make):
        frame = make({"x": self.ROWS[:, 0], "g": column, "y": self.ROWS[:, 1]})
        groups = read_groups(frame, "g", None)
        beside = read_groups(self.ROWS, column, None)
        assert list(beside) == list(groups)
        for label in groups:
            assert groups[label].space.names == ("x", "y")
            np.testing.assert_array_equal(groups[label].states, beside[label].states)
            assert groups[label].n_rows == beside[label].n_rows
        return {label: rows.n_rows for label, rows in groups.items()}

    @pytest.mark.parametrize(
        ("make", "series"),
        [
            (pd.DataFrame, pd.Series),
            (pd.DataFrame, lambda x: pd.Series(x, dtype="boolean")),
            (pl.DataFrame, pl.Series),
            (pa.table, pa.array),
        ],
    )
    def test_flags_are_shown_as_they_are(self, make, series):
        assert self.labels(series(self.FLAGS), make) == {"False": 26, "True": 14}

    @pytest.mark.parametrize(
        ("make", "series"),
        [
            (pd.DataFrame, lambda x: pd.Series(pd.Categorical(x, ["then", "now", "never"], True))),
            (pl.DataFrame, lambda x: pl.Series(x, dtype=pl.Enum(["then", "now", "never"]))),
            (pa.table, lambda x: ordered_of_arrow(x, ["then", "now", "never"])),
        ],
    )
    def test_ordered_categories_give_the_order_of_the_groups(self, make, series):
        words = ["now" if flag else "then" for flag in self.FLAGS]
        assert list(self.labels(series(words), make).items()) == [("then", 26), ("now", 14)]

    def test_missing_labels_in_a_dictionary_are_missing(self):
        """numpy reads them as the first of its integers."""
        numbers = pa.array([None, 3, 4] * 12 + [3, 3, 4, 4], pa.int8()).dictionary_encode()
        table = pa.table({"x": self.ROWS[:, 0], "g": numbers})
        for data, by in ((table, "g"), (self.ROWS, numbers)):
            with pytest.raises(MissingValueError, match="no label for 12 of 40 rows"):
                read_groups(data, by, None)

    def test_numbers_among_objects_are_sorted_by_size(self):
        numbers = pd.Series([10 if flag else 9 for flag in self.FLAGS], dtype=object)
        assert list(self.labels(numbers, pd.DataFrame)) == ["9", "10"]

    def test_categories_without_an_order_are_sorted(self):
        words = pd.Series(["now" if flag else "a" for flag in self.FLAGS])
        unordered = words.astype(pd.CategoricalDtype(["now", "a"]))
        assert list(self.labels(unordered, pd.DataFrame)) == ["a", "now"]

    @pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE")])
    def test_flags_of_a_file_are_shown_as_they_are(self, tmp_path, words):
        """They were shown as 1 and 0."""
        path = tmp_path / "rows.csv"
        pairs = zip(self.ROWS, self.FLAGS, strict=True)
        lines = [f"{i},{words[int(flag)]},{j}" for (i, j), flag in pairs]
        path.write_text("\n".join(["x,g,y", *lines, "1,,1"]))
        table, labels = ebm.tables.read_labelled_table(path, "g", drop_missing=True)
        assert table.names == ("x", "y")
        assert labels.tolist() == [words[int(flag)] for flag in self.FLAGS]
        whole, others = ebm.tables.read_labelled_table(path, "x", columns=["g"], drop_missing=True)
        np.testing.assert_array_equal(whole.states[:, 0], ~self.FLAGS)
        np.testing.assert_array_equal(others, self.ROWS[:, 0])


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([0, 1, 0]).astype("datetime64[ns, UTC]"),
        pd.Series([1 + 0j, 0, 1]),
        pd.Series([1 + 1j, 0, 1]),
        pl.Series([{"x": 1}, {"x": 0}, {"x": 1}]),
    ],
    ids=["zone", "complex", "complex parts", "structure"],
)
def test_what_numpy_would_turn_into_numbers_is_refused(column):
    """Each of them was read as 0 and 1, the imaginary part of a number left out."""
    make = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    frame = make({"a": column, "b": [1, 0, 1]})
    for read in (ebm.Ensemble.from_data, lambda rows: ebm.tables.binarize(rows, 0.5)):
        with pytest.raises(CodingError, match=r"column 'a' holds .* where numbers are wanted"):
            read(frame)


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[s]", complex])
def test_only_real_numbers_are_binarized(kind):
    with pytest.raises(CodingError, match="values must hold real numbers, got the type"):
        ebm.tables.binarize(np.array([[0, 1], [1, 0]]).astype(kind), 0.5)
