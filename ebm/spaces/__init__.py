"""State spaces: how many units, how they are coded, what they are called.

Coding and unit names live here and nowhere else; models, ensembles, moments and files carry a
space. Data in another coding are refused, never converted by guess.
"""

from ebm.spaces.finite import Binary, FiniteSpace, HomogeneousSpace, Levels, Spins
from ebm.spaces.intervals import Intervals
from ebm.spaces.product import Product
from ebm.spaces.space import Reals, StateSpace

__all__ = [
    "Binary",
    "FiniteSpace",
    "HomogeneousSpace",
    "Intervals",
    "Levels",
    "Product",
    "Reals",
    "Spins",
    "StateSpace",
]
