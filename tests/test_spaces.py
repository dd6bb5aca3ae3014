"""Spaces: the order of the states, the coding, the names, and what is refused."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import CodingError, MissingValueError, NamesError, ShapeError
from tests.oracles import all_states
from tests.statistical import check_distribution, check_z_scores
from tests.strategies import finite_spaces, generators


@given(finite_spaces())
def test_states_are_lexicographic_with_the_first_unit_slowest(space):
    """states_at(0 … size − 1) is the table made by itertools."""
    np.testing.assert_array_equal(space.states_at(np.arange(space.size)), all_states(space))


@given(finite_spaces(), generators())
def test_index_is_the_inverse_of_states_at(space, rng):
    """index(states_at(k)) = k for any stack of numbers."""
    numbers = rng.integers(space.size, size=(3, 2))
    states = space.states_at(numbers)
    assert states.shape == (3, 2, space.n)
    np.testing.assert_array_equal(space.index(states), numbers)
    assert space.index(states[0, 0]) == numbers[0, 0]


@given(finite_spaces(), st.integers(1, 300))
def test_blocks_hold_every_state_once_in_order(space, block_size):
    """Blocks of any size, concatenated, are the table of all states."""
    blocks = list(space.enumerate(block_size))
    assert max(len(block) for block in blocks) <= block_size
    np.testing.assert_array_equal(np.concatenate(blocks), all_states(space))


@given(finite_spaces())
def test_features_are_made_unit_by_unit(space):
    """features(x) = the rows of features_of each unit at its value, side by side."""
    for state in all_states(space):
        wanted = [
            space.features_of(unit)[list(space.values_of(unit)).index(value)]
            for unit, value in enumerate(state)
        ]
        np.testing.assert_array_equal(space.features(state), np.concatenate(wanted))
    assert space.features(all_states(space)[None]).shape == (1, space.size, space.n_features)


def test_features_of_levels_are_one_hot():
    """The entry i q + x_i is one, all others zero."""
    features = ebm.Levels(2, 3).features([[2, 1], [0, 0]])
    np.testing.assert_array_equal(features, [[0, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0]])


@pytest.mark.parametrize("space", [ebm.Binary(100), ebm.Spins(100), ebm.Levels(100, 3)])
def test_sizes_are_exact_integers(space):
    """q^n beyond 2^64 and beyond floating point."""
    assert space.size == len(space.values) ** 100
    assert isinstance(space.size, int)


def test_numbers_of_states_need_64_bits():
    """62 units can be numbered, 63 are refused rather than wrapped."""
    widest = ebm.Binary(62)
    state = np.zeros(62)
    state[0] = 1
    assert widest.index(state) == 2**61
    np.testing.assert_array_equal(widest.states_at(2**61), state)
    for space in (ebm.Binary(63), ebm.Spins(64), ebm.Levels(40, 3)):
        with pytest.raises(ShapeError, match="64-bit"):
            space.states_at([0])
        with pytest.raises(ShapeError, match="64-bit"):
            space.index(np.full(space.n, 1))


@pytest.mark.parametrize("index", [8, -1])
def test_numbers_beyond_the_space_are_refused(index):
    """A number outside 0 … size − 1 is not taken modulo the size."""
    with pytest.raises(ShapeError, match=r"from 0 to 7, got .*" + str(index)):
        ebm.Binary(3).states_at([0, index])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int64", "float32", "float64", object])
def test_any_numeric_type_is_read(dtype):
    """The same states come out as float64 whatever type goes in; the input is not changed."""
    given_states = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    given_states.setflags(write=False)
    states = ebm.Binary(3).check(given_states)
    assert states.dtype == np.float64
    np.testing.assert_array_equal(states, [[0, 1, 1], [1, 0, 1]])


def test_float64_states_are_not_copied():
    """check returns the array itself where nothing has to be converted."""
    states = np.ones((4, 2))
    assert ebm.Spins(2).check(states) is states


@pytest.mark.parametrize("shape", [(3,), (0, 3), (5, 3), (2, 4, 3)])
def test_stacks_of_any_shape_are_checked(shape):
    """The leading axes are free."""
    assert ebm.Binary(3).check(np.zeros(shape)).shape == shape


@pytest.mark.parametrize("states", [1.0, [0, 1], [[0], [1], [0]], np.zeros((3, 2)), []])
def test_the_last_axis_must_be_the_units(states):
    """The error gives both shapes."""
    with pytest.raises(ShapeError, match=r"must have shape \(\.\.\., 3\), got \("):
        ebm.Binary(3).check(states)


def test_ragged_rows_are_refused():
    """Rows of different lengths are no array."""
    with pytest.raises(ShapeError, match="equal length"):
        ebm.Binary(2).check([[0, 1], [1]])
    with pytest.raises(ShapeError, match="equal length"):
        ebm.Binary(2).check([[0, [1, 1]], [1, 0]])


@pytest.mark.parametrize(
    ("space", "column", "words"),
    [
        (ebm.Binary, [-1, 1, 1], "the values -1, 1 where 0 or 1 is wanted; .*space=ebm.Spins"),
        (ebm.Binary, [0, 2, 2], "the values 0, 2 where 0 or 1 is wanted; recode it"),
        (ebm.Binary, [0, 1, 9], "the values 0, 1, 9 where .* if 9 stands for no answer leave"),
        (ebm.Spins, [-1, 1, 99], "the values -1, 1, 99 where .* if 99 stands for no answer"),
        (ebm.Binary, [0, 1, 2], "the values 0, 1, 2 where 0 or 1 is wanted; recode it"),
        (ebm.Binary, [0, 0.5, 1], "the values 0, 0.5, 1 where"),
        (ebm.Binary, [0, 1, np.inf], "the values 0, 1, inf where"),
        (ebm.Spins, [0, 1, 1], "the values 0, 1 where −1 or 1 is wanted; .*space=ebm.Binary"),
        (ebm.Spins, [0, 0, 0], "the values 0 where −1 or 1 is wanted; .*space=ebm.Binary"),
        (ebm.Spins, [-1, 0, 1], "the values -1, 0, 1 where −1 or 1 is wanted; recode it"),
        (ebm.Levels, [0, 1, 2], "the values 0, 1, 2 where an integer from 0 to 1 is wanted"),
        (ebm.Levels, [0, 0.5, 1], "the values 0, 0.5, 1 where an integer"),
        (ebm.Levels, [-1, 0, 1], "the values -1, 0, 1 where an integer"),
        (ebm.Reals, [0, 1, -np.inf], "the values -inf, 0, 1 where a finite number is wanted"),
    ],
)
def test_another_coding_is_refused_by_name(space, column, words):
    """The error names the unit, its values, the coding wanted, and the space to ask for."""
    rows = np.ones((3, 3))
    rows[:, 1] = column
    with pytest.raises(CodingError, match="unit 'second' has " + words):
        space(3, names=["first", "second", "third"]).check(rows)
    with pytest.raises(CodingError, match="unit '1' has " + words):
        space(3).check(rows)


@pytest.mark.parametrize(("space", "wrong"), [(ebm.Levels(1, 10), "9.5"), (ebm.Reals(1), "inf")])
def test_the_offending_value_is_shown_among_many(space, wrong):
    """A wrong value is not lost behind many right ones."""
    rows = [[float(k)] for k in range(7)] + [[float(wrong)]]
    with pytest.raises(CodingError, match=rf"has the values [^w]*\b{wrong}\b.* where"):
        space.check(rows)


@pytest.mark.parametrize("missing", [np.nan, None])
@pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins, ebm.Levels, ebm.Reals])
def test_missing_values_name_the_columns_and_count_the_rows(space, missing):
    """Two rows with holes in two columns, whatever the coding."""
    rows = [[1, 1, 1], [1, missing, missing], [1, 1, missing], [1, 1, 1]]
    with pytest.raises(MissingValueError, match=r"2 of 4 rows .*in 'b', 'c': drop"):
        space(3, names=["a", "b", "c"]).check(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [["y"], ["n"]],
        np.array([["y"], ["n"]]),
        np.array([["y"], ["n"]], dtype=object),
    ],
)
def test_text_is_named_and_a_mapping_suggested(rows):
    """Labels are not guessed to be states."""
    with pytest.raises(CodingError, match=r"'answer' holds text \('n', 'y'\).*column == 'y'"):
        ebm.Binary(1, names=["answer"]).check(rows)


@pytest.mark.parametrize("dtype", [None, object])
def test_text_beside_numbers_is_named(dtype):
    """The column named is the one that is not numbers, also where numpy made all of them text."""
    rows = np.array([[1, 0, "y"], [0, 1, "n"]], dtype=dtype)
    with pytest.raises(CodingError, match=r"column 'c' holds text \('n', 'y'\)"):
        ebm.Binary(3, names=["a", "b", "c"]).check(rows)


def test_other_objects_are_refused():
    """Objects that are no numbers, and text of the wrong shape."""
    with pytest.raises(CodingError, match="objects of other types"):
        ebm.Binary(1).check([[{}]])
    with pytest.raises(ShapeError, match=r"shape \(\.\.\., 3\), got \(1, 2\)"):
        ebm.Binary(3).check(["a", "b"])


@pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins, ebm.Levels, ebm.Reals])
@pytest.mark.parametrize("n", [0, -1, 2.0, 2.5, True, None, "3", [3]])
def test_the_number_of_units_must_be_a_positive_integer(space, n):
    """No rounding, no bool."""
    with pytest.raises(ShapeError, match="n must be a positive integer"):
        space(n)


@pytest.mark.parametrize("q", [1, 0, -3, 2.0, True, None, "3"])
def test_the_number_of_levels_must_be_an_integer_of_at_least_two(q):
    """One level is no variable."""
    with pytest.raises(ShapeError, match="q must be an integer"):
        ebm.Levels(2, q)


def test_numpy_integers_are_integers():
    """n and q from an array's shape or sum, kept as Python integers."""
    space = ebm.Levels(np.int8(100), np.uint8(3))
    assert (type(space.n), type(space.q)) == (int, int)
    assert space.size == 3**100


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b", "a"], "must differ, got 'a' more than once"),
        (["a", "b"], "one name for each of the 3 units, got 2"),
        ([], "one name for each of the 3 units, got 0"),
        ("abc", "a sequence of 3 names, got the string 'abc'"),
        ([1, "1", 2], "must differ, got '1' more than once"),
    ],
)
def test_names_must_be_n_different_strings(names, words):
    """Too few, doubled, or one string for all."""
    with pytest.raises(NamesError, match=words):
        ebm.Binary(3, names=names)


