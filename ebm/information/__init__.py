"""Fisher information of energy models and of parts of models, as linear operators."""

from ebm.information.chain import chain_fisher
from ebm.information.ensemble_information import EnsembleInformation
from ebm.information.fisher import FisherInformation, fisher_information
from ebm.information.hessian import loss_hessian
from ebm.information.joint import JointInformation
from ebm.information.layers import (
    BlockDiagonalInformation,
    CoupledInformation,
    LayerInformation,
)
from ebm.information.metric import Metric
from ebm.information.relative import relative_fisher
from ebm.information.responses import Elu, Linear, Relu, Response, Sigmoid, Silu, Tanh
from ebm.information.subsystems import Layer, SoftmaxLayer, Subsystem, TwoLayers
from ebm.information.symmetric_operator import SymmetricOperator

__all__ = [
    "BlockDiagonalInformation",
    "CoupledInformation",
    "Elu",
    "EnsembleInformation",
    "FisherInformation",
    "JointInformation",
    "Layer",
    "LayerInformation",
    "Linear",
    "Metric",
    "Relu",
    "Response",
    "Sigmoid",
    "Silu",
    "SoftmaxLayer",
    "Subsystem",
    "SymmetricOperator",
    "Tanh",
    "TwoLayers",
    "chain_fisher",
    "fisher_information",
    "loss_hessian",
    "relative_fisher",
]
