"""Learning by gradient steps, [EBM] eq 7 and eq 11, with any average over the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_flag, as_integer, zeros_like
from ebm._checkpoints import fingerprints
from ebm._iterate import State
from ebm._types import Array
from ebm.errors import DivergenceError, EbmError
from ebm.learning._answers import checked_step
from ebm.learning._monitor import largest_size
from ebm.learning._search import checked_tolerance
from ebm.learning.natural_gradient import metric_for
from ebm.learning.optimizers import Optimizer
from ebm.learning.result import FitEpoch

__all__ = ["GradientSteps"]

#: Largest change of a parameter in one update that is no divergence: odds of e^100.
LARGEST_CHANGE = 100.0
#: Epochs of nothing but noise after which a fit ends.
CALM = 5


@dataclass(frozen=True)
class GradientSteps:
    """Steps along the gradient of [EBM] eq 7 and eq 11, one update for each batch of rows.

    θ ← optimizer(θ, E_D[∂E/∂θ] − E_model[∂E/∂θ] + ∂R/∂θ). The fit ends after ``n_epochs``. It ends
    earlier for pairwise families if over five epochs the moments of data and model differ by less
    than a quarter of their standard errors, and with all rows and an exact average if the gradient
    is below ``tolerance``.

    Parameters
    ----------
    optimizer : Optimizer, optional
        ``ebm.Adam(0.001)``, ``ebm.GradientDescent(0.05)``, ``ebm.learning.NaturalGradient(0.5)``,
        or any object with ``start`` and ``step`` like theirs. The default depends on the family and
        has a decreasing rate.
    n_epochs : int, optional
        Largest number of passes over the rows; by default 100 with batches, and 5000 where all rows
        are one batch.
    batch_size : int, optional
        Number of rows of each update. By default all rows for pairwise families, of which moments
        suffice, and for averages without memory; otherwise 100.
    centering : bool
        Whether steps are taken in the gauge centered at the means of data and model, so that they
        do not depend on the coding of a unit. The fitted model has the center of the model given.
    tolerance : float
        Largest gradient accepted where there is no noise, in units of the standard deviations of
        the features.
    validation : array_like or Ensemble, optional
        Rows that are not learnt from; the history compares their mean energy with that of the data.
    log_partition : ebm.sampling.BennettRatio or callable, optional
        How ln Z, and so the log-likelihood of the history, is found in a fit by chains, which need
        none. With ``BennettRatio(annealing)`` at the start; then chains of its own are annealed
        from entry to entry in 1 to 50 sweeps, and the ratio is taken anew where fewer than 70 % of
        them remain effective. With ``ebm.exact`` at each entry.

    Raises
    ------
    EbmError
        If a setting is out of range.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> family = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> result = ebm.fit(family, rows, solver=ebm.GradientSteps(ebm.GradientDescent(2.0)))
    >>> result.model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """

    optimizer: Optimizer | None = None
    n_epochs: int | None = None
    batch_size: int | None = None
    centering: bool = True
    tolerance: float = 1e-9
    validation: Any = None
    log_partition: Any = None

    #: Entries of its history.
    record_type = FitEpoch
    draws = True

    def __post_init__(self) -> None:
        if self.optimizer is not None:
            _require_optimizer(self.optimizer)
        for name in ("n_epochs", "batch_size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_integer(getattr(self, name), name))
        object.__setattr__(self, "centering", as_flag(self.centering, "centering"))
        object.__setattr__(self, "tolerance", checked_tolerance(self.tolerance))

    def start(self, loss: Any, theta: Array, rng: Any) -> State:
        """Chains at their first states, the rows not shuffled yet."""
        begun, theta = loss.start_state(rng), loss.load(theta)
        coordinates = loss.gauge.gradient(zeros_like(theta), begun["center"])
        return {
            "theta": theta,
            "optimizer": loss.optimizer.start(coordinates),
            **begun,
            "updates": 0,
            # Entries of the history in a row in which nothing but noise was left.
            "calm": 0,
            "change": 0.0,
            # For the next entry of the history: θ before it, and the sum of the gradients since.
            "before": theta,
            "total": zeros_like(theta),
            "shares": 0.0,
            "summed": 0,
            "partition": loss.start_partition(rng),
        }

    def step(self, loss: Any, state: State) -> State:
        """One update: the rows of a batch against draws of the model."""
        theta, model = state["theta"], loss.model(state["theta"])
        batch, share, rows = loss.next_batch(state)
        ensemble, chains = loss.sample(model, batch, state["chains"])
        seen, hidden = loss.completed(model, batch, state["hidden"])
        gradient, both = loss.difference(model, seen, ensemble)
        if loss.penalty:
            gradient += loss.slopes_of_penalty(theta)
        if share != 1:
            gradient *= share
        total = state["total"] + gradient
        move, optimizer = self._move(loss, state, model, ensemble, gradient)
        theta = loss.gauge.moved(theta, move, state["center"])
        after = {
            **state,
            **rows,
            "theta": theta,
            "optimizer": optimizer,
            "chains": chains,
            "hidden": hidden,
            "center": loss.gauge.slid(state["center"], both),
            "updates": state["updates"] + 1,
            "total": total,
            "shares": state["shares"] + share,
            "summed": state["summed"] + 1,
        }
        return after if not rows["is_recorded"] else self._measured(loss, after, ensemble)

    def _move(
        self, loss: Any, state: State, model: Any, ensemble: Any, gradient: Array
    ) -> tuple[Array, Any]:
        """The optimizer's move in the coordinates of the gauge; the gradient is used up."""
        gauge, center = loss.gauge, state["center"]
        slopes = gauge.gradient(gradient, center)
        metric = metric_for(loss.optimizer, model, ensemble, gauge, center)
        with np.errstate(over="ignore", invalid="ignore"):
            answer = loss.optimizer.step(slopes, state["optimizer"], *metric)
            move, optimizer = checked_step(answer, loss.optimizer, slopes)
            largest = LARGEST_CHANGE if loss.is_bounded else math.inf
            # The length of the move, one product, bounds its entries.
            is_short = move @ move < min(largest**2, np.finfo(float).max)
            if not is_short and not largest_size(move) < largest:
                raise _divergence(loss, state, move)
        return move, optimizer

    def _measured(self, loss: Any, state: State, ensemble: Any) -> State:
        """The end of an entry: how far both averages are apart, and whether that is noise."""
        summed = {**state, "total": loss.read(state["total"])}
        measures = loss.monitor.entry(summed, loss.measured(state["theta"]), ensemble)
        is_quiet = loss.is_quiet(measures["misfit"], measures["drawn"], self.tolerance)
        return {
            **state,
            **measures,
            "calm": state["calm"] + 1 if is_quiet else 0,
            "change": largest_size(state["theta"] - state["before"]),
            "before": state["theta"],
            "total": zeros_like(state["total"]),
            "shares": 0.0,
            "summed": 0,
            "partition": loss.partition_at(state),
        }

    def record(self, loss: Any, state: State) -> FitEpoch | None:
        """An epoch; of single updates about a hundred for each power of ten."""
        if not state["is_recorded"]:
            return None
        model = loss.measured(state["theta"])
        largest, _, smoothed, _ = state["misfit"]
        likelihood = loss.log_likelihood(model, state["partition"])
        return FitEpoch(
            iteration=state["epochs"],
            log_likelihood=likelihood.value,
            gradient_norm=float(largest),
            step=state["change"],
            n_updates=state["updates"],
            rms_moment_error=float(smoothed) if loss.follows_model else math.nan,
            reconstruction_error=loss.monitor.reconstruction(model),
            free_energy_gap=loss.monitor.gap(model),
            largest_parameter=largest_size(state["theta"]),
            log_likelihood_error=likelihood.standard_error,
        )

    def verdict(self, loss: Any, state: State, history: Sequence[FitEpoch]) -> str:
        """Whether nothing but noise is left of the gradient, or the epochs are over."""
        is_exact = bool(history) and history[-1].gradient_norm <= self.tolerance
        if state["calm"] >= (1 if is_exact else CALM):
            return "converged"
        return "epochs" if state["place"] == 0 and state["epochs"] >= loss.n_epochs else ""

    def settings(self) -> dict[str, str]:
        """All but the number of epochs, which may be raised, and what the data decide."""
        return fingerprints(
            self, leave_out=("n_epochs", "optimizer", "batch_size", "validation", "tolerance")
        )


