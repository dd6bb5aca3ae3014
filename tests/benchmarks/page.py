"""The page of benchmarks, docs/benchmarks.md, by one command.

    python -m tests.benchmarks.page [NAME ...]

Runs the scripts named, by default all of ``SCRIPTS``, one after the other on one thread each, and
replaces their sections of the page. A section says on which machine it ran, with which versions,
and how busy the machine was before and after, since ratios measured beside other work scatter.
"""

from __future__ import annotations

import ast
import datetime
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"

#: Scripts in the order of the page; each takes some minutes at most.
SCRIPTS = (
    "peers",
    "elimination",
    "partition",
    "restricted",
    "learning",
    "tempering",
    "inversion",
    "missing",
    "landscape",
    "tables",
)
#: Packages whose versions a section names, where they are installed.
PACKAGES = ("numpy", "numba", "scipy", "torch", "dwave-samplers", "thrml", "pandas")
#: Seconds after which a script is stopped.
LONGEST = 900

HEADER = """# Benchmarks

Times depend on the machine; ratios to a named alternative, in one process with runs interleaved, do
less. This page is made by

```bash
python -m tests.benchmarks.page
```

in an environment with the peers, `pip install -e ".[test]" dwave-samplers thrml`, and
`python -m tests.benchmarks.page peers` makes one section anew. Nothing is asserted on it. A section
has the output of one script, whose first lines say what is compared; peers that were not installed
are left out of its tables. Where more processes were running than the machine has cores, ratios are
less certain, and wall times mean nothing.
"""


def description(path: Path) -> str:
    """The first sentence of a script."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or path.stem
    return text.partition("\n")[0].removesuffix(".")


def processor() -> str:
    """Name of the processor, as the system tells it."""
    try:
        facts = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        facts = ""
    named = re.search(r"model name\s*: (.+)", facts)
    return named[1] if named else platform.machine()


def busy() -> str:
    """Processes that were running or waiting in the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def versions() -> str:
    """Python and the packages that are installed."""
    known = [f"Python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            known.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(known)


def section(path: Path, longest: float = LONGEST) -> str:
    """Run a script and say what it printed, where, and beside how much other work."""
    before = busy()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            [sys.executable, str(path)],
            capture_output=True,
            text=True,
            timeout=longest,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        said = f"stopped after {longest:g} seconds"
    else:
        said = done.stdout.rstrip() if done.returncode == 0 else done.stderr.strip()[-400:]
    today = datetime.date.today().isoformat()
    return (
        f"## {path.stem}\n\n{description(path)}.\n\n```text\n{said}\n```\n\n"
        f"`tests/benchmarks/{path.name}`, {today}, {processor()}, {os.cpu_count()} cores, "
        f"{before} processes running before and {busy()} after; {versions()}.\n"
    )


def replaced(page: str, sections: dict[str, str]) -> str:
    """The page with new sections, in the order of ``SCRIPTS``; others stay as they are."""
    known = {
        text.split("\n", 1)[0]: f"## {text}" for text in re.split(r"^## ", page, flags=re.M)[1:]
    }
    known |= sections
    parts = [known[name].rstrip() for name in SCRIPTS if name in known]
    return "\n\n".join([HEADER.rstrip(), *parts]) + "\n"


def main(names: list[str]) -> None:
    """Run, and write the page after each script, so that what is known is kept."""
    for unknown in set(names) - set(SCRIPTS):
        sys.exit(f"{unknown} is no benchmark of the page, which has {', '.join(SCRIPTS)}")
    for name in names or SCRIPTS:
        print(name, flush=True)
        page = PAGE.read_text("utf-8") if PAGE.exists() else ""
        made = section(Path(__file__).with_name(f"{name}.py"))
        PAGE.write_text(replaced(page, {name: made}), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
