"""Which distribution a package of this name comes from: others on the index bring it as well."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from ebm import __version__
from ebm._names import DISTRIBUTION, PACKAGE
from ebm._processor import processor

__all__ = ["Version", "origin"]


def origin() -> list[str]:
    """Distribution, version and folder of this package, and other distributions with its name."""
    folder = Path(sys.modules[PACKAGE].__file__ or "").parent
    lines = [f"{DISTRIBUTION} {__version__} (import {PACKAGE}), from {folder}"]
    others = sorted(set(packages_distributions().get(PACKAGE, [])) - {DISTRIBUTION})
    if others:
        lines.append(
            f"{', '.join(others)} also {'provides' if len(others) == 1 else 'provide'} a package "
            f"{PACKAGE}, and files of both may lie in one folder: install {DISTRIBUTION} into an "
            "environment of its own"
        )
    return lines


class Version(argparse.Action):
    """Print where the program comes from and what the last bits of results depend on, and end."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Print and exit with 0."""
        print(*origin(), processor(), sep="\n")
        parser.exit()
