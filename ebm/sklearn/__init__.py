"""Estimators of scikit-learn: densities and features of two-valued units, by the same fits."""

from ebm.errors import require_extra

require_extra("sklearn.base", "sklearn")

from ebm.sklearn.boltzmann_machine import BoltzmannMachine  # noqa: E402
from ebm.sklearn.ising_network import IsingNetwork  # noqa: E402
from ebm.sklearn.restricted_machine import RestrictedBoltzmannMachine  # noqa: E402

__all__ = ["BoltzmannMachine", "IsingNetwork", "RestrictedBoltzmannMachine"]
