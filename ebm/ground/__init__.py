"""Ground states, their number, and the number of states at each energy.

The package is named apart from :func:`ebm.ground_state`, which is always the function.
"""

from ebm.ground.density_of_states import density_of_states
from ebm.ground.ground_state import GroundState, SearchRecord, ground_state

__all__ = ["GroundState", "SearchRecord", "density_of_states", "ground_state"]
