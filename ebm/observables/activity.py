"""Activity x ∈ {0, 1} of two-valued units, and the models whose activity has closed sums."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.ensembles.ensemble import require_ensemble
from ebm.enumeration import ExactEnsemble
from ebm.enumeration._log_weights import resolved
from ebm.errors import CodingError, EnumerationLimitError
from ebm.models import BoltzmannMachine
from ebm.models._library import pair_machine
from ebm.spaces import Binary, Spins

__all__ = ["MAX_UNITS", "activity", "affordable_machine_of"]

#: Most units of a model that is enumerated again for an observable: 2^28 states at a time.
MAX_UNITS = 28


def activity(ensemble: Ensemble, states: ArrayLike) -> Array:
    """States as activity x ∈ {0, 1}: x = (1 + s)/2 for spins.

    Parameters
    ----------
    ensemble : Ensemble
        Data, samples or an enumeration of two-valued units.
    states : array_like, (..., n)
        States in the coding of the ensemble.

    Returns
    -------
    ndarray, (..., n)
        x, 1 where a unit is active.

    Raises
    ------
    ModelError
        If ``ensemble`` is no ensemble.
    CodingError
        If the units are not two-valued, or a state does not belong to the coding.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables import activity
    >>> activity(ebm.Ensemble.from_data([[-1], [1]], space=ebm.Spins), [-1.0])
    array([0.])
    """
    require_ensemble(ensemble)
    if isinstance(ensemble.space, Binary):
        return ensemble.space.check(states)
    if isinstance(ensemble.space, Spins):
        return (1 + ensemble.space.check(states)) / 2
    raise CodingError(f"activity is defined for two-valued units, got {ensemble.space!r}")


def affordable_machine_of(ensemble: Ensemble, what: str) -> BoltzmannMachine | None:
    """The Boltzmann machine of an exact ensemble, converted from spins; refused above 28 units.

    None for other ensembles, and where energies are so large that products of their exponentials
    would not be exact: these are left to the blocks of the ensemble.
    """
    model = ensemble.model if isinstance(ensemble, ExactEnsemble) else None
    pairwise = None if model is None else pair_machine(model)
    if pairwise is None:
        return None
    machine = pairwise.to_binary()
    if machine.n > MAX_UNITS:
        raise EnumerationLimitError(
            f"{what} of {machine.n} units would enumerate more than 2^{MAX_UNITS} states again: "
            "draw from the ensemble instead, ebm.Ensemble.from_data(ensemble.sample(100_000), "
            "space=ensemble.space), or take chains, ebm.sample(model, n_draws=…)"
        )
    return machine if resolved(model) is None else None
