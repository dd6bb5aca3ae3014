"""Data: rows counted together, weights, types, names, and every table that is refused."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import (
    CodingError,
    FewSamplesWarning,
    MemoryLimitError,
    MissingValueError,
    ModelError,
    NamesError,
    ShapeError,
)
from tests.oracles import counted
from tests.strategies import finite_spaces, generators, weighted_states

from_data = ebm.Ensemble.from_data
ROWS = np.array([[0, 1, 1], [1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]])


def same(first, second):
    """Two data ensembles with equal states, frequencies and sizes."""
    assert first.space == second.space
    assert first.states.dtype == second.states.dtype
    np.testing.assert_array_equal(first.states, second.states)
    np.testing.assert_allclose(first.weights, second.weights, rtol=1e-14)
    assert first.sample_size == pytest.approx(second.sample_size, rel=1e-14)


def totals(data):
    """Total weight of each distinct state, and that no state occurs twice."""
    found = counted(data.states, data.weights * data.sample_size)
    assert len(found) == len(data.states)
    return found


@given(weighted_states())
def test_equal_rows_are_counted(drawn):
    """Distinct rows with their numbers, by a dictionary; in lexicographic order."""
    space, rows, _ = drawn
    data = from_data(rows, space=space)
    assert totals(data) == pytest.approx(counted(rows))
    assert data.weights.sum() == pytest.approx(1, rel=1e-14)
    assert (data.sample_size, data.n_rows) == (len(rows), len(rows))
    states = [tuple(state) for state in data.states.tolist()]
    assert states == sorted(states)
    np.testing.assert_array_equal(space.index(data.states), np.unique(space.index(rows)))


@pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins, ebm.Levels])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 63, 64, 65, 128, 150])
def test_rows_of_any_width_are_counted(space, n):
    """Rows that differ in one unit anywhere stay apart: bytes and words have edges."""
    low, high = space(n).values
    rows = np.full((n + 1, n), low)
    rows[np.arange(n), np.arange(n)] = high
    rows = np.vstack([rows, rows[: n // 2 + 1]])
    data = from_data(np.random.default_rng(0).permutation(rows), space=space)
    assert totals(data) == pytest.approx(counted(rows))
    order = [tuple(state) for state in data.states.tolist()]
    assert order == sorted(order)


@given(generators())
def test_real_rows_are_counted(rng):
    """Equal rows of reals are one state; nothing is rounded."""
    rows = rng.choice([0.1, 0.1 + 1e-15, -2.0], size=(20, 2))
    data = from_data(rows, space=ebm.Reals)
    assert totals(data) == pytest.approx(counted(rows))


@given(weighted_states())
def test_weights_are_repetitions(drawn):
    """Weight w is the row w times over; weight 0 is no row."""
    space, rows, weights = drawn
    repeated = from_data(np.repeat(rows, weights, axis=0), space=space)
    weighted = from_data(rows, space=space, sample_weight=weights)
    same(weighted, repeated)
    absent = from_data(rows[weights > 0], space=space, sample_weight=weights[weights > 0])
    same(weighted, absent)
    assert weighted.n_rows == len(rows)
    assert weighted.sample_size == weights.sum()


@given(weighted_states(), st.floats(1e-3, 1e3))
def test_scaling_all_weights_changes_the_sample_size_only(drawn, factor):
    """Frequencies stay, N is scaled."""
    space, rows, weights = drawn
    once = from_data(rows, space=space, sample_weight=weights)
    scaled = from_data(rows, space=space, sample_weight=factor * weights)
    np.testing.assert_array_equal(scaled.states, once.states)
    np.testing.assert_allclose(scaled.weights, once.weights, rtol=1e-12)
    assert scaled.sample_size == pytest.approx(factor * once.sample_size)
    moments, unscaled = scaled.moments(), once.moments()
    np.testing.assert_allclose(moments.mean, unscaled.mean, atol=1e-14)
    np.testing.assert_allclose(moments.covariance, unscaled.covariance, atol=1e-14)
    assert moments.sample_size == scaled.sample_size


@given(weighted_states())
def test_order_of_the_rows_does_not_matter(drawn):
    """Any permutation of rows and weights together."""
    space, rows, weights = drawn
    order = np.random.default_rng(0).permutation(len(rows))
    first = from_data(rows, space=space, sample_weight=weights)
    same(first, from_data(rows[order], space=space, sample_weight=weights[order]))


@given(weighted_states())
def test_moments_of_data_are_those_of_the_rows(drawn):
    """numpy's mean and covariance (1/N) of the repeated rows' features."""
    space, rows, weights = drawn
    features = space.features(np.repeat(rows, weights, axis=0))
    moments = from_data(rows, space=space, sample_weight=weights).moments()
    np.testing.assert_allclose(moments.mean, features.mean(axis=0), atol=1e-14)
    covariance = np.cov(features.T, ddof=0).reshape(moments.covariance.shape)
    np.testing.assert_allclose(moments.covariance, covariance, atol=1e-14)


@given(weighted_states())
def test_entropy_is_that_of_the_frequencies(drawn):
    """−Σ p ln p over distinct rows, in nats and in bits."""
    space, rows, weights = drawn
    total = weights.sum()
    p = [count / total for count in counted(rows, weights).values() if count]
    wanted = -math.fsum(x * math.log(x) for x in p)
    data = from_data(rows, space=space, sample_weight=weights)
    assert data.entropy() == pytest.approx(wanted, abs=1e-12)
    assert data.entropy(base=2) == pytest.approx(wanted / math.log(2), abs=1e-12)


def test_many_distinct_rows_come_in_several_blocks():
    """Blocks of bounded size that make up all the data, in float64."""
    rows = ebm.Binary(5000).random(1000, rng=1)
    with pytest.warns(FewSamplesWarning):
        data = from_data(rows)
    blocks = list(data.blocks())
    assert len(blocks) > 1
    assert max(states.size for states, _ in blocks) <= 2**22
    assert {states.dtype for states, _ in blocks} == {np.dtype(float)}
    np.testing.assert_array_equal(np.concatenate([states for states, _ in blocks]), data.states)
    np.testing.assert_array_equal(np.concatenate([weights for _, weights in blocks]), data.weights)
    np.testing.assert_allclose(data.expectation(lambda x: x), rows.mean(axis=0), rtol=1e-12)


TYPES = ["int8", "uint8", "int16", "int64", "uint64", "bool", "float16", "float32", "float64", "O"]


@pytest.mark.parametrize("dtype", TYPES)
def test_every_numeric_type_gives_the_same_ensemble(dtype):
    """Arrays, Fortran order and strides included."""
    wanted = from_data(ROWS)
    array = ROWS.astype(dtype)
    for rows in (array, np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2]):
        same(from_data(rows), wanted)
    same(from_data(array.tolist()), wanted)
    if dtype not in {"bool", "uint8", "uint64"}:
        same(from_data(2 * array - 1, space=ebm.Spins), from_data(2 * ROWS - 1, space=ebm.Spins))


@pytest.mark.parametrize(
    "dtype", [*TYPES, "Int64", "Int8", "UInt8", "boolean", "Float32", "category"]
)
def test_every_column_type_of_a_frame_gives_the_same_ensemble(dtype):
    """Nullable and categorical columns too, alone and beside others."""
    wanted = from_data(ROWS, names=["a", "b", "c"])
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    same(from_data(frame.astype(dtype)), wanted)
    same(from_data(frame.astype({"b": dtype})), wanted)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("dtype", ["int8", "float64", "bool"])
def test_sparse_rows_give_the_same_ensemble(kind, dtype):
    """scipy.sparse arrays and matrices of every format, stored zeros included."""
    for make in (scipy.sparse.coo_array, scipy.sparse.coo_matrix):
        rows = make(ROWS.astype(dtype)).asformat(kind)
        same(from_data(rows), from_data(ROWS))
    stored = scipy.sparse.coo_array(([1, 0, 1], ([0, 0, 1], [0, 1, 1])), shape=(2, 2))
    same(from_data(stored), from_data(np.eye(2)))


def test_sparse_data_too_large_to_be_dense_are_refused():
    """Before the dense copy is made, with its size."""
    rows = scipy.sparse.csr_array((100_000, 10_000))
    with pytest.raises(MemoryLimitError, match=r"\(100000, 10000\) sparse .* 7.45 GiB"):
        from_data(rows)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
def test_sums_do_not_wrap(dtype):
    """1000 rows of small integers, small integer weights: counts beyond 127 and 255."""
    rows = np.ones((1000, 2), dtype=dtype)
    rows[:400, 0] = 0
    data = from_data(rows)
    np.testing.assert_allclose(data.moments().mean, [0.6, 1])
    np.testing.assert_allclose(data.moments().second, [[0.6, 0.6], [0.6, 1]])
    weighted = from_data(rows, sample_weight=np.ones(1000, dtype=dtype))
    assert weighted.sample_size == 1000
    same(weighted, data)
    spins = from_data(np.where(rows, 1, -1).astype("int8"), space=ebm.Spins)
    np.testing.assert_allclose(spins.moments().mean, [0.2, 1])


@given(finite_spaces(), generators())
def test_inputs_are_neither_changed_nor_kept(space, rng):
    """Read-only rows and weights work; later changes of the caller's arrays do nothing."""
    rows, weights = space.random(9, rng), rng.random(9)
    before = rows.copy(), weights.copy()
    for array in (rows, weights):
        array.setflags(write=False)
    data = from_data(rows, space=space, sample_weight=weights)
    np.testing.assert_array_equal(rows, before[0])
    np.testing.assert_array_equal(weights, before[1])
    writable, again = rows.copy(), weights.copy()
    copied = from_data(writable, space=space, sample_weight=again)
    writable[:], again[:] = writable[::-1].copy(), 7.0
    same(copied, data)
    for array in (data.states, data.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[0]


def test_states_are_stored_small():
    """One byte for two-valued units; frequencies in float64."""
    for space, rows in ((ebm.Binary, ROWS), (ebm.Spins, 2 * ROWS - 1)):
        data = from_data(rows, space=space)
        assert data.states.dtype == np.int8
        assert data.weights.dtype == np.float64
    assert repr(from_data(ROWS)) == "WeightedStates(5 rows, 4 distinct, Binary(n=3, names=None))"


@pytest.mark.parametrize("space", [ebm.Binary, ebm.Binary(3), None])
def test_the_space_is_a_class_a_space_or_binary(space):
    """A class takes its size from the data."""
    assert from_data(ROWS, space=space).space == ebm.Binary(3)


@pytest.mark.parametrize("space", ["binary", int, 3, ebm.BoltzmannMachine])
def test_what_is_no_space_is_refused(space):
    """A word, a number, another class."""
    with pytest.raises(ModelError, match="must be a state space such as"):
        from_data(ROWS, space=space)


@pytest.mark.parametrize(
    ("rows", "space", "words"),
    [
        (2 * ROWS - 1, None, "unit '0' has the values -1, 1 .*space=ebm.Spins"),
        (ROWS, ebm.Spins, "unit '0' has the values 0, 1 .*space=ebm.Binary"),
        (2 * ROWS, None, "unit '0' has the values 0, 2 where 0 or 1"),
        (ROWS + np.eye(5, 3), None, "unit '2' has the values 0, 1, 2 where 0 or 1 is wanted"),
        (ROWS / 2, None, "unit '0' has the values 0, 0.5 where"),
        (ROWS + 2, ebm.Levels(3, 3), "unit '0' has the values 2, 3 where an integer from 0 to 2"),
    ],
)
def test_another_coding_is_refused(rows, space, words):
    """The first such column, the values, the coding wanted; nothing is guessed."""
    with pytest.raises(CodingError, match=words):
        from_data(rows, space=space)
    words = words.replace("'0'", "'a'").replace("'2'", "'c'")
    with pytest.raises(CodingError, match=words):
        from_data(pd.DataFrame(rows, columns=["a", "b", "c"]), space=space)


@pytest.mark.parametrize("dtype", ["float64", "Int64", "Float32", "object"])
def test_missing_values_are_counted_and_named(dtype):
    """NaN, None and NA in a frame; nothing is dropped or filled in."""
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).astype(dtype)
    frame.loc[1, "b"] = None
    frame.loc[[1, 3], "c"] = None
    with pytest.raises(MissingValueError, match=r"2 of 5 rows .*in 'b', 'c': drop these rows"):
        from_data(frame)
    array = ROWS.astype(float)
    array[4, 1] = np.nan
    with pytest.raises(MissingValueError, match=r"1 of 5 rows .*in '1'"):
        from_data(array)


