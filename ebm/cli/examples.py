"""An example for every command: printed by its help, listed in the documentation, run by tests."""

from __future__ import annotations

import argparse

__all__ = ["EXAMPLES", "Paragraphs", "add_examples"]

#: The commands in the order in which they are listed. Files are those that earlier ones write, and
#: tables of two-valued data.
EXAMPLES = {
    "fit": "ebm fit votes.csv --exclude party --yes yes --no no --l2 0.01 -o model.npz",
    "sample": "ebm sample model.npz -n 500 --seed 1 -o draws.csv",
    "exact": "ebm exact model.npz --json -",
    "table": "ebm table model.npz --order energy --figure levels.png",
    "compare": "ebm compare draws.csv model.npz --figure differences.png",
    "compare-groups": "ebm compare-groups votes.csv --by party --yes yes --no no --l2 0.01",
    "landscape": "ebm landscape model.npz --figure tree.png --table minima.csv",
    "thermodynamics": "ebm thermodynamics model.npz --temperatures 0.5:4:8 -o curves.csv",
    "convert": "ebm convert model.npz couplings.csv --to-spins",
    "demo": "ebm demo --json spikes.json --quiet",
}


class Paragraphs(argparse.HelpFormatter):
    """Help whose paragraphs stay apart."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(fill(part, width, indent) for part in text.split("\n\n"))


def add_examples(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Let the help of every command begin its last part with an example."""
    for name, command in commands.choices.items():
        command.formatter_class = Paragraphs
        example = f"Example:\n\n{EXAMPLES[name]}"
        command.epilog = "\n\n".join(filter(None, (example, command.epilog)))
