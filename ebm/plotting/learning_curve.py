"""Curves of the history of a fit, and states or weights as images."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer
from ebm._types import Array
from ebm.errors import EbmError, ShapeError
from ebm.plotting.style import MODEL, axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["images", "learning_curve"]

#: Color of the lines between images.
_LINES = "#D0D0D0"

_TITLES = {
    "log_likelihood": "log-likelihood\nof a sample (nats)",
    "gradient_norm": "largest gradient\n(standard deviations)",
    "rms_moment_error": "rms misfit of the moments\n(standard errors)",
    "reconstruction_error": "reconstruction error",
    "free_energy_gap": "energy of validation rows less\nthat of training rows ($k_BT$)",
    "largest_parameter": "largest |parameter|",
    "log_likelihood_error": "standard error of the\nlog-likelihood (nats)",
    "step": "step",
    "n_updates": "updates",
}


def learning_curve(result: Any, quantity: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw one column of the history of a fit against its iterations or epochs.

    Parameters
    ----------
    result : FitResult
        Result of :func:`ebm.fit`.
    quantity : str, optional
        A field of :class:`ebm.learning.FitStep` or, after gradient steps,
        :class:`ebm.learning.FitEpoch`; by default the log-likelihood where it was computed, and
        otherwise the misfit of the moments.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The quantity against the iteration or epoch.

    Raises
    ------
    EbmError
        If the history is empty or has no such column, or none of its values is finite.

    Examples
    --------
    >>> import ebm
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> result = ebm.fit(start, [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    >>> ebm.plotting.learning_curve(result, "gradient_norm").get_xlabel()
    'iteration'
    """
    if not isinstance(getattr(result, "history", None), tuple | list):
        raise EbmError(f"result must be a result of ebm.fit, got {type(result).__name__}")
    if not result.history:
        raise EbmError("the history of this fit is empty, since no iteration was completed")
    columns = [field.name for field in fields(result.history[0]) if field.name != "iteration"]
    if quantity is None:
        known = np.isfinite([line.log_likelihood for line in result.history]).any()
        quantity = "log_likelihood" if known else "rms_moment_error"
    if quantity not in columns:
        raise EbmError(f"quantity must be one of {', '.join(columns)}; got {quantity!r}")
    values = np.array([getattr(line, quantity) for line in result.history], dtype=np.float64)
    if not np.isfinite(values).any():
        raise EbmError(f"{quantity} was not measured in this fit: take another quantity")
    ax = axes_or_new(ax)
    ax.plot([line.iteration for line in result.history], values, color=MODEL)
    ax.set(
        xlabel="epoch" if "n_updates" in columns else "iteration",
        ylabel=_TITLES.get(quantity, quantity.replace("_", " ")),
    )
    return ax


def images(
    rows: ArrayLike,
    shape: tuple[int, int],
    *,
    n_columns: int | None = None,
    signed: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw states, conditional means or weights as an array of small images.

    Parameters
    ----------
    rows : array_like, (n_images, height · width)
        Pixels of each image, such as ``samples.chains[:, -1]``, or ``model.weights.T`` for the
        weights of each hidden unit.
    shape : (int, int)
        Height and width of an image in pixels.
    n_columns : int, optional
        Number of images in a row; by default about as many as there are rows.
    signed : bool
        Whether colors are symmetric about zero and each image is scaled by its largest modulus, as
        suits weights; otherwise white is the smallest value of all images and black the largest.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The images, without ticks.

    Raises
    ------
    ShapeError
        If rows do not have height · width entries each.
    EbmError
        If an entry is not finite, or ``n_columns`` is not a positive integer.

    Examples
    --------
    >>> import ebm
    >>> rows = ebm.datasets.bars_and_stripes(3)
    >>> ebm.plotting.images(rows, (3, 3)).get_images()[0].get_array().shape
    (17, 17)
    """
    values = as_floats(rows, "rows")
    height, width = _checked_shape(shape)
    if n_columns is not None:
        n_columns = as_integer(n_columns, "n_columns")
    if values.ndim != 2 or values.shape[1] != height * width or not len(values):
        raise ShapeError(
            f"rows must have shape (n_images, {height * width}) for images of {height} × {width}, "
            f"got {values.shape}"
        )
    if not np.isfinite(values).all():
        raise EbmError("rows must be finite, got NaN or infinite entries: remove those images")
    if signed:
        largest = np.abs(values).max(axis=1, keepdims=True)
        values = values / np.where(largest > 0, largest, 1.0)
    tiles = _tiled(
        values.reshape(-1, height, width), n_columns or math.ceil(math.sqrt(len(values)))
    )
    ax = axes_or_new(ax)
    limits = (-1.0, 1.0) if signed else (float(values.min()), float(values.max()))
    ax.set_facecolor(_LINES)
    ax.imshow(tiles, cmap="RdBu_r" if signed else "gray_r", vmin=limits[0], vmax=limits[1])
    ax.spines[:].set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def _checked_shape(shape: Any) -> tuple[int, int]:
    sides = tuple(shape) if np.ndim(shape) == 1 and len(shape) == 2 else ()
    if not (sides and all(isinstance(side, int | np.integer) and side > 0 for side in sides)):
        raise ShapeError(f"shape must be (height, width), two positive integers, got {shape!r}")
    return int(sides[0]), int(sides[1])


def _tiled(pictures: Array, n_columns: int) -> Array:
    """One array of all pictures, separated by lines of NaN, which show the background."""
    n, height, width = pictures.shape
    n_rows = -(-n // n_columns)
    sheet = np.full((n_rows * n_columns, height + 1, width + 1), np.nan)
    sheet[:n, :height, :width] = pictures
    grid = sheet.reshape(n_rows, n_columns, height + 1, width + 1).swapaxes(1, 2)
    lines = grid.reshape(n_rows * (height + 1), n_columns * (width + 1))
    return np.pad(lines, ((1, 0), (1, 0)), constant_values=np.nan)
