"""The function :func:`ebm.exact`: which enumeration a model allows."""

from __future__ import annotations

from ebm._parallel import number_of_jobs
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._counted import CountedEnumeration, Underflow, is_ordinary
from ebm.enumeration._counted_products import CountedProducts
from ebm.enumeration._gaussian_layer import GaussianMixture, is_mixture
from ebm.enumeration._limits import SECONDS_BY_PRODUCTS, Limits
from ebm.enumeration._log_weights import cut_form, cut_layers
from ebm.enumeration._quadratic import PairwiseEnumeration, require_affordable
from ebm.enumeration._recoded_layers import RecodedEnumeration
from ebm.enumeration._two_layers import RestrictedEnumeration
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.errors import ModelError
from ebm.forms import LayeredForm, QuadraticForm, TermForm, offered_form, summable_form
from ebm.model import EnergyModel, checked_space
from ebm.models._counts import pairs_and_count
from ebm.models._layers import are_two_valued, pairs_of_layers
from ebm.spaces import Binary, FiniteSpace
from ebm.units import Gaussian

__all__ = ["exact"]

#: Units of a model of counts from which on there are three groups.
FEWEST_UNITS = 3


def exact(
    model: EnergyModel,
    *,
    max_seconds: float = 60.0,
    max_memory: float = 4 * 2.0**30,
    n_jobs: int | None = None,
) -> ExactEnsemble:
    """The exact distribution of a finite model, p(x) = exp(−E(x))/Z with Z = Σ_x exp(−E(x)).

    A pairwise model (one with ``quadratic_form``) of 2^n states costs three matrix products, about
    0.1 ns per state and thread, at constant memory; a restricted machine of n visible and m hidden
    units about 0.4 ns for each of the 2^min(n, m) states of its smaller layer and each unit of the
    other, with Gaussian hidden units as a pairwise model; pairs with a function of the number of
    active units (``term_form`` with ``count``) three times a pairwise model; any other finite model
    one ``energy`` per state. Of Gaussian visible units beside two-valued hidden ones the hidden
    states are summed.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space, or of a Gaussian layer with two-valued hidden units.
    max_seconds : float
        Work that would take more seconds is refused before it begins.
    max_memory : float
        Work that would take more bytes is refused before it begins.
    n_jobs : int, optional
        Number of threads, by default one for each core. The result does not depend on it.

    Returns
    -------
    ExactEnsemble
        ln Z, moments, entropy, probabilities and independent draws.

    Raises
    ------
    ModelError
        If the model is not finite, or breaks the contract of :class:`ebm.EnergyModel`.
    EnumerationLimitError
        If a limit would be exceeded.
    PrecisionError
        If energies are above about 10¹⁶ and rounding hides which of several states is the lowest.

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
    if is_mixture(model):
        return GaussianMixture(model, limits, number_of_jobs(n_jobs))
    if not isinstance(space, FiniteSpace):
        raise ModelError(
            f"exact enumeration needs a finite space, {type(model).__name__} lives on {space!r}"
        )
    kind = offered_form(model)
    if kind is QuadraticForm:
        jobs = number_of_jobs(n_jobs)
        # The form itself is not made before its cost is known.
        require_affordable(space, limits, jobs)
        cut = cut_form(summable_form(model))
        return PairwiseEnumeration(model, space, cut, limits, jobs)
    if kind is LayeredForm:
        form, jobs = summable_form(model), number_of_jobs(n_jobs)
        if form.is_binary and isinstance(space, Binary):
            return RestrictedEnumeration(model, space, cut_layers(form), limits, jobs)
        if are_two_valued(form):
            return RecodedEnumeration(model, space, form, limits, jobs)
        if isinstance(form.hidden_units, Gaussian):
            require_affordable(space, limits, jobs)
            return PairwiseEnumeration(model, space, cut_form(pairs_of_layers(form)), limits, jobs)
    if kind is TermForm:
        return _by_counts(model, space, limits, n_jobs) or BlockedEnumeration(model, space, limits)
    return BlockedEnumeration(model, space, limits)


def _by_counts(
    model: EnergyModel, space: FiniteSpace, limits: Limits, n_jobs: int | None
) -> ExactEnsemble | None:
    """The ensemble of pairs and a function of K by products; None where these do not serve."""
    parts = pairs_and_count(summable_form(model), space.n)
    if parts is None or space.n < FEWEST_UNITS or not is_ordinary(*parts):
        return None
    jobs = number_of_jobs(n_jobs)
    require_affordable(space, limits, jobs, 3 * SECONDS_BY_PRODUCTS)
    try:
        products = CountedProducts(*parts, space)
        return CountedEnumeration(model, space, products, *parts, limits, jobs)
    except Underflow:
        return None
