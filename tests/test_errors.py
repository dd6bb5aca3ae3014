"""The tree of errors, and the helpers that write their sentences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebm import errors

UNITS = {"bytes": 0, "KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}


def test_every_error_belongs_to_the_tree():
    """One except clause catches all: EbmError, and ValueError; warnings likewise."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        if name == "MissingExtraError":
            assert issubclass(kind, ImportError)
        elif name.endswith("Error"):
            assert issubclass(kind, errors.EbmError)
            assert issubclass(kind, ValueError)
        elif name.endswith("Warning"):
            assert issubclass(kind, errors.EbmWarning)
            assert issubclass(kind, UserWarning)


@pytest.mark.parametrize("kind", [errors.EnumerationLimitError, errors.MemoryLimitError])
def test_limits_are_caught_together(kind):
    """A limit of time and one of memory are both limits."""
    assert issubclass(kind, errors.LimitError)


def test_an_optional_package_is_imported():
    """The module asked for, not its top-level package."""
    import importlib.metadata

    assert errors.require_extra("importlib.metadata", "plot") is importlib.metadata


def test_a_missing_package_names_the_extra():
    """The package, the command that installs it, and the original error as the cause."""
    words = r"needs no_such_package, .*pip install 'ebm-framework\[plot\]'"
    with pytest.raises(errors.MissingExtraError, match=words) as caught:
        errors.require_extra("no_such_package.pyplot", "plot")
    assert isinstance(caught.value.__cause__, ImportError)


def test_memory_is_refused_before_it_is_taken():
    """Both numbers, what it is for, and what to do; exactly the limit is allowed."""
    errors.require_memory(2**30, "the table", "use fewer rows", limit=2**30)
    words = "the table would take 1.5 GiB, the limit is 1 GiB: use fewer rows"
    with pytest.raises(errors.MemoryLimitError, match=words):
        errors.require_memory(3 * 2**29, "the table", "use fewer rows", limit=2**30)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 bytes"),
        (1000, "1000 bytes"),
        (1024, "1 KiB"),
        (1000 * 2**20, "1000 MiB"),
        (3 * 2**29, "1.5 GiB"),
        (2**50, "1 PiB"),
    ],
)
def test_bytes_are_shown_in_the_unit_that_reads_best(n_bytes, text):
    """No exponents."""
    assert errors.format_bytes(n_bytes) == text


@given(st.floats(1, 2.0**60))
def test_bytes_shown_are_right_to_half_a_percent(n_bytes):
    """The number times its unit is what was given."""
    number, unit = errors.format_bytes(n_bytes).split()
    assert "e" not in number
    assert 1 <= float(number) <= 1024
    assert float(number) * 1024.0 ** UNITS[unit] == pytest.approx(n_bytes, rel=5e-3)
