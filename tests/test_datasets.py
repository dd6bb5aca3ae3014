"""The bundled data: the numbers that identify them, and the terms they travel under."""

from __future__ import annotations

import importlib.resources

import numpy as np
import pytest

import ebm
from ebm.datasets import spikes
from ebm.errors import EbmError


def test_spikes_are_the_first_ten_cells_of_the_source() -> None:
    data = spikes()
    assert data.states.dtype == np.int8
    assert data.states.shape == (40000, 10)
    # Counted once in columns 0..9 of spikes50, which is not shipped.
    counts = [252, 208, 3192, 8157, 10099, 10955, 8225, 927, 5755, 6893]
    assert data.states.sum(axis=0, dtype=int).tolist() == counts
    weight = 1 << np.arange(10)
    assert len(np.unique(data.states @ weight)) == 407


def test_spikes_order_of_rows_is_kept() -> None:
    states = spikes().states
    lagged = (states[1:] & states[:-1]).sum(dtype=int)
    assert lagged == 592


def test_spikes_are_named_and_read_only() -> None:
    data = spikes()
    assert data.names == tuple(f"cell {i}" for i in range(10))
    with pytest.raises(ValueError, match="read-only"):
        data.states[0, 0] = 1


def test_the_license_travels_with_the_data() -> None:
    data = spikes()
    assert "MIT" in data.license
    assert "maxent_toolbox" in data.source
    folder = importlib.resources.files("ebm.datasets")
    text = folder.joinpath("LICENSE-spikes.txt").read_text(encoding="utf-8")
    assert "Copyright (c) 2016 Ori Maoz" in text
    assert len(folder.joinpath("spikes.npz").read_bytes()) < 100_000


def test_bars_and_stripes_by_definition() -> None:
    """All images with rows, or with columns, of one color; the two plain ones in both halves."""
    every = ((np.arange(2**9)[:, None] >> np.arange(9)) & 1).reshape(-1, 3, 3)
    in_rows = (every == every[:, :, :1]).all(axis=(1, 2))
    in_columns = (every == every[:, :1]).all(axis=(1, 2))
    wanted = np.concatenate([every[in_rows], every[in_columns]]).reshape(-1, 9)
    found = ebm.datasets.bars_and_stripes(3)
    assert found.dtype == np.int8
    assert sorted(map(tuple, found)) == sorted(map(tuple, wanted))
    _, counts = np.unique(found, axis=0, return_counts=True)
    share = counts / counts.sum()
    assert abs(16 * share @ np.log(share) + 41.59) < 5e-3


def test_shifting_bar_is_at_every_place() -> None:
    bars = ebm.datasets.shifting_bar(5, 2)
    assert sorted(map(tuple, bars)) == sorted(tuple(np.roll([1, 1, 0, 0, 0], k)) for k in range(5))


@pytest.mark.parametrize("n", [0, -1, 13, 2.0, "3", True, None])
def test_sides_of_images_are_small_integers(n: object) -> None:
    with pytest.raises(EbmError, match="n must be an integer from 1 to 12"):
        ebm.datasets.bars_and_stripes(n)


@pytest.mark.parametrize("length", [0, 5, 1.5])
def test_bars_fit_their_ring(length: object) -> None:
    with pytest.raises(EbmError, match="length must be an integer from 1 to 4"):
        ebm.datasets.shifting_bar(5, length)
