"""From averages over states at one temperature to thermodynamic quantities.

With ε_β = ∂E_β/∂β, which is E where E_β = βE,

    U = ⟨ε_β⟩ = −∂ ln Z/∂β,    C = β² (Var ε_β − ⟨∂ε_β/∂β⟩) = −β² ∂U/∂β,    S = ln Z + βU,
    F = −ln Z/β,    χ = βn (⟨m²⟩ − ⟨|m|⟩²),    Binder = 1 − ⟨m⁴⟩ / 3⟨m²⟩².
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.ensembles.ensemble import Observable, observed
from ebm.errors import PrecisionError
from ebm.model import EnergyModel, checked_energy
from ebm.sampling._tempered_models import is_linear, tempered
from ebm.spaces import Binary, Spins, StateSpace

OF_ENERGY = ("log_partition", "free_energy", "energy", "heat_capacity", "entropy")
OF_MAGNETIZATION = ("absolute_magnetization", "susceptibility", "binder_cumulant")

#: Step in ln β of central differences of E_β, whose error is of its fourth power.
STEP = 5e-3
#: |ln Z| up to which it has three decimals.
LARGEST_LOG = 1e-3 / float(np.finfo(float).eps)


class Values:
    """What is averaged, of states (m, n): (E − E₀), its square and slope, |m|, m², m⁴, the others.

    The energy is counted from ``reference`` E₀, which costs no digits of its variance.
    """

    def __init__(self, model: EnergyModel, observables: Mapping[str, Observable]) -> None:
        self.model, self.observables = model, observables
        self.is_linear, self.is_magnetic = is_linear(model), has_magnetization(model.space)
        self.reference = 0.0
        self.shapes: dict[str, tuple[int, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all quantities."""
        of_magnetization = OF_MAGNETIZATION if self.is_magnetic else ()
        return (*OF_ENERGY, *of_magnetization, *self.observables)

    def potential(self, beta: float, states: Array) -> Array:
        """E_β, (m,)."""
        return checked_energy(tempered(self.model, beta), states)

    def of_energy(self, beta: float, states: Array, energies: Array | None = None) -> Array:
        """ε − E₀, (ε − E₀)² and ∂ε/∂β, (m, 3); ``energies`` where they are known and E_β is βE."""
        first, slope = self.slopes(beta, states, energies)
        first = first - self.reference
        return np.stack([first, first**2, slope], axis=1)

    def slopes(
        self, beta: float, states: Array, energies: Array | None = None
    ) -> tuple[Array, Array]:
        """ε and ∂ε/∂β, (m,) each."""
        if self.is_linear:
            plain = checked_energy(self.model, states) if energies is None else energies
            return plain, np.zeros(len(plain))
        h = STEP * beta
        far = [self.potential(beta + k * h, states) for k in (-2, -1, 0, 1, 2)]
        first = (far[0] - 8 * far[1] + 8 * far[3] - far[4]) / (12 * h)
        return first, (-far[0] + 16 * far[1] - 30 * far[2] + 16 * far[3] - far[4]) / (12 * h**2)

    def of_states(self, states: Array) -> Array:
        """|m|, m², m⁴ and all observables in one row for each state, whatever the temperature."""
        columns: list[Any] = []
        if self.is_magnetic:
            m = magnetization(self.model.space, states)
            columns += [np.abs(m), m**2, m**4]
        for name, f in self.observables.items():
            values = observed(f, states)
            self.shapes[name] = values.shape[1:]
            columns += list(values.reshape(len(values), -1).T)
        return np.stack(columns, axis=1) if columns else np.empty((len(states), 0))

    def quantities(
        self, beta: float, log_partition: float, averages: Array, reference: float | None = None
    ) -> list[Array]:
        """All quantities, in the order of ``names``, from the averages of both kinds of values.

        ``reference`` is that of these averages where it is not that of all temperatures.
        """
        if abs(log_partition) > LARGEST_LOG:
            raise PrecisionError(
                f"ln Z is about {log_partition:.1e} at beta={beta:g}, where double precision "
                "leaves no decimals of the entropy: give smaller betas, or a model of smaller "
                "energies"
            )
        shifted, square, slope = averages[:3]
        energy = (self.reference if reference is None else reference) + shifted
        results: list[Any] = [
            log_partition,
            -log_partition / beta,
            energy,
            beta**2 * (np.maximum(square - shifted**2, 0.0) - slope),
            log_partition + beta * energy,
        ]
        rest = averages[3:]
        if self.is_magnetic:
            modulus, second, fourth = rest[:3]
            rest, n = rest[3:], self.model.space.n
            # Where the magnetization is always 0 it has no cumulant.
            with np.errstate(invalid="ignore"):
                cumulant = 1 - fourth / (3 * second**2)
            results += [modulus, beta * n * (second - modulus**2), cumulant]
        for name in self.observables:
            size = int(np.prod(self.shapes[name]))
            results.append(rest[:size].reshape(self.shapes[name]))
            rest = rest[size:]
        return [np.asarray(result) for result in results]


def has_magnetization(space: StateSpace) -> bool:
    """Whether all units are two-valued."""
    return isinstance(space, Binary | Spins)


def magnetization(space: StateSpace, states: Array) -> Array:
    """m = Σ_i s_i / n with s = ±1, which is 2x − 1 in {0,1}, (m, n) -> (m,)."""
    m = states.mean(axis=1)
    return np.asarray(2 * m - 1 if isinstance(space, Binary) else m)
