"""Ensembles, over which averages are taken, and their moments and estimates."""

from ebm.ensembles.ensemble import Ensemble, WeightedStates
from ebm.ensembles.incomplete import IncompleteEnsemble
from ebm.ensembles.moments import Estimate, Moments

__all__ = ["Ensemble", "Estimate", "IncompleteEnsemble", "Moments", "WeightedStates"]
