"""The inverse problem: from moments or rows to a model, and how sure the parameters are."""

from ebm.inversion.closed_forms import (
    bethe,
    independent_pair,
    mean_field,
    naive_mean_field,
    sessak_monasson,
    tap,
)
from ebm.inversion.path import RegularizationPath, regularization_path
from ebm.inversion.plefka import plefka
from ebm.inversion.pseudolikelihood import (
    Pseudolikelihood,
    log_pseudolikelihood,
    pseudolikelihood,
)
from ebm.inversion.screening import InteractionScreening, MinimumProbabilityFlow
from ebm.inversion.truncated_newton import TruncatedNewton
from ebm.inversion.uncertainty import BootstrapResult, bootstrap, standard_errors

__all__ = [
    "BootstrapResult",
    "InteractionScreening",
    "MinimumProbabilityFlow",
    "Pseudolikelihood",
    "RegularizationPath",
    "TruncatedNewton",
    "bethe",
    "bootstrap",
    "independent_pair",
    "log_pseudolikelihood",
    "mean_field",
    "naive_mean_field",
    "plefka",
    "pseudolikelihood",
    "regularization_path",
    "sessak_monasson",
    "standard_errors",
    "tap",
]
