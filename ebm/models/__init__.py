"""Models: values θ of families of energies, frozen, in units of k_B T."""

from ebm.models.any_units import PairwiseModel
from ebm.models.binary_quadratic import from_dimod, from_qubo, to_dimod, to_qubo
from ebm.models.graphs import from_graph, to_graph, to_sparse
from ebm.models.interactions import InteractionModel
from ebm.models.k_pairwise import KPairwiseModel
from ebm.models.lattices import lattice
from ebm.models.ordinal import OrdinalModel
from ebm.models.pairwise import BoltzmannMachine, IsingModel
from ebm.models.potts import PottsModel
from ebm.models.restricted import RestrictedBoltzmannMachine
from ebm.models.tabular import TabularModel

__all__ = [
    "BoltzmannMachine",
    "InteractionModel",
    "IsingModel",
    "KPairwiseModel",
    "OrdinalModel",
    "PairwiseModel",
    "PottsModel",
    "RestrictedBoltzmannMachine",
    "TabularModel",
    "from_dimod",
    "from_graph",
    "from_qubo",
    "lattice",
    "to_dimod",
    "to_graph",
    "to_qubo",
    "to_sparse",
]
