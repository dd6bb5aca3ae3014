"""Storage of symmetric couplings, dense and sparse, against plain loops."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import ModelError, ShapeError
from ebm.forms import QuadraticForm
from ebm.models import _couplings
from tests.strategies import generators, sparse_patterns

STORED = scipy.sparse.coo_array(
    ([0.0, 2.0, 3.0, 0.0, 4.0, 1.0], ([0, 1, 2, 2, 2, 0], [1, 2, 1, 2, 0, 2])), shape=(3, 3)
)


@given(sparse_patterns())
def test_symmetric_part_by_a_loop(pattern):
    """(A + Aᵀ)/2 entry by entry, in the storage given."""
    matrix, full = pattern
    n = len(full)
    # Both triangles, with unequal entries.
    part, dense = (matrix + 3 * matrix.T), full + 3 * full.T
    wanted = [[(dense[i, j] + dense[j, i]) / 2 for j in range(n)] for i in range(n)]
    np.testing.assert_array_equal(_couplings.symmetric(dense, n, "W"), wanted)
    symmetric = _couplings.symmetric(part, n, "W")
    assert symmetric.format == "csr"
    np.testing.assert_array_equal(_couplings.dense(symmetric), wanted)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("make", [scipy.sparse.coo_array, scipy.sparse.coo_matrix])
def test_every_sparse_format_is_read(kind, make):
    """Arrays and matrices of scipy.sparse, integers too."""
    full = np.array([[1, 2, 0], [2, 0, -3], [0, -3, 0]])
    symmetric = _couplings.symmetric(make(full).asformat(kind), 3, "W")
    np.testing.assert_array_equal(_couplings.dense(symmetric), full)
    i, j = _couplings.free_pairs(symmetric)
    assert {(0, 1), (1, 2)} <= set(zip(i, j, strict=True))


def test_repeated_entries_are_summed():
    """A COO matrix may give a coupling in parts."""
    parts = scipy.sparse.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    np.testing.assert_array_equal(
        _couplings.dense(_couplings.symmetric(parts, 2, "W")), [[0, 3], [3, 0]]
    )


def test_stored_zeros_are_pairs():
    """An explicit zero is a parameter, stored in one order or in both; no entry is none."""
    symmetric = _couplings.symmetric(STORED, 3, "W")
    i, j = _couplings.free_pairs(symmetric)
    assert list(zip(i, j, strict=True)) == [(0, 1), (0, 2), (1, 2)]
    np.testing.assert_array_equal(_couplings.at_pairs(symmetric, (i, j)), [0, 2.5, 2.5])
    fewer = _couplings.symmetric(scipy.sparse.csr_array(STORED.toarray()), 3, "W")
    assert list(zip(*_couplings.free_pairs(fewer), strict=True)) == [(0, 2), (1, 2)]


@given(sparse_patterns(), generators())
def test_pairs_and_diagonal_make_the_matrix(pattern, rng):
    """from_pairs(at_pairs, diagonal) is the matrix itself, dense and sparse."""
    matrix, full = pattern
    n = len(full)
    for own in (_couplings.symmetric(matrix, n, "W"), _couplings.symmetric(full, n, "W")):
        pairs = _couplings.free_pairs(own)
        values, diagonal = _couplings.at_pairs(own, pairs), _couplings.diagonal(own)
        np.testing.assert_array_equal(diagonal, np.diag(full))
        again = _couplings.from_pairs(pairs, values, diagonal, like=own)
        assert _couplings.equal(again, own)
        changed = rng.normal(size=len(values))
        other = _couplings.from_pairs(pairs, changed, diagonal, like=own)
        np.testing.assert_array_equal(_couplings.at_pairs(other, pairs), changed)
        np.testing.assert_array_equal(_couplings.dense(other), _couplings.dense(other).T)
        bare = QuadraticForm(own, np.zeros(n), 0.0).folded(ebm.Binary(n)).matrix
        np.testing.assert_array_equal(_couplings.dense(bare), full - np.diag(np.diag(full)))
        assert _couplings.is_sparse(bare) == _couplings.is_sparse(own)


@given(sparse_patterns(), generators())
def test_apply_is_the_matrix_product(pattern, rng):
    """Σ_j A_ij x_j for stacks of states, one state and none."""
    matrix, full = pattern
    n = len(full)
    states = rng.normal(size=(2, 3, n))
    for own in (_couplings.symmetric(matrix, n, "W"), _couplings.symmetric(full, n, "W")):
        wanted = np.einsum("ij,abj->abi", full, states)
        np.testing.assert_allclose(_couplings.apply(own, states), wanted, atol=1e-13)
        np.testing.assert_allclose(_couplings.apply(own, states[0, 0]), wanted[0, 0], atol=1e-13)
        assert _couplings.apply(own, states[:, :0]).shape == (2, 0, n)


def test_the_largest_numbers_do_not_overflow():
    """Half of each before the sum."""
    large = np.full((2, 2), 1.7e308)
    for matrix in (large, scipy.sparse.csr_array(large)):
        np.testing.assert_array_equal(_couplings.dense(_couplings.symmetric(matrix, 2, "W")), large)


def test_equal_sees_storage_values_and_pattern():
    """Another value, storage, size, or another set of stored pairs is another matrix."""
    full = np.array([[0.0, 2.0], [2.0, 1.0]])
    sparse = _couplings.symmetric(scipy.sparse.csr_array(full), 2, "W")
    assert _couplings.equal(full, full.copy())
    assert _couplings.equal(sparse, _couplings.symmetric(scipy.sparse.coo_array(full), 2, "W"))
    assert not _couplings.equal(full, sparse)
    assert not _couplings.equal(full, full + 1e-12)
    assert not _couplings.equal(full, np.zeros((3, 3)))
    assert not _couplings.equal(
        sparse, _couplings.symmetric(scipy.sparse.csr_array(2 * full), 2, "W")
    )
    zeros = [scipy.sparse.csr_array((2, 2)), 0.0 * sparse]
    models = [ebm.BoltzmannMachine(matrix, [0, 0]) for matrix in zeros]
    assert [len(model.parameters) for model in models] == [2, 3]
    assert not models[0].equals(models[1])
    diagonal = scipy.sparse.coo_array(([0.0], ([0], [0])), shape=(2, 2))
    assert models[0].equals(ebm.BoltzmannMachine(diagonal, [0, 0]))


def test_vectors_are_checked_copies():
    """One number stands for all; n finite numbers, read-only."""
    given_values = np.arange(3.0)
    vector = _couplings.vector(given_values, 3, "b")
    given_values[0] = 9
    np.testing.assert_array_equal(vector, range(3))
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1
    np.testing.assert_array_equal(_couplings.vector(2, 3, "b"), [2, 2, 2])
    with pytest.raises(ShapeError, match=r"b must have shape \(3,\), got \(3, 1\)"):
        _couplings.vector(np.zeros((3, 1)), 3, "b")
    with pytest.raises(ModelError, match=r"b must be finite, got inf at \(2,\)"):
        _couplings.vector([0, 0, np.inf], 3, "b")


@st.composite
def orientations(draw):
    """(couplings, edges): any graph, some of its pairs written in one order and some in both."""
    n = draw(st.integers(2, 6))
    rng = draw(generators())
    i, j = np.triu_indices(n, 1)
    kept = rng.random(len(i)) < 0.7
    kept[rng.integers(len(i))] = True
    i, j = i[kept], j[kept]
    flipped = rng.random(len(i)) < 0.5
    i, j = np.where(flipped, j, i), np.where(flipped, i, j)
    matrix = np.zeros((n, n))
    matrix[i, j] = rng.choice([-1, 1], len(i)) * rng.uniform(1e-6, 2, len(i))
    both = rng.random(len(i)) < draw(st.sampled_from([0.0, 0.5]))
    both[rng.integers(len(i))] = False
    matrix[j[both], i[both]] = matrix[i[both], j[both]]
    if draw(st.booleans()):
        np.fill_diagonal(matrix, rng.normal(size=n))
    return matrix, bool(both.any() or np.diag(matrix).any())


@given(orientations())
def test_a_pair_written_once_is_refused_in_every_orientation(drawn):
    """Rings i → i + 1, directed lists of edges, triangles; never half of a coupling in silence."""
    matrix, mixed = drawn
    n = len(matrix)
    remedy = "write it in both orders" if mixed else r"give A \+ A\.T"
    words = rf"must be symmetric, got .* and 0 at \(.*would count half; .*{remedy}"
    for stored in (matrix, scipy.sparse.coo_array(matrix), scipy.sparse.csc_matrix(matrix)):
        for make in (ebm.BoltzmannMachine, ebm.IsingModel):
            with pytest.raises(ModelError, match=words):
                make(stored, np.zeros(n))
    # The twin: the same bonds in both orders are the matrix itself, whatever their signs.
    whole = np.where(matrix == 0, matrix.T, matrix)
    for stored in (whole, scipy.sparse.coo_array(whole)):
        np.testing.assert_array_equal(_couplings.dense(_couplings.symmetric(stored, n, "W")), whole)
        np.testing.assert_array_equal(
            ebm.IsingModel(stored, np.zeros(n)).quadratic_form().dense().matrix, whole
        )


def test_the_place_of_a_pair_written_once_is_named():
    """A ring of five bonds, and parts of one entry that add up to nothing."""
    ring = np.roll(0.8 * np.eye(5), 1, axis=1)
    for matrix in (ring, scipy.sparse.csr_array(ring)):
        with pytest.raises(ModelError, match=r"got 0\.8 at \(0, 1\) and 0 at \(1, 0\)"):
            _couplings.symmetric(matrix, 5, "W")
    parts = ([1.0, 2.0, -2.0], ([0, 1, 1], [1, 0, 0]))
    with pytest.raises(ModelError, match=r"got 1 at \(0, 1\) and 0 at \(1, 0\)"):
        _couplings.symmetric(scipy.sparse.coo_array(parts, shape=(2, 2)), 2, "W")


@given(generators())
def test_rounding_is_no_pair_written_once(rng):
    """A product that is symmetric up to rounding; entries that cancel up to rounding."""
    factors = rng.normal(size=(4, 3))
    matrix = factors @ np.diag([1.0, 3.0, -2.0]) @ factors.T
    matrix[0, 1], matrix[1, 0] = 1e-16, -3e-19
    for stored in (matrix, scipy.sparse.csr_array(matrix)):
        own = _couplings.dense(_couplings.symmetric(stored, 4, "W"))
        np.testing.assert_allclose(own, matrix, atol=1e-14)
    # Rounding just above and just below what counts as rounding.
    matrix[0, 1], matrix[1, 0] = 2e-12 * abs(matrix).max(), 0.5e-12 * abs(matrix).max()
    for stored in (matrix, scipy.sparse.csr_array(matrix)):
        _couplings.symmetric(stored, 4, "W")
    matrix[1, 0] = 0.0
    # What rounding of others leaves beside a zero is none; far above that it is a coupling.
    matrix[0, 1] = 1e-16
    _couplings.symmetric(matrix, 4, "W")
    for value in (1e-9, 1e-12):
        matrix[0, 1], matrix[1, 0] = value, 0.0
        with pytest.raises(ModelError, match=f"symmetric, got {value:g} at .* as the others"):
            _couplings.symmetric(matrix, 4, "W")


@pytest.mark.parametrize("store", [np.array, scipy.sparse.csr_array])
def test_a_pair_is_judged_by_its_own_two_numbers(store):
    """Small beside another pair, or with a mirror image that is next to nothing."""
    small = [[0, 1e-3, 0], [0, 0, 1e10], [0, 1e10, 0]]
    with pytest.raises(ModelError, match=r"0\.001 at \(0, 1\) and 0 at \(1, 0\).*in both orders"):
        _couplings.symmetric(store(small), 3, "W")
    with pytest.raises(ModelError, match=r"got 1 at \(0, 1\) and 1e-11 at \(1, 0\).*A \+ A\.T"):
        _couplings.symmetric(store([[0, 1.0], [1e-11, 0]]), 2, "W")
    # The twin: both orders, over the whole range of numbers.
    whole = np.array([[0, 1e-320, 0], [1e-320, 0, 1e308], [0, 1e308, 0]])
    own = _couplings.dense(_couplings.symmetric(store(whole), 3, "W"))
    np.testing.assert_array_equal(own, whole)


def test_parts_of_an_entry_that_overflow_are_refused():
    """Four finite parts of two infinite entries; half of each makes finite ones."""
    places = ([0, 0, 1, 1], [1, 1, 0, 0])
    parts = scipy.sparse.coo_array(([1e308] * 4, places), shape=(2, 2))
    with pytest.raises(ModelError, match=r"W must be finite, got parts .* inf at \(0, 1\)"):
        _couplings.symmetric(parts, 2, "W")
    own = _couplings.dense(_couplings.symmetric(parts / 2, 2, "W"))
    np.testing.assert_array_equal(own, [[0, 1e308], [1e308, 0]])


def test_bad_entries_of_a_sparse_matrix_are_placed():
    """NaN is named by its row and column, as in a dense one."""
    matrix = scipy.sparse.coo_array(([1.0, np.nan], ([0, 2], [1, 1])), shape=(3, 3))
    for stored in (matrix, matrix.tocsr(), matrix.toarray()):
        with pytest.raises(ModelError, match=r"W must be finite, got nan at \(2, 1\)"):
            _couplings.symmetric(stored, 3, "W")
    with pytest.raises(ShapeError, match=r"W must have shape \(2, 2\), got \(3, 3\)"):
        _couplings.symmetric(matrix, 2, "W")


def test_complex_and_text_entries_are_refused():
    """numpy would drop the imaginary part with a warning."""
    values = np.array([[0, 1j], [1j, 0]])
    for stored in (values, scipy.sparse.csr_array(values)):
        with pytest.raises(ModelError, match="W must hold real numbers, got complex ones"):
            _couplings.symmetric(stored, 2, "W")
    with pytest.raises(ModelError, match="W must hold numbers, got text"):
        _couplings.symmetric([["0", "1"], ["1", "0"]], 2, "W")
