"""The likelihood whose gradient is sampled: rows in batches, and any average over the model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from ebm._arrays import as_number, read_only
from ebm._checkpoints import fingerprint
from ebm._iterate import Run, State
from ebm._parallel import shared_threads, single_threaded_blas
from ebm._randomness import generator, generator_of, words_of
from ebm._types import Array, Indices
from ebm.ensembles import Ensemble, Estimate, Moments
from ebm.ensembles.ensemble import require_units
from ebm.enumeration import ExactEnsemble, exact
from ebm.errors import (
    EbmError,
    FewSamplesWarning,
    ModelError,
    NoMaximumWarning,
    NotConvergedWarning,
    warn,
)
from ebm.learning._answers import checked_draw
from ebm.learning._assessment import information_at
from ebm.learning._batches import Batch, IndexedRows, is_normalized
from ebm.learning._determined_units import determined_units_notes
from ebm.learning._existence import (
    constant_units_notes,
    empty_cells,
    missing_maximum,
    require_changing_units,
    require_possible,
    require_seen_counts,
)
from ebm.learning._families import (
    has_fixed_features,
    has_hidden_units,
    has_pairs,
    joint_model,
    moments_alone,
)
from ebm.learning._gauges import Gauge, gauge_of
from ebm.learning._likelihood import LikelihoodLoss, Point, settings_of
from ebm.learning._monitor import Monitor
from ebm.learning._partition_path import PartitionPath
from ebm.learning._separation import doubt_of_maximum
from ebm.learning._statistics import difference, gradient_of, mean_energy
from ebm.learning._unseen_values import unseen_values_notes
from ebm.learning.averages import StatefulAverage, as_stateful, has_memory
from ebm.learning.optimizers import Adam, Decay, GradientDescent, Optimizer
from ebm.learning.penalties import AppliedPenalty
from ebm.learning.result import FitResult

#: A misfit that a fit ends with, in standard errors.
NEGLIGIBLE = 0.25
#: Rows on which the history is measured.
PROBE = 200
#: Rows of a batch, where not all are taken at once.
BATCH_SIZE = 100


@dataclass(frozen=True, eq=False)
class SampledLikelihood:
    """∂L/∂θ = E_D[∂E/∂θ] − E_model[∂E/∂θ] + ∂R/∂θ, [EBM] eqs 7 and 11, batch by batch.

    ``data`` are an ensemble of rows or, for pairwise families, moments.
    """

    family: Any
    data: Any
    average: Any
    penalty: AppliedPenalty
    optimizer: Optimizer
    batch_size: int | None
    n_epochs: int
    centering: bool
    validation: Any
    #: What fills in the units that the family sums out, in place of exact sums.
    completion: Any = None
    #: How ln Z is followed in a fit by chains.
    partition: PartitionPath | None = None

    @classmethod
    def of(cls, problem: Any, steps: Any) -> Self:
        """The problem as gradient steps with these settings see it."""
        family, average = problem.family, problem.average
        batch_size = steps.batch_size
        starts_at_rows = not getattr(average, "follows_model", True)
        by_moments = has_fixed_features(family) and not starts_at_rows
        if not isinstance(problem.data, Moments):
            require_units(problem.data, family.space)
        elif not has_pairs(family):
            raise moments_alone(family)
        elif batch_size is not None:
            raise ModelError("batch_size needs rows, these data are moments: give rows")
        completion = problem.completion
        by_moments = by_moments and completion is None
        if batch_size is None and has_memory(average) and not by_moments:
            batch_size = BATCH_SIZE
        if completion is not None and steps.validation is not None:
            raise ModelError(
                "validation compares energies, whose sums over hidden units completion avoids: "
                "leave one of them out, and estimate ln p of rows after the fit"
            )
        return cls(
            family=family,
            data=problem.data,
            average=average,
            penalty=problem.penalty,
            optimizer=steps.optimizer or _default_optimizer(family),
            batch_size=batch_size,
            n_epochs=steps.n_epochs or (5000 if batch_size is None else 100),
            centering=steps.centering,
            validation=_validation(family, steps.validation),
            completion=completion,
            partition=_partition(average, steps),
        )

    # -- what the data and the family decide -------------------------------------------------------

    @cached_property
    def is_pairwise(self) -> bool:
        """Whether moments are all that is learnt from."""
        return has_pairs(self.family)

    @cached_property
    def has_fixed_features(self) -> bool:
        """Whether the data enter by averages alone that are taken once."""
        return has_fixed_features(self.family)

    @cached_property
    def is_layered(self) -> bool:
        """Whether a layer of hidden units is summed out."""
        return has_hidden_units(self.family)

    @cached_property
    def stateful(self) -> StatefulAverage:
        """The average, with a memory or without."""
        return as_stateful(self.average)

    @cached_property
    def rows(self) -> IndexedRows | None:
        """The rows, or None where there are only moments."""
        return None if isinstance(self.data, Moments) else IndexedRows.of(self.data)

    @cached_property
    def whole(self) -> Any:
        """What stands for all data: moments where they suffice."""
        return self.data.moments().to(self.family.space) if self.is_pairwise else self.data

    @cached_property
    def _mean(self) -> Array | None:
        """Means of the data, (n,), for families whose units are two-valued."""
        if self.has_fixed_features:
            return np.asarray(self.data.moments().to(self.family.space).mean)
        if self.is_layered:
            return np.asarray(self.data.expectation(lambda x: x))
        return None

    @cached_property
    def takes_all_rows(self) -> bool:
        """Whether an epoch is one update."""
        size = self.batch_size
        return self.rows is None or size is None or size >= len(self.rows)

    @cached_property
    def gauge(self) -> Gauge:
        """The coordinates that steps are taken in."""
        return gauge_of(self.family, self._mean, self.centering, self.penalty.directions)

    @cached_property
    def is_rough(self) -> bool:
        """Whether single precision will do for both layers, beside the noise of chains."""
        return self.is_layered and has_memory(self.average)

    @property
    def device_name(self) -> str:
        """Where updates are made."""
        return "none"

    @property
    def is_bounded(self) -> bool:
        """Whether parameters are log-odds, so that a change by a hundred is a divergence."""
        return self.has_fixed_features or self.is_layered

    @property
    def follows_model(self) -> bool:
        """Whether the draws are those of the model, as far as chains mix."""
        return getattr(self.stateful, "follows_model", True)

    @cached_property
    def _probe(self) -> Batch | None:
        """Rows on which the history is measured, the same in every fit of the same data."""
        if self.rows is None or len(self.rows) <= PROBE:
            return None if self.rows is None else self.rows.everything()
        drawn = np.random.default_rng(len(self.rows))
        return self.rows.take(drawn.choice(len(self.rows), PROBE, replace=False))

    @cached_property
    def monitor(self) -> Monitor:
        """What is measured at the end of an epoch."""
        return Monitor(
            self.family,
            self.whole,
            self._mean,
            self._probe,
            self.validation,
            self.penalty,
            self._joint_at_start(),
        )

    def _joint_at_start(self) -> tuple[Any, Any] | None:
        """The joint model, and rows with hidden units drawn, the same in all fits of the data."""
        if self.completion is None:
            return None
        rows: Any = self.rows
        hidden = self.completion.start(self.family, rows, np.random.default_rng(len(rows)))
        joint = joint_model(self.family) or self.family
        return joint, self.completed(self.family, rows.everything(), hidden)[0]

    # -- the update ------------------------------------------------------------------------------

    @contextmanager
    def threads(self) -> Iterator[None]:
        """How an update is spread over threads: by our own, where its products are in blocks."""
        # Threads of BLAS that wait for the next product take the cores from what is between two.
        with shared_threads(), single_threaded_blas() if self.is_rough else nullcontext():
            yield

    def start(self) -> Array:
        """The parameters of the model given, (p,)."""
        return np.array(self.family.parameters)

    def start_state(self, rng: Any) -> dict[str, Any]:
        """The part of the state that the loss knows: chains, the order of the rows, measures."""
        words = generator(rng).integers(0, 2**64, 4, dtype=np.uint64)
        random = np.random.Generator(np.random.PCG64([int(word) for word in words]))
        rows = self.data if self.rows is None else self.rows
        chains = self.stateful.start(self.family, rows, random)
        hidden = () if self.completion is None else self.completion.start(self.family, rows, random)
        return {
            "chains": chains,
            "hidden": hidden,
            "rng": words_of(random),
            "order": np.zeros(0, dtype=np.int64),
            "place": 0,
            "epochs": 0,
            "is_recorded": False,
            "center": self.gauge.start(self.monitor.hidden_mean(self.family)),
            "mean": np.zeros(len(self.family.parameters)),
            "noise": 0.0,
            "entries": 0,
            "misfit": np.full(4, math.nan),
            "drawn": math.nan,
        }

    def load(self, theta: Array) -> Any:
        """Parameters of the host, (p,), where updates are made of them."""
        return theta

    def read(self, array: Any) -> Array:
        """The inverse of :meth:`load`."""
        return np.asarray(array)

    def model(self, theta: Any) -> Any:
        """What is sampled at θ; the last one is kept."""
        last_theta, model = self._last
        if last_theta is not theta:
            model = self._made(theta)
            self._last[:] = [theta, model]
        return model

    def _made(self, theta: Any) -> Any:
        """The family at θ."""
        return self.family.with_parameters(read_only(theta))

    def measured(self, theta: Any) -> Any:
        """The family at θ, for the history."""
        return self.model(theta)

    @cached_property
    def _last(self) -> list[Any]:
        return [None, None]

    def next_batch(self, state: State) -> tuple[Any, float, dict[str, Any]]:
        """A batch, its weight in units of a mean batch, and where the epoch then stands."""
        if self.takes_all_rows:
            epochs = state["epochs"] + 1
            place = {"epochs": epochs, "is_recorded": self._is_due(epochs)}
            return self._everything, 1.0, place
        rows: Any = self.rows
        order, place, rng = state["order"], state["place"], state["rng"]
        if place == 0:
            shuffling = generator_of(rng)
            order, rng = shuffling.permutation(len(rows)), words_of(shuffling)
        size: Any = self.batch_size
        batch, share = self._part(order, place)
        is_last = place + size >= len(order)
        return (
            batch,
            share,
            {
                "order": order[:0] if is_last else order,
                "place": 0 if is_last else place + size,
                "rng": rng,
                "epochs": state["epochs"] + is_last,
                "is_recorded": is_last,
            },
        )

    def _part(self, order: Indices, place: int) -> tuple[Any, float]:
        """The batch that begins at a place of an order of the rows, and its weight."""
        rows: Any = self.rows
        size: Any = self.batch_size
        batch: tuple[Any, float] = rows.part(order[place : place + size], size)
        return batch

    def _is_due(self, epochs: int) -> bool:
        """Of single updates about a hundred for each power of ten."""
        if epochs <= 100 or epochs == self.n_epochs:
            return True
        return bool(epochs % 10 ** (len(str(epochs)) - 2) == 0)

    @cached_property
    def _everything(self) -> Any:
        """All rows, for the average."""
        return self.whole if self.rows is None else self.rows.everything()

    def sample(self, model: Any, batch: Any, chains: Any) -> tuple[Any, Any]:
        """Draws of the model, or an ensemble in their place, and the chains after them."""
        last, ensemble = self._last_draw
        if last is not model or has_memory(self.average):
            answer = self.stateful.step(model, batch, chains)
            ensemble, chains = checked_draw(answer, self.average)
            self._last_draw[:] = [model, ensemble]
        return ensemble, chains

    def completed(self, model: Any, batch: Any, hidden: Any) -> tuple[Any, Any]:
        """A batch with its hidden units filled in where they are sampled, and their chains."""
        if self.completion is None:
            return batch, hidden
        return checked_draw(self.completion.step(model, batch, hidden), self.completion)

    @cached_property
    def _last_draw(self) -> list[Any]:
        """The last model and its average: an entry of the history asks for what a step will use."""
        return [None, None]

    def difference(self, model: Any, batch: Any, ensemble: Any) -> tuple[Array, Array]:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ] and the sum of both averages, (p,)."""
        if self.takes_all_rows and self.has_fixed_features and self.completion is None:
            drawn = gradient_of(model, ensemble)
            return self._data_average - drawn, self._data_average + drawn
        if self.takes_all_rows and not self.is_rough and self.completion is None:
            batch = self.whole
        return difference(model, batch, ensemble, rough=self.is_rough)

    def slopes_of_penalty(self, theta: Any) -> Any:
        """∂R/∂θ, (p,)."""
        return self.penalty.gradient(theta)

    @cached_property
    def _data_average(self) -> Array:
        """E_D[∂E/∂θ] over all data: a constant where the energy is linear in θ."""
        return gradient_of(self.family, self.whole)

    # -- what is measured ------------------------------------------------------------------------

    def is_quiet(self, misfit: Array, drawn: float, tolerance: float) -> bool:
        """Whether nothing but noise, or nothing at all, is left of the gradient."""
        largest, latest, smoothed, _ = misfit
        if not self.follows_model:
            return False
        if math.isinf(drawn) and self.takes_all_rows:
            return bool(largest <= tolerance)
        return bool(self._tells_noise and smoothed < NEGLIGIBLE and latest < 2)

    def start_partition(self, rng: Any) -> State:
        """ln Z at the start, where it is followed."""
        if self.partition is None:
            return {}
        words = generator(rng).spawn(1)[0].integers(0, 2**63, 4)
        return self.partition.start(self.family, np.random.Generator(np.random.PCG64(words)))

    def partition_at(self, state: State) -> State:
        """ln Z at another entry, from that before."""
        if self.partition is None:
            return {}
        before, after = self.read(state["before"]), self.read(state["theta"])
        return self.partition.follow(self.family, before, after, state["partition"])

    def log_likelihood(self, model: Any, partition: State) -> Estimate:
        """Mean ln p of a sample in nats; NaN where neither the average nor a path knows ln Z."""
        if self.partition is not None:
            log_z = self.partition.estimate(partition)
            value = -mean_energy(model, self.whole) - log_z.value
            return Estimate(value, log_z.standard_error)
        if has_memory(self.average):
            return Estimate(math.nan, math.nan)
        value = self._likelihood(model, self.sample(model, self._everything, ())[0])
        return Estimate(value, 0.0 if math.isfinite(value) else math.nan)

    def _likelihood(self, model: Any, ensemble: Any) -> float:
        log_partition = getattr(ensemble, "log_partition", None)
        if log_partition is None:
            return math.nan
        number = as_number(log_partition, "the log_partition of the average")
        return -mean_energy(model, self.whole) - number

    # -- before and after ------------------------------------------------------------------------

    @cached_property
    def doubts(self) -> tuple[str, tuple[str, ...]]:
        """Whether the likelihood has no maximum, or may have none, and what was said of it."""
        family, data, penalty = self.family, self.data, self.penalty
        notes = constant_units_notes(family, data, held=penalty.holds_biases)
        notes = (*notes, *determined_units_notes(family, data, penalty))
        notes = (*notes, *unseen_values_notes(family, data, penalty))
        if notes:
            # Columns that never change are reason enough.
            return "has no maximum", notes
        cells: list[str] = []
        if self.has_fixed_features:
            target = data.moments().to(family.space).two_valued()
            require_possible(target, family.pairs)
            require_changing_units(target, penalty)
            require_seen_counts(family, data, penalty)
        if self.completion is not None:
            # The question is for energies affine in θ, which effective energies are not.
            return "", ()
        if self.has_fixed_features:
            cells = empty_cells(target, family.pairs, penalty)
        verdict, message = "has no maximum", missing_maximum(cells, [], data.sample_size)
        if not cells:
            doubt, message = doubt_of_maximum(family, data, penalty)
            if doubt is None:
                return "", (message,) if message else ()
            verdict = "has no maximum" if doubt.is_certain else "may have no maximum"
        warn(message, NoMaximumWarning)
        return verdict, (message,)

    def result(self, steps: Any, run: Run) -> FitResult:
        """The fitted model in the centers of the model given, and how it went."""
        verdict, notes = self.doubts
        state, reason, history = run.state, run.reason, run.history
        sentence = self._sentence(state, reason, history)
        if verdict and reason == "converged":
            # The gradient goes to zero along a way to infinity, too.
            reason = "no maximum"
            sentence = f"{self._sentence(state, reason, history)}; the likelihood {verdict}"
        elif reason == "epochs" and steps.n_epochs is None:
            if self.follows_model and self._tells_noise:
                message = f"the fit has not converged: {sentence}; give more n_epochs"
                warn(message, NotConvergedWarning)
        model, ensemble = self.measured(state["theta"]), self._drawn_at_end(state)
        likelihood = self._likelihood(model, ensemble)
        return FitResult(
            model=model,
            converged=reason == "converged",
            message=sentence,
            log_likelihood=None if math.isnan(likelihood) else likelihood,
            gradient_norm=history[-1].gradient_norm if history else math.nan,
            misfit=float(state["misfit"][-1]),
            sample_size=self.data.sample_size,
            ensemble=ensemble,
            history=history,
            warnings=notes,
            degrees_of_freedom=self._rank(model, ensemble, reason),
        )

    def _drawn_at_end(self, state: State) -> Any:
        """What stands for the model at the end of a fit."""
        batch = self.whole if self.rows is None else self._probe
        return self.sample(self.model(state["theta"]), batch, state["chains"])[0]

    def _rank(self, model: Any, ensemble: Any, reason: str) -> int | None:
        """Directions of parameters that change the distribution, where the average is exact."""
        directions = self.penalty.directions
        charged = None if directions is None else directions.shape[1]
        if self.is_pairwise or reason == "interrupted" or self.completion is not None:
            return charged
        if not isinstance(ensemble, ExactEnsemble):
            return charged
        average = getattr(self.average, "average", exact)
        loss = LikelihoodLoss(self.family, self.data, average, self.penalty, self.data)
        point = Point(loss, np.asarray(model.parameters), model, ensemble)
        fisher, _ = information_at(loss, point)
        return charged if fisher is None else loss.rank(point, fisher)

    @property
    def _tells_noise(self) -> bool:
        """Whether small misfits are a reason to stop, if the draws are those of the model."""
        # Everything is noise beside the sampling error of a single row; and hidden units make
        # saddles where moments agree and nothing is learnt yet.
        return self.has_fixed_features and not is_normalized(self.data.sample_size)

    def _sentence(self, state: State, reason: str, history: Any) -> str:
        """How the training ended."""
        epochs, updates = state["epochs"], state["updates"]
        error = history[-1].rms_moment_error if history else math.nan
        off = "moments and penalty out of balance" if self.penalty else "moments off"
        misfit = f"{off} by {error:.2g} of their standard errors (root mean square)"
        if math.isnan(error):
            misfit = "how far the moments are off is not known"
        how = {
            "converged": f"converged after {epochs} epochs",
            "no maximum": f"stopped after {epochs} epochs",
            "epochs": f"stopped at n_epochs = {epochs}",
            "interrupted": f"interrupted after {epochs} epochs",
        }[reason]
        if reason == "epochs" and epochs > self.n_epochs:
            how = (
                f"nothing was learnt: the checkpoint is {epochs} epochs on, n_epochs = "
                f"{self.n_epochs} is less; the model is that of the checkpoint"
            )
        return f"{how}, {updates} updates: {misfit}"

    def settings(self) -> dict[str, str]:
        """What a run that is taken up has in common with the one that was stopped."""
        rows = self.whole if self.rows is None else self.rows
        return {
            **settings_of(self.family, rows, self.penalty),
            "validation": _rows_of(self.validation),
            "average": fingerprint(self.average),
            "completion": fingerprint(self.completion),
            "optimizer": fingerprint(self.optimizer),
            "batch_size": str(self.batch_size),
            "device": self.device_name,
        }


