"""Networks on torch: the action of a classifier as an energy, its power series, its training."""

from ebm.errors import require_extra

require_extra("torch", "torch")

from ebm.networks._labelled_rows import RowSettings  # noqa: E402
from ebm.networks.action.action_expansion import ActionExpansion, ray_radius  # noqa: E402
from ebm.networks.action.derivatives import (  # noqa: E402
    ActionHessian,
    ActionHessianSlope,
    ActionThirdDerivatives,
)
from ebm.networks.action.modules import as_module, parameters_of, probabilities  # noqa: E402
from ebm.networks.action.softmax_mlp import SoftmaxMLPAction  # noqa: E402
from ebm.networks.action.terms import (  # noqa: E402
    ClosedForms,
    class_covariance,
    class_moments,
    closed_forms,
    main_terms,
)
from ebm.networks.natural_gradient.relative_natural_gradient import (  # noqa: E402
    Damping,
    LayerMetrics,
    RelativeNaturalGradient,
)
from ebm.networks.records import Records, TrainingRecord, TrainingResult  # noqa: E402
from ebm.networks.series import power_series  # noqa: E402
from ebm.networks.series.activations import ACTIVATIONS, Activation, activation_named  # noqa: E402
from ebm.networks.series.sequential import series  # noqa: E402
from ebm.networks.training import TorchSteps, initial_parameters, minimize  # noqa: E402

__all__ = [
    "ACTIVATIONS",
    "ActionExpansion",
    "ActionHessian",
    "ActionHessianSlope",
    "ActionThirdDerivatives",
    "Activation",
    "ClosedForms",
    "Damping",
    "LayerMetrics",
    "Records",
    "RelativeNaturalGradient",
    "RowSettings",
    "SoftmaxMLPAction",
    "TorchSteps",
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
