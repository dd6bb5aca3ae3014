"""Rows with missing cells as an ensemble: what is read, counted and refused."""

import numpy as np
import pytest

import ebm
from ebm.errors import CodingError, MissingValueError, ModelError, NamesError, ShapeError

NAN = float("nan")
ROWS = [[0, 1, NAN], [1, NAN, NAN], [0, 1, NAN], [NAN, NAN, NAN], [1, 1, 0]]


@pytest.fixture
def data():
    return ebm.IncompleteEnsemble.from_data(ROWS, names=list("abc"))


def test_distinct_rows_have_their_shares(data):
    """Equal rows, missing cells included, are one; a row that shows nothing does not count."""
    np.testing.assert_array_equal(data.levels, [[0, 1, -1], [1, -1, -1], [1, 1, 0]])
    np.testing.assert_allclose(data.weights, [0.5, 0.25, 0.25])
    assert (data.sample_size, data.n_rows, data.n_blank) == (4, 5, 1)


def test_missing_cells_are_counted_by_unit(data):
    """Those of rows that show nothing too."""
    np.testing.assert_array_equal(data.n_missing, [1, 2, 4])
    assert data.n_complete == 1
    assert repr(data).startswith("IncompleteEnsemble(5 rows, 3 distinct, 7 of 15 cells missing")


def test_means_are_those_of_the_cells_seen(data):
    """Each unit by its own rows; pairs by the rows that show both."""
    np.testing.assert_allclose(data.seen_mean, [0.5, 1, 0])
    np.testing.assert_allclose(data.seen_together, [[4, 3, 1], [3, 3, 1], [1, 1, 1]])


def test_none_na_and_masked_cells_are_missing(data):
    """Whatever stands for a missing value where the rows come from."""
    as_none = [[None if np.isnan(x) else x for x in row] for row in ROWS]
    masked = np.ma.masked_invalid(np.array(ROWS))
    for rows in (as_none, masked, np.array(as_none, dtype=object)):
        other = ebm.IncompleteEnsemble.from_data(rows)
        np.testing.assert_array_equal(other.levels, data.levels)


def test_a_frame_is_taken_by_its_names():
    """Nullable columns, in the order of the names of the space."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": [1, None, 0], "a": [None, 0, 1]}).astype("Int64")
    space = ebm.Binary(2, names=["a", "b"])
    data = ebm.IncompleteEnsemble.from_data(frame, space=space)
    np.testing.assert_array_equal(data.levels, [[-1, 1], [0, -1], [1, 0]])
    with pytest.raises(NamesError):
        ebm.IncompleteEnsemble.from_data(frame, names=["x", "y"])


def test_frequencies_are_rows_given_so_often():
    """A weight of two is the row twice, one of zero its absence, whatever it holds."""
    weighted = ebm.IncompleteEnsemble.from_data([[0, NAN], [1, 1], [7, 7]], sample_weight=[2, 1, 0])
    repeated = ebm.IncompleteEnsemble.from_data([[0, NAN], [0, NAN], [1, 1]])
    np.testing.assert_array_equal(weighted.levels, repeated.levels)
    np.testing.assert_allclose(weighted.weights, repeated.weights)
    assert weighted.sample_size == repeated.sample_size == 3


@pytest.mark.parametrize(
    "space", [ebm.Spins(2), ebm.Levels(2, 3), ebm.Product(ebm.Spins(1), ebm.Levels(1, 4))]
)
def test_codings_have_levels(space):
    """−1 stands for a missing cell, also beside spins."""
    states = space.states([[0, 1], [1, 0]])
    states[0, 0] = NAN
    data = ebm.IncompleteEnsemble.from_data(states, space=space)
    np.testing.assert_array_equal(data.levels, [[-1, 1], [1, 0]])


def test_complete_rows_are_ordinary_data(data):
    """Those that lack nothing, with their frequencies."""
    rows = [*ROWS, [0, 0, 1], [1, 1, 0]]
    complete = ebm.IncompleteEnsemble.from_data(rows).complete_rows()
    expected = ebm.Ensemble.from_data([[1, 1, 0], [0, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(complete.states, expected.states)
    np.testing.assert_allclose(complete.weights, expected.weights)
    assert (complete.sample_size, complete.n_rows) == (3, 3)
    assert complete.states.dtype == expected.states.dtype


def test_counts_are_those_of_the_frequencies_however_small():
    """Whole numbers are whole, others are not rounded away."""
    rows = [[0, NAN], [1, 1], [0, NAN], [1, NAN], [0, 0], [NAN, 0], [1, 0]]
    whole = ebm.IncompleteEnsemble.from_data(rows)
    np.testing.assert_array_equal(whole.n_missing, [1, 3])
    tiny = ebm.IncompleteEnsemble.from_data(rows, sample_weight=np.full(7, 1e-13))
    np.testing.assert_allclose(tiny.n_missing, [1e-13, 3e-13])


def test_averages_are_refused_and_the_likelihood_named(data):
    """No NaN is ever averaged over: a model has to say what the cells held."""
    for ask in (
        data.moments,
        lambda: data.expectation(lambda x: x),
        lambda: ebm.inversion.mean_field(data),
        lambda: ebm.inversion.pseudolikelihood(data),
        lambda: ebm.inversion.bootstrap(ebm.inversion.mean_field, data, n_resamples=2, rng=0),
    ):
        with pytest.raises(MissingValueError, match=r"the likelihood, ebm\.fit\(model, data\)"):
            ask()


def test_ordinary_data_still_refuse_missing_cells():
    """The choice is named where rows are given to a fit as they are."""
    model = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
    with pytest.raises(MissingValueError, match="IncompleteEnsemble"):
        ebm.fit(model, ROWS)
    with pytest.raises(MissingValueError):
        ebm.Ensemble.from_data(ROWS)


@pytest.mark.parametrize(
    ("rows", "options", "error"),
    [
        ([[NAN, NAN], [None, NAN]], {}, MissingValueError),
        ([[2, NAN], [0, 1]], {}, CodingError),
        ([0, 1, NAN], {}, ShapeError),
        ([[0.5, NAN]], {"space": ebm.Reals}, ModelError),
        ([[0, NAN]], {"sample_weight": [1, 2]}, ShapeError),
        ([["x", NAN]], {}, CodingError),
    ],
)
def test_what_is_no_table_of_values_is_refused(rows, options, error):
    """By the errors of ordinary data."""
    with pytest.raises(error):
        ebm.IncompleteEnsemble.from_data(rows, **options)


def test_complete_rows_of_none_are_refused():
    """Dropping would leave nothing."""
    data = ebm.IncompleteEnsemble.from_data([[0, NAN], [NAN, 1]])
    with pytest.raises(MissingValueError, match="no row is complete"):
        data.complete_rows()
