"""Exact sums over all states, and how they are kept affordable.

The function :func:`ebm.exact` lives here; the package has another name so that ``ebm.exact`` is
always the function.
"""

from ebm.enumeration.exact import exact
from ebm.enumeration.exact_ensemble import ExactEnsemble

__all__ = ["ExactEnsemble", "exact"]
