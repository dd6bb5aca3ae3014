"""The function :func:`ebm.density_of_states`: how many states have each energy."""

from __future__ import annotations

import math

from ebm.enumeration._limits import Limits
from ebm.errors import EnumerationLimitError, ModelError
from ebm.ground._removal import Polynomials
from ebm.ground._term_tables import energy_tables
from ebm.ground.ground_state import require_narrow
from ebm.model import EnergyModel, checked_space
from ebm.spaces import FiniteSpace

__all__ = ["density_of_states"]


def density_of_states(
    model: EnergyModel, *, max_seconds: float = 60.0, max_memory: float = 4 * 2.0**30
) -> dict[float, int]:
    """The number of states g(E) = #{x : E(x) = E} at each energy, exactly.

    For energies of terms that are multiples of one number, such as couplings ±J: units are removed
    one by one from the polynomial Σ_x z^E(x), whose coefficients are integers found modulo several
    primes. Z(β) = Σ_E g(E) exp(−βE) follows at every temperature.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space with ``quadratic_form``, ``factor_form``, or ``term_form``
        without counts.
    max_seconds : float
        Work that would take more seconds is refused before it begins.
    max_memory : float
        Work that would take more bytes is refused before it begins.

    Returns
    -------
    dict of float to int
        Numbers of states by energy in units of k_B T, lowest energy first; Python integers of any
        size that sum to the number of all states.

    Raises
    ------
    ModelError
        If the space is not finite, the model has no such terms, or its energies are no multiples
        of one number.
    EnumerationLimitError
        If a limit would be exceeded.

    Examples
    --------
    >>> import ebm
    >>> list(ebm.density_of_states(ebm.from_graph(ebm.lattice((4, 4)))).items())[:3]
    [(-32.0, 2), (-24.0, 32), (-20.0, 64)]
    """
    limits, space = Limits(max_seconds, max_memory), checked_space(model)
    tables = energy_tables(model, space) if isinstance(space, FiniteSpace) else None
    if tables is None:
        raise ModelError(
            f"density_of_states needs a finite model of pairs or of terms, got "
            f"{type(model).__name__} over {space!r}"
        )
    if tables.unit is None:
        raise ModelError(
            "density_of_states needs energies that are multiples of one number, such as couplings "
            "±1 and whole fields, got differences of terms that have none in common: round the "
            "parameters, or take a histogram of ebm.thermodynamics"
        )
    if not math.isfinite(tables.plan.order.width):
        raise EnumerationLimitError(
            f"elimination of {space.n} units has tables of more than 2^62 entries: take the "
            "histogram of energies of tempered chains, ebm.ParallelTempering"
        )
    polynomials = Polynomials(tables)
    require_narrow(
        tables.plan,
        limits,
        polynomials.seconds,
        polynomials.n_bytes,
        "tempered chains, ebm.ParallelTempering, whose energies are a histogram with errors",
    )
    return {tables.energy(total): number for total, number in polynomials.numbers().items()}
