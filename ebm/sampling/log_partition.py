"""The function :func:`ebm.log_partition`: which method finds ln Z."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ebm._arrays import as_number
from ebm._jobs import Engine, require_engine
from ebm._randomness import RandomSource
from ebm.ensembles import Estimate
from ebm.enumeration import exact
from ebm.enumeration._limits import describe_size
from ebm.errors import LimitError, ModelError, NormalizationError
from ebm.forms import LayeredForm, energy_form
from ebm.model import EnergyModel, checked_space
from ebm.sampling.bennett import AFFORDABLE, BennettRatio
from ebm.sampling.partition_estimate import LogPartition
from ebm.sampling.populations import FEWEST_FAMILIES, FEWEST_POPULATIONS, PopulationSamples
from ebm.spaces import FiniteSpace

__all__ = ["log_partition"]


def log_partition(
    model: EnergyModel,
    method: Any = "auto",
    *,
    rng: RandomSource = None,
    progress: bool = False,
    executor: Engine | None = None,
) -> LogPartition:
    """ln Z = ln Σ_x exp(−E(x)) of a model, with its standard error and what bounds it.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space, or a machine with Gaussian visible units. Another temperature is
        another model: ``model.scaled(beta)``.
    method : str, object or callable
        With ``"auto"`` exact sums by :func:`ebm.exact` where they take less than five seconds, over
        states or on a graph such as a narrow lattice; elsewhere
        ``ebm.sampling.BennettRatio()``, 100 chains and 500 steps each way; the answer says which.
        Or one of ``ebm.sampling.BennettRatio(…)``,
        ``ebm.sampling.ThermodynamicIntegration(…)``, ``ebm.Annealing(…)`` and
        ``ebm.PopulationAnnealing(…)``, or any object with a method
        ``log_partition(model, rng, progress=…)`` like theirs, which is given an ``executor`` if
        there is one; or a function from a model to an object with an attribute
        ``log_partition``, such as ``ebm.exact``.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness; exact sums need none.
    progress : bool
        Show a progress bar.
    executor : object with submit, optional
        Runs blocks of 256 chains as jobs: a pool of :mod:`concurrent.futures`, or of another
        engine. The answer does not depend on it. Sums that ``"auto"`` makes exactly are made here.

    Returns
    -------
    LogPartition
        An :class:`ebm.Estimate` of ln Z, of error zero if it is exact, with ``method``, ``lower``
        and ``upper``, ``effective_size`` and ``message``.

    Raises
    ------
    ModelError
        If ``method`` is none of these, or its ``log_partition`` is not a number; or if there is an
        ``executor`` and ``method`` is a function or has populations.
    NormalizationError
        If exp(−E) has no finite sum.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> exact = ebm.log_partition(pair)
    >>> exact.method, round(exact.value, 4), exact.standard_error
    ('exact', 2.0147, 0.0)
    >>> estimate = ebm.log_partition(pair, ebm.sampling.BennettRatio(), rng=0)
    >>> bool(abs(estimate.value - exact.value) < 5 * estimate.standard_error)
    True
    """
    require_engine(executor)
    where = {} if executor is None else {"executor": executor}
    if isinstance(method, type):
        raise ModelError(f"method must be an object: write {method.__name__}()")
    if method is None or (isinstance(method, str) and method == "auto"):
        checked_space(model)
        try:
            return _summed(partial(exact, max_seconds=AFFORDABLE), model, "exact")
        except NormalizationError:
            raise
        except (LimitError, ModelError) as problem:
            # Real units have no sums; a finite model that is refused has no ln Z either.
            if isinstance(problem, ModelError) and isinstance(model.space, FiniteSpace):
                raise
            method = BennettRatio()
    if callable(getattr(method, "log_partition", None)):
        answer = method.log_partition(model, rng, progress=progress, **where)
        if not isinstance(answer, LogPartition):
            raise ModelError(f"log_partition of {method!r} must return a LogPartition: {answer!r}")
        return answer
    if callable(getattr(method, "run", None)):
        if executor is not None:
            raise ModelError(
                f"members of {type(method).__name__} are resampled together, which is one job: "
                "leave out executor, or take ebm.sampling.BennettRatio(…)"
            )
        drawn = method.run(model, rng, progress=progress)
        if isinstance(drawn, PopulationSamples):
            return _of_populations(drawn)
        estimate = drawn.log_partition, drawn.log_partition_error
        return LogPartition(*estimate, drawn.kind, drawn.sample_size, None, None, repr(method))
    if not callable(method):
        raise ModelError(
            "method must be 'auto', ebm.exact, ebm.sampling.BennettRatio(…) or ebm.Annealing(…), "
            f"got {method!r}"
        )
    if executor is not None:
        raise ModelError(
            f"executor cannot be handed on to {getattr(method, '__name__', method)}: leave it out, "
            "and give a function that has it, such as functools.partial(ebm.exact, executor=…)"
        )
    return _summed(method, model, getattr(method, "__name__", type(method).__name__))


def _of_populations(drawn: PopulationSamples) -> LogPartition:
    """ln Z of populations, whose scatter has one degree of freedom fewer than there are of them."""
    n_populations, n_members = drawn.families.shape
    doubt = ""
    if n_populations < FEWEST_POPULATIONS:
        doubt = f"{FEWEST_POPULATIONS} populations have to scatter: raise n_populations"
    elif not drawn.is_trusted:
        families = n_members / drawn.family_size.mean()
        doubt = f"{families:.1f} families of equal size hold a population, and {FEWEST_FAMILIES} "
        doubt += "had to: raise n_steps, sweeps or n_members"
    # Z of each population has the mean Z, so that its ln is at most ln Z on average.
    lower = None
    if n_populations > 1:
        logs = drawn.log_partitions
        scatter = float(logs.std(ddof=1) / math.sqrt(n_populations))
        lower = Estimate(float(logs.mean()), scatter, degrees_of_freedom=n_populations - 1)
    return LogPartition(
        drawn.log_partition,
        drawn.log_partition_error,
        drawn.kind,
        drawn.sample_size,
        lower,
        None,
        f"{n_populations} populations of {n_members} members",
        degrees_of_freedom=n_populations - 1 if drawn.is_trusted else math.inf,
        note=doubt,
    )


def _summed(function: Callable[[Any], Any], model: EnergyModel, name: str) -> LogPartition:
    """The attribute ``log_partition`` of what a function makes of a model, taken as exact."""
    answer = function(model)
    value = getattr(answer, "log_partition", None)
    if value is None:
        raise ModelError(f"method {function!r} gives no ln Z: give ebm.Annealing() or ebm.exact")
    number = as_number(value, f"the log_partition of {function!r}")
    if math.isnan(number):
        raise ModelError(f"the log_partition of {function!r} must be a number, got NaN")
    if name == exact.__name__:
        is_layered = isinstance(energy_form(model), LayeredForm)
        how = "over the states of one layer" if is_layered else f"over {describe_size(model.space)}"
        route = answer.route if answer.route.startswith("elimination") else f"sum {how}"
        return _exactly(number, route)
    return LogPartition(number, 0.0, name, math.inf, None, None, f"as {name} has it")


def _exactly(value: float, how: str) -> LogPartition:
    bound = Estimate(value, 0.0)
    return LogPartition(value, 0.0, "exact", math.inf, bound, bound, how)
