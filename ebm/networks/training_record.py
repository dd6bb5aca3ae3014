"""What is written down while an action is minimized, on fixed rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ebm.networks.action._energy import MLPEnergy, logits
from ebm.networks.action.expansion import series_of_block
from ebm.networks.action.terms import HIGHEST_ORDER, closed_forms
from ebm.networks.series._surprise import surprise, surprise_series

__all__ = ["Measurement", "Monitor", "TrainingRecord", "angle"]


@dataclass(frozen=True)
class TrainingRecord:
    """A line of the history of a minimization; NaN where there are no validation rows.

    Parameters
    ----------
    step : int
        Updates made so far.
    epoch : float
        The same in passes over the rows.
    learning_rate : float
        Of the last update, or of the first one at step 0.
    batch_action : float
        Mean of S over the batches since the record before; NaN at the first.
    training_action, validation_action : float
        S_T and S_E, nats, without κ and λ.
    training_accuracy, validation_accuracy : float
        Share of the weight of rows whose label has the largest logit.
    gradient_product, gradient_cosine : float
        ∇S_T·∇S_E, and the cosine of the angle between them.
    update_product : float
        ∇S_E·Δθ, eq 7: ∇S_E at the record before, Δθ all that θ has moved since then. Not negative
        where S_E no longer falls. NaN at the first.
    series : tuple of float
        S_0 … S_K of the training rows along the ray through θ.
    terms : mapping of str to float
        The parts of S_1 … S_4 by name, as :func:`ebm.networks.closed_forms` has them.
    """

    step: int
    epoch: float
    learning_rate: float
    batch_action: float
    training_action: float
    validation_action: float
    training_accuracy: float
    validation_accuracy: float
    gradient_product: float
    gradient_cosine: float
    update_product: float
    series: tuple[float, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Measurement:
    """S, the accuracy and ∇S at a point, on some rows."""

    action: float
    accuracy: float
    gradient: Tensor

    @classmethod
    def of(cls, system: MLPEnergy, theta: Tensor) -> Measurement:
        """Measure, block by block."""
        leaf = theta.detach().clone().requires_grad_()
        gradient = torch.zeros_like(theta)
        total = right = 0.0
        for block in system.rows.blocks(system.block_size()):
            with torch.enable_grad():
                f = logits(system.blocks_of(leaf), block.inputs, system.activation)
                share = surprise(f, block.labels) @ block.weights
            (slope,) = torch.autograd.grad(share, leaf)
            gradient += slope
            total += float(share.detach())
            right += float(((f.argmax(-1) == block.labels) * block.weights).sum())
        return cls(total, right, gradient)


class Monitor:
    """Measures on fixed training rows, and on fixed validation rows where there are any."""

    def __init__(
        self,
        training: MLPEnergy,
        validation: MLPEnergy | None,
        order: int | None,
    ) -> None:
        self._training, self._validation, self._order = training, validation, order

    def measure(self, theta: Tensor) -> tuple[Measurement, Measurement | None]:
        """On both sets of rows."""
        there = None if self._validation is None else Measurement.of(self._validation, theta)
        return Measurement.of(self._training, theta), there

    def series(self, theta: Tensor) -> tuple[tuple[float, ...], dict[str, float]]:
        """S_0 … S_K along the ray through θ, and the terms by name."""
        order = self._order
        if order is None:
            return (), {}
        system = self._training
        blocks, total = system.blocks_of(theta), theta.new_zeros(order + 1)
        with torch.no_grad():
            for block in system.rows.blocks(system.block_size(order=order)):
                _, orders = series_of_block(system, blocks, block, order)
                total += surprise_series(orders, block)
            terms = closed_forms(system, theta, min(order, HIGHEST_ORDER)).terms
        return tuple(total.tolist()), dict(terms)


def angle(first: Tensor, second: Tensor) -> tuple[float, float]:
    """The inner product of two vectors and the cosine of the angle between them."""
    product, lengths = float(first @ second), float(first.norm()) * float(second.norm())
    return product, product / lengths if lengths else math.nan
