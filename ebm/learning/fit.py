"""The function :func:`ebm.fit`: data in, a fitted model with its errors out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from ebm._arrays import as_integer, as_number
from ebm._randomness import RandomSource
from ebm.ensembles import Ensemble, Moments
from ebm.enumeration import exact
from ebm.errors import EbmError, LimitError, ModelError
from ebm.learning.averages import Route, as_route, has_memory
from ebm.learning.descend import constant_units_notes, descend
from ebm.learning.likelihood import maximize_likelihood
from ebm.learning.result import FitResult, FitStep
from ebm.learning.steps import GradientSteps
from ebm.model import ParametricModel, checked_space

__all__ = ["fit"]


#: A penalty beyond this says nothing more, and its square overflows.
LARGEST_PENALTY = 1e100


def fit(
    model: ParametricModel,
    data: Any,
    *,
    average: Callable[[Any], Any] | Route = exact,
    l2: float = 0.0,
    l2_biases: float = 0.0,
    weights: ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_iterations: int | None = None,
    progress: bool = False,
    steps: GradientSteps | None = None,
    validation: Any = None,
    rng: RandomSource = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> FitResult:
    """Fit a model to data by maximum likelihood.

    Solves the learning rule E_D[∂E/∂θ] = E_model[∂E/∂θ], [EBM] eq 7, by minimizing
    L(θ) = E_D[E] + ln Z + ½ l2 Σ W² + ½ l2_biases Σ b². Boltzmann machines and Ising models of at
    most 28 units take damped Newton steps on exact moments from the independent model; larger ones,
    other averages and any other parametric model L-BFGS on scaled parameters. With ``steps``, or an
    average that has a memory, such as ``ebm.PersistentChains()``, the fit takes gradient steps on
    batches of rows instead, from the parameters of ``model``; it needs no ln Z.

    Parameters
    ----------
    model : ParametricModel
        The family: its center, diagonal, offset, names and pattern of couplings are kept. Pairwise
        families start from the independent model whatever its parameters, others from them.
    data : array_like, DataFrame, Ensemble or Moments
        Rows in the coding of the model, or an ensemble, or, for pairwise families, moments in
        either two-valued coding.
    average : callable or route
        From a model to an ensemble that knows ln Z. To lift a limit of enumeration:
        ``average=lambda model: ebm.exact(model, max_seconds=600)``. Or an average with memory,
        ``ebm.PersistentChains()`` or ``ebm.ContrastiveDivergence()``. With ``steps`` any ensemble
        will do.
    l2 : float
        Penalty on the parameters that couple units, ``model.is_coupling``, each pair once, against
        the mean log-likelihood of a sample in nats. It is the same in every gauge and however
        values are numbered, but not in both codings: W = 4J. Of a Potts model it takes all q² J of
        a pair, in the zero-sum gauge; of terms of more than two {0,1} units the couplings about ½.
        1/N is a mild one, a normal prior of width 1.
    l2_biases : float
        Penalty on the other parameters, in the coding and at the center of the model given; of a
        Potts model on all q fields of a unit in the zero-sum gauge.
    weights : array_like, (n_samples,), optional
        Frequencies of the rows: their sum is the number of samples, on which standard errors rest.
        Gradient steps warn of weights that sum to 1, which make one sample of all rows: no fit by
        chains has then converged.
    tolerance : float
        Largest gradient accepted, in units of the standard deviations of the features.
    max_iterations : int, optional
        Most iterations; 100 Newton steps or 1000 of L-BFGS if not given.
    progress : bool
        Show each iteration on the standard error stream; a bar of epochs for gradient
        steps.
    steps : GradientSteps, optional
        Asks for gradient steps and says how they go; those of an average with memory are
        ``ebm.GradientSteps()`` if not given.
    validation : array_like or Ensemble, optional
        Rows that gradient steps do not learn from: the history says how their energy compares.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of the randomness of gradient steps.
    checkpoint : path-like, optional
        File written after every epoch of gradient steps. If it is there, the fit goes on from it
        as if it had never stopped, with the random streams it holds: ``rng`` has no part in it then
        and is not compared. Model, data, validation rows and settings are, but for ``n_epochs``.

    Returns
    -------
    FitResult
        The model with standard errors, log-likelihood, AIC, BIC, and how the fit went. Where the
        likelihood has no maximum the result is not ``converged``, and a
        :class:`ebm.errors.NoMaximumWarning` names the units. It also names columns that never
        change in the data of a machine with hidden units, whose biases have no maximum.

    Raises
    ------
    ModelError
        If the model has no parameters, or needs rows and gets moments.
    LimitError
        If the likelihood would take more time or memory than allowed; raised before any work.
    DivergenceError
        If a gradient step is not finite or runs away.
    EbmError
        If a setting is out of range or belongs to gradient steps that were not asked for, or
        ``weights`` come without rows.

    Notes
    -----
    With a penalty the standard errors are those of the penalized estimator, H⁻¹ F H⁻¹ / N with H
    the Hessian of L, and the moments of the model are not those of the data.

    Gradient steps end at ``n_epochs``; for pairwise families when, for five epochs, the moments of
    data and model differ by less than a quarter of their standard errors; with all rows and an
    exact average when the gradient is below ``tolerance``. Ctrl-C returns the model as it is.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> result = ebm.fit(ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0]), rows)
    >>> result.model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    space = checked_space(model)
    if not isinstance(model, ParametricModel):
        raise ModelError(
            f"{type(model).__name__} has no parameters to fit: it is no ParametricModel"
        )
    if not len(model.parameters):
        raise ModelError(f"{model!r} has no parameters to fit: give it terms")
    l2, l2_biases, tolerance = _checked_settings(l2, l2_biases, tolerance)
    if max_iterations is not None:
        max_iterations = as_integer(max_iterations, "max_iterations", least=0)
    if isinstance(data, Ensemble | Moments):
        if weights is not None:
            raise EbmError("weights belong to rows; this ensemble already has its own")
    else:
        data = Ensemble.from_data(data, space=space, sample_weight=weights)
    model = _named(model, data.space.names)
    notes = constant_units_notes(model, data, held=l2_biases > 0)
    if steps is not None or has_memory(average):
        return descend(
            model,
            data,
            average=average,
            steps=_checked_steps(steps),
            l2=l2,
            l2_biases=l2_biases,
            tolerance=tolerance,
            validation=validation,
            rng=rng,
            checkpoint=checkpoint,
            progress=progress,
            notes=notes,
        )
    _refuse_settings_of_gradient_steps(validation=validation, checkpoint=checkpoint)
    route = as_route(average)
    try:
        result = maximize_likelihood(
            model,
            data,
            lambda at: route.step(at, None, ())[0],
            (l2, l2_biases),
            tolerance,
            max_iterations,
            _reporter(progress),
        )
    except LimitError as error:
        raise type(error)(
            f"{error}. To learn from chains, which need no ln Z, give "
            "average=ebm.PersistentChains()"
        ) from error
    return replace(result, warnings=(*result.warnings, *notes)) if notes else result


