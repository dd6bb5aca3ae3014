"""Networks on torch: the action of a classifier as an energy, its series, its minimization."""

from ebm.errors import require_extra

require_extra("torch", "torch")

from ebm.networks.action.class_moments import class_covariance, class_moments, main_terms  # noqa: E402
from ebm.networks.action.closed_forms import ClosedForms, closed_forms  # noqa: E402
from ebm.networks.action.modules import as_module, parameters_of, probabilities  # noqa: E402
from ebm.networks.action.softmax_mlp import SoftmaxMLPAction  # noqa: E402
from ebm.networks.minimize import TrainingResult, initial_parameters, minimize  # noqa: E402
from ebm.networks.natural_gradient.relative_natural_gradient import RelativeNaturalGradient  # noqa: E402
from ebm.networks.series import power_series  # noqa: E402
from ebm.networks.series.action_expansion import ActionExpansion  # noqa: E402
from ebm.networks.series.activations import ACTIVATIONS, Activation, activation_named  # noqa: E402
from ebm.networks.series.convergence import ray_radius  # noqa: E402
from ebm.networks.series.sequential import series  # noqa: E402
from ebm.networks.training_record import TrainingRecord  # noqa: E402

__all__ = [
    "ACTIVATIONS",
    "ActionExpansion",
    "Activation",
    "ClosedForms",
    "RelativeNaturalGradient",
    "SoftmaxMLPAction",
    "TrainingRecord",
    "TrainingResult",
    "activation_named",
    "as_module",
    "class_covariance",
    "class_moments",
    "closed_forms",
    "initial_parameters",
    "main_terms",
    "minimize",
    "parameters_of",
    "power_series",
    "probabilities",
    "ray_radius",
    "series",
]