@pytest.mark.parametrize("dtype", ["object", "str", "category"])
def test_text_columns_are_named(dtype):
    """Labels are refused with a mapping that would do."""
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    frame["b"] = pd.Series(["y", "n", "y", "y", "n"]).astype(dtype)
    with pytest.raises(CodingError, match=r"column 'b' holds 'y', 'n' .*\(column == 'y'\)"):
        from_data(frame)
    with pytest.raises(CodingError, match=r"column '1' holds text \('n', 'y'\)"):
        from_data(frame.to_numpy())
    with pytest.raises(CodingError, match=r"column '1' holds text \('n', 'y'\)"):
        from_data([["0", "n"], ["1", "y"]])


def test_a_group_column_is_no_third_state():
    """A column of numbers 1, 2, 3 among the units is named."""
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(group=[1, 1, 2, 2, 3])
    with pytest.raises(CodingError, match="unit 'group' has the values 1, 2, 3"):
        from_data(frame)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([0, 1, 1], r"got \(3,\); for one unit give X\[:, None\], for one sample X\[None, :\]"),
        (1, r"got \(\);"),
        ([], r"got \(0,\);"),
        (pd.Series([0, 1]), r"got \(2,\);"),
        (np.zeros((2, 2, 2)), r"got \(2, 2, 2\);"),
        ([[]], r"at least one row and one column, got \(1, 0\)"),
        (np.zeros((0, 3)), r"at least one row and one column, got \(0, 3\)"),
        (pd.DataFrame({"a": []}), r"at least one row and one column, got \(0, 1\)"),
        (pd.DataFrame(index=[0, 1]), r"at least one row and one column, got \(2, 0\)"),
        (scipy.sparse.csr_array((0, 3)), r"at least one row and one column, got \(0, 3\)"),
        ([[0, 1], [1]], "equal length"),
        (None, r"got \(\);"),
    ],
)
def test_what_is_no_table_is_refused(rows, words):
    """One axis, three, no rows, no columns, ragged rows."""
    with pytest.raises(ShapeError, match=words):
        from_data(rows)