def _divergence(loss: Any, state: State, move: Array) -> DivergenceError:
    """What to say of an update that went too far, by a move in the coordinates of the gauge."""
    theta, move = loss.read(state["theta"]), loss.read(move)
    sizes = np.abs(move)
    worst = int(np.argmax(np.where(np.isfinite(sizes), sizes, np.inf)))
    names = getattr(loss.family, "parameter_names", None) or ()
    name = names[worst] if len(names) == len(move) else f"parameter {worst}"
    before = float(theta[worst]) if len(move) == len(theta) else 0.0
    coupled = np.abs(theta[np.asarray(loss.family.is_coupling)] if loss.is_bounded else theta)
    update = state["updates"] + 1
    damping = ", raise damping" if getattr(loss.optimizer, "uses_metric", False) else ""
    return DivergenceError(
        f"learning diverged at update {update} (epoch {state['epochs'] + 1}): it takes {name} from "
        f"{before:.3g} to {before + move[worst]:.3g}; before it max|W| was "
        f"{coupled.max(initial=0.0):.3g}. Lower the learning rate{damping}, or add a penalty "
        "(penalty=ebm.Penalty(l2=…))",
        update=update,
        parameter=name,
        model=loss.measured(state["theta"]),
    )


def _require_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, type):
        raise EbmError(f"optimizer must be an object: write {optimizer.__name__}(rate)")
    if not all(callable(getattr(optimizer, name, None)) for name in ("start", "step")):
        raise EbmError(
            "optimizer must have start and step, as ebm.Adam(0.001) or "
            f"ebm.GradientDescent(0.05); got {optimizer!r}"
        )
