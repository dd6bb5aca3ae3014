"""Minima, basins and passes of an energy, and what moves between them; [EBM] Theorem 4."""

from ebm._landscape.changes import LandscapeChanges
from ebm._landscape.minima import LocalMinima, local_minima
from ebm._landscape.overlap import OverlapProfile
from ebm._landscape.search import landscape
from ebm._landscape.transitions import Transitions
from ebm._landscape.valleys import Landscape

__all__ = [
    "Landscape",
    "LandscapeChanges",
    "LocalMinima",
    "OverlapProfile",
    "Transitions",
    "landscape",
    "local_minima",
]