def test_names_become_strings_and_labels():
    """Column numbers of a frame become names; without names units count from 0."""
    space = ebm.Spins(2, names=[10, np.str_("left")])
    assert space.names == space.labels == ("10", "left")
    assert ebm.Spins(2).names is None
    assert ebm.Spins(2).labels == ("0", "1")


def test_spaces_are_values():
    """Equal by kind, size and names; hashable; frozen."""
    space = ebm.Binary(2, names=["a", "b"])
    assert space == ebm.Binary(2, names=("a", "b"))
    assert len({space, ebm.Binary(2, names=("a", "b"))}) == 1
    different = [
        ebm.Binary(2),
        ebm.Binary(2, names=["b", "a"]),
        ebm.Binary(3, names=["a", "b", "c"]),
        ebm.Spins(2, names=["a", "b"]),
        ebm.Levels(2, 2, names=["a", "b"]),
    ]
    assert all(space != other for other in different)
    assert space.named(None) == ebm.Binary(2)
    assert ebm.Levels(2, 4).named(["x", "y"]) == ebm.Levels(2, 4, names=["x", "y"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        space.n = 3


@given(st.permutations(["a", "b", "c", "d"]), generators())
def test_columns_are_realigned_by_name(names, rng):
    """columns[:, order_of(names)] are in the order of the space, for every permutation."""
    space = ebm.Binary(4, names=["a", "b", "c", "d"])
    table = {name: rng.random(3) for name in "abcd"}
    columns = np.column_stack([table[name] for name in names])
    realigned = columns[:, space.order_of(names)]
    np.testing.assert_array_equal(realigned, np.column_stack([table[name] for name in "abcd"]))
    np.testing.assert_array_equal(ebm.Binary(4).order_of(names), range(4))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "c"], "units 'a', 'b'; missing: 'b', unknown: 'c'"),
        (["a"], "missing: 'b', unknown: none"),
        (["a", "b", "c"], "missing: none, unknown: 'c'"),
        (["a", "a", "b"], "'a' more than once"),
    ],
)
def test_foreign_columns_are_refused(names, words):
    """The error says which names are missing and which unknown."""
    with pytest.raises(NamesError, match=words):
        ebm.Binary(2, names=["a", "b"]).order_of(names)


