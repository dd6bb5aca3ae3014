"""Networks on torch: the action of a classifier as an energy, its series, its minimization."""

from ebm.errors import require_extra

require_extra("torch", "torch")

from ebm.networks import power_series  # noqa: E402
from ebm.networks.action import SoftmaxMLPAction  # noqa: E402
from ebm.networks.activations import ACTIVATIONS, Activation, activation_named  # noqa: E402
from ebm.networks.closed_forms import ClosedForms, closed_forms  # noqa: E402
from ebm.networks.convergence import ray_radius  # noqa: E402
from ebm.networks.expansion import ActionExpansion  # noqa: E402
from ebm.networks.modules import as_module, parameters_of, probabilities  # noqa: E402
from ebm.networks.moments import class_covariance, class_moments, main_terms  # noqa: E402
from ebm.networks.monitoring import TrainingRecord  # noqa: E402
from ebm.networks.relative_natural_gradient import RelativeNaturalGradient  # noqa: E402
from ebm.networks.sequential import series  # noqa: E402
from ebm.networks.training import TrainingResult, initial_parameters, minimize  # noqa: E402

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
