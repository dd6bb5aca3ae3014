"""A page for each public name, and tables of the names in api.rst, which stays their one list."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "Entry",
    "comment",
    "entries",
    "members",
    "page",
    "setup",
    "summary",
    "table",
    "with_tables",
]

DIRECTIVE = re.compile(r"\.\. auto(class|function|data|module):: (\S+)$")
OPTION = re.compile(r"   :([\w-]+):\s*(.*)$")


class Entry(NamedTuple):
    """A directive of autodoc: its kind, the full name, and its options."""

    kind: str
    name: str
    options: dict[str, str]


def entries(text: str) -> Iterator[Entry | str]:
    """The directives of autodoc on a page, and the lines between them, in their order."""
    module, entry = "", None
    for line in text.splitlines():
        if entry is not None and (option := OPTION.match(line)):
            entry.options[option[1]] = option[2]
            continue
        if entry is not None:
            yield entry
            entry = None
        if current := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = current[1]
        if directive := DIRECTIVE.match(line):
            kind, name = directive.groups()
            name = name if name.startswith("ebm.") else f"{module}.{name}"
            module = name if kind == "module" else module
            entry = Entry(kind, name, {})
        else:
            yield line
    if entry is not None:
        yield entry


def members(entry: Entry) -> list[Entry]:
    """What a directive shows: itself, or the names that a module offers."""
    if entry.kind != "module":
        return [entry]
    module = importlib.import_module(entry.name)
    excluded = entry.options.get("exclude-members", "").replace(",", " ").split()
    of_members = ("members", "inherited-members", "exclude-members")
    kept = {k: v for k, v in entry.options.items() if k in of_members}
    offered = []
    for name in module.__all__:
        value = getattr(module, name)
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        if name not in excluded and not inspect.ismodule(value):
            options = kept if kind == "class" else {}
            offered.append(Entry(kind, f"{entry.name}.{name}", dict(options)))
    return offered


def summary(entry: Entry) -> str:
    """The first sentence of what is said of a name, on one line."""
    module, _, name = entry.name.rpartition(".")
    if entry.kind == "data":
        said = comment(module, name)
    else:
        said = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    paragraph = " ".join(said.partition("\n\n")[0].split())
    return re.sub(r"(?<!`)\|([^\s|`]+)\|(?!`)", r"\\|\1\\|", paragraph)


def comment(module: str, name: str) -> str:
    """What the ``#:`` lines above a constant say, in the module that it was imported from."""
    from sphinx.pycode import ModuleAnalyzer

    analyzer = ModuleAnalyzer.for_module(module)
    if lines := analyzer.find_attr_docs().get(("", name)):
        return " ".join(lines).strip()
    for node in ast.walk(ast.parse(analyzer.code)):
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return comment(str(node.module), name)
    raise LookupError(f"{module}.{name} is public and has no comment that starts with #:")


def table(names: list[Entry]) -> list[str]:
    """Names with their summaries, as lines of a table."""
    lines = ["", ".. list-table::", "   :class: names", "   :widths: auto", ""]
    for entry in names:
        shown = entry.name.removeprefix("ebm.")
        lines += [f"   * - :py:obj:`{shown} <{entry.name}>`", f"     - {summary(entry)}"]
    return [*lines, ""]


def with_tables(text: str) -> str:
    """The page of all names, its directives replaced by tables of what they show."""
    lines: list[str] = []
    pending: list[Entry] = []
    for part in entries(text):
        if isinstance(part, Entry):
            if part.kind == "module":
                lines += ["", f"Module :py:mod:`{part.name}`.", ""]
            pending += members(part)
        elif part.strip() and not part.startswith(".. currentmodule::"):
            lines += [*table(pending), part] if pending else [part]
            pending = []
        elif not pending:
            lines.append(part)
    return "\n".join([*lines, *(table(pending) if pending else [])]) + "\n"


def page(entry: Entry) -> str:
    """The page of one name; that of a module has the table of what it offers."""
    title = entry.name.replace("_", r"\_")
    lines = [":orphan:", "", title, "=" * len(title), ""]
    lines += [":doc:`All names </api>`", ""]
    if entry.kind == "module":
        lines += [f".. automodule:: {entry.name}", "", *table(members(entry))]
    elif entry.kind == "data":
        module, _, name = entry.name.rpartition(".")
        value = repr(getattr(importlib.import_module(module), name))
        lines += [f".. py:data:: {entry.name}"]
        lines += [f"   :value: {value}"] if len(value) < 80 else []
        lines += ["", f"   {summary(entry)}"]
    else:
        lines += [f".. auto{entry.kind}:: {entry.name}"]
        lines += [f"   :{key}: {value}".rstrip() for key, value in entry.options.items()]
        lines += ["", f".. minigallery:: {entry.name}", "   :add-heading: Used in"]
    return "\n".join(lines) + "\n"


def write_pages(app: Any) -> None:
    """Pages are files beside api.rst, rewritten only where they change."""
    source = Path(app.srcdir)
    folder = source / "api"
    folder.mkdir(exist_ok=True)
    stale = set(folder.glob("*.rst"))
    for part in entries((source / "api.rst").read_text("utf-8")):
        if not isinstance(part, Entry):
            continue
        for entry in [part, *members(part)] if part.kind == "module" else [part]:
            path = folder / f"{entry.name}.rst"
            stale.discard(path)
            text = page(entry)
            if not path.exists() or path.read_text("utf-8") != text:
                path.write_text(text, "utf-8")
    for path in stale:
        path.unlink()


def read_source(app: Any, docname: str, source: list[str]) -> None:
    """The list of directives is read as tables."""
    if docname == "api":
        source[0] = with_tables(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Add both steps to a build."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", read_source)
    return {"parallel_read_safe": True}
