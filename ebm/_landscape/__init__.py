"""Minima, basins and passes of an energy, and what moves between them; [EBM] Theorem 4."""

from ebm._landscape.changes import LandscapeChanges
from ebm._landscape.landscape import Landscape, OverlapProfile, landscape
from ebm._landscape.minima import LocalMinima, local_minima
from ebm._landscape.transitions import Transitions

__all__ = [
    "Landscape",
    "LandscapeChanges",
    "LocalMinima",
    "OverlapProfile",
    "Transitions",
    "landscape",
    "local_minima",
]
