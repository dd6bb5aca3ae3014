"""The shared program: how little it computes, and that dense and sparse agree with plain sums."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import ebm
from ebm.errors import LimitError
from ebm.perturbation import bernoulli_cumulants, connected_diagrams
from ebm.perturbation._summation import inverse_series
from ebm.perturbation.diagrams._algebra import DenseAlgebra
from ebm.perturbation.diagrams._contraction import compile_program
from ebm.perturbation.diagrams._sparse import SparseAlgebra
from tests.strategies import generators


def couplings(n, rng, density=1.0):
    """Random, symmetric, zero on the diagonal."""
    upper = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < density), 1)
    return upper + upper.T


def weights_for(program, n, rng):
    """Any vectors."""
    return {key: rng.normal(size=n) for key in program.weight_keys}


def plain_sum(diagram, matrix, weights, keys):
    """One diagram by one einsum over all its vertices."""
    operands = []
    for a, b, multiplicity in diagram.edges:
        operands += [matrix**multiplicity, [a, b]]
    for v, key in enumerate(keys):
        operands += [weights[key], [v]]
    return np.einsum(*operands, [], optimize=True) / diagram.symmetry_factor


@pytest.mark.parametrize(("order", "products"), list(enumerate([0, 0, 1, 1, 3, 5], 1)))
def test_number_of_matrix_products(order, products):
    """All 156 diagrams to order 6 share five, and one sum over four sites."""
    program = compile_program(order)
    assert program.count("product") == products
    assert program.count("four") == (order == 6)
    assert len(program.terms) == order


def test_number_of_matrix_products_without_bridges():
    """At fixed means order 6 needs four."""
    assert compile_program(6, bridgeless=True).count("product") == 4


@pytest.mark.parametrize("bridgeless", [False, True])
def test_terms_are_the_sums_over_diagrams(bridgeless):
    """Each order against one einsum for each diagram, with weights of no meaning."""
    rng = np.random.default_rng(1)
    program = compile_program(6, bridgeless)
    matrix, weights = couplings(5, rng), weights_for(program, 5, rng)
    terms = program.evaluate(DenseAlgebra(matrix), weights).terms
    for k in range(1, 7):
        expected, size = 0.0, 1.0
        for diagram in connected_diagrams(k, bridgeless):
            vertices = range(diagram.n_vertices)
            keys = [diagram.legs(v) if bridgeless else (diagram.degrees[v],) for v in vertices]
            part = plain_sum(diagram, matrix, weights, keys)
            expected, size = expected + part, size + abs(part)
        assert abs(terms[k - 1] - expected) < 1e-12 * size


@pytest.mark.parametrize("bridgeless", [False, True])
@pytest.mark.parametrize("algebra", [DenseAlgebra, SparseAlgebra])
def test_derivatives_are_those_of_the_terms(bridgeless, algebra):
    """Against central differences along a random direction, each order apart and the sum."""
    rng = np.random.default_rng(2)
    program = compile_program(6, bridgeless)
    matrix, weights = couplings(6, rng), weights_for(program, 6, rng)
    change = weights_for(program, 6, rng)
    evaluated = program.evaluate(algebra(matrix), weights)
    step = 1e-5
    sides = [
        program.evaluate(algebra(matrix), {k: weights[k] + s * change[k] for k in weights}).terms
        for s in (step, -step)
    ]
    slopes = (sides[0] - sides[1]) / (2 * step)
    apart, together = evaluated.derivatives(), evaluated.derivatives([2, 4, 5], apart=False)
    for k in range(1, 7):
        slope = sum(change[key] @ parts[k] for key, parts in apart.weights.items() if k in parts)
        assert slope == pytest.approx(slopes[k - 1], rel=1e-7, abs=1e-7)
    summed = sum(change[key] @ parts[0] for key, parts in together.weights.items())
    assert summed == pytest.approx(slopes[[1, 3, 4]].sum(), rel=1e-7, abs=1e-7)
    if bridgeless:
        direction = couplings(6, rng)
        sides = [
            program.evaluate(algebra(matrix + s * direction), weights).terms for s in (step, -step)
        ]
        slopes = (sides[0] - sides[1]) / (2 * step)
        for k in range(2, 7):
            slope = (apart.couplings[k] * direction).sum()
            assert slope == pytest.approx(slopes[k - 1], rel=1e-7, abs=1e-7)


@settings(max_examples=10, deadline=None)
@given(generators(), st.integers(4, 25), st.floats(0.1, 0.5))
def test_sparse_equals_dense(rng, n, density):
    """Terms, derivatives by weights, and derivatives at the stored entries."""
    matrix = couplings(n, rng, density)
    program = compile_program(6)
    weights = weights_for(program, n, rng)
    dense = program.evaluate(DenseAlgebra(matrix), weights)
    sparse = program.evaluate(SparseAlgebra(matrix), weights)
    np.testing.assert_allclose(sparse.terms, dense.terms, rtol=1e-9, atol=1e-9)
    expected, found = dense.derivatives(), sparse.derivatives()
    for key, parts in expected.weights.items():
        for order, part in parts.items():
            scale = 1 + np.abs(part).max()
            assert np.abs(found.weights[key][order] - part).max() < 1e-10 * scale
    for order, part in expected.couplings.items():
        other = found.couplings[order]
        difference = (part + part.T - (other + other.T).toarray())[matrix != 0]
        assert np.abs(difference).max(initial=0) < 1e-10 * (1 + np.abs(part).max())


def test_four_sites_against_einsum():
    """Value and derivatives, dense and sparse, beside a few triangles."""
    rng = np.random.default_rng(3)
    n = 9
    matrix, u = couplings(n, rng, 0.8), rng.normal(size=n)
    u[2] = 0.0
    pairs = list(itertools.combinations(range(4), 2))
    edges = [item for a, b in pairs for item in (matrix, [a, b])]
    sites = [item for a in range(4) for item in (u, [a])]
    expected = np.einsum(*edges, *sites, [], optimize=True)
    dense, sparse = DenseAlgebra(matrix), SparseAlgebra(matrix)
    assert dense.four(matrix, u) == pytest.approx(expected, rel=1e-12)
    assert sparse.four(csr_array(matrix), u) == pytest.approx(expected, rel=1e-12)
    to_matrix, to_vector = dense.four_adjoint(matrix, u)
    opened = 6 * np.einsum(*edges[2:], *sites, [0, 1], optimize=True)
    np.fill_diagonal(opened, 0)
    np.testing.assert_allclose(to_matrix, opened, atol=1e-12 * np.abs(opened).max())
    opened_vector = 4 * np.einsum(*edges, *sites[2:], [0], optimize=True)
    np.testing.assert_allclose(to_vector, opened_vector, atol=1e-12)
    sparse_matrix, sparse_vector = sparse.four_adjoint(csr_array(matrix), u)
    np.testing.assert_allclose(sparse_vector, to_vector, atol=1e-12)
    stored = matrix != 0
    np.testing.assert_allclose(
        sparse_matrix.toarray()[stored], to_matrix[stored], atol=1e-12 * np.abs(opened).max()
    )


def test_four_sites_by_several_blocks_of_columns():
    """Above the size of a block."""
    rng = np.random.default_rng(4)
    matrix, u = couplings(140, rng, 0.3), rng.normal(size=140)
    expected = SparseAlgebra(matrix).four(csr_array(matrix), u)
    assert DenseAlgebra(matrix).four(matrix, u) == pytest.approx(expected, rel=1e-10)


def exact_at_fixed_means(machine, mean):
    """ln Z − b·m and C^-1 at the biases that give these means about themselves, by Newton steps."""
    biases = np.log(mean / (1 - mean))
    for _ in range(40):
        moments = ebm.exact(ebm.BoltzmannMachine(machine, biases, center=mean)).moments()
        biases = biases + np.linalg.solve(moments.covariance, mean - moments.mean)
    inverse = np.linalg.inv(moments.covariance)
    return moments.log_partition - biases @ mean, moments.covariance, inverse


@pytest.mark.parametrize("order", [2, 3, 4])
def test_fixed_means_from_the_same_engine(order):
    """Γ, the covariance ∂Γ/∂W, and linear response as its inverse series: slopes as stated."""
    rng = np.random.default_rng(7)
    n, off = 5, ~np.eye(5, dtype=bool)
    matrix, mean = couplings(n, rng), rng.uniform(0.2, 0.8, n)
    cumulants = bernoulli_cumulants(mean, order)
    weights = {(d,): cumulants[d - 1] for d in range(2, order + 1)}
    # At an articulation of two double edges the Legendre weight, not κ_4.
    weights[2, 2] = -2 * cumulants[1] ** 2
    program, errors = compile_program(order, bridgeless=True), []
    for strength in (0.12, 0.06):
        evaluated = program.evaluate(DenseAlgebra(strength * matrix), weights)
        terms = np.zeros((order, n, n))
        for k, part in evaluated.derivatives().couplings.items():
            terms[k - 1] = (part + part.T) * off
        terms[0] = np.diag(cumulants[1])
        entropy = -(mean * np.log(mean) + (1 - mean) * np.log(1 - mean)).sum()
        exact = exact_at_fixed_means(strength * matrix, mean)
        response = inverse_series(terms).sum(axis=0)
        errors.append(
            [
                abs(entropy + evaluated.terms.sum() - exact[0]),
                np.abs(terms.sum(axis=0) - exact[1])[off].max(),
                np.abs(response - exact[2])[off].max(),
            ]
        )
    assert np.min(errors) > 1e-11
    slopes = np.log2(np.divide(*errors))
    assert np.all(slopes > np.array([order + 1, order, order]) - 0.3)


def test_orders_beyond_are_refused():
    """With the number of diagrams."""
    with pytest.raises(LimitError, match="333 diagrams"):
        compile_program(7, bridgeless=True)
    with pytest.raises(LimitError, match="the limit is order 8"):
        compile_program(9)
