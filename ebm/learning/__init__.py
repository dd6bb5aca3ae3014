"""Learning: from data to the parameters of a model."""

from ebm.learning.averages import ContrastiveDivergence, PersistentChains
from ebm.learning.clamped_chains import ClampedChains
from ebm.learning.fit import fit
from ebm.learning.gradient_steps import GradientSteps
from ebm.learning.lbfgs import LBFGS
from ebm.learning.losses import Likelihood
from ebm.learning.natural_gradient import NaturalGradient
from ebm.learning.newton import Newton
from ebm.learning.optimizers import Adam, Decay, GradientDescent
from ebm.learning.own_losses import LossOnRows
from ebm.learning.penalties import Penalty
from ebm.learning.proximal_newton import ProximalNewton
from ebm.learning.result import FitEpoch, FitResult, FitStep

__all__ = [
    "LBFGS",
    "Adam",
    "ClampedChains",
    "ContrastiveDivergence",
    "Decay",
    "FitEpoch",
    "FitResult",
    "FitStep",
    "GradientDescent",
    "GradientSteps",
    "Likelihood",
    "LossOnRows",
    "NaturalGradient",
    "Newton",
    "Penalty",
    "PersistentChains",
    "ProximalNewton",
    "fit",
]
