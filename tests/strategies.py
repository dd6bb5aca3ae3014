"""Every hypothesis strategy of the tests. None of them stays at a symmetric point."""

import numpy as np
from hypothesis import strategies as st

import ebm


def generators():
    """A numpy Generator from a drawn seed."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def boltzmann_machines(draw, min_units=1, max_units=7, scale=1.5):
    """Random weights with a diagonal, biases, centre and offset."""
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
