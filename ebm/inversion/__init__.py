"""The inverse problem: from moments or rows to a model, and how sure the parameters are."""

from ebm.inversion.bootstrap import BootstrapResult, bootstrap
from ebm.inversion.closed_forms import (
    bethe,
    independent_pair,
    mean_field,
    naive_mean_field,
    sessak_monasson,
    tap,
)
from ebm.inversion.delta_method import standard_errors
from ebm.inversion.plefka import plefka
from ebm.inversion.pseudolikelihood import (
    Pseudolikelihood,
    log_pseudolikelihood,
    pseudolikelihood,
)
from ebm.inversion.truncated_newton import TruncatedNewton

__all__ = [
    "BootstrapResult",
    "Pseudolikelihood",
    "TruncatedNewton",
    "bethe",
    "bootstrap",
    "independent_pair",
    "log_pseudolikelihood",
    "mean_field",
    "naive_mean_field",
    "plefka",
    "pseudolikelihood",
    "sessak_monasson",
    "standard_errors",
    "tap",
]
