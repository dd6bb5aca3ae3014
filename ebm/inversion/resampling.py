"""Schemes of resampling: what a data set that might have been seen instead looks like."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from ebm._arrays import as_integer
from ebm.ensembles import Ensemble, WeightedStates
from ebm.enumeration import exact
from ebm.errors import EbmError, EnumerationLimitError, ShapeError
from ebm.inversion._rows import DistinctRows

__all__ = ["BlockResampling", "ModelResampling", "ResamplingScheme", "RowResampling"]

#: A data set drawn with the random numbers of a generator.
Draw = Callable[[np.random.Generator], WeightedStates]


class ResamplingScheme(Protocol):
    """What :func:`bootstrap` asks of a scheme."""

    def of(self, rows: DistinctRows, model: Any) -> Draw:
        """The function that draws a data set like these rows, whose fit is ``model``."""
        ...


@dataclass(frozen=True)
class RowResampling:
    """N rows drawn with replacement from the N rows of the data, as if they were independent.

    Distinct rows are stored once with their counts c, so that the counts of a resample are
    multinomial with probabilities c/N :cite:`efron1993`.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> scheme = ebm.inversion.RowResampling()
    >>> ebm.inversion.bootstrap(ebm.inversion.bethe, rows, scheme=scheme, rng=1).n_failed
    0
    """

    def of(self, rows: DistinctRows, model: Any) -> Draw:
        """The function that draws counts of these rows."""
        return partial(_rows_with_replacement, rows)


@dataclass(frozen=True)
class BlockResampling:
    """Blocks of consecutive rows drawn with replacement, for rows that are a series in time.

    Blocks of ``length`` rows begin anywhere, with the first row after the last, until there are N
    rows :cite:`politis1992`. Correlations within a block are kept, so that standard errors are
    right where blocks are much longer than the correlation time; blocks of one row are
    :class:`RowResampling`.

    Parameters
    ----------
    length : int, optional
        Rows of a block, by default 2√N, rounded, which also is the length of the windows of
        :func:`dependence`.

    Raises
    ------
    ShapeError
        If ``length`` is not a positive integer, or blocks are longer than half of the series.
    EbmError
        If the order of the rows is not known.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 0.8], [0.8, 0]], [0.2, -0.3])
    >>> rows = ebm.sample(pair, n_draws=2000, n_chains=1, rng=0).chains[0]
    >>> scheme = ebm.inversion.BlockResampling(length=50)
    >>> ebm.inversion.bootstrap(ebm.inversion.bethe, rows, scheme=scheme, rng=1).n_failed
    0
    """

    length: int | None = None

    def __post_init__(self) -> None:
        if self.length is not None:
            as_integer(self.length, "length")

    def of(self, rows: DistinctRows, model: Any) -> Draw:
        """The function that draws blocks of these rows."""
        if rows.sequence is None:
            raise EbmError(
                "blocks of time need rows in their order, and that of these data is not known: "
                "give the array or frame of all rows as they were recorded, without sample_weight"
            )
        n_rows = len(rows.sequence)
        length = round(2 * math.sqrt(n_rows)) if self.length is None else self.length
        if 2 * length > n_rows:
            raise ShapeError(
                f"length must be at most half of the {n_rows} rows, got {length}: draw shorter "
                "blocks, or record more rows"
            )
        return partial(_blocks_of_time, rows, length)


@dataclass(frozen=True)
class ModelResampling:
    """N independent rows drawn from the fitted model itself: the parametric bootstrap.

    The spread of the estimates around the model that was fitted is their sampling error, and the
    difference of their mean from it their bias, if the model is right :cite:`efron1993`.

    Parameters
    ----------
    draw : callable, optional
        A function from a model, a number of rows and a generator to states (rows, units). By
        default rows are drawn exactly, ``ebm.exact(model).sample``, which limits the number of
        units to about 30.

    Raises
    ------
    EbmError
        If ``draw`` is not a function.
    EnumerationLimitError
        If the model is too large to be summed.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [1, 1], [0, 1], [1, 0], [1, 1], [0, 0]] * 50
    >>> scheme = ebm.inversion.ModelResampling()
    >>> ebm.inversion.bootstrap(ebm.inversion.bethe, rows, scheme=scheme, rng=1).n_failed
    0
    """

    draw: Callable[[Any, int, np.random.Generator], Any] | None = None

    def __post_init__(self) -> None:
        if self.draw is not None and not callable(self.draw):
            raise EbmError(
                "draw must be a function of a model, a number of rows and a generator, got "
                f"{self.draw!r}"
            )

    def of(self, rows: DistinctRows, model: Any) -> Draw:
        """The function that draws as many rows of the model."""
        size = round(rows.sample_size)
        if self.draw is None:
            try:
                return partial(_rows_of_ensemble, rows, exact(model), size)
            except EnumerationLimitError as error:
                raise EnumerationLimitError(
                    "the model is too large for exact draws: give ModelResampling(draw=…), a "
                    "function such as lambda model, n_rows, rng: ebm.sample(model, n_draws=n_rows, "
                    "n_chains=1, rng=rng).chains[0]"
                ) from error
        return partial(_rows_of_model, rows, model, self.draw, size)


def _rows_with_replacement(rows: DistinctRows, random: np.random.Generator) -> WeightedStates:
    """Counts that are multinomial with probabilities c/N."""
    size = round(rows.sample_size)
    return rows.resampled(random.multinomial(size, rows.weights / rows.weights.sum()))


def _blocks_of_time(rows: DistinctRows, length: int, random: np.random.Generator) -> WeightedStates:
    """Circular blocks, in which every row is equally often; the last one is cut."""
    sequence: Any = rows.sequence
    n_rows = len(sequence)
    starts = random.integers(0, n_rows, -(-n_rows // length))
    times = ((starts[:, None] + np.arange(length)) % n_rows).ravel()[:n_rows]
    return rows.resampled(np.bincount(sequence[times], minlength=len(rows.states)))


def _rows_of_ensemble(
    rows: DistinctRows, ensemble: Any, size: int, random: np.random.Generator
) -> WeightedStates:
    """Independent draws from an exact ensemble."""
    return Ensemble.from_data(ensemble.sample(size, random), space=rows.space)


def _rows_of_model(
    rows: DistinctRows,
    model: Any,
    draw: Callable[[Any, int, np.random.Generator], Any],
    size: int,
    random: np.random.Generator,
) -> WeightedStates:
    """Draws by a function of the user's."""
    states = np.asarray(draw(model, size, random))
    if states.shape != (size, rows.space.n):
        raise ShapeError(
            f"draw must return states of shape {(size, rows.space.n)}, got {states.shape}"
        )
    return Ensemble.from_data(states, space=rows.space)
