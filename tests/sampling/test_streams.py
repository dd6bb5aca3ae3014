"""Uniform numbers from a stream are above 0 and below 1, whatever the random bits."""

import numpy as np
import pytest

from ebm._kernels import heat_bath
from ebm.sampling import uniforms
from ebm.sampling._streams import new_streams


@pytest.mark.parametrize(("word", "side"), [(0, 0.0), (2**64 - 1, 1.0)])
def test_the_ends_are_never_reached(word, side, monkeypatch):
    """Rounded to 1, a number would choose a value beyond the last, or one that is forbidden."""

    def fill(stream, words):
        words[:] = word

    monkeypatch.setattr(heat_bath, "fill_words", fill)
    # The compiled function has the words of its own; the same lines in Python have these.
    monkeypatch.setattr(heat_bath, "fill_uniforms", heat_bath.fill_uniforms.py_func)
    values = uniforms(new_streams(0, 1)[0], (3, 5))
    assert values.shape == (3, 5)
    assert ((values > 0) & (values < 1)).all()
    assert np.abs(values - side).max() < 1e-15
