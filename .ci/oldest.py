"""The oldest versions that pyproject.toml declares, as constraints for pip.

python3 .ci/oldest.py EXTRA ...
"""

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def oldest(project: dict[str, Any], requirements: Iterable[str]) -> Iterator[str]:
    """``name==bound`` for every ``name>=bound``; the project's own extras are followed."""
    for requirement in requirements:
        if own := re.fullmatch(rf"{re.escape(project['name'])}\[([\w,-]+)\]", requirement):
            for extra in own[1].split(","):
                yield from oldest(project, project["optional-dependencies"][extra])
        elif bounded := re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement):
            yield "{}=={}".format(*bounded.groups())
        else:
            raise ValueError(f"want name>=version in pyproject.toml, got {requirement!r}")


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    asked = [f"{project['name']}[{extra}]" for extra in sys.argv[1:]]
    print("\n".join(sorted({*oldest(project, [*project["dependencies"], *asked])})))
