"""Ensembles, the pivot of the library, and the moments and estimates they give."""

from ebm.ensembles.data import WeightedStates
from ebm.ensembles.ensemble import Ensemble
from ebm.ensembles.moments import Estimate, Moments

__all__ = ["Ensemble", "Estimate", "Moments", "WeightedStates"]