@pytest.mark.parametrize("space", [ebm.Binary(3), ebm.Spins(3), ebm.Levels(2, 3)])
def test_random_states_are_uniform(space):
    """Every state equally often, by chi-square."""
    draws = space.random(20000, rng=1)
    check_distribution(draws, np.full(space.size, 1 / space.size), space)
    np.testing.assert_array_equal(draws, space.random(20000, rng=1))


def test_random_reals_are_standard_normal():
    """Means 0, mean squares 1, mean products 0, by their standard errors."""
    x = ebm.Reals(3).random(20000, rng=2)
    assert x.shape == (20000, 3)
    check_z_scores(x.mean(axis=0), 0, math.sqrt(1 / 20000))
    check_z_scores((x**2).mean(axis=0), 1, math.sqrt(2 / 20000))
    check_z_scores((x[:, 0] * x[:, 1]).mean(), 0, math.sqrt(1 / 20000))


def test_reals_have_no_size_and_cannot_be_enumerated():
    """A continuum has infinitely many states and no table of them."""
    assert ebm.Reals(2).size == math.inf
    assert not hasattr(ebm.Reals(2), "states_at")


def test_frames_are_realigned_wherever_states_go():
    """A permuted frame is taken by name, a foreign one is refused."""
    model = ebm.BoltzmannMachine(np.zeros((3, 3)), [0.0, 1.0, 2.0], names=list("abc"))
    frame = pd.DataFrame([[1, 0, 0]], columns=list("cba"))
    assert model.energy(frame) == [-2.0]
    assert ebm.exact(model).log_probability(frame) == ebm.exact(model).log_probability([[0, 0, 1]])
    with pytest.raises(ebm.errors.NamesError, match="unknown: 'x'"):
        model.conditional(frame.rename(columns={"c": "x"}))


def test_masked_entries_are_missing():
    masked = np.ma.array([[0, 1], [1, 0]], mask=[[True, False], [False, False]])
    for take in (ebm.Binary(2).check, ebm.Ensemble.from_data):
        with pytest.raises(ebm.errors.MissingValueError, match=r"1 of 2 rows.*'0'"):
            take(masked)
    with pytest.raises(ebm.errors.ModelError, match="sample_weight must have no masked"):
        ebm.Ensemble.from_data([[0, 1], [1, 0]], sample_weight=np.ma.array([1.0, 2.0], mask=[1, 0]))


@pytest.mark.parametrize("base", [0, 1, -2, np.nan])
def test_bases_of_entropies(base):
    with pytest.raises(ebm.errors.ModelError, match="base must be a number above 1"):
        ebm.exact(ebm.IsingModel([[0, 1], [1, 0]], [0, 0])).entropy(base=base)
