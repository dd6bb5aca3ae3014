"""A model at other temperatures: free energy, heat capacity, magnetization and their errors."""

from ebm.temperature.curves import Thermodynamics, thermodynamics

__all__ = ["Thermodynamics", "thermodynamics"]
