"""The same examples at every run, fresh ones with HYPOTHESIS_PROFILE=fresh; figures closed."""

import os
import sys

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("fresh", derandomize=False, deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Figures are kept by pyplot until they are closed."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
