"""Connected diagrams, and their sum as a program of a few matrix products."""

from ebm.perturbation.diagrams.multigraphs import Diagram, connected_diagrams

__all__ = ["Diagram", "connected_diagrams"]
