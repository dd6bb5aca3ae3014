"""The function :func:`ebm.exact`: which enumeration a model allows."""

from __future__ import annotations

import math
import os
from itertools import combinations
from typing import Any

import numpy as np

from ebm._arrays import is_sparse
from ebm._checkpoints import checkpoint_folder
from ebm._jobs import Engine, require_engine
from ebm._parallel import number_of_jobs
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._bounded_sums import ConditionalBounded
from ebm.enumeration._count_ensemble import CountedEnumeration, Underflow, is_ordinary
from ebm.enumeration._counted_products import CountedProducts
from ebm.enumeration._elimination_ensemble import elimination_of
from ebm.enumeration._elimination_factors import factors_of
from ebm.enumeration._elimination_order import WIDEST_GRAPH, least_width
from ebm.enumeration._elimination_plan import plan_of
from ebm.enumeration._gaussian_layer import GaussianMixture, is_mixture
from ebm.enumeration._independent_units import by_independent_units
from ebm.enumeration._limits import (
    SECONDS_BY_PRODUCTS,
    SECONDS_BY_STREAMING,
    Limits,
    describe_size,
    number_of_states,
)
from ebm.enumeration._log_weights import cut_form, cut_layers
from ebm.enumeration._on_device import enumerated_on_device
from ebm.enumeration._planar import planar_ensemble, why_not_planar
from ebm.enumeration._products import Elsewhere
from ebm.enumeration._quadratic import PairwiseEnumeration, require_affordable
from ebm.enumeration._real_units import ConditionalGaussian, KeptUnits
from ebm.enumeration._recoded_layers import RecodedEnumeration
from ebm.enumeration._two_layers import RestrictedEnumeration
from ebm.enumeration._uniform_ensemble import by_classes, may_be_uniform
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.errors import EbmError, EbmWarning, EnumerationLimitError, ModelError, warn
from ebm.forms import FactorForm, LayeredForm, QuadraticForm, TermForm, offered_form, summable_form
from ebm.model import EnergyModel, checked_space
from ebm.models._counts import pairs_and_count
from ebm.models._layers import are_two_valued, pairs_of_layers
from ebm.spaces import Binary, FiniteSpace
from ebm.units import Gaussian

__all__ = ["exact"]

#: What is summed in jobs where it is long.
DIVIDED = (PairwiseEnumeration, RestrictedEnumeration, RecodedEnumeration)
#: Units of a model of counts from which on there are three groups.
FEWEST_UNITS = 3
#: Seconds of an elimination from which on a determinant is taken where there is one.
PLANAR_FROM = 0.05
#: Sums over states that take fewer seconds are not compared with elimination.
SHORT = 1.0