def test_tables_of_another_width_are_refused():
    """A space of three units reads three columns, with names or without."""
    for names in (None, ["a", "b", "c"]):
        space = ebm.Binary(3, names=names)
        with pytest.raises(ShapeError, match=r"\(\.\.\., 3\), got \(5, 2\)"):
            from_data(ROWS[:, :2], space=space)
    with pytest.raises(ShapeError, match=r"\(\.\.\., 3\), got \(5, 2\)"):
        from_data(pd.DataFrame(ROWS[:, :2], columns=["a", "b"]), space=ebm.Binary(3))


def test_one_row_and_one_unit():
    """The smallest tables are data: certain, and with no covariance."""
    one = from_data([[1]])
    assert (one.moments().mean, one.moments().covariance, one.entropy()) == ([1], [[0]], 0)
    assert one.sample_size == 1
    column = from_data(ROWS[:, :1])
    assert column.moments().mean == pytest.approx([0.4])
    with pytest.warns(FewSamplesWarning, match="1 rows for 3 units"):
        row = from_data(ROWS[:1])
    np.testing.assert_array_equal(row.moments().mean, ROWS[0])


def test_constant_columns_are_data():
    """Finite moments with variance exactly zero, for any number of rows."""
    rows = np.column_stack([np.ones(7), [0, 1, 0, 1, 1, 0, 1], np.zeros(7)])
    moments = from_data(rows).moments()
    np.testing.assert_array_equal(moments.mean[[0, 2]], [1, 0])
    np.testing.assert_array_equal(moments.covariance[[0, 2]], np.zeros((2, 3)))


