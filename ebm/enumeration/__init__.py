"""Exact sums over all states.

The package is not named after :func:`ebm.exact`, so that ``ebm.exact`` is always the function.
"""

from ebm.enumeration.exact import exact
from ebm.enumeration.exact_ensemble import ExactEnsemble

__all__ = ["ExactEnsemble", "exact"]
