"""What tells one rule of the energy from another, beside the numbers of its parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ebm._checkpoints import fingerprint
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.errors import EbmError
from ebm.model import checked_energy

#: States whose energies tell one model from another.
PROBES = 64


def energy_words(model: Any) -> str:
    """Energies of some states by a digest: models of equal parameters may have other graphs."""
    states = model.space.random(PROBES, np.random.default_rng(0))
    with single_threaded_blas():
        return fingerprint(_rounded(checked_energy(model, states)))


def rule_words(family: Any) -> str:
    """The same at parameters of which none is zero and no two are equal, where a family has any."""
    size = len(family.parameters)
    theta = 0.5 + np.arange(1, size + 1) * ((math.sqrt(5) - 1) / 2) % 1
    try:
        with np.errstate(all="ignore"):
            return energy_words(family.with_parameters(theta))
    except (EbmError, ValueError, ArithmeticError, NotImplementedError):
        # Parameters may have a range.
        return "unknown"


def _rounded(energies: Array) -> Array:
    """Six digits of the largest, and of each as a part of it, as other processors have them too."""
    largest = np.abs(energies, where=np.isfinite(energies), out=np.zeros_like(energies)).max()
    parts = np.append(energies / largest, math.log(largest)) if largest else energies
    # By a factor that leaves no whole number between two roundings.
    return np.asarray(np.rint(parts * (1e6 / math.pi)) + 0.0)
