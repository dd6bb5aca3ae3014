"""The inverse problem: from moments or rows to a model, and how sure the parameters are."""

from ebm.inversion.case_dropping import CaseDropping, case_dropping
from ebm.inversion.closed_forms import (
    bethe,
    independent_pair,
    mean_field,
    naive_mean_field,
    sessak_monasson,
    tap,
)
from ebm.inversion.dependence import Dependence, dependence
from ebm.inversion.edge_posterior import EdgePosterior, EdgePrior, edge_posterior
from ebm.inversion.one_step import one_step, refit
from ebm.inversion.path import RegularizationPath, regularization_path
from ebm.inversion.planning import samples_needed
from ebm.inversion.plefka import plefka
from ebm.inversion.pseudolikelihood import (
    Pseudolikelihood,
    log_pseudolikelihood,
    pseudolikelihood,
)
from ebm.inversion.resampling import BlockResampling, ModelResampling, RowResampling
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
    "BlockResampling",
    "BootstrapResult",
    "CaseDropping",
    "Dependence",
    "EdgePosterior",
    "EdgePrior",
    "InteractionScreening",
    "MinimumProbabilityFlow",
    "ModelResampling",
    "Pseudolikelihood",
    "RegularizationPath",
    "RowResampling",
    "Selection",
    "StabilityResult",
    "TruncatedNewton",
    "bethe",
    "bootstrap",
    "case_dropping",
    "cross_validation",
    "dependence",
    "edge_posterior",
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
    "samples_needed",
    "sessak_monasson",
    "stability_selection",
    "standard_errors",
    "tap",
]
