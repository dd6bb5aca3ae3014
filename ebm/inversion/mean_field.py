"""First-order inversion: couplings from covariances; [EBM] Corollary 22."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.ensembles import Moments
from ebm.errors import ConstantUnitError, EbmError
from ebm.models import BoltzmannMachine, IsingModel
from ebm.models.couplings import vector
from ebm.spaces import Binary, Spins
from ebm.spaces.names import shown

__all__ = ["mean_field"]

Array = NDArray[np.float64]

#: A variance below this counts as none: means carry rounding errors.
CONSTANT = 1e-14


def mean_field(
    moments: Any, order: int = 1, *, diagonal: ArrayLike = 0.0
) -> BoltzmannMachine | IsingModel:
    """Couplings and biases from means and covariances, to first order in the couplings.

    W_μν = Ĉ_μν / ( x̂_μ(1−x̂_μ) x̂_ν(1−x̂_ν) ) for μ ≠ ν; [EBM] eq 38.
    b_μ = logit x̂_μ − (½−x̂_μ) W_μμ at center x̂, the exact form of [EBM] eq 37.

    The field calls this the first-order, or high-temperature, inversion: its relative error grows
    in proportion to the couplings, so read it beside an exact fit wherever one can be had.

    Parameters
    ----------
    moments : Moments or Ensemble
        x̂ and Ĉ (with 1/N, ddof = 0) of two-valued units, in either coding.
    order : int
        Order in the couplings; only 1 is offered.
    diagonal : float or array_like, (n,)
        W_μμ of the result, a gauge freedom that changes no probability.

    Returns
    -------
    BoltzmannMachine or IsingModel
        In the coding of the moments, with their names; a Boltzmann machine is centered at x̂.

    Raises
    ------
    EbmError
        If ``order`` is not 1, or ``moments`` are something else or impossible.
    ConstantUnitError
        If a unit never changes; it is named.

    Notes
    -----
    :meth:`Moments.two_valued` refuses other units, and covariances that are not with 1/N.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]])
    >>> ebm.inversion.mean_field(data.moments()).weights.round(3)
    array([[0.   , 1.333],
           [1.333, 0.   ]])
    """
    if order != 1:
        raise EbmError(f"order must be 1, got {order!r}: higher orders are not offered")
    if not callable(getattr(moments, "moments", None)):
        raise EbmError(
            f"moments must be Moments or an ensemble, got {type(moments).__name__}: "
            "for rows of data give ebm.Ensemble.from_data(rows)"
        )
    moments = moments.moments().two_valued()
    if np.abs(moments.correlation).max() > 1 + 1e-8:
        raise EbmError("no distribution has these moments: a correlation is beyond ±1")
    binary = moments.to(Binary)
    mean = binary.mean
    variance = mean * (1 - mean)
    _require_changing(binary, variance)
    weights = binary.covariance / np.outer(variance, variance)
    own = vector(diagonal, binary.space.n, "diagonal")
    np.fill_diagonal(weights, own)
    biases = np.log(mean / (1 - mean)) - (0.5 - mean) * own
    machine = BoltzmannMachine(weights, biases, center=mean, names=binary.space.names)
    return machine.to_spins() if isinstance(moments.space, Spins) else machine


def _require_changing(moments: Moments, variance: Array) -> None:
    constant = np.flatnonzero(variance < CONSTANT)
    if len(constant):
        labels = shown([moments.space.labels[i] for i in constant])
        subject = (
            f"unit {labels} never changes" if len(constant) == 1 else f"units {labels} never change"
        )
        raise ConstantUnitError(f"{subject}: no finite bias describes that; leave them out")
