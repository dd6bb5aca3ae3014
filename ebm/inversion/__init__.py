"""The inverse problem: from moments or rows to a model, and how sure the parameters are."""

from ebm.inversion.delta_method import standard_errors
from ebm.inversion.mean_field import mean_field, naive_mean_field, tap
from ebm.inversion.pairs import bethe, independent_pair, sessak_monasson
from ebm.inversion.plefka import plefka
from ebm.inversion.pseudolikelihood import log_pseudolikelihood, pseudolikelihood
from ebm.inversion.pseudolikelihood_result import PseudolikelihoodResult
from ebm.inversion.resampling import BootstrapResult, bootstrap

__all__ = [
    "BootstrapResult",
    "PseudolikelihoodResult",
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
