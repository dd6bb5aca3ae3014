"""Observables that data and models are compared by: pair and triple moments, population count.

All of them are functions of the activity x ∈ {0, 1}, for spins x = (1 + s)/2, and δx = x − ⟨x⟩.
"""

from ebm.observables.activity import MAX_UNITS, activity
from ebm.observables.connected import central_pairs, central_triples, third_moments, triples
from ebm.observables.population import (
    independent_entropy,
    independent_population_count,
    population_count,
)
from ebm.observables.words import ENTROPY_ESTIMATORS, word_entropy

__all__ = [
    "ENTROPY_ESTIMATORS",
    "MAX_UNITS",
    "activity",
    "central_pairs",
    "central_triples",
    "independent_entropy",
    "independent_population_count",
    "population_count",
    "third_moments",
    "triples",
    "word_entropy",
]
