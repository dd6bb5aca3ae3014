"""The command line: ``ebm fit``, ``compare-groups``, ``sample``, ``landscape`` and ``demo``."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; Ctrl-C ends it without a traceback, also while modules are loaded."""
    try:
        from ebm.cli import command
    except KeyboardInterrupt:
        sys.stderr.write("ebm: interrupted\n")
        return 130
    return command.main(argv)
