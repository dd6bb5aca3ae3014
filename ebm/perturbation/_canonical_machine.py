"""The machine that is expanded: canonical, at a chosen center, whatever model it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.errors import EbmError, ModelError
from ebm.models import BoltzmannMachine
from ebm.models._couplings import apply
from ebm.models._library import joint_machine
from ebm.spaces import FiniteSpace, Spins

__all__ = ["expanded_machine", "independent_center"]


#: Rounds that the independent center may take, and the change at which it is found.
ROUNDS = 2000
TOLERANCE = 1e-12


def expanded_machine(
    model: Any, center: str | ArrayLike | None
) -> tuple[BoltzmannMachine, FiniteSpace]:
    """The same distribution as a canonical Boltzmann machine, and the coding of the answers.

    Parameters
    ----------
    model : EnergyModel
        Of two-valued units in pairs; one with a hidden layer is taken with both its layers.
    center : None, "independent" or array_like, (n,)
        See :func:`ebm.perturbation.expand`, which turns "mean" into numbers.

    Returns
    -------
    BoltzmannMachine
        Without diagonal, with the same energies.
    FiniteSpace
        ``Spins`` for an Ising model.

    Raises
    ------
    ModelError
        If the model is another.
    EbmError
        If ``center`` is an unknown word.
    """
    machine = joint_machine(model)
    if machine is None:
        raise ModelError(
            "model must be a BoltzmannMachine, an IsingModel or a RestrictedBoltzmannMachine, or "
            f"offer such a form, got {type(model).__name__}: only two-valued units in pairs are "
            "expanded"
        )
    space: FiniteSpace = machine.space
    machine = machine.to_binary().canonical()
    if isinstance(space, Spins):
        # At s = 0 the couplings J multiply s s' and nothing else.
        machine = machine.recentered(0.5)
    if center is None:
        return machine, space
    if not isinstance(center, str):
        return machine.recentered(center), space
    if center != "independent":
        raise EbmError(f'center must be None, "independent", "mean" or numbers, got {center!r}')
    return machine.recentered(independent_center(machine)), space


def independent_center(machine: BoltzmannMachine) -> Array:
    """The center x̂ at which independent units have it as their mean, x̂ = σ(b + W(x̂ − c)).

    The naive mean-field equation; a solution near σ(b). At such a center no diagram with a vertex
    of degree one is left in ln Z.

    Parameters
    ----------
    machine : BoltzmannMachine
        Without diagonal, center c.

    Returns
    -------
    ndarray, (n,)
        x̂, or at very strong couplings what damped iteration came to: any center will do.

    Examples
    --------
    >>> import ebm
    >>> from ebm.perturbation._canonical_machine import independent_center
    >>> independent_center(ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, -1])).round(6)
    array([0.5, 0.5])
    """
    from scipy.special import expit

    x = expit(machine.biases)
    step, before = 1.0, np.inf
    for _ in range(ROUNDS):
        change = expit(machine.biases + apply(machine.weights, x - machine.center)) - x
        size = float(np.abs(change).max())
        if size < TOLERANCE:
            break
        step = max(0.7 * step, 0.02) if size > before else min(1.05 * step, 1.0)
        x, before = x + step * change, size
    return np.asarray(x)
