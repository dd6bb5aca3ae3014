"""The command line: ``ebm fit``, ``sample``, ``exact``, ``compare``, ``landscape`` and others."""

import sys
from collections.abc import Sequence

from ebm._names import PROGRAM

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; Ctrl-C ends it without a traceback, also while modules are loaded."""
    try:
        from ebm.cli import command
    except KeyboardInterrupt:
        sys.stderr.write(f"{PROGRAM}: interrupted\n")
        return 130
    return command.main(argv)
