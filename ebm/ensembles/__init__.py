"""Ensembles, the pivot of the library, and the moments and estimates they give."""

from ebm.ensembles.ensemble import Ensemble
from ebm.ensembles.moments import Estimate, Moments
from ebm.ensembles.weighted_states import WeightedStates

__all__ = ["Ensemble", "Estimate", "Moments", "WeightedStates"]
