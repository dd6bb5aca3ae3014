"""The bundled data: the numbers that identify them, and the terms they travel under."""

from __future__ import annotations

import importlib.resources

import numpy as np
import pytest

from ebm.datasets import spikes


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