def exact(
    model: EnergyModel,
    *,
    max_seconds: float = 60.0,
    max_memory: float = 4 * 2.0**30,
    n_jobs: int | None = None,
    device: Any = None,
    executor: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> ExactEnsemble:
    """The exact distribution of a finite model, p(x) = exp(−E(x))/Z with Z = Σ_x exp(−E(x)).

    A pairwise model (one with ``quadratic_form``) of 2^n states costs three matrix products, about
    0.1 ns per state and thread, at constant memory; a restricted machine of n visible and m hidden
    units about 0.4 ns for each of the 2^min(n, m) states of its smaller layer and each unit of the
    other, with Gaussian hidden units as a pairwise model; pairs with a function of the number of
    active units (``term_form`` with ``count``) three times a pairwise model; any other finite model
    one ``energy`` per state. Where these would take a second or more and the terms form a graph of
    small treewidth w, units are summed out one after the other instead, at some 10 ns for each of
    about n 2^(w+1) numbers: lattices of width 20, trees and rings of thousands of units. ``route``
    of the answer says which way was taken. Real units that are Gaussian given the others are
    integrated out, so that the states of the finite ones are summed, hidden ones among them, at the
    cost of a pairwise model. So are real units with bounds that are not coupled to each other, at
    one generating function per unit and state.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space, a pairwise model with real units, a machine of Gaussian visible
        units beside two-valued or Gaussian hidden ones, or a marginal of such a model.
    max_seconds : float
        Work that would take more seconds is refused before it begins.
    max_memory : float
        Work that would take more bytes is refused before it begins.
    n_jobs : int, optional
        Number of threads, by default one for each core. The result does not depend on it.
    device : str or torch.device, optional
        Takes the matrix products of a pairwise model in torch, such as ``"cuda"`` or ``"cpu"``, in
        double precision; errors are bounded as without it.
    executor : object with submit, optional
        Runs the jobs of a pairwise model, of 2^33 states each, and of a restricted machine, of 2^32
        states times units of the other layer: a pool of :mod:`concurrent.futures`, or of another
        engine. The result does not depend on it. Later passes over hidden states, and all other
        sums, are made here.
    checkpoint : path-like, optional
        Folder to which the sums of finished jobs are written, and from which a later call for the
        same model goes on.

    Returns
    -------
    ExactEnsemble
        ln Z, moments, entropy, probabilities and independent draws. With real units these are
        densities, and there is no list of states.

    Raises
    ------
    EbmError
        If ``device`` is none that torch can use here, or is given an ``executor`` or a
        ``checkpoint`` beside it, or if these are none.
    ModelError
        If the model has no finite sum, breaks the contract of :class:`ebm.EnergyModel`, or is not
        one of finite units in pairs although a ``device`` is given.
    NormalizationError
        If the precision of real units is not positive definite.
    EnumerationLimitError
        If a limit would be exceeded.
    PrecisionError
        If energies are above about 10¹⁶ and rounding hides which of several states is the lowest.

    Warns
    -----
    EbmWarning
        If there is an ``executor`` or a ``checkpoint``, and the sum is no such one.

    Notes
    -----
    Probabilities depend on differences of energies alone, which are accurate to 10⁻⁹ k_B T at any
    size of the energies: where the parameters of a model of the library add up to more than 10⁵ in
    absolute value, energies are summed in two parts, more slowly. Energies of a user's own
    ``energy``, and of tables, are taken as given.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> round(ebm.exact(ring).log_partition, 6)
    3.746638
    """
    space = checked_space(model)
    limits = Limits(max_seconds, max_memory)
    require_engine(executor)
    if checkpoint is not None:
        checkpoint_folder(checkpoint)
    if device is not None:
        if executor is not None or checkpoint is not None:
            raise EbmError(
                "device takes the whole sum: leave out executor and checkpoint beside it"
            )
        return enumerated_on_device(model, space, device, n_jobs, limits)
    elsewhere = Elsewhere(executor, checkpoint)
    ensemble = _summed(model, space, limits, n_jobs, elsewhere)
    if elsewhere.is_given and type(ensemble) not in DIVIDED:
        warn(
            f"this sum is one job, which was made here ({ensemble.route}): executor and checkpoint "
            "had no effect; in jobs are sums of pairs and over the states of one layer",
            EbmWarning,
        )
    return ensemble


def _summed(
    model: EnergyModel, space: Any, limits: Limits, n_jobs: int | None, elsewhere: Elsewhere
) -> ExactEnsemble:
    """The ensemble by the route that costs least."""
    if not isinstance(space, FiniteSpace):
        return _with_real_units(model, limits, number_of_jobs(n_jobs))
    kind, jobs = offered_form(model), number_of_jobs(n_jobs)
    at_a_time = elsewhere.at_a_time(jobs)
    on_graph = _by_elimination(model, space, limits, jobs, at_a_time)
    if on_graph is not None:
        return on_graph
    if kind is QuadraticForm:
        if may_be_uniform(space, limits):
            form = summable_form(model)
            uniform = by_classes(model, space, form, limits)
            if uniform is not None:
                return uniform
            independent = by_independent_units(model, space, form, limits, jobs)
            if independent is not None:
                return independent
        # The form itself is not made before its cost is known.
        try:
            require_affordable(space, limits, at_a_time)
        except EnumerationLimitError as error:
            on_the_plane = planar_ensemble(model, space, limits)
            if on_the_plane is None:
                reasons = f"{_why_not_narrow(model, space)}; {why_not_planar(model)}"
                raise EnumerationLimitError(f"{error}; {reasons}") from None
            return on_the_plane
        cut = cut_form(summable_form(model))
        return PairwiseEnumeration(model, space, cut, limits, jobs, elsewhere)
    if kind is LayeredForm:
        form = summable_form(model)
        if form.is_binary and isinstance(space, Binary):
            cut_in_two = cut_layers(form)
            return RestrictedEnumeration(model, space, cut_in_two, limits, jobs, elsewhere)
        if are_two_valued(form):
            return RecodedEnumeration(model, space, form, limits, jobs, elsewhere)
        if isinstance(form.hidden_units, Gaussian):
            require_affordable(space, limits, at_a_time)
            pairs = cut_form(pairs_of_layers(form))
            return PairwiseEnumeration(model, space, pairs, limits, jobs, elsewhere)
    if kind is TermForm:
        return _by_counts(model, space, limits, n_jobs) or BlockedEnumeration(model, space, limits)
    return BlockedEnumeration(model, space, limits)


def _by_elimination(
    model: EnergyModel, space: FiniteSpace, limits: Limits, n_jobs: int, at_a_time: int
) -> ExactEnsemble | None:
    """The ensemble by elimination; None where sums over states cost less, or none is possible.

    Sums over states are made by ``at_a_time`` threads or workers, what is made here by ``n_jobs``.
    """
    seconds = _seconds_by_states(model, space, at_a_time)
    if seconds < SHORT:
        return None
    if _least_width(model, space) > WIDEST_GRAPH:
        return None
    factors = factors_of(model, space)
    if factors is None:
        return None
    plan = plan_of(factors)
    if math.isinf(plan.order.width):
        return None
    if seconds < min(plan.seconds, limits.max_seconds):
        return None
    if plan.seconds > SHORT and offered_form(model) is QuadraticForm:
        form = summable_form(model)
        outside = by_independent_units(model, space, form, limits, n_jobs, plan.seconds)
        if outside is not None:
            return outside
    found = planar_ensemble(model, space, limits) if plan.seconds > PLANAR_FROM else None
    if found is not None:
        return found
    try:
        return elimination_of(model, space, factors, plan, limits)
    except EnumerationLimitError as error:
        if not isinstance(summable_form(model), QuadraticForm):
            raise
        raise EnumerationLimitError(f"{error}; {why_not_planar(model)}") from None


def takes_long(model: Any) -> bool:
    """Whether sums over all states of a finite model take a second or more."""
    space = model.space
    is_finite = isinstance(space, FiniteSpace)
    return is_finite and _seconds_by_states(model, space, number_of_jobs(None)) >= SHORT


def require_sums_of_family(model: Any) -> None:
    """Refuse a family whose parameters couple too many units, whatever their values are now."""
    space, limits = model.space, Limits()
    kind, n_couplings = offered_form(model), len(model.parameters) - space.n_features
    if kind is TermForm and pairs_and_count(summable_form(model), space.n) is None:
        pairs = {pair for term in summable_form(model).terms for pair in combinations(term, 2)}
        if least_width(space.n, len(pairs)) <= WIDEST_GRAPH:
            return
        seconds = SECONDS_BY_STREAMING * number_of_states(space)
        limits.require(f"streaming {describe_size(space)}", seconds, 0.0, "take fewer units")
    n_pairs = n_couplings / int(space.widths.max()) ** 2
    if kind is QuadraticForm and least_width(space.n, n_pairs) > WIDEST_GRAPH:
        require_affordable(space, limits, number_of_jobs(None))


def _seconds_by_states(model: Any, space: FiniteSpace, n_jobs: int) -> float:
    """About how long sums over all states take, of a layered machine those of its smaller layer."""
    kind, size = offered_form(model), number_of_states(space)
    if kind is QuadraticForm:
        return float(SECONDS_BY_PRODUCTS * size / n_jobs)
    if kind in (TermForm, FactorForm):
        return SECONDS_BY_STREAMING * size
    if kind is LayeredForm:
        form = summable_form(model)
        n, m = form.weights.shape
        return float(4e-10 * math.ldexp(1.0, min(n, m, 1000)) * max(n, m) / n_jobs)
    return 0.0


def _why_not_narrow(model: Any, space: FiniteSpace) -> str:
    """The sentence why pairs are not eliminated, with the width of their graph."""
    least = _least_width(model, space)
    if least > WIDEST_GRAPH:
        width = f"at least {least:.0f}"
    else:
        factors: Any = factors_of(model, space)
        found = plan_of(factors).order.width
        width = "above 62 by all orders found" if math.isinf(found) else f"{found:.3g}"
    return f"elimination is for narrower graphs: the width of this one is {width}"


def _least_width(model: Any, space: FiniteSpace) -> float:
    """A width that no order is below, by the number of pairs."""
    form, n, n_pairs = summable_form(model), space.n, 0.0
    if isinstance(form, LayeredForm):
        n, n_pairs = sum(form.weights.shape), float(np.count_nonzero(form.weights))
    elif isinstance(form, QuadraticForm):
        matrix, block = form.matrix, int(space.widths.max()) ** 2
        entries = int(matrix.count_nonzero() if is_sparse(matrix) else np.count_nonzero(matrix))
        n_pairs = (entries - n * block) / block / 2
    return least_width(n, n_pairs)


def _by_counts(
    model: EnergyModel, space: FiniteSpace, limits: Limits, n_jobs: int | None
) -> ExactEnsemble | None:
    """The ensemble of pairs and a function of K by products; None where these do not serve."""
    parts = pairs_and_count(summable_form(model), space.n)
    if parts is None or space.n < FEWEST_UNITS or not is_ordinary(*parts):
        return None
    if (uniform := by_classes(model, space, parts[0], limits, parts[1])) is not None:
        return uniform
    jobs = number_of_jobs(n_jobs)
    require_affordable(space, limits, jobs, 3 * SECONDS_BY_PRODUCTS)
    try:
        products = CountedProducts(*parts, space)
        return CountedEnumeration(model, space, products, *parts, limits, jobs)
    except Underflow:
        return None


def _with_real_units(model: Any, limits: Limits, n_jobs: int) -> ExactEnsemble:
    """The sum over finite units, real ones integrated out; refused where there is none."""
    kind = offered_form(model)
    if kind is QuadraticForm:
        form = summable_form(model)
        if model.space.is_bounded[model.space.is_real].all():
            return ConditionalBounded(model, form, limits)
        return ConditionalGaussian(model, form, limits, n_jobs)
    if kind is LayeredForm:
        form = summable_form(model)
        if is_mixture(form):
            return GaussianMixture(model, limits, n_jobs)
        if isinstance(form.hidden_units, Gaussian):
            return ConditionalGaussian(model, pairs_of_layers(form), limits, n_jobs)
        raise ModelError(
            f"{type(form.hidden_units).__name__} hidden units beside Gaussian visible ones leave "
            "integrals over R^n that have no closed form: take averages over chains, "
            "ebm.sample(model, n_draws=…), and ln Z by annealing, ebm.log_partition(model)"
        )
    if hasattr(model, "keep"):
        how: Any = {"max_seconds": limits.max_seconds, "max_memory": limits.max_memory}
        joint = exact(model.model, n_jobs=n_jobs, **how)
        return KeptUnits(model, joint, np.array(model.keep, dtype=np.intp), limits)
    raise ModelError(
        f"exact enumeration needs a finite space, {type(model).__name__} lives on {model.space!r}"
    )
