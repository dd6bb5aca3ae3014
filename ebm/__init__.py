"""Energy-based models, p(x) ∝ exp(−E(x)), with exact and approximate averages and inference.

model ── exact ──────────────▶ Ensemble / Moments           (the forward problem)
model ◀── inversion · fit ──── Ensemble / Moments ◀── data  (the inverse problem)
"""

import importlib
from typing import TYPE_CHECKING, Any

from ebm import errors, units
from ebm.ensembles import Ensemble, Estimate, IncompleteEnsemble, Moments, WeightedStates
from ebm.errors import EbmError, EbmWarning
from ebm.model import EnergyModel, ParametricModel
from ebm.models import (
    BoltzmannMachine,
    InteractionModel,
    IsingModel,
    KPairwiseModel,
    OrdinalModel,
    PairwiseModel,
    PottsModel,
    RestrictedBoltzmannMachine,
    TabularModel,
    from_graph,
    lattice,
    to_graph,
)
from ebm.spaces import Binary, Intervals, Levels, Product, Reals, Spins

if TYPE_CHECKING:
    from ebm import (
        datasets,
        effective,
        information,
        inversion,
        networks,
        perturbation,
        plotting,
    )
    from ebm._landscape import landscape, local_minima
    from ebm.comparison import compare, compare_groups
    from ebm.effective import MarginalModel, marginalize
    from ebm.enumeration import ExactEnsemble, exact
    from ebm.ground import density_of_states, ground_state
    from ebm.information import fisher_information
    from ebm.io import load, save
    from ebm.learning import (
        LBFGS,
        Adam,
        ClampedChains,
        ContrastiveDivergence,
        FitResult,
        GradientDescent,
        GradientSteps,
        Likelihood,
        NaturalGradient,
        Newton,
        Penalty,
        PersistentChains,
        ProximalNewton,
        fit,
    )
    from ebm.report import analyze
    from ebm.sampling import (
        Annealing,
        Gibbs,
        HamiltonianMonteCarlo,
        Langevin,
        Metropolis,
        ParallelTempering,
        PopulationAnnealing,
        Samples,
        SwendsenWang,
        Wolff,
        log_partition,
        sample,
    )
    from ebm.state_table import StateTable, table
    from ebm.tables import read_table
    from ebm.temperature import thermodynamics

__version__ = "0.1.0"

__all__ = [
    "LBFGS",
    "Adam",
    "Annealing",
    "Binary",
    "BoltzmannMachine",
    "ClampedChains",
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
    "GradientSteps",
    "HamiltonianMonteCarlo",
    "IncompleteEnsemble",
    "InteractionModel",
    "Intervals",
    "IsingModel",
    "KPairwiseModel",
    "Langevin",
    "Levels",
    "Likelihood",
    "MarginalModel",
    "Metropolis",
    "Moments",
    "NaturalGradient",
    "Newton",
    "OrdinalModel",
    "PairwiseModel",
    "ParallelTempering",
    "ParametricModel",
    "Penalty",
    "PersistentChains",
    "PopulationAnnealing",
    "PottsModel",
    "Product",
    "ProximalNewton",
    "Reals",
    "RestrictedBoltzmannMachine",
    "Samples",
    "Spins",
    "StateTable",
    "SwendsenWang",
    "TabularModel",
    "WeightedStates",
    "Wolff",
    "analyze",
    "compare",
    "compare_groups",
    "datasets",
    "density_of_states",
    "effective",
    "errors",
    "exact",
    "fisher_information",
    "fit",
    "from_graph",
    "ground_state",
    "information",
    "inversion",
    "landscape",
    "lattice",
    "load",
    "local_minima",
    "log_partition",
    "marginalize",
    "networks",
    "perturbation",
    "plotting",
    "read_table",
    "sample",
    "save",
    "table",
    "thermodynamics",
    "to_graph",
    "units",
]

#: Modules that are imported when one of their names is first used, so that ``import ebm`` is quick.
_HOMES = {
    "ebm._landscape": "landscape local_minima",
    "ebm.comparison": "compare compare_groups",
    "ebm.effective": "MarginalModel marginalize",
    "ebm.enumeration": "ExactEnsemble exact",
    "ebm.ground": "density_of_states ground_state",
    "ebm.information": "fisher_information",
    "ebm.io": "load save",
    "ebm.learning": (
        "Adam ClampedChains ContrastiveDivergence FitResult GradientDescent GradientSteps LBFGS"
        " Likelihood NaturalGradient Newton Penalty PersistentChains ProximalNewton fit"
    ),
    "ebm.report": "analyze",
    "ebm.sampling": (
        "Annealing Gibbs HamiltonianMonteCarlo Langevin Metropolis ParallelTempering"
        " PopulationAnnealing Samples SwendsenWang Wolff log_partition sample"
    ),
    "ebm.state_table": "StateTable table",
    "ebm.tables": "read_table",
    "ebm.temperature": "thermodynamics",
}
#: Packages that are attributes of ``ebm`` without an import of their own.
_PACKAGES = frozenset(
    "comparison datasets effective enumeration ground information inversion learning models"
    " networks observables perturbation plotting report sampling tables temperature".split()
)
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"ebm.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ebm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
