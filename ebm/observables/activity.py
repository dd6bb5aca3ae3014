"""Activity x ∈ {0, 1} of two-valued units, and the models that allow shortcuts."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.ensembles import Ensemble
from ebm.enumeration import ExactEnsemble
from ebm.errors import CodingError
from ebm.models import BoltzmannMachine, IsingModel
from ebm.spaces import Binary, Spins

__all__ = ["activity", "machine_of"]

Array = NDArray[np.float64]


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
        return np.asarray(states, dtype=np.float64)
    if isinstance(ensemble.space, Spins):
        return (1 + np.asarray(states, dtype=np.float64)) / 2
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
    >>> from ebm.observables.activity import machine_of
    >>> machine_of(ebm.exact(ebm.IsingModel([[0, 1], [1, 0]], [0, 0]))).biases
    array([-2., -2.])
    """
    model = ensemble.model if isinstance(ensemble, ExactEnsemble) else None
    if isinstance(model, IsingModel):
        return model.to_binary()
    return model if isinstance(model, BoltzmannMachine) else None
