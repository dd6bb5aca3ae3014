"""Heat baths in double precision, for weights whose sums single precision would round too far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm.errors import ModelError
from ebm.model import LARGEST_ENERGY, LayeredForm
from ebm.models import couplings
from ebm.sampling.sweepers import TwoValued, Work
from ebm.spaces import FiniteSpace

Array = NDArray[np.float64]
Words = NDArray[np.uint64]

#: Largest rounding of log-odds that is left to single precision: far below the error of any run.
ROUNDING = 1e-3
#: The sum |bias| + Σ|weights| of a unit up to which it stays below that.
LARGEST_SUM = ROUNDING / float(np.finfo(np.float32).eps)


def single_precision_suffices(
    weights: Any, row_biases: NDArray[Any], column_biases: NDArray[Any] | None = None
) -> bool:
    """Whether log-odds b_i + Σ_j W_ij x_j keep three decimals in single precision.

    Rounding is at most about ε (|b_i| + Σ_j |W_ij|) with ε = 2⁻²³. A look at the largest weight is
    mostly enough; the sums are taken only where it is not.

    Parameters
    ----------
    weights : ndarray or CSR array, (n, m)
        W, of any precision.
    row_biases : ndarray, (n,)
        b.
    column_biases : ndarray, (m,), optional
        Those of the units that the columns stand for, where these are other ones.

    Returns
    -------
    bool
        False where an entry is infinite, as after a cast to single precision.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.sampling.precision import single_precision_suffices
    >>> weights = np.ones((2, 2))
    >>> [single_precision_suffices(w * weights, np.zeros(2)) for w in (1e3, 1e5)]
    [True, False]
    """
    biases = [np.abs(part) for part in (row_biases, column_biases) if part is not None]
    largest_bias = max(float(part.max()) for part in biases)
    largest = max(float(weights.max()), -float(weights.min()))
    if largest * max(weights.shape) + largest_bias <= LARGEST_SUM:
        return True
    sums = _sums(weights, biases)
    return all(bool(part.max() <= LARGEST_SUM) for part in sums)


def require_sums(
    weights: Any, row_biases: Array, column_biases: Array | None = None, *, name: str
) -> None:
    """Refuse weights whose sums would overflow in double precision, too.

    Parameters
    ----------
    weights : ndarray or CSR array, (n, m)
        W.
    row_biases, column_biases : ndarray
        As in :func:`single_precision_suffices`.
    name : str
        Of the model.

    Raises
    ------
    ModelError
        If log-odds can be beyond 1e300, or are not numbers.
    """
    biases = [np.abs(part) for part in (row_biases, column_biases) if part is not None]
    largest = max(float(weights.max()), -float(weights.min()))
    if largest * max(weights.shape) + max(float(part.max()) for part in biases) < LARGEST_ENERGY:
        return
    if not all(part.max() < LARGEST_ENERGY for part in _sums(weights, biases)):
        raise ModelError(
            f"{name} has log-odds beyond {LARGEST_ENERGY:g}, which would overflow: give smaller "
            "weights and biases"
        )


def _sums(weights: Any, biases: list[Array]) -> list[Array]:
    """|b_i| + Σ_j |W_ij| of the rows, and of the columns where there are biases for them."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = abs(weights)
        return [
            np.asarray(size.sum(axis=1 - axis)).ravel().astype(np.float64) + part
            for axis, part in enumerate(biases)
        ]


class PrecisePairSweeper(TwoValued):
    """One unit after the other, its field summed anew each time and the linear term added last.

    The log-odds of the upper value are (b − a)(Σ_j≠i A_ij (x_j − c_j) + v_i) plus what A_ii adds,
    as in the energy: couplings that cancel do so before v is added, however large they are.

    Parameters
    ----------
    matrix : ndarray or CSR array, (n, n)
        A.
    vector, center : ndarray, (n,)
        v and c.
    space : FiniteSpace
        Two values, a < b.
    """

    def __init__(self, matrix: Any, vector: Array, center: Array, space: FiniteSpace) -> None:
        super().__init__(space)
        own, self._sparse = couplings.diagonal(matrix), couplings.is_sparse(matrix)
        low, high = (float(value) for value in space.values)
        self._start, self._step, self._center = low, high - low, center
        with np.errstate(over="ignore", invalid="ignore"):
            self._weights = (
                couplings.without_diagonal(matrix) if self._sparse else matrix - np.diag(own)
            )
            shift = self._step * vector
            shift += 0.5 * own * ((high - center) ** 2 - (low - center) ** 2)
            require_sums(self._step * self._weights, shift, name="the model")
            self._shift = shift

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.gibbs import update_sites

        no_bias, no_weight = np.zeros(1, dtype=np.float32), np.zeros((1, 1))
        values = self._values(work, slice(None))
        for _ in range(n_sweeps):
            for unit in range(len(work)):
                site = slice(unit, unit + 1)
                field = self._step * self._field(unit, values)
                field += self._shift[unit]
                update_sites(field[None], no_bias, no_weight, stream, work[site])
                values[site] = self._values(work, site)

    def _values(self, work: Work, sites: slice) -> Array:
        """x − c of some units in all chains."""
        own = self._start + self._step * work[sites].astype(np.float64)
        return np.asarray(own - self._center[sites, None])

    def _field(self, unit: int, values: Array) -> Array:
        """Σ_j A_ij (x_j − c_j), (chains,)."""
        if not self._sparse:
            return np.asarray(self._weights[unit] @ values)
        part = slice(*self._weights.indptr[unit : unit + 2])
        return np.asarray(self._weights.data[part] @ values[self._weights.indices[part]])


class PreciseLayerSweeper(TwoValued):
    """Layer by layer, the biases added last.

    Parameters
    ----------
    form : LayeredForm
        Weights, and biases about the centers.
    visible_center, hidden_center : ndarray, (n,) and (m,)
        v̂ and ĥ.
    space : FiniteSpace
        The visible states, {0,1}^n.
    """

    chains_last = False

    def __init__(
        self, form: LayeredForm, visible_center: Array, hidden_center: Array, space: FiniteSpace
    ) -> None:
        super().__init__(space)
        require_sums(form.weights, form.visible, form.hidden, name="the machine")
        self._form = form
        self._visible_center, self._hidden_center = visible_center, hidden_center

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sweeps v → h → v."""
        from ebm._kernels.gibbs import update_layer

        weights, biases, hidden_biases, _ = self._form
        visible = work.astype(np.float64)
        hidden = np.empty((len(work), len(hidden_biases)))
        for _ in range(n_sweeps):
            inputs = (visible - self._visible_center) @ weights
            update_layer(inputs, hidden_biases, stream, hidden)
            inputs = (hidden - self._hidden_center) @ weights.T
            update_layer(inputs, biases, stream, visible)
        work[:] = visible
