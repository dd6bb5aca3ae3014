"""The same examples at every run, fresh ones with HYPOTHESIS_PROFILE=fresh; figures closed."""

import os
import sys

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("fresh", derandomize=False, deadline=None, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture
def one_torch_thread():
    """Small tensors gain nothing from threads, which other processes would keep waiting."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Figures are kept by pyplot until they are closed."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
