"""The machine that is expanded: canonical, at a chosen center, whatever model it comes from."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.errors import EbmError, ModelError
from ebm.models import BoltzmannMachine
from ebm.models._couplings import apply
from ebm.models._library import joint_machine
from ebm.perturbation._fixed_point import DampedSteps, damped
from ebm.spaces import FiniteSpace, Spins

#: Rounds that the independent center may take, and the change at which it is found.
ROUNDS, TOLERANCE = 2000, 1e-12
DAMPING = DampedSteps(shrink=0.7, least=0.02, growth=1.05)


def expanded_machine(
    model: Any, center: str | ArrayLike | None
) -> tuple[BoltzmannMachine, FiniteSpace]:
    """The same distribution as a Boltzmann machine without diagonal, and the coding of the answers.

    A restricted machine is taken with both its layers; ``center`` as in
    :func:`ebm.perturbation.expand`, which turns "mean" into numbers.
    """
    machine = joint_machine(model)
    if machine is None:
        raise ModelError(
            "model must be a BoltzmannMachine, an IsingModel or a RestrictedBoltzmannMachine, or "
            f"offer such a form, got {type(model).__name__}: only two-valued units in pairs are "
            "expanded, by perturbation.expand also levels in pairs and terms of more units"
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

    The solution of the naive mean-field equation near σ(b), or at very strong couplings what damped
    iteration came to: any center will do. At it no vertex of degree one is left in ln Z.
    """
    from scipy.special import expit

    def change_at(x: Array) -> tuple[Array, float]:
        field = machine.biases + apply(machine.weights, x - machine.center)
        return expit(field) - x, TOLERANCE

    return damped(change_at, expit(machine.biases), ROUNDS, DAMPING).x
