"""Every hypothesis strategy of the tests. None of them stays at a symmetric point."""

import itertools

import numpy as np
from hypothesis import strategies as st

import ebm
from tests.user_models import CoupledLevels, HardCore


def generators():
    """A numpy Generator from a drawn seed."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def boltzmann_machines(draw, min_units=1, max_units=7, scale=1.5):
    """Random weights with a diagonal, biases, center and offset."""
    n = draw(st.integers(min_units, max_units))
    rng = draw(generators())
    weights = rng.normal(0, scale, (n, n))
    return ebm.BoltzmannMachine(
        weights, rng.normal(0, scale, n), center=rng.uniform(-1, 2, n), offset=rng.normal()
    )


@st.composite
def ising_models(draw, min_units=1, max_units=7, scale=1.0):
    """Random couplings with a diagonal, fields and offset."""
    n = draw(st.integers(min_units, max_units))
    rng = draw(generators())
    return ebm.IsingModel(
        rng.normal(0, scale, (n, n)), rng.normal(0, scale, n), offset=rng.normal()
    )


def pairwise_models(**kwargs):
    """Either of the two pairwise families."""
    return boltzmann_machines(**kwargs) | ising_models(**kwargs)


@st.composite
def tabular_models(draw, max_units=5):
    """A random distribution, some states forbidden."""
    n = draw(st.integers(1, max_units))
    rng = draw(generators())
    p = rng.dirichlet(np.ones(2**n)) * (rng.random(2**n) > 0.2)
    p[rng.integers(2**n)] += 0.1
    return ebm.TabularModel.from_probabilities(p / p.sum(), ebm.Binary(n))


@st.composite
def binary_rows(draw, min_units=1, max_units=5, n_rows=200):
    """Rows of {0,1} in which every joint pattern occurs, so that every maximum exists."""
    n = draw(st.integers(min_units, max_units))
    rng = draw(generators())
    patterns = ebm.Binary(n).states_at(np.arange(2**n))
    drawn = patterns[rng.choice(2**n, size=n_rows, p=rng.dirichlet(np.ones(2**n)))]
    return np.concatenate([patterns, drawn]).astype(np.int8)


def one_unit():
    """The space of one unit of any kind."""
    return st.sampled_from([ebm.Binary(1), ebm.Spins(1), ebm.Levels(1, 2), ebm.Levels(1, 3)])


@st.composite
def finite_spaces(draw, max_units=4):
    """A finite space of any kind, or of several, with names or without."""
    n = draw(st.integers(1, max_units))
    names = draw(st.none() | st.just([f"unit {i}" for i in range(n)]))
    kind = draw(st.sampled_from([ebm.Binary, ebm.Spins, ebm.Levels, ebm.Product]))
    if kind is ebm.Product:
        return ebm.Product(*(draw(one_unit()) for _ in range(n)), names=names)
    if kind is ebm.Levels:
        return ebm.Levels(n, draw(st.integers(2, 4)), names=names)
    return kind(n, names=names)


@st.composite
def weighted_states(draw, max_units=4):
    """Arrays (space, rows, weights): rows with repeats, integer weights, some zero."""
    space = draw(finite_spaces(max_units=max_units))
    rng = draw(generators())
    n_rows = draw(st.integers(space.n, 30))
    weights = rng.integers(0, 4, n_rows)
    weights[: space.n] += 1
    return space, space.random(n_rows, rng), weights


@st.composite
def sparse_patterns(draw, max_units=6):
    """A symmetric matrix as (CSR, dense): some entries not stored, some stored though zero."""
    from scipy.sparse import coo_array

    n = draw(st.integers(1, max_units))
    rng = draw(generators())
    stored = np.tril(rng.random((n, n)) < 0.6)
    values = rng.normal(size=(n, n)) * (rng.random((n, n)) < 0.7)
    i, j = np.nonzero(stored)
    off = i != j
    rows, columns = np.append(i, j[off]), np.append(j, i[off])
    matrix = coo_array(
        (np.append(values[i, j], values[i, j][off]), (rows, columns)), shape=(n, n)
    ).tocsr()
    return matrix, matrix.toarray()


@st.composite
def level_models(draw, max_units=4, scale=1.0):
    """Pairwise models of units with two to four levels."""
    n, q = draw(st.integers(1, max_units)), draw(st.integers(2, 4))
    rng = draw(generators())
    d = n * q
    return CoupledLevels(
        rng.normal(0, scale, (d, d)), rng.normal(0, scale, d), q, constant=rng.normal()
    )


@st.composite
def mixed_models(draw, max_units=4, scale=1.0):
    """Pairwise models of units of several kinds."""
    space = ebm.Product(*(draw(one_unit()) for _ in range(draw(st.integers(1, max_units)))))
    rng, d = draw(generators()), space.n_features
    units = np.repeat(np.arange(space.n), space.widths)
    couplings = rng.normal(0, scale, (d, d)) * (units[:, None] != units)
    return ebm.PairwiseModel(
        space, couplings + couplings.T, rng.normal(0, scale, d), offset=rng.normal()
    )


@st.composite
def forbidding_models(draw, max_units=7):
    """Models of two members, some energies +inf: a chain with exclusion or a table."""
    if draw(st.booleans()):
        return draw(tabular_models())
    rng = draw(generators())
    return HardCore(rng.normal(0, 1, draw(st.integers(1, max_units))))


def quadratic_models(**kwargs):
    """Models of every pairwise kind."""
    return pairwise_models(**kwargs) | level_models() | mixed_models()


@st.composite
def rows_that_may_miss_patterns(draw, min_units=2, max_units=5):
    """Rows of {0,1} over a random choice of patterns, no column constant."""
    n = draw(st.integers(min_units, max_units))
    rng = draw(generators())
    all_patterns = ebm.Binary(n).states_at(np.arange(2**n))
    k = draw(st.integers(2, 2**n))
    patterns = all_patterns[rng.choice(2**n, k, replace=False)]
    constant = patterns.std(axis=0) == 0
    patterns[0, constant] = 1 - patterns[0, constant]
    rows = patterns[rng.integers(0, k, k + 60)]
    return np.concatenate([patterns, rows]).astype(np.int8)


@st.composite
def restricted_machines(draw, max_visible=6, max_hidden=6, scale=1.5):
    """Random weights, biases of both layers, centers of both layers and offset."""
    n, m = draw(st.integers(1, max_visible)), draw(st.integers(1, max_hidden))
    rng = draw(generators())
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, scale, (n, m)),
        rng.normal(0, scale, n),
        rng.normal(0, scale, m),
        visible_center=rng.uniform(-1, 2, n),
        hidden_center=rng.uniform(-1, 2, m),
        offset=rng.normal(),
    )


@st.composite
def interaction_models(draw, max_units=5, max_order=4, scale=1.0):
    """Random terms of up to ``max_order`` units, not all there, in any order and either coding."""
    n = draw(st.integers(1, max_units))
    kind = draw(st.sampled_from([ebm.Binary, ebm.Spins]))
    rng = draw(generators())
    orders = range(1, min(n, max_order) + 1)
    all_terms = [units for k in orders for units in itertools.combinations(range(n), k)]
    kept = rng.permutation(len(all_terms))[: rng.integers(0, len(all_terms) + 1)]
    terms = {tuple(rng.permutation(all_terms[k])): rng.normal(0, scale) for k in kept}
    return ebm.InteractionModel(terms, kind(n), offset=rng.normal())


@st.composite
def potts_models(draw, max_units=4, scale=1.0):
    """Random couplings and fields of units with two to four values, in no particular gauge."""
    n, q = draw(st.integers(1, max_units)), draw(st.integers(2, 4))
    rng = draw(generators())
    couplings = rng.normal(0, scale, (n, n, q, q))
    couplings[range(n), range(n)] = 0
    return ebm.PottsModel(couplings, rng.normal(0, scale, (n, q)), offset=rng.normal())


@st.composite
def ordinal_models(draw, max_units=4, scale=0.7):
    """Items of two to four categories, alike or not, with scores of any order or the usual ones."""
    n = draw(st.integers(1, max_units))
    sizes = draw(st.lists(st.integers(2, 4), min_size=n, max_size=n))
    rng = draw(generators())
    weights = rng.normal(0, scale, (n, n))
    np.fill_diagonal(weights, 0)
    scores = [rng.normal(0, 1, q) for q in sizes] if draw(st.booleans()) else None
    thresholds = [rng.normal(0, scale, q) for q in sizes]
    return ebm.OrdinalModel(weights, thresholds, scores=scores, offset=rng.normal())
