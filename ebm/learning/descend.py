"""From the arguments of :func:`ebm.fit` to a training loop."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ebm._progress import progress_bar
from ebm._randomness import RandomSource, generator
from ebm.ensembles import Ensemble, Moments
from ebm.ensembles.ensemble import require_units
from ebm.ensembles.weighted_states import from_data
from ebm.errors import (
    EbmError,
    FewSamplesWarning,
    ModelError,
    NoMaximumWarning,
    NotConvergedWarning,
    warn,
)
from ebm.learning.averages import as_route
from ebm.learning.batches import is_normalized
from ebm.learning.descent import Descent
from ebm.learning.existence import (
    empty_cells,
    missing_maximum,
    require_changing_units,
    require_possible,
)
from ebm.learning.penalty import Penalty
from ebm.learning.progress import Plan
from ebm.learning.result import FitEpoch, FitResult
from ebm.learning.separation import doubt_of_maximum
from ebm.learning.steps import GradientSteps, batch_size_for, default_optimizer
from ebm.models.pairwise import PairwiseModel
from ebm.models.restricted import RestrictedBoltzmannMachine as LayeredModel

__all__ = ["descend"]


def descend(
    model: Any,
    data: Any,
    *,
    average: Any,
    steps: GradientSteps,
    l2: float,
    l2_biases: float,
    tolerance: float,
    validation: Any,
    rng: RandomSource,
    checkpoint: str | os.PathLike[str] | None,
    progress: bool,
    notes: tuple[str, ...] = (),
) -> FitResult:
    """Fit by gradient steps; the arguments are those of :func:`ebm.fit`, data an ensemble.

    ``notes`` are warnings given before.

    Returns
    -------
    FitResult
        The model as the last update left it.

    Raises
    ------
    ModelError
        If data have no rows and the model or the batches need some.
    """
    _require_rows(model, data, steps.batch_size)
    as_route(average)
    batch_size = batch_size_for(steps, model, average)
    n_epochs = steps.n_epochs or (5000 if batch_size is None else 100)
    show, close = _bar(progress, n_epochs)
    plan = Plan(
        average=average,
        optimizer=steps.optimizer or default_optimizer(model),
        n_epochs=n_epochs,
        batch_size=batch_size,
        l1=steps.l1,
        centering=steps.centering,
        l2=l2,
        l2_biases=l2_biases,
        tolerance=tolerance,
        validation=_validation(model, validation),
        checkpoint=_checked_path(checkpoint),
        report=show,
    )
    # Columns that never change have been warned of before.
    verdict, doubts = "has no maximum" if notes else "", notes
    if not notes:
        verdict, doubts = _doubts(model, data, (l2, l2_biases), steps.l1)
    notes = doubts + _normalized_notes(data)
    descent = Descent(model, data, plan, generator(rng))
    try:
        reason, sentence = descent.run()
    finally:
        close()
    if verdict and reason == "converged":
        # The gradient goes to zero along a way to infinity, too.
        reason = "no maximum"
        sentence = f"{descent.sentence(reason)}; the likelihood {verdict}"
    elif reason == "epochs" and steps.n_epochs is None and descent.can_converge:
        warn(f"the fit has not converged: {sentence}; give more n_epochs", NotConvergedWarning)
    return descent.result(reason, sentence, notes)


def _require_rows(model: Any, data: Any, batch_size: Any) -> None:
    """Moments will do for pairwise families, all at once."""
    if not isinstance(data, Moments):
        require_units(data, model.space)
    elif not isinstance(model, PairwiseModel):
        raise ModelError(f"{type(model).__name__} does not learn from moments alone: give rows")
    elif batch_size is not None:
        raise ModelError("batch_size needs rows, these data are moments: give rows")


def _validation(model: Any, validation: Any) -> Ensemble | None:
    if validation is None:
        return None
    if isinstance(validation, Moments):
        raise ModelError("validation must be rows or an ensemble of them, got moments")
    if isinstance(validation, Ensemble):
        try:
            require_units(validation, model.space)
        except EbmError as error:
            raise type(error)(f"validation rows: {error}") from error
        return validation
    with warnings.catch_warnings():
        # Means of energies need no more rows than units.
        warnings.simplefilter("ignore", FewSamplesWarning)
        try:
            return from_data(validation, space=model.space)
        except EbmError as error:
            raise type(error)(f"validation rows: {error}") from error


def _checked_path(checkpoint: Any) -> Path | None:
    """Where a checkpoint is to be, or an error before any work."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise EbmError(f"checkpoint must be the path of a file, got {checkpoint!r}")
    path = Path(checkpoint)
    if path.is_dir():
        raise EbmError(
            f"checkpoint must be the path of a file, {checkpoint!r} is a folder: give a file in "
            "it, such as " + repr(str(path / "fit.npz"))
        )
    return path