def _partition(average: Any, steps: Any) -> PartitionPath | None:
    if steps.log_partition is None:
        return None
    if not has_memory(average):
        raise EbmError("log_partition is for averages by chains: ebm.exact knows ln Z itself")
    return PartitionPath(steps.log_partition)


def _default_optimizer(family: Any) -> Optimizer:
    """An optimizer that suits most data, with a falling rate."""
    if has_hidden_units(family):
        return GradientDescent(Decay(0.05, 10_000), momentum=0.5)
    # A unit's log-odds move by the sum over its couplings.
    n = getattr(family.space, "n", 1)
    return Adam(Decay(min(0.02, 0.5 / n), 500))


def _validation(model: Any, validation: Any) -> Ensemble | None:
    if validation is None:
        return None
    if isinstance(validation, Moments):
        raise ModelError("validation must be rows or an ensemble of them, got moments")
    try:
        if isinstance(validation, Ensemble):
            require_units(validation, model.space)
            return validation
        with warnings.catch_warnings():
            # Means of energies need no more rows than units.
            warnings.simplefilter("ignore", FewSamplesWarning)
            return Ensemble.from_data(validation, space=model.space)
    except EbmError as error:
        raise type(error)(f"validation rows: {error}") from error


def _rows_of(validation: Ensemble | None) -> str:
    """Validation rows by a digest: what an epoch says of them would change in mid-history."""
    if validation is None:
        return "none"
    rows = IndexedRows.of(validation)
    parts = rows.states, rows.index, rows.weights
    return " ".join(fingerprint(np.asarray(part)) for part in parts)
