"""Information metrics of energy models."""

from ebm.information.fisher import FisherInformation, fisher_information

__all__ = ["FisherInformation", "fisher_information"]
