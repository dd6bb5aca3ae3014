"""Curves of the history of a fit or a training, and states or weights as images."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    "training_action": "action of training rows (nats)",
    "validation_action": "action of validation rows (nats)",
    "batch_action": "action of batches (nats)",
}
#: The actions of a training of a network, which are drawn together.
_ACTIONS = {"training_action": "training rows", "validation_action": "validation rows"}


def learning_curve(result: Any, quantity: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw the history of a fit, or of the training of a network, against its steps or epochs.

    Parameters
    ----------
    result : FitResult or TrainingResult
        Result of :func:`ebm.fit` or :func:`ebm.networks.minimize`.
    quantity : str, optional
        A number in the records: :class:`ebm.learning.FitStep`, after gradient steps
        :class:`ebm.learning.FitEpoch`, of a network :class:`ebm.networks.TrainingRecord`. By
        default the log-likelihood where it was computed, and otherwise the misfit of the moments;
        of a network the actions of training and validation rows.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The quantity against the iteration, epoch or step.

    Raises
    ------
    EbmError
        If the history is empty or has no such quantity, or none of its values is finite.

    Examples
    --------
    >>> import ebm
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> result = ebm.fit(start, [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1]])
    >>> ebm.plotting.learning_curve(result, "gradient_norm").get_xlabel()
    'iteration'
    """
    if not isinstance(getattr(result, "history", None), tuple | list):
        kind = type(result).__name__
        raise EbmError(f"result must be a result of ebm.fit or ebm.networks.minimize, got {kind}")
    if not result.history:
        raise EbmError(
            "the history of result is empty: no iteration was completed, or no records were asked "
            "for, as by Records(every=0)"
        )
    along, curves = _curves(result.history, quantity)
    ax = axes_or_new(ax)
    places = [getattr(record, along) for record in result.history]
    for name, style in zip(curves, ("-", "--"), strict=False):
        ax.plot(places, curves[name], style, color=MODEL, label=_ACTIONS.get(name))
    title = _TITLES.get(name, name.replace("_", " "))
    ax.set(
        xlabel="epoch" if hasattr(result.history[0], "n_updates") else along,
        ylabel=title if len(curves) == 1 else "action (nats)",
    )
    if len(curves) > 1:
        ax.legend(frameon=False)
    return ax


def _curves(history: Sequence[Any], quantity: str | None) -> tuple[str, dict[str, Array]]:
    """The field that counts the records, and what is drawn against it."""
    numbers = {
        field.name: np.array([getattr(record, field.name) for record in history], dtype=np.float64)
        for field in fields(history[0])
        if np.isscalar(getattr(history[0], field.name))
    }
    along = "iteration" if "iteration" in numbers else "step"
    del numbers[along]
    names = _default_names(numbers) if quantity is None else [quantity]
    if names[0] not in numbers:
        raise EbmError(f"quantity must be one of {', '.join(numbers)}; got {quantity!r}")
    if not np.isfinite(numbers[names[0]]).any():
        raise EbmError(f"{names[0]} was not measured in this fit: take another quantity")
    return along, {name: numbers[name] for name in names}


def _default_names(numbers: dict[str, Array]) -> list[str]:
    """What is drawn where no quantity is given, the first of which every history has."""
    if "training_action" in numbers:
        measured = np.isfinite(numbers["validation_action"]).any()
        return list(_ACTIONS) if measured else ["training_action"]
    measured = np.isfinite(numbers["log_likelihood"]).any()
    return ["log_likelihood" if measured else "rms_moment_error"]


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
