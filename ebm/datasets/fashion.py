"""Fashion-MNIST, read from files on this machine, and features computed from images."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ebm._arrays import as_integer
from ebm._names import PACKAGE
from ebm._randomness import RandomSource, generator
from ebm.errors import CodingError, FileFormatError, ModelError, ShapeError

__all__ = ["FashionMNIST", "fashion_mnist", "features"]

FOLDER = "fashion-mnist"
CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

#: SHA-256 of the decompressed content of each file.
DIGESTS = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}

#: Mean and standard deviation of the pixels of the training images, on a scale from 0 to 1.
PIXEL_MEAN, PIXEL_DEVIATION = 0.2860, 0.3530


@dataclass(frozen=True, eq=False)
class FashionMNIST:
    """Images of clothes in ten classes; all arrays are read-only.

    Parameters
    ----------
    images : ndarray of uint8, (60000, 28, 28)
        Grey values of the training images, 0 (background) … 255.
    labels : ndarray of uint8, (60000,)
        Classes of the training images, 0 … 9.
    test_images, test_labels : ndarray of uint8, (10000, 28, 28) and (10000,)
        Grey values and classes of the test images.
    class_names : tuple of str
        Kind of clothing of each class.
    source, license : str
        Reference to the publication, and the terms of redistribution.
    """

    images: NDArray[np.uint8] = field(repr=False)
    labels: NDArray[np.uint8] = field(repr=False)
    test_images: NDArray[np.uint8] = field(repr=False)
    test_labels: NDArray[np.uint8] = field(repr=False)
    class_names: tuple[str, ...] = CLASSES
    source: str = "Xiao, Rasul and Vollgraf (2017), arXiv:1708.07747"
    license: str = "MIT, Copyright (c) 2017 Zalando SE"


def fashion_mnist(folder: str | os.PathLike[str] | None = None) -> FashionMNIST:
    """Read Fashion-MNIST from the disk; nothing is ever downloaded.

    The four idx files, compressed or not, are sought in the folder named by the environment
    variable ``EBM_DATA``, and in a folder ``fashion-mnist`` below that, below ``~/.cache/ebm``, and
    below ``share/datasets`` in ``sys.prefix``, ``/usr/local`` and ``/usr``, where Debian's package
    ``dataset-fashion-mnist`` installs them. The SHA-256 of their decompressed content is checked.

    Parameters
    ----------
    folder : path-like, optional
        The only folder to search, if given.

    Returns
    -------
    FashionMNIST
        Training and test images with their labels.

    Raises
    ------
    FileNotFoundError
        If no folder has all four files; the message says how to obtain them.
    FileFormatError
        If the content of a file is damaged or that of another file.

    Examples
    --------
    >>> import ebm.datasets
    >>> ebm.datasets.fashion_mnist("no/such/folder")
    Traceback (most recent call last):
    ...
    FileNotFoundError: Fashion-MNIST was not found in no/such/folder: install Debian's package ...
    """
    paths = _paths([Path(folder)] if folder is not None else list(_folders()))
    images, labels, test_images, test_labels = (_read(path, name) for name, path in paths.items())
    return FashionMNIST(images, labels, test_images, test_labels)


def _folders() -> Iterator[Path]:
    chosen = os.environ.get("EBM_DATA")
    if chosen:
        yield from (Path(chosen) / FOLDER, Path(chosen))
    cache = os.environ.get("XDG_CACHE_HOME")
    # Where there is no home folder, expanduser leaves the path as it is.
    yield (Path(cache) if cache else Path(os.path.expanduser("~/.cache"))) / PACKAGE / FOLDER
    for prefix in dict.fromkeys((sys.prefix, "/usr/local", "/usr")):
        yield Path(prefix) / "share" / "datasets" / FOLDER


def _paths(folders: list[Path]) -> dict[str, Path]:
    """The four files of the first folder that has them all, by their names."""
    for folder in folders:
        choices = {name: (folder / f"{name}.gz", folder / name) for name in DIGESTS}
        paths = {name: path for name, both in choices.items() for path in both if path.is_file()}
        if len(paths) == len(DIGESTS):
            return paths
    raise FileNotFoundError(
        f"Fashion-MNIST was not found in {', '.join(map(str, folders))}: install Debian's package "
        f"dataset-fashion-mnist, or put its four files ({', '.join(DIGESTS)}, as they are or with "
        ".gz) from github.com/zalandoresearch/fashion-mnist into a folder and name it by "
        "fashion_mnist(folder) or by the environment variable EBM_DATA"
    )


def _read(path: Path, name: str) -> NDArray[np.uint8]:
    """The array in an idx file, once its digest is that of :data:`DIGESTS`."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileFormatError(f"{path} is no complete gzip file ({error}): get it again") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != DIGESTS[name]:
        raise FileFormatError(
            f"{path} is not the file {name} of Fashion-MNIST: the SHA-256 of its content is "
            f"{digest}, it should be {DIGESTS[name]}; get it again"
        )
    # Two zeros, 8 for uint8, the number of axes, their lengths as big-endian integers, the values.
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def features(
    images: ArrayLike,
    kind: str = "pad",
    size: int = 1024,
    *,
    scaling: str = "raw",
    unit_norm: bool = False,
    rng: RandomSource = None,
    dtype: DTypeLike = np.float32,
) -> NDArray[np.floating]:
    """Rows z of E features each, computed from grey images in three steps.

    1. The pixels x = grey/255 are scaled: ``"raw"`` leaves them in [0, 1], ``"standardized"`` takes
       (x − 0.2860) / 0.3530, with the mean and the standard deviation of the training images of
       Fashion-MNIST.
    2. Each image becomes a row: ``"pad"`` adds a margin of zeros; ``"pool"`` averages square tiles;
       ``"project"`` takes z = Rx, R_ij ~ N(0, 1/n_pixels); ``"random"`` takes z = gelu(Rx + r) with
       R and r uniform in ±1/√n_pixels, an untrained layer.
    3. ``unit_norm`` divides each row by |z|.

    Parameters
    ----------
    images : array_like of uint8, (N, s, s)
        Grey values 0 … 255.
    kind : {"pad", "pool", "project", "random"}
        Map from an image to a row.
    size : int
        E. ``"pad"`` needs a square of at least s²; ``"pool"`` a square whose side divides s, or
        else the next power of two, to which the images are then padded.
    scaling : {"raw", "standardized"}
        Scaling of the pixels.
    unit_norm : bool
        Whether rows are scaled to length 1; a row of zeros stays as it is.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of R and r: give the same seed for training and test images.
    dtype : dtype
        Floating-point type of the rows.

    Returns
    -------
    ndarray, (N, E)
        One row z for each image.

    Raises
    ------
    CodingError
        If the images are not uint8.
    ShapeError
        If the images are not square, or do not allow ``size``.
    ModelError
        If ``kind`` or ``scaling`` is none of those above, or ``dtype`` is no floating-point type.

    Examples
    --------
    >>> import numpy as np
    >>> from ebm.datasets import features
    >>> image = np.array([[[0, 255], [255, 255]]], dtype=np.uint8)
    >>> features(image, "pool", 1)
    array([[0.75]], dtype=float32)
    >>> features(image, "pad", 9)
    array([[0., 1., 0., 1., 1., 0., 0., 0., 0.]], dtype=float32)
    """
    if np.ma.is_masked(images):
        raise ModelError("images must have no masked entries: fill them in first")
    grey = np.asarray(images)
    if grey.dtype != np.uint8:
        raise CodingError(f"images must be uint8, 0 … 255, got {grey.dtype}")
    if grey.ndim != 3 or grey.shape[1] != grey.shape[2] or not grey.shape[1]:
        raise ShapeError(f"images must have shape (N, s, s), got {grey.shape}")
    n_features = as_integer(size, "size")
    if scaling not in ("raw", "standardized"):
        raise ModelError(f"scaling must be 'raw' or 'standardized', got {scaling!r}")
    if kind not in tuple(_KINDS):
        raise ModelError(f"kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    floats = _float_dtype(dtype)
    mean, deviation = (0.0, 1.0) if scaling == "raw" else (PIXEL_MEAN, PIXEL_DEVIATION)
    table = ((np.arange(256) / 255 - mean) / deviation).astype(floats)
    rows = _KINDS[kind](table[grey], n_features, generator(rng))
    if unit_norm:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(lengths > 0, lengths, 1)
    return rows.astype(floats, copy=False)


def _float_dtype(dtype: DTypeLike) -> np.dtype[np.floating]:
    try:
        chosen: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise ModelError(f"dtype must be a dtype of floats, got {dtype!r}") from error
    if chosen.kind != "f":
        raise ModelError(f"dtype must be a dtype of floats, got {chosen}")
    return chosen


Array = NDArray[np.floating]


def _padded(images: Array, side: int) -> Array:
    before = (side - images.shape[1]) // 2
    margins = (before, side - images.shape[1] - before)
    return np.pad(images, ((0, 0), margins, margins))


def _pad(images: Array, size: int, _: np.random.Generator) -> Array:
    side = math.isqrt(size)
    if side * side != size or side < images.shape[1]:
        raise ShapeError(
            f"size must be the square of {images.shape[1]} or more when padding, got {size}"
        )
    return _padded(images, side).reshape(len(images), size)


def _pool(images: Array, size: int, _: np.random.Generator) -> Array:
    side, now = math.isqrt(size), images.shape[1]
    padded = 2 ** (now - 1).bit_length()
    if side * side != size or (now % side and padded % side):
        raise ShapeError(
            f"size must be a square when pooling, whose side divides {now}, or {padded} with a "
            f"margin of zeros, got {size}"
        )
    if now % side:
        images, now = _padded(images, padded), padded
    tiles = images.reshape(len(images), side, now // side, side, now // side)
    return np.asarray(tiles.mean(axis=(2, 4))).reshape(len(images), size)


def _flat(images: Array) -> Array:
    # Not −1, which no images would leave undetermined.
    return images.reshape(len(images), images.shape[1] ** 2)


def _project(images: Array, size: int, source: np.random.Generator) -> Array:
    pixels = _flat(images)
    matrix = source.standard_normal((pixels.shape[1], size)) / math.sqrt(pixels.shape[1])
    return pixels @ matrix.astype(pixels.dtype)


def _random(images: Array, size: int, source: np.random.Generator) -> Array:
    from scipy.special import ndtr

    pixels = _flat(images)
    bound = 1 / math.sqrt(pixels.shape[1])
    matrix = source.uniform(-bound, bound, (pixels.shape[1], size)).astype(pixels.dtype)
    a = pixels @ matrix + source.uniform(-bound, bound, size).astype(pixels.dtype)
    return np.asarray(a * ndtr(a))


_KINDS = {"pad": _pad, "pool": _pool, "project": _project, "random": _random}
