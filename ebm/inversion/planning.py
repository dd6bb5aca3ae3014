"""How many rows a planned measurement needs to find a coupling."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._arrays import as_number
from ebm.errors import EbmError, ModelError, ShapeError, SingularCovarianceError
from ebm.information import fisher_information
from ebm.model import ParametricModel, refuse_result
from ebm.spaces._fixed_units import unit_position

__all__ = ["samples_needed"]


def samples_needed(
    model: ParametricModel,
    pair: tuple[int | str, int | str],
    *,
    power: float = 0.8,
    level: float = 0.05,
) -> float:
    """Number of rows with which the coupling of a pair is found to differ from zero.

    N = (z_{1−α/2} + z_π)² (F⁻¹)_kk / θ_k², z_q = Φ⁻¹(q): the rows with which a two-sided Wald test
    of θ_k = 0 at level α rejects with probability π, if the model is right. F is the Fisher
    information of one row, so that all other couplings and biases count as unknown.

    Parameters
    ----------
    model : ParametricModel
        The model that is expected, such as a fit to a pilot study, with one coupling for each pair.
    pair : tuple of two int or str
        The units, by number or by name.
    power : float
        π, the probability with which the coupling is to be found.
    level : float
        α, the probability with which a coupling that is absent may be called present.

    Returns
    -------
    float
        N, to be rounded up. It is the same in both codings and about any center.

    Raises
    ------
    ModelError
        If ``model`` is not a pairwise family with one coupling for each pair.
    EbmError
        If the pair has no coupling in the model, or it is zero, or ``power`` is not between
        ``level`` and 1.
    SingularCovarianceError
        If rows never tell the coupling from other parameters.
    LimitError
        If the model is too large to be summed.

    Notes
    -----
    N falls with the square of the coupling, so that a pilot study which happened to find it large
    plans for too few rows. The formula holds for large N; at N below about 100 compare with
    ``ebm.inversion.bootstrap`` by ``ebm.inversion.ModelResampling()``.

    Examples
    --------
    >>> import ebm
    >>> weights = [[0, 0.8, -0.5], [0.8, 0, 0.4], [-0.5, 0.4, 0]]
    >>> model = ebm.BoltzmannMachine(weights, [0.2, -0.3, 0.1], names=["a", "b", "c"])
    >>> round(ebm.inversion.samples_needed(model, ("b", "c")), 1)
    864.4
    """
    from scipy.stats import norm

    power, level = _checked_probabilities(power, level)
    parameter = _parameter_of(model, pair)
    value = float(model.parameters[parameter])
    if value == 0:
        raise EbmError(
            f"the coupling of {pair!r} is zero in this model, and no number of rows finds what is "
            "not there: give a model with the coupling that is to be found"
        )
    unit = np.zeros(len(model.parameters))
    unit[parameter] = 1.0
    information = fisher_information(model)
    try:
        variance = float(information.solve(unit)[parameter])
    except EbmError as error:
        raise SingularCovarianceError(
            f"rows of this model do not tell the coupling of {pair!r} from other parameters: its "
            "Fisher information has no inverse"
        ) from error
    return float((norm.ppf(1 - level / 2) + norm.ppf(power)) ** 2 * variance / value**2)


def _checked_probabilities(power: float, level: float) -> tuple[float, float]:
    if not 0 < as_number(level, "level") < 1:
        raise EbmError(f"level must be between 0 and 1, got {level!r}")
    if not level < as_number(power, "power") < 1:
        raise EbmError(f"power must be between level={level:g} and 1, got {power!r}")
    return float(power), float(level)


def _parameter_of(model: Any, pair: Any) -> int:
    """The place of the coupling of a pair among the parameters."""
    refuse_result(model)
    is_pairwise = isinstance(model, ParametricModel) and hasattr(model, "pairs")
    if not is_pairwise or np.count_nonzero(model.is_coupling) != len(model.pairs[0]):
        raise ModelError(
            "samples are planned for models with one coupling for each pair of units, such as "
            "ebm.BoltzmannMachine, ebm.IsingModel and ebm.OrdinalModel, got "
            f"{type(model).__name__}"
        )
    try:
        if isinstance(pair, str):
            raise TypeError
        first, second = (unit_position(unit, model.space, "pair") for unit in pair)
    except (TypeError, ValueError) as error:
        if isinstance(error, EbmError):
            raise
        raise ShapeError(f"pair must hold two units, got {pair!r}") from error
    i, j = model.pairs
    places = np.flatnonzero((i == min(first, second)) & (j == max(first, second)))
    if not len(places):
        raise EbmError(f"the units {pair!r} have no coupling in this model")
    return int(np.flatnonzero(model.is_coupling)[places[0]])
