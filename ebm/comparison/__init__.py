"""Routes to the same moments side by side: how far each is from a reference."""

from ebm.comparison.differences import Difference
from ebm.comparison.routes import Comparison, Route, compare

__all__ = ["Comparison", "Difference", "Route", "compare"]
