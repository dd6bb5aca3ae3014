"""Arguments from text: what they must be is said by the parser."""

from __future__ import annotations

import argparse
import csv
import math

__all__ = ["count", "name_list", "non_negative", "penalty"]


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
