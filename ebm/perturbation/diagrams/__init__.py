"""Connected diagrams, and all of them as one program of a handful of matrix products."""

from ebm.perturbation.diagrams.multigraphs import Diagram, connected_diagrams

__all__ = ["Diagram", "connected_diagrams"]
