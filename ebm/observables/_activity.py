"""Activity x ∈ {0, 1} of two-valued units, and the models that allow shortcuts."""

from __future__ import annotations

from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.ensembles import Ensemble
from ebm.enumeration import ExactEnsemble
from ebm.enumeration._log_weights import resolved
from ebm.errors import CodingError, EnumerationLimitError
from ebm.models import BoltzmannMachine
from ebm.models._library import pair_machine
from ebm.spaces import Binary, Spins

__all__ = ["MAX_UNITS", "activity", "affordable_machine_of", "machine_of"]


#: Most units of a model that is enumerated again for an observable: 2^28 states at a time.
MAX_UNITS = 28


def activity(ensemble: Ensemble, states: ArrayLike) -> Array:
    """States as activity x ∈ {0, 1}, (..., n) -> (..., n): x = (1 + s)/2 for spins.

    Parameters
    ----------
    ensemble : Ensemble
        Whose coding the states are in.
    states : array_like, (..., n)
        The states.

    Returns
    -------
    ndarray, (..., n)
        Zeros and ones.

    Raises
    ------
    CodingError
        If the units are not two-valued.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables import activity
    >>> activity(ebm.Ensemble.from_data([[-1], [1]], space=ebm.Spins), [-1.0])
    array([0.])
    """
    if isinstance(ensemble.space, Binary):
        return ensemble.space.check(states)
    if isinstance(ensemble.space, Spins):
        return (1 + ensemble.space.check(states)) / 2
    raise CodingError(f"activity is defined for two-valued units, got {ensemble.space!r}")


def machine_of(ensemble: Ensemble) -> BoltzmannMachine | None:
    """The Boltzmann machine whose exact ensemble this is, if it is one: it allows shortcuts.

    Parameters
    ----------
    ensemble : Ensemble
        Any ensemble.

    Returns
    -------
    BoltzmannMachine or None
        An Ising model is converted.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables._activity import machine_of
    >>> machine_of(ebm.exact(ebm.IsingModel([[0, 1], [1, 0]], [0, 0]))).biases
    array([-2., -2.])
    """
    model = ensemble.model if isinstance(ensemble, ExactEnsemble) else None
    machine = pair_machine(model)
    return None if machine is None else machine.to_binary()


def affordable_machine_of(ensemble: Ensemble, what: str) -> BoltzmannMachine | None:
    """The same for an observable that has to enumerate it again, refused above 28 units.

    Parameters
    ----------
    ensemble : Ensemble
        Any ensemble.
    what : str
        The observable, for the message.

    Returns
    -------
    BoltzmannMachine or None
        As :func:`machine_of`; None, too, where its energies are so large that products of their
        exponentials would not be exact.

    Raises
    ------
    EnumerationLimitError
        If it has more than 28 units.

    Examples
    --------
    >>> import ebm
    >>> from ebm.observables._activity import affordable_machine_of
    >>> affordable_machine_of(ebm.Ensemble.from_data([[0], [1]]), "P(K)") is None
    True
    """
    machine = machine_of(ensemble)
    if machine is not None and machine.n > MAX_UNITS:
        raise EnumerationLimitError(
            f"{what} of {machine.n} units would enumerate more than 2^{MAX_UNITS} states again: "
            "draw from the ensemble instead, ebm.Ensemble.from_data(ensemble.sample(100_000))"
        )
    # Energies that plain sums do not resolve are left to the blocks of the ensemble.
    return machine if machine is None or resolved(ensemble.model) is None else None  # type: ignore[attr-defined]
