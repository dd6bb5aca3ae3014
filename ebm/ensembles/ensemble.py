"""The pivot of the library: the one thing an average is taken over.

Exact enumeration, samples and data each give an :class:`Ensemble`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats
from ebm._parallel import single_threaded_blas
from ebm._types import Array
from ebm.ensembles.moments import Estimate, Moments
from ebm.errors import CodingError, ModelError, NamesError, ShapeError, require_memory
from ebm.spaces import StateSpace

if TYPE_CHECKING:
    from ebm.ensembles.weighted_states import WeightedStates

__all__ = ["Ensemble", "Observable", "require_units"]

#: A function of states (m, n) with one value, or array of values, for each: (m,) or (m, …).
Observable = Callable[[Array], ArrayLike]

#: Largest covariance matrix that is made, in bytes.
MEMORY_LIMIT = 4 * 2**30


class Ensemble(ABC):
    """Anything that averages can be taken over: exact enumeration, samples, data.

    One member has to be written, ``blocks``; the others have defaults from it and are overridden
    where a route knows better.
    """

    space: StateSpace
    #: inf for exact ensembles, Σ weights for data, the effective number for samples.
    sample_size: float = math.inf
    #: What tables call this kind of route to the moments.
    kind = "ensemble"

    @abstractmethod
    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Blocks of states (m, n) and weights (m,); all weights together sum to 1."""

    def expectation(self, f: Observable) -> Array:
        """E[f(x)] of any observable, one pass over the blocks.

        Parameters
        ----------
        f : callable
            Maps states (m, n) to values (m,) or (m, …).

        Returns
        -------
        ndarray
            Of the shape of one value. States of weight zero count zero, even where f is infinite.

        Raises
        ------
        ShapeError
            If ``f`` does not return one value for each state.
        """
        total: Any = 0.0
        for states, weights in self._quiet_blocks():
            values = observed(f, states)
            if not np.isfinite(values).all():
                weights, values = weights[weights > 0], values[weights > 0]
            total = total + np.tensordot(weights, values, axes=1)
        return np.asarray(total)

    def covariance(self, f: Observable) -> Array:
        """Cov[f, f] of a vector observable, (k, k); of a scalar one its variance.

        Two passes, the mean first, so that a large mean costs no digits.

        Parameters
        ----------
        f : callable
            Maps states (m, n) to values (m,) or (m, k).

        Returns
        -------
        ndarray
            (k, k), or a number where f is scalar.
        """
        mean = self.expectation(f)
        k = mean.size
        require_memory(
            8.0 * k**2,
            MEMORY_LIMIT,
            f"the covariance of {k} observables",
            "take fewer observables at a time",
        )
        total = np.zeros((k, k))
        for states, weights in self._quiet_blocks():
            kept = weights > 0
            deviation = (observed(f, states)[kept] - mean).reshape(-1, k)
            total += deviation.T @ (deviation * weights[kept, None])
        return np.asarray(total if mean.ndim else total[0, 0])

    def estimate(self, f: Observable) -> Estimate:
        """E[f(x)] with its standard error √(Var f / sample_size), zero where exact."""
        value = self.expectation(f)
        if math.isinf(self.sample_size):
            return Estimate(value[()], np.zeros_like(value)[()])
        square = self.expectation(lambda x: (observed(f, x) - value) ** 2)
        return Estimate(value[()], np.sqrt(square / self.sample_size)[()])

    def moments(self) -> Moments:
        """Means and covariances of the features of the space."""
        d = self.space.n_features
        require_memory(
            8.0 * d * d,
            MEMORY_LIMIT,
            f"the covariance of {d} features",
            "choose fewer units; are the data transposed (rows must be samples)?",
        )
        mean, second, shift = np.zeros(d), np.zeros((d, d)), None
        for states, weights in self._quiet_blocks():
            features = self.space.features(states)
            # Moments about a typical row: no digits are lost to large means.
            shift = features[0] if shift is None else shift
            deviation = features - shift
            mean += weights @ deviation
            second += deviation.T @ (deviation * weights[:, None])
        covariance = second - np.outer(mean, mean)
        offset = np.zeros(d) if shift is None else shift
        return Moments(
            self.space,
            offset + mean,
            (covariance + covariance.T) / 2,
            self._log_partition(),
            self.sample_size,
        )

    def _quiet_blocks(self) -> Iterator[tuple[Array, Array]]:
        """The blocks, with BLAS on one thread: its products here are too thin to share."""
        with single_threaded_blas():
            yield from self.blocks()

    def _log_partition(self) -> float | None:
        return None

    @staticmethod
    def from_data(
        X: Any,
        *,
        space: StateSpace | type[StateSpace] | None = None,
        sample_weight: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> WeightedStates:
        """Data as an ensemble: rows are samples, columns are units.

        Parameters
        ----------
        X : array_like, scipy.sparse, tensor or data frame, (n_samples, n_units)
            Any numeric type; a frame brings its column names.
        space : StateSpace or class, optional
            The coding. None means ``ebm.Binary``; other codings must be asked for. Columns of a
            frame are realigned to the names of a given space.
        sample_weight : array_like, (n_samples,), optional
            Frequencies: weight 2 equals the row twice, weight 0 equals its absence. A series beside
            a frame is taken by the labels of the rows.
        names : sequence of str, optional
            Unit names, where ``X`` has none.

        Returns
        -------
        WeightedStates
            Equal rows counted together.

        Examples
        --------
        >>> import ebm
        >>> data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 1]], names=["a", "b"])
        >>> data.states, data.weights.round(3)
        (array([[0, 1],
               [1, 1]], dtype=int8), array([0.667, 0.333]))
        """
        from ebm.ensembles.weighted_states import from_data

        return from_data(X, space=space, weights=sample_weight, names=names)


def require_units(ensemble: Any, space: StateSpace) -> None:
    """Refuse an ensemble whose states are not those of a model's space.

    Parameters
    ----------
    ensemble : Any
        What a caller gave to be averaged over.
    space : StateSpace
        The space of the model.

    Raises
    ------
    ModelError
        If it is no ensemble of states.
    CodingError
        If its states are coded otherwise, or of other length.
    NamesError
        If its units have other names, or the same ones in another order.
    """
    if not isinstance(ensemble, Ensemble):
        raise ModelError(
            f"an ensemble of states is wanted, got {type(ensemble).__name__}: give "
            "ebm.exact(model) or ebm.Ensemble.from_data(rows)"
        )
    own = ensemble.space
    if own.named(None) != space.named(None):
        raise CodingError(f"states of {space!r} are wanted, got an ensemble over {own!r}")
    require_order(own, space)


def require_order(own: StateSpace, wanted: StateSpace) -> None:
    """Refuse units of other names than those wanted, or in another order."""
    if own.names and wanted.names and own.names != wanted.names:
        raise NamesError(f"the units must be {wanted.names} in this order, got {own.names}")


def observed(f: Observable, states: Array) -> Array:
    """The values of an observable, one for each state."""
    values = as_floats(f(states), "the values of an observable")
    if values.ndim == 0 or len(values) != len(states):
        raise ShapeError(
            f"an observable must return one value for each of the {len(states)} states, "
            f"got shape {values.shape}: sum over the last axis of the states, not over all"
        )
    return values
