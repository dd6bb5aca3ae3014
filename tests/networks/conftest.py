"""Small tensors gain nothing from threads, which other test processes would have to share."""

import pytest


@pytest.fixture(scope="package", autouse=True)
def one_thread():
    """One thread of torch for these tests, and as many as before afterwards."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
