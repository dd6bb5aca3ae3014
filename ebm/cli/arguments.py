"""Arguments from text: what they must be is said by the parser."""

from __future__ import annotations

import argparse
import csv
import math

__all__ = ["count", "cut", "name_list", "non_negative", "penalty", "three_names"]


def name_list(text: str) -> list[str]:
    """Comma-separated names; one with a comma is quoted as in a CSV file."""
    return [name.strip() for name in next(csv.reader([text]), [])]


def penalty(text: str) -> float:
    """A finite number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, got {text!r}")
    return value


def three_names(text: str) -> list[str]:
    """Three comma-separated names."""
    names = name_list(text)
    if len(names) != 3:
        raise argparse.ArgumentTypeError(
            f"must name the columns of the sample, the unit and the value, got {text!r}"
        )
    return names


def cut(text: str) -> float | str | dict[str, float | str]:
    """A number, ``mean`` or ``median``, or such for columns by name: ``a=1.5,b=mean``."""
    if "=" not in text:
        return _place(text)
    places = {}
    for part in name_list(text):
        name, _, place = part.rpartition("=")
        if not name or name in places:
            raise argparse.ArgumentTypeError(f"must give each column one number, got {text!r}")
        places[name] = _place(place)
    return places


def _place(text: str) -> float | str:
    if text.strip() in ("mean", "median"):
        return text.strip()
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number, 'mean' or 'median', or such for columns by name as in "
            f"a=1.5,b=mean, got {text!r}"
        ) from None


def non_negative(text: str) -> int:
    """An integer of at least 0."""
    return _integer(text, 0)


def count(text: str) -> int:
    """An integer of at least 1."""
    return _integer(text, 1)


def _integer(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text!r}")
    return value