def _checked_settings(l2: Any, l2_biases: Any, tolerance: Any) -> tuple[float, float, float]:
    penalties = as_number(l2, "l2"), as_number(l2_biases, "l2_biases")
    for name, value in zip(("l2", "l2_biases"), penalties, strict=True):
        if not 0 <= value <= LARGEST_PENALTY:
            raise EbmError(f"{name} must be a number from 0 to {LARGEST_PENALTY:g}, got {value!r}")
    tolerance = as_number(tolerance, "tolerance")
    if not tolerance > 0:
        raise EbmError(f"tolerance must be a positive number, got {tolerance!r}")
    return *penalties, tolerance


def _checked_steps(steps: Any) -> GradientSteps:
    if steps is None:
        return GradientSteps()
    if not isinstance(steps, GradientSteps):
        raise EbmError(f"steps must be ebm.GradientSteps(…), got {steps!r}")
    return steps


def _refuse_settings_of_gradient_steps(**settings: Any) -> None:
    """Refuse what would have no effect on a fit by exact likelihood."""
    for name, value in settings.items():
        if value is not None:
            raise EbmError(
                f"{name} belongs to gradient steps: give steps=ebm.GradientSteps(), or an average "
                "with memory such as ebm.PersistentChains()"
            )


def _named(model: Any, names: Any) -> Any:
    """A model without names takes those of the data, where its family has names."""
    if model.space.names or not names or "names" not in getattr(model, "__dataclass_fields__", {}):
        return model
    return replace(model, names=names)


def _reporter(progress: bool) -> Callable[[FitStep], None]:
    if not progress:
        return lambda step: None

    def show(step: FitStep) -> None:
        print(
            f"iteration {step.iteration}: log-likelihood {step.log_likelihood:.9f}, "
            f"gradient {step.gradient_norm:.1e}",
            file=sys.stderr,
        )

    return show
