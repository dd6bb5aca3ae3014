"""Energy-based models, p(x) ∝ exp(−E(x)), with the exact answer beside every approximation.

model ── exact ──────────────▶ Ensemble / Moments           (the forward problem)
model ◀── inversion · fit ──── Ensemble / Moments ◀── data  (the inverse problem)
"""

import importlib
from typing import TYPE_CHECKING, Any

from ebm import errors, inversion
from ebm.effective import MarginalModel, marginalize
from ebm.ensembles import Ensemble, Estimate, Moments, WeightedStates
from ebm.enumeration import ExactEnsemble, exact
from ebm.errors import EbmError, EbmWarning
from ebm.information import fisher_information
from ebm.io import load, save
from ebm.landscape import local_minima
from ebm.learning import (
    Adam,
    ContrastiveDivergence,
    FitResult,
    GradientDescent,
    PersistentChains,
    fit,
)
from ebm.model import EnergyModel, ParametricModel
from ebm.models import (
    BoltzmannMachine,
    InteractionModel,
    IsingModel,
    PottsModel,
    RestrictedBoltzmannMachine,
    TabularModel,
    from_graph,
    to_graph,
)
from ebm.sampling import Gibbs, Metropolis, Samples, sample
from ebm.spaces import Binary, Levels, Reals, Spins

if TYPE_CHECKING:
    from ebm import datasets, plotting

__version__ = "0.1.0"

__all__ = [
    "Adam",
    "Binary",
    "BoltzmannMachine",
    "ContrastiveDivergence",
    "EbmError",
    "EbmWarning",
    "EnergyModel",
    "Ensemble",
    "Estimate",
    "ExactEnsemble",
    "FitResult",
    "Gibbs",
    "GradientDescent",
    "InteractionModel",
    "IsingModel",
    "Levels",
    "MarginalModel",
    "Metropolis",
    "Moments",
    "ParametricModel",
    "PersistentChains",
    "PottsModel",
    "Reals",
    "RestrictedBoltzmannMachine",
    "Samples",
    "Spins",
    "TabularModel",
    "WeightedStates",
    "datasets",
    "errors",
    "exact",
    "fisher_information",
    "fit",
    "from_graph",
    "inversion",
    "load",
    "local_minima",
    "marginalize",
    "plotting",
    "sample",
    "save",
    "to_graph",
]

#: Modules imported when first asked for.
_LAZY = ("datasets", "plotting")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"ebm.{name}")
    raise AttributeError(f"module 'ebm' has no attribute {name!r}")