def test_fewer_rows_than_units_is_said():
    """A warning with numbers and cure, at the caller's line; as many is fine."""
    rows = np.eye(5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_data(rows)
    with pytest.warns(
        FewSamplesWarning, match=r"4 rows for 5 units: .*l2=.*fewer units$"
    ) as caught:
        from_data(rows[:4])
    assert caught[0].filename == __file__
    with pytest.warns(FewSamplesWarning, match="4 rows for 5 units"):
        from_data(rows, sample_weight=[1, 1, 1, 1, 0])


def test_transposed_data_get_a_hint():
    """15 rows × 40000 columns."""
    rows = np.random.default_rng(0).integers(0, 2, (15, 40000), dtype=np.int8)
    words = "15 rows for 40000 units: .*rows must be samples: is the table transposed"
    with pytest.warns(FewSamplesWarning, match=words):
        data = from_data(rows)
    with pytest.raises(MemoryLimitError, match="are the data transposed"):
        data.moments()


def test_names_come_from_the_frame_or_the_argument():
    """They live in the space from then on; numbers become text."""
    assert from_data(ROWS, names=["a", "b", "c"]).space.names == ("a", "b", "c")
    frame = pd.DataFrame(ROWS, columns=["x", "y", "z"])
    assert from_data(frame).space == ebm.Binary(3, names=["x", "y", "z"])
    assert from_data(frame, names=["x", "y", "z"]).space == from_data(frame).space
    assert from_data(2 * frame - 1, space=ebm.Spins).space.names == ("x", "y", "z")
    assert from_data(frame, space=ebm.Binary(3)).space.names == ("x", "y", "z")
    assert from_data(pd.DataFrame(ROWS)).space.names == ("0", "1", "2")
    named = ebm.Binary(3, names=["a", "b", "c"])
    assert from_data(ROWS, space=named).space is named


@given(st.permutations(["a", "b", "c"]))
def test_permuted_columns_are_realigned(names):
    """By name, from a frame or from names=, with any order of the columns."""
    space = ebm.Binary(3, names=["a", "b", "c"])
    wanted = from_data(ROWS, space=space)
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])[names]
    same(from_data(frame, space=space), wanted)
    same(from_data(frame.to_numpy(), names=names, space=space), wanted)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["a", "b", "d"], "missing: 'c', unknown: 'd'"),
        (["A", "B", "C"], "missing: 'a', 'b', 'c', unknown: 'A', 'B', 'C'"),
        (["a", "b", "b"], "'b' more than once"),
    ],
)
def test_foreign_columns_are_refused(columns, words):
    """Never matched by position."""
    space = ebm.Binary(3, names=["a", "b", "c"])
    with pytest.raises(NamesError, match=words):
        from_data(pd.DataFrame(ROWS, columns=columns), space=space)
    with pytest.raises(NamesError, match=words):
        from_data(ROWS, names=columns, space=space)


