"""The machine that is expanded: canonical, at a chosen center, whatever model it comes from."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ebm._types import Array
from ebm.errors import EbmError, ModelError
from ebm.models import BoltzmannMachine, IsingModel, RestrictedBoltzmannMachine
from ebm.models._couplings import apply
from ebm.perturbation._fixed_point import Damping, damped
from ebm.spaces import FiniteSpace

__all__ = ["expanded_machine", "independent_center"]


#: Rounds that the independent center may take, and the change at which it is found.
ROUNDS, TOLERANCE = 2000, 1e-12
DAMPING = Damping(shrink=0.7, least=0.02, growth=1.05)


def expanded_machine(
    model: Any, center: str | ArrayLike | None
) -> tuple[BoltzmannMachine, FiniteSpace]:
    """The same distribution as a Boltzmann machine without diagonal, and the coding of the answers.

    A restricted machine is taken with both its layers; ``center`` as in
    :func:`ebm.perturbation.expand`, which turns "mean" into numbers.
    """
    space: FiniteSpace
    if isinstance(model, IsingModel):
        # At s = 0 the couplings J multiply s s' and nothing else.
        machine, space = model.to_binary().recentered(0.5), model.space
    elif isinstance(model, RestrictedBoltzmannMachine):
        machine = model.joint()
        space = machine.space
    elif isinstance(model, BoltzmannMachine):
        machine, space = model, model.space
    else:
        raise ModelError(
            "model must be a BoltzmannMachine, an IsingModel or a RestrictedBoltzmannMachine, got "
            f"{type(model).__name__}: only two-valued units in pairs are expanded"
        )
    machine = machine.canonical()
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
