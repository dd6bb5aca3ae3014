"""Ensembles, the pivot of the library, and the moments and estimates they give."""

from ebm.ensembles.ensemble import Ensemble, WeightedStates
from ebm.ensembles.moments import Estimate, Moments

__all__ = ["Ensemble", "Estimate", "Moments", "WeightedStates"]
