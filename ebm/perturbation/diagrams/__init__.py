"""Connected diagrams, and all of them as one program of a handful of matrix products."""

from ebm.perturbation.diagrams.connected import Diagram, connected_diagrams

__all__ = ["Diagram", "connected_diagrams"]
