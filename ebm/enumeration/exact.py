"""The function :func:`ebm.exact`: which enumeration a model allows."""

from __future__ import annotations

from ebm._parallel import number_of_jobs
from ebm.enumeration._blocked import BlockedEnumeration
from ebm.enumeration._limits import Limits
from ebm.enumeration._log_weights import cut_form, cut_layers
from ebm.enumeration._quadratic import PairwiseEnumeration, require_products
from ebm.enumeration._two_layers import RestrictedEnumeration
from ebm.enumeration.exact_ensemble import ExactEnsemble
from ebm.errors import ModelError
from ebm.forms import LayeredForm, QuadraticForm, offered_form, summable_form
from ebm.model import EnergyModel, checked_space
from ebm.spaces import Binary, FiniteSpace

__all__ = ["exact"]


def exact(
    model: EnergyModel,
    *,
    max_seconds: float = 60.0,
    max_memory: float = 4 * 2.0**30,
    n_jobs: int | None = None,
) -> ExactEnsemble:
    """Enumerate a model: ln Z, moments, entropy, probabilities and draws, all exact.

    Z = Σ_x exp(−E(x)). A pairwise model (one with ``quadratic_form``) of 2^n states costs three
    matrix products, about 0.1 ns per state and thread, at constant memory; a restricted machine of
    n visible and m hidden units about 0.4 ns for each of the 2^min(n, m) states of its smaller
    layer and each unit of the other; any other finite model one ``energy`` per state.

    Parameters
    ----------
    model : EnergyModel
        Over a finite space.
    max_seconds : float
        Refuse, before any work, what would take longer.
    max_memory : float
        Refuse, before any work, what would take more bytes.
    n_jobs : int, optional
        Threads; None means all cores. The result does not depend on it.

    Returns
    -------
    ExactEnsemble
        The distribution, to be averaged over.

    Raises
    ------
    ModelError
        If the model is not finite, or breaks the contract of :class:`ebm.EnergyModel`.

    Notes
    -----
    Raises :class:`ebm.errors.EnumerationLimitError` when a limit would be exceeded.

    Probabilities depend on differences of energies, which are right to 1e-9 k_B T at any size of
    the energies: beyond a sum |w| of 10⁵ over all numbers of a model of the library, sums are taken
    in two parts, more slowly. Where even these do not tell which of several states is the lowest,
    beyond energies of about 10¹⁶, :class:`ebm.errors.PrecisionError` is raised. Energies of a
    user's own ``energy``, and of tables, are taken as given.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> round(ebm.exact(ring).log_partition, 6)
    3.746638
    """
    space = checked_space(model)
    limits = Limits(max_seconds, max_memory)
    if not isinstance(space, FiniteSpace):
        raise ModelError(
            f"exact enumeration needs a finite space, {type(model).__name__} lives on {space!r}"
        )
    kind = offered_form(model)
    if kind is QuadraticForm:
        jobs = number_of_jobs(n_jobs)
        # The form itself is not made before its cost is known.
        require_products(space, limits, jobs)
        cut = cut_form(summable_form(model))
        return PairwiseEnumeration(model, space, cut, limits, jobs)
    if kind is LayeredForm and isinstance(space, Binary):
        layers = cut_layers(summable_form(model))
        return RestrictedEnumeration(model, space, layers, limits, number_of_jobs(n_jobs))
    return BlockedEnumeration(model, space, limits)
