"""Data bundled with the library or read from the disk, and patterns of known likelihood."""

from __future__ import annotations

import importlib.resources
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebm._summary import Summarized, Summary
from ebm.datasets.fashion import FashionMNIST, fashion_mnist, features
from ebm.datasets.patterns import bars_and_stripes, shifting_bar

__all__ = [
    "Dataset",
    "FashionMNIST",
    "bars_and_stripes",
    "fashion_mnist",
    "features",
    "shifting_bar",
    "spikes",
]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Summarized):
    """Rows of data with their origin.

    Parameters
    ----------
    states : ndarray of int8, (n_rows, n_units)
        The data, read-only.
    names : tuple of str
        One name per unit.
    description : str
        The measurement in a sentence.
    source : str
        Reference to the publication of the data.
    license : str
        Terms of redistribution.

    Examples
    --------
    >>> import ebm
    >>> data = ebm.datasets.spikes()
    >>> data.states.shape, data.names[0]
    ((40000, 10), 'cell 0')
    """

    states: NDArray[np.int8]
    names: tuple[str, ...]
    description: str
    source: str
    license: str

    def __repr__(self) -> str:
        return f"Dataset({len(self.states)} rows, {len(self.names)} units)"

    def _summary(self) -> Summary:
        means = zip(self.names, self.states.mean(axis=0).tolist(), strict=True)
        rows = tuple((name, f"{mean:.4f}") for name, mean in means)
        return Summary(
            f"{len(self.states)} rows of {len(self.names)} units",
            columns=("unit", "mean"),
            rows=rows,
            heading=(self.description,),
            notes=(f"Source: {self.source}", f"License: {self.license}"),
        )


def spikes() -> Dataset:
    """Spikes of ten cells in 40 000 time bins, coded {0, 1}.

    Returns
    -------
    Dataset
        With states of shape (40000, 10): 1 where a cell fired in a time bin.

    Examples
    --------
    >>> import ebm.datasets
    >>> spikes = ebm.datasets.spikes()
    >>> spikes.states.shape, spikes.names[:2]
    ((40000, 10), ('cell 0', 'cell 1'))
    """
    resource = importlib.resources.files(__name__).joinpath("spikes.npz")
    with resource.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        shape = tuple(int(size) for size in archive["shape"])
        bits = np.unpackbits(archive["packed"], count=shape[0] * shape[1])
        states = bits.reshape(shape).astype(np.int8)
        states.setflags(write=False)
        return Dataset(
            states=states,
            names=tuple(str(name) for name in archive["names"]),
            description=str(archive["description"]),
            source=str(archive["source"]),
            license=str(archive["license"]),
        )
