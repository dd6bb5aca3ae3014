"""The oldest versions that pyproject.toml declares are those that the checks install."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SCRIPT = ROOT / ".ci" / "oldest.py"

#: What a release needs or offers; `docs` and `dev` are tools, installed at their newest.
EXTRAS = (
    *("plot", "data", "dimod", "files", "progress", "sklearn", "torch", "xarray"),
    *("test-without-torch", "test"),
)


def lowest(requirement):
    """(name, lowest version) of ``name>=version``; None for extras of the project itself."""
    if requirement.startswith(f"{PROJECT['name']}["):
        return None
    return tuple(requirement.split(">="))


def pins(project, *requirements):
    return list(runpy.run_path(str(SCRIPT))["oldest"](project, requirements))


def test_every_bound_is_installed_by_the_checks_and_nothing_else():
    done = subprocess.run(
        [sys.executable, SCRIPT, "test"], check=True, capture_output=True, text=True, timeout=60
    )
    declared = list(PROJECT["dependencies"])
    for extra in EXTRAS:
        declared += PROJECT["optional-dependencies"][extra]
    bounds = {lowest(requirement) for requirement in declared} - {None}
    assert {tuple(line.split("==")) for line in done.stdout.splitlines()} == bounds


def test_extras_of_extras_are_followed():
    project = {"name": "p", "optional-dependencies": {"a": ["p[b,c]"], "b": ["x>=1.2"], "c": []}}
    assert pins(project, "p[a]", "y>=3") == ["x==1.2", "y==3"]


@pytest.mark.parametrize("requirement", ["x", "x==1", "x>1", "x>=1,<2", "x~=1.2", "x[y]>=1"])
def test_a_requirement_that_is_no_lower_bound_is_refused(requirement):
    with pytest.raises(ValueError, match=re.escape(repr(requirement))):
        pins({"name": "p"}, requirement)


def test_the_checks_pin_no_version_of_their_own():
    lines = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    installs = [line for line in lines if "pip" in line and not line.startswith("#")]
    assert len(installs) >= 3
    assert [line for line in installs if re.search(r"[=<>~!]=|[<>]\s*\d", line)] == []
