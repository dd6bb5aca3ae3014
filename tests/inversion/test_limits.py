"""Inversions that would need too many matrices are refused before any is made."""

import tracemalloc

import numpy as np
import pytest

import ebm
from ebm.errors import MemoryLimitError
from ebm.inversion import _moments as module

METHODS = ["naive_mean_field", "tap", "mean_field", "independent_pair", "sessak_monasson", "bethe"]


def by(name):
    if name.startswith("plefka"):
        return lambda moments: ebm.inversion.plefka(moments, int(name[-1]))
    return getattr(ebm.inversion, name)


@pytest.mark.parametrize("name", [*METHODS, "plefka2", "plefka4"])
def test_the_estimate_bounds_what_is_used_and_a_smaller_limit_refuses(name, monkeypatch):
    n = 150
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(4000, 3)) @ rng.normal(0, 0.2, (3, n))
    moments = ebm.Ensemble.from_data(hidden + rng.normal(size=(4000, n)) > 0).moments()
    invert = by(name)
    tracemalloc.start()
    try:
        invert(moments)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    allowed = module.MATRICES * 8 * n**2 * (int(name[-1]) if name[-1].isdigit() else 1)
    # Twice the estimate is slack for what does not grow with n².
    assert peak < 2 * allowed
    monkeypatch.setattr(module, "MEMORY_LIMIT", (allowed - 1) / 2)
    with pytest.raises(MemoryLimitError, match=r"covariances of 150 units .*PersistentChains"):
        invert(moments)
    monkeypatch.setattr(module, "MEMORY_LIMIT", allowed / 2)
    assert invert(moments).n == n
