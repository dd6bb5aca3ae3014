"""Exact sums over all states.

The package is not named after :func:`ebm.exact`, so that ``ebm.exact`` is always the function.
"""

from ebm.enumeration._elimination_ensemble import EliminationEnsemble
from ebm.enumeration._planar import PlanarEnsemble
from ebm.enumeration._uniform_ensemble import UniformEnsemble
from ebm.enumeration.exact import exact
from ebm.enumeration.exact_ensemble import ExactEnsemble

__all__ = ["EliminationEnsemble", "ExactEnsemble", "PlanarEnsemble", "UniformEnsemble", "exact"]
