"""The command line: ``ebm fit DATA``, ``ebm sample MODEL`` and ``ebm demo``."""

from ebm.cli.command import main

__all__ = ["main"]
