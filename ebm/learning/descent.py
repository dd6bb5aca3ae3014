"""Learning by gradient steps, [EBM] eq 7 and eq 11, with any average over the model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ebm._arrays import as_number
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.errors import DivergenceError
from ebm.learning import checkpoints
from ebm.learning.answers import checked_route_step, checked_step
from ebm.learning.averages import as_route, has_memory
from ebm.learning.batches import Rows, is_normalized
from ebm.learning.gauges import gauge_of
from ebm.learning.monitor import Monitor, RunningMean, drawn_states
from ebm.learning.natural_gradient import metric_for
from ebm.learning.penalty import Penalty
from ebm.learning.progress import (
    Line,
    Plan,
    Progress,
    generator_of,
    held_by,
    resumed,
    settings_of,
    words_of,
)
from ebm.learning.result import FitEpoch, FitResult
from ebm.learning.statistics import gradient_of, mean_energy
from ebm.models.pairwise import PairwiseModel
from ebm.models.restricted import RestrictedBoltzmannMachine as LayeredModel

__all__ = ["Descent"]


#: Largest change of a parameter in one update that is no divergence: odds of e^100.
LARGEST_CHANGE = 100.0
#: A misfit that a fit ends with, in standard errors.
NEGLIGIBLE = 0.25
#: Rows on which the history is measured.
PROBE = 200


class Descent:
    """The training loop.

    Parameters
    ----------
    family : ParametricModel
        Where to start; its centers are kept.
    data : Ensemble or Moments
        What to learn from.
    plan : Plan
        Settings.
    rng : numpy.random.Generator
        Source of randomness.
    """

    def __init__(self, family: Any, data: Any, plan: Plan, rng: np.random.Generator) -> None:
        self._family, self._data, self._plan = family, data, plan
        self._route = as_route(plan.average)
        self._rough = has_memory(plan.average)
        self._rows: Any = None if isinstance(data, Moments) else Rows.of(data)
        if isinstance(family, PairwiseModel):
            moments = data.moments()
            self._average: Any = moments.to(family.space)
            mean = self._average.mean
        else:
            self._average, mean = data, None
            if isinstance(family, LayeredModel):
                mean = np.asarray(data.expectation(lambda x: x))
        self._penalty = Penalty(family, plan.l2, plan.l2_biases, plan.l1)
        self._gauge = gauge_of(family, mean, plan.centering)
        size = plan.batch_size
        self._takes_all_rows = self._rows is None or size is None or size >= len(self._rows)
        self._all: Any = None
        self._fixed_side: Array | None = None
        words = rng.integers(0, 2**64, 4, dtype=np.uint64)
        own = np.random.Generator(np.random.PCG64([int(word) for word in words]))
        self._probe = self._drawn_rows()
        self.monitor = Monitor(family, self._average, mean, self._probe, plan.validation)
        theta = np.array(family.parameters)
        self.now = Progress(
            theta=theta,
            center=self._gauge.start(self.monitor.hidden_mean(family)),
            optimizer=plan.optimizer.start(theta),
            route=self._route.start(family, data if self._rows is None else self._rows, own),
            rng=words_of(own),
            mean=RunningMean(np.zeros_like(theta), 0.0),
            epochs=0,
            updates=0,
            calm=0,
            line=Line.at(theta),
        )
        self.model = family
        self.history: list[FitEpoch] = []
        self._bounded = isinstance(family, PairwiseModel | LayeredModel)

    def run(self) -> tuple[str, str]:
        """Train until something ends it.

        Returns
        -------
        (str, str)
            Why it ended: ``"converged"``, ``"epochs"`` or ``"interrupted"``, and a sentence.
        """
        path = self._plan.checkpoint
        settings: dict[str, str] = {}
        if path is not None:
            data = self._average if self._rows is None else self._rows
            settings = settings_of(self._family, data, self._plan)
        if path is not None and Path(path).exists():
            held = checkpoints.read(path, settings, held_by(self.now, self.history))
            self.now, self.history = resumed(held)
            self.model = self._family.with_parameters(self.now.theta)
        reason = "epochs"
        try:
            while self.now.epochs < self._plan.n_epochs and not self._is_done():
                self._epoch()
                if path is not None:
                    checkpoints.write(path, settings, held_by(self.now, self.history))
                self._plan.report(self.history[-1])
        except KeyboardInterrupt:
            reason = "interrupted"
        if self._is_done():
            reason = "converged"
        return reason, self.sentence(reason)

    def ensemble(self) -> Any:
        """An average over the model as it is now; nothing changes."""
        batch = self._average if self._rows is None else self._probe
        answer = self._route.step(self.model, batch, self.now.route)
        return checked_route_step(answer, self._plan.average)[0]

    def _epoch(self) -> None:
        """All rows once, and a line of history where one is due."""
        at = ensemble = None
        if self._takes_all_rows:
            at, ensemble = self.model, self._update(*self._everything(), 1.0)
        else:
            generator = generator_of(self.now.rng)
            for batch, share in self._rows.epoch(self._plan.batch_size, generator):
                at, ensemble = self.model, self._update(batch, batch, share)
            self.now = replace(self.now, rng=words_of(generator))
        self.now = replace(self.now, epochs=self.now.epochs + 1)
        if self._is_due():
            self._record(at, ensemble)

    def _is_due(self) -> bool:
        """Every epoch of batches; of single updates about a hundred for each power of ten."""
        epochs = self.now.epochs
        if not self._takes_all_rows or epochs <= 100 or epochs == self._plan.n_epochs:
            return True
        return bool(epochs % 10 ** (len(str(epochs)) - 2) == 0)

    def _record(self, at: Any, ensemble: Any) -> None:
        """A line of history, and whether there is anything but noise."""
        now, line = self.now, self.now.line
        gradient = line.total / line.shares
        n_lines = len(self.history)
        mean = self.monitor.running_mean(gradient, now.mean, ensemble, line.updates, n_lines)
        misfit = self.monitor.misfit(self.model, gradient, mean, ensemble, line.updates)
        follows = getattr(self._route, "follows_model", True)
        calm = now.calm + 1 if self._is_quiet(misfit, ensemble) and follows else 0
        self.now = replace(now, mean=mean, calm=calm, line=Line.at(now.theta))
        likelihood = self.log_likelihood(at, ensemble)
        self.history.append(
            FitEpoch(
                iteration=now.epochs,
                log_likelihood=math.nan if likelihood is None else likelihood,
                gradient_norm=misfit.largest,
                step=float(np.abs(now.theta - line.start).max()),
                n_updates=now.updates,
                rms_moment_error=misfit.smoothed if follows else math.nan,
                reconstruction_error=self.monitor.reconstruction(self.model),
                free_energy_gap=self.monitor.gap(self.model),
                largest_parameter=float(np.abs(now.theta).max()),
            )
        )

    def _everything(self) -> tuple[Any, Any]:
        """All rows, for the average and for the data's side."""
        if self._rows is None:
            return self._average, self._average
        if self._all is None:
            self._all = self._rows.everything()
        is_rough = self._rough and isinstance(self._family, LayeredModel)
        return self._all, self._all if is_rough else self._average

    def _update(self, batch: Any, side: Any, share: float) -> Any:
        """One step of the optimizer; the average over the model before it comes back."""
        now, plan, gauge = self.now, self._plan, self._gauge
        ensemble, route = checked_route_step(
            self._route.step(self.model, batch, now.route), plan.average
        )
        ours = self._data_side(side)
        theirs = gradient_of(self.model, ensemble, rough=self._rough)
        gradient = ours - theirs
        if self._penalty:
            gradient += self._penalty.gradient(now.theta)
        before = gauge.enter(now.theta, now.center)
        inner = gauge.gradient(gradient, now.center)
        metric = metric_for(plan.optimizer, self.model, ensemble, gauge, now.center)
        with np.errstate(over="ignore", invalid="ignore"):
            answer = plan.optimizer.step(
                before, inner if share == 1 else share * inner, now.optimizer, *metric
            )
            after, optimizer = checked_step(answer, plan.optimizer, before)
            change = after - before
            if not max(change.max(), -change.min()) < (
                LARGEST_CHANGE if self._bounded else math.inf
            ):
                raise self._diverged(np.abs(change), after)
        theta = gauge.leave(after, now.center)
        model = self._family.with_parameters(theta)
        # One assignment each: an interrupt leaves the one before or the one after.
        self.model, self.now = (
            model,
            replace(
                now,
                theta=theta,
                center=gauge.slid(now.center, ours, theirs),
                optimizer=optimizer,
                route=route,
                updates=now.updates + 1,
                line=now.line.with_gradient(gradient, share),
            ),
        )
        return ensemble

    def _data_side(self, side: Any) -> Array:
        """E_D[∂E/∂θ]; that of all data is a constant where the energy is linear in θ."""
        if side is not self._average or not isinstance(self._family, PairwiseModel):
            return gradient_of(self.model, side, rough=self._rough)
        if self._fixed_side is None:
            self._fixed_side = gradient_of(self._family, side, rough=False)
        return self._fixed_side

    def _diverged(self, change: Array, after: Array) -> DivergenceError:
        """What to say of an update that went too far."""
        worst = int(np.argmax(np.where(np.isfinite(change), change, np.inf)))
        names = getattr(self._family, "parameter_names", None)
        name = f"parameter {worst}" if names is None else names[worst]
        largest = float(np.abs(self.now.theta).max())
        if self._bounded:
            start = self._family.n + getattr(self._family, "n_hidden", 0)
            couplings = np.abs(self.now.theta[start:])
            largest = float(couplings.max()) if len(couplings) else 0.0
        update = self.now.updates + 1
        natural = getattr(self._plan.optimizer, "uses_metric", False)
        damping = ", raise damping" if natural else ""
        return DivergenceError(
            f"learning diverged at update {update} (epoch {self.now.epochs + 1}): it takes "
            f"{name} from {self.now.theta[worst]:.3g} to {after[worst]:.3g}; before it max|W| was "
            f"{largest:.3g}. Lower the learning rate{damping}, or add a penalty (l2=…)",
            update=update,
            parameter=name,
            model=self.model,
        )

    @property
    def can_converge(self) -> bool:
        """Whether anything but the number of epochs ends the training, with these rows."""
        follows = getattr(self._route, "follows_model", True)
        convex = isinstance(self._family, PairwiseModel)
        return bool(convex and follows and not is_normalized(self._data.sample_size))

    def _is_quiet(self, misfit: Any, ensemble: Any) -> bool:
        """Whether nothing but noise, or nothing at all, is left of the gradient."""
        if math.isinf(drawn_states(ensemble)) and self._takes_all_rows:
            return bool(misfit.largest <= self._plan.tolerance)
        # Hidden units make saddles where moments agree and nothing is learnt yet.
        convex = isinstance(self._family, PairwiseModel)
        # Everything is noise beside the sampling error of a single row.
        if is_normalized(self._data.sample_size):
            return False
        return bool(convex and misfit.smoothed < NEGLIGIBLE and misfit.own < 2)

    def _is_done(self) -> bool:
        exact = bool(self.history) and self.history[-1].gradient_norm <= self._plan.tolerance
        return self.now.calm >= (1 if exact else 5)

    def sentence(self, reason: str) -> str:
        """How the training ended, for a reason as of :meth:`run` or ``"no maximum"``."""
        epochs, updates = self.now.epochs, self.now.updates
        error = self.history[-1].rms_moment_error if self.history else math.nan
        left = f"moments off by {error:.2g} of their standard errors (root mean square)"
        if math.isnan(error):
            left = "how far the moments are off is not known"
        return {
            "converged": f"converged after {epochs} epochs, {updates} updates: {left}",
            "no maximum": f"stopped after {epochs} epochs, {updates} updates: {left}",
            "epochs": f"{self._end()}, {updates} updates: {left}",
            "interrupted": f"interrupted after {epochs} epochs, {updates} updates: {left}",
        }[reason]

    def _end(self) -> str:
        epochs, most = self.now.epochs, self._plan.n_epochs
        if epochs > most:
            return (
                f"nothing was learnt: the checkpoint is {epochs} epochs on, n_epochs = {most} is "
                "less; the model is that of the checkpoint"
            )
        return f"stopped at n_epochs = {epochs}"

    def log_likelihood(self, model: Any, ensemble: Any) -> float | None:
        """Mean ln p of a sample in nats, where the ensemble of the model knows ln Z."""
        log_partition = getattr(ensemble, "log_partition", None)
        if log_partition is None:
            return None
        number = as_number(log_partition, "the log_partition of the average")
        return -mean_energy(model, self._average) - number

    def _drawn_rows(self) -> Any:
        """Rows on which the history is measured, the same in every fit of the same data."""
        if self._rows is None or len(self._rows) <= PROBE:
            return self._rows and self._rows.everything()
        generator = np.random.default_rng(len(self._rows))
        return self._rows.take(generator.choice(len(self._rows), PROBE, replace=False))

    def result(self, reason: str, sentence: str, warnings: tuple[str, ...]) -> FitResult:
        """The fitted model and how it went.

        Parameters
        ----------
        reason, sentence : str
            From :meth:`run`.
        warnings : tuple of str
            What a reader must know.

        Returns
        -------
        FitResult
            In the centers of the model given.
        """
        ensemble = self.ensemble()
        return FitResult(
            model=self.model,
            converged=reason == "converged",
            message=sentence,
            log_likelihood=self.log_likelihood(self.model, ensemble),
            gradient_norm=self.history[-1].gradient_norm if self.history else math.nan,
            misfit=self.history[-1].gradient_norm if self.history else math.nan,
            sample_size=self._data.sample_size,
            standard_errors=None,
            fisher=None,
            ensemble=ensemble,
            history=tuple(self.history),
            warnings=warnings,
        )
