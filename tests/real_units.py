"""Pairwise models of finite and real units, and the sums over points that stand for integrals."""

import itertools
import math

import numpy as np
from hypothesis import strategies as st

import ebm
from tests import strategies

MACHINE = ebm.Product(visible=ebm.Binary(3), hidden=ebm.Reals(2))
#: Points a quarter apart: of functions as smooth as a Gaussian of deviation ½ sums are integrals.
GRID = np.arange(-16, 16.1, 0.25)


def drawn_model(space, rng, scale=0.5):
    """Random couplings and fields; the precision of the real units has eigenvalues near 1.5."""
    rng, d = np.random.default_rng(rng), space.n_features
    units = np.repeat(np.arange(space.n), space.widths)
    couplings = rng.normal(0, scale, (d, d))
    couplings = (couplings + couplings.T) * (units[:, None] != units)
    real = np.flatnonzero(space.is_real[units])
    root = rng.normal(0, 0.2, (len(real), len(real)))
    couplings[np.ix_(real, real)] = -1.5 * np.eye(len(real)) - root @ root.T
    return ebm.PairwiseModel(space, couplings, rng.normal(0, scale, d), offset=rng.normal())


def all_points(space):
    """States of the finite units with all points of a grid of the real ones, and their volumes."""
    values = [GRID if is_real else space.values_of(i) for i, is_real in enumerate(space.is_real)]
    points = np.array(list(itertools.product(*values)))
    return points, 0.25 ** int(space.is_real.sum())


def integrated(model):
    """Points, and their shares of Z = Σ ∫ exp(−E), with ln Z."""
    points, volume = all_points(model.space)
    weights = volume * np.exp(-model.energy(points))
    return points, weights / weights.sum(), math.log(weights.sum())


@st.composite
def models(draw):
    """Models of one or two real units among finite ones of several kinds, in any order."""
    finite = st.sampled_from([ebm.Binary(1), ebm.Spins(1), ebm.Levels(1, 3)])
    blocks = draw(st.lists(finite, min_size=1, max_size=3)) + [ebm.Reals(1)] * draw(
        st.integers(1, 2)
    )
    space = ebm.Product(*draw(st.permutations(blocks)))
    return drawn_model(space, draw(strategies.generators()))
