"""The program of all diagrams with up to eight edges, which takes seconds to compile, as a file.

    python -m ebm.perturbation.diagrams._contraction

writes it anew, after a change of the compiler.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ebm.errors import FileFormatError
from ebm.perturbation.diagrams._program import Program

#: The last order that is stored, and where: those below it are its beginning.
STORED_ORDER = 8
FILE = Path(__file__).parent / "program_of_order_8.json"


def stored_program(order: int) -> Program:
    """The first orders of the program of the file, which is refused unless it is as written."""
    try:
        first, _, text = FILE.read_text("utf-8").partition("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(_damaged(str(error))) from error
    if first != digest_line(text):
        raise FileFormatError(_damaged("its content has changed"))
    return of_text("{\n" + text, order)


def _damaged(why: str) -> str:
    return (
        f"{FILE.name}, the diagrams of orders 7 and 8 that come with the library, cannot be read: "
        f"{why}; install ebm-framework again, or take order 6 or less"
    )


def digest_line(text: str) -> str:
    """The first line of a file: the opening brace, and the digest of all other lines."""
    return f'{{"sha256": "{hashlib.sha256(text.encode()).hexdigest()}",'


def as_text(program: Program) -> str:
    """The digest, then nodes one a line, by their numbers; of terms the symmetry factors."""
    content = {
        "nodes": program.nodes,
        "symmetric": sorted(program.symmetric),
        "mirrored": sorted(program.mirrored),
        "terms": [[(round(1 / factor), root) for factor, root in g] for g in program.terms],
    }
    lines = (
        f'"{name}": [\n' + ",\n".join(json.dumps(item) for item in items) + "\n]"
        for name, items in content.items()
    )
    text = ",\n".join(lines) + "\n}\n"
    return f"{digest_line(text)}\n{text}"


def of_text(text: str, order: int) -> Program:
    """Its first orders, and the nodes that they need."""
    content = json.loads(text)
    terms = tuple(
        tuple((1 / factor, root) for factor, root in group) for group in content["terms"][:order]
    )
    nodes = [_node(item) for item in content["nodes"]]
    # Nodes stand in the order in which diagrams first need them.
    n_nodes = 1 + max(root for group in terms for _, root in group)
    return Program(
        tuple(nodes[:n_nodes]),
        frozenset(k for k in content["symmetric"] if k < n_nodes),
        frozenset(k for k in content["mirrored"] if k < n_nodes),
        terms,
    )


def _node(item: list[Any]) -> tuple[Any, ...]:
    kind, *arguments = item
    return (kind, tuple(arguments[0])) if kind == "weight" else (kind, *arguments)