def _normalized_notes(data: Any) -> tuple[str, ...]:
    """Say of weights that sum to one that they stand for a single sample."""
    n_rows = getattr(data, "n_rows", 1)
    if n_rows < 2 or not is_normalized(data.sample_size):
        return ()
    message = (
        f"the weights of {n_rows} rows sum to {data.sample_size:.3g}: they are frequencies, so all "
        "rows count as one sample, beside whose errors nothing tells when to stop; multiply them "
        "by the number of samples"
    )
    warn(message, FewSamplesWarning)
    return (message,)


def constant_units_notes(model: Any, data: Any, *, held: bool) -> tuple[str, ...]:
    """Name columns that never change, to which a machine with hidden units has no best biases.

    Parameters
    ----------
    model : ParametricModel
        Pairwise families refuse such columns.
    data : Ensemble or Moments
        What is learnt from.
    held : bool
        Whether biases have a penalty.

    Returns
    -------
    tuple of str
        What was warned of.
    """
    if held or not isinstance(model, LayeredModel) or not isinstance(data, Ensemble):
        return ()
    mean = np.asarray(data.expectation(lambda x: x))
    # Shares of rows sum to one but for rounding.
    constant = np.flatnonzero(np.minimum(mean, 1 - mean) < 1e-12)
    if not len(constant):
        return ()
    shown = ", ".join(repr(model.space.labels[unit]) for unit in constant[:6])
    rest = len(constant) - 6
    more = f" and {rest} more" if rest > 0 else ""
    one = len(constant) == 1
    message = (
        f"{'unit' if one else 'units'} {shown}{more} never {'changes' if one else 'change'} in the "
        "data: the likelihood has no maximum, biases grow for as long as the fit goes on; leave "
        "them out, or add a penalty (l2_biases=…)"
    )
    warn(message, NoMaximumWarning)
    return (message,)


def _doubts(
    model: Any, data: Any, penalties: tuple[float, float], l1: float
) -> tuple[str, tuple[str, ...]]:
    """Whether the likelihood has no maximum, or may have none, in words, and what is to be said."""
    l2, l2_biases = penalties
    penalty = Penalty(model, l2, l2_biases, l1)
    cells: list[str] = []
    if isinstance(model, PairwiseModel):
        target = data.moments().to(model.space).two_valued()
        require_possible(target, model.pairs)
        if l2_biases == 0:
            require_changing_units(target)
        cells = [] if penalty else empty_cells(target, model.pairs)
    if cells:
        verdict, message = "has no maximum", missing_maximum(cells, [], data.sample_size)
    else:
        doubt, message = doubt_of_maximum(model, data, penalty)
        if doubt is None:
            return "", (message,) if message else ()
        verdict = "has no maximum" if doubt.is_certain else "may have no maximum"
    warn(message, NoMaximumWarning)
    return verdict, (message,)


def _bar(progress: bool, n_epochs: int) -> tuple[Callable[[FitEpoch], object], Callable[[], None]]:
    """What to call after each epoch, and at the end."""
    if not progress:
        return (lambda epoch: None), (lambda: None)
    bar = progress_bar(n_epochs, "epoch")

    def show(epoch: FitEpoch) -> None:
        bar.set_postfix({"moment error": f"{epoch.rms_moment_error:.3g}"}, refresh=False)
        bar.update(epoch.iteration - bar.n)

    return show, bar.close
