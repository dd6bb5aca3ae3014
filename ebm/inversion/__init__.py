"""The inverse problem: from moments or rows to a model, and how sure the parameters are."""

from ebm.inversion.closed_forms import (
    bethe,
    independent_pair,
    mean_field,
    naive_mean_field,
    sessak_monasson,
    tap,
)
from ebm.inversion.one_step import one_step, refit
from ebm.inversion.path import RegularizationPath, regularization_path
from ebm.inversion.plefka import plefka
from ebm.inversion.pseudolikelihood import (
    Pseudolikelihood,
    log_pseudolikelihood,
    pseudolikelihood,
)
from ebm.inversion.screening import InteractionScreening, MinimumProbabilityFlow
from ebm.inversion.selection import (
    Selection,
    StabilityResult,
    cross_validation,
    extended_bic,
    stability_selection,
)
from ebm.inversion.truncated_newton import TruncatedNewton
from ebm.inversion.uncertainty import BootstrapResult, bootstrap, standard_errors

__all__ = [
    "BootstrapResult",
    "InteractionScreening",
    "MinimumProbabilityFlow",
    "Pseudolikelihood",
    "RegularizationPath",
    "Selection",
    "StabilityResult",
    "TruncatedNewton",
    "bethe",
    "bootstrap",
    "cross_validation",
    "extended_bic",
    "independent_pair",
    "log_pseudolikelihood",
    "mean_field",
    "naive_mean_field",
    "one_step",
    "plefka",
    "pseudolikelihood",
    "refit",
    "regularization_path",
    "sessak_monasson",
    "stability_selection",
    "standard_errors",
    "tap",
]
