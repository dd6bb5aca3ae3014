"""How chains over R^n move: Hamiltonian Monte Carlo, and Langevin steps as its shortest kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_floats, as_integer, as_number
from ebm.errors import ModelError
from ebm.spaces._labels import refuse_labels

__all__ = ["HamiltonianMonteCarlo", "Langevin"]


@dataclass(frozen=True, eq=False)
class HamiltonianMonteCarlo:
    """Hybrid Monte Carlo: momenta p ~ N(0, m), L leapfrog steps, accepted by the change of H.

    H(x, p) = E(x) + Σ p²/(2m);   p ← p − ½ε ∂E/∂x,   x ← x + ε p/m,   p ← p − ½ε ∂E/∂x;
    accepted with probability min(1, exp(−ΔH)) :cite:`duane1987`.

    Parameters
    ----------
    step : float
        ε, positive.
    n_leapfrog : int
        L.
    mass : float or array_like, (n,)
        m, positive: large for coordinates in which the energy is steep.
    jitter : float
        In [0, 1): each trajectory has a step uniform in ε (1 ± jitter). With 0 a Gaussian of
        frequency ω = 1/√(m σ²) goes from x to −x or x for ever where ε ω L is near a multiple of π.

    Raises
    ------
    ModelError
        If ``step``, ``mass`` or ``jitter`` is out of range.
    ShapeError
        If ``n_leapfrog`` is no positive integer.

    Examples
    --------
    >>> from ebm.sampling.hamiltonian import HamiltonianMonteCarlo
    >>> HamiltonianMonteCarlo(0.1, 20).n_leapfrog
    20
    """

    step: float
    n_leapfrog: int
    mass: Any = 1.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        step, jitter = as_number(self.step, "step"), as_number(self.jitter, "jitter")
        if not 0 < step < np.inf:
            raise ModelError(f"step must be positive and finite, got {self.step!r}")
        if not 0 <= jitter < 1:
            raise ModelError(f"jitter must be in [0, 1), got {self.jitter!r}")
        refuse_labels(self.mass, "mass", "of the coordinates")
        mass = np.array(as_floats(self.mass, "mass"))
        if mass.ndim > 1 or not mass.size or not ((mass > 0) & np.isfinite(mass)).all():
            raise ModelError("mass must be a positive number, or one for each coordinate")
        mass.setflags(write=False)
        values = {
            "step": step,
            "n_leapfrog": as_integer(self.n_leapfrog, "n_leapfrog"),
            "mass": mass,
            "jitter": jitter,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False, init=False)
class Langevin(HamiltonianMonteCarlo):
    """The Metropolis-adjusted Langevin algorithm: a noisy step downhill, accepted or refused.

    x′ = x − ½ε² m⁻¹ ∂E/∂x + ε m^−½ ξ with ξ ~ N(0, 1), accepted with probability
    min(1, p(x′) q(x′→x) / (p(x) q(x→x′))) :cite:`roberts1996`. The same chain as that of
    Hamiltonian Monte Carlo with a single leapfrog step.

    Parameters
    ----------
    step : float
        ε, positive.
    mass : float or array_like, (n,)
        m, positive.

    Raises
    ------
    ModelError
        If one of them is out of range.

    Examples
    --------
    >>> from ebm.sampling.hamiltonian import Langevin
    >>> Langevin(0.1).step
    0.1
    """

    def __init__(self, step: float, mass: Any = 1.0) -> None:
        super().__init__(step, 1, mass, jitter=0.0)