def test_names_that_contradict_are_refused():
    """Doubled columns, names of another number, names beside a frame's own, one string."""
    with pytest.raises(NamesError, match="must differ, got 'a' more than once"):
        from_data(pd.DataFrame(ROWS, columns=["a", "b", "a"]))
    with pytest.raises(NamesError, match="each of the 3 units, got 2"):
        from_data(ROWS, names=["a", "b"])
    with pytest.raises(NamesError, match="each of the 3 units, got 2"):
        from_data(ROWS, names=["a", "b"], space=ebm.Binary(3))
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    with pytest.raises(NamesError, match="beside a frame that has other column names"):
        from_data(frame, names=["c", "b", "a"])
    for space in (None, ebm.Binary(3), ebm.Binary(3, names=["a", "b", "c"])):
        with pytest.raises(NamesError, match="got the string 'abc'"):
            from_data(ROWS, names="abc", space=space)


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ([1, 1, -1, 1, 1], ModelError, "finite, not negative"),
        ([1, 1, np.nan, 1, 1], ModelError, "finite, not negative"),
        ([1, 1, np.inf, 1, 1], ModelError, "finite, not negative"),
        ([0, 0, 0, 0, 0], ModelError, "not be zero everywhere"),
        ([1, 1], ShapeError, r"shape \(5,\), one for each row, got \(2,\)"),
        (2.0, ShapeError, r"shape \(5,\), one for each row, got \(\)"),
        (np.ones((5, 1)), ShapeError, r"got \(5, 1\)"),
    ],
)
def test_weights_that_are_no_frequencies_are_refused(weights, error, words):
    """Before anything is counted."""
    with pytest.raises(error, match="sample_weight must .*" + words):
        from_data(ROWS, sample_weight=weights)


class TestSequence:
    def test_rows_come_back_in_the_order_given(self):
        rows = np.random.default_rng(0).integers(0, 2, (60, 4))
        data = from_data(rows)
        np.testing.assert_array_equal(data.states[data.sequence], rows)
        assert not data.sequence.flags.writeable

    def test_a_table_of_counts_has_no_order(self):
        patterns = np.array([[1, 0], [0, 0], [1, 1]])
        assert from_data(np.repeat(patterns, [3, 1, 2], axis=0)).sequence is None
        assert from_data(patterns, sample_weight=[3, 1, 2]).sequence is None
        assert from_data(patterns[np.array([0, 1, 0, 2])]).sequence is not None
