"""Expansions of a pairwise model in powers of its couplings; [EBM] §4, to any order there."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ebm.arrays import as_integer, as_seconds
from ebm.perturbation.diagrams.contraction import require_order
from ebm.perturbation.expansion import Expansion
from ebm.perturbation.fixed_means.solving import plefka
from ebm.perturbation.folding import expanded_machine

__all__ = ["expand"]


def expand(
    model: Any,
    order: Any,
    *,
    center: str | ArrayLike | None = None,
    max_seconds: float = 60.0,
) -> Expansion:
    """ln Z, means and covariances as power series in the couplings, to order K in each.

    ln Z = Σ_α ln(1 + e^{b_α}) + Σ_G (1/S) Σ_sites Π_edges W Π_vertices κ_degree, over connected
    multigraphs G; means and covariances are its derivatives with respect to b, [EBM] §4.

    An order counts couplings of different units: a diagonal of W is first folded into biases and
    offset, exactly. Nothing is computed before it is asked for: ln Z costs least, means a few times
    that, and the covariance of order K as much as the means of order K + 1.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or RestrictedBoltzmannMachine
        Dense or sparse couplings. An Ising model is expanded about s = 0, in its J, and answers in
        spins; a restricted machine is expanded with both its layers.
    order : int
        K, 1 to 6. ln Z and means go up to 6, the covariance of order K takes the diagrams of ln Z
        of order K + 1 and goes up to 5.
    center : None, "independent", "mean" or array_like, (n,)
        x̂. None keeps the center of the model. Another center writes the same distribution with
        other biases b + W(x̂' − x̂), and so makes another series of the same sum: a center near the
        means is worth two orders against one far from them, such as 0. "independent" takes
        x̂ = σ(b'), the naive mean-field equation: order 1 of ln Z is gone, and order 2 begins with
        the Onsager term. At strong couplings, where that equation polarizes, 1/2 is better. "mean"
        takes the means of order 2 of :func:`plefka`, which do as well as those of the model.
    max_seconds : float
        Time that an answer may take before it is refused.

    Returns
    -------
    Expansion
        The series, their sums and an estimate of the error.

    Raises
    ------
    EbmError
        If ``order`` or ``max_seconds`` is not positive, or ``center`` is an unknown word.
    LimitError
        If ``order`` is above 6.
    ModelError
        If the model is another, or ``center`` is not finite.
    ConvergenceError
        If ``center="mean"`` finds no means.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [-1, 0.5])
    >>> expansion = ebm.perturbation.expand(machine, 4, center="independent")
    >>> f"{expansion.log_partition - ebm.exact(machine).log_partition:.0e}"
    '-6e-06'
    """
    order = as_integer(order, "order")
    require_order(order)
    max_seconds = as_seconds(max_seconds)
    if isinstance(center, str) and center == "mean":
        center = plefka(model, 2).point.mean
    machine, space = expanded_machine(model, center)
    return Expansion(machine, order, space, max_seconds)
