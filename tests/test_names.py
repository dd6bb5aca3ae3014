"""The import name: nothing but imports depends on it, and a foreign package of it is noticed."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ebm
from ebm._names import DISTRIBUTION, PACKAGE, PROGRAM
from ebm.cli import main, origin

FOLDER = Path(ebm.__file__).parent
#: The import name as imports and the paths of modules and names have it.
IMPORTED = re.compile(r"(?<![\w.-])ebm(?=\.[\w{])|(?<=from )ebm\b|(?<=import )ebm\b")


def lone_names(source: str) -> list[int]:
    """Lines with a string that is the import name alone, which a rename would miss."""
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
             for part in node.values}  # fmt: skip
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        and re.fullmatch(r"ebm\W*", node.value)
    ]  # fmt: skip


def test_names_are_written_in_one_place() -> None:
    assert (PACKAGE, PROGRAM) == ("ebm", "ebm")
    assert lone_names('folder = cache / "ebm"') == [1]
    assert lone_names('name.startswith("ebm.")') == [1]
    assert lone_names('f"give ebm.{kind}"') == lone_names('"ebm.Spins"') == []
    for path in FOLDER.rglob("*.py"):
        if path.name != "_names.py":
            assert lone_names(path.read_text(encoding="utf-8")) == [], path


def test_the_distribution_is_that_of_the_project() -> None:
    project = FOLDER.parent / "pyproject.toml"
    if not project.exists():
        pytest.skip("the project is not here")
    text = project.read_text(encoding="utf-8")
    assert f'\nname = "{DISTRIBUTION}"\n' in text
    assert f'\n{PROGRAM} = "{PACKAGE}.cli:main"\n' in text


SCRIPT = """
import sys, warnings
import numpy as np
import other
from other.cli import main
rows = np.random.default_rng(0).integers(0, 2, (200, 3))
start = other.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), names=["a", "b", "c"])
result = other.fit(start, rows)
assert result.converged
other.save(result.model, "model.npz")
assert other.load("model.npz").equals(result.model)
assert other.datasets.spikes().states.shape == (40000, 10)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    other.observables.word_entropy(np.ones(20), "plug-in")
assert [warning.filename for warning in caught] == [__file__]
assert main(["exact", "model.npz", "-q", "--json", "numbers.json"]) == 0
main(["fit", "spins.csv"])
assert not [name for name in sys.modules if name.split(".")[0] == "ebm"]
main(["--version"])
"""


def test_under_another_import_name_everything_works(tmp_path: Path) -> None:
    """The rename is a replacement of names in imports and paths; what remains is not the name."""
    ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(FOLDER, tmp_path / "other", ignore=ignored)
    for path in (tmp_path / "other").rglob("*.py"):
        path.write_text(IMPORTED.sub("other", path.read_text(encoding="utf-8")), encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "spins.csv").write_text("a,b\n-1,1\n1,-1\n1,1\n")
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        f"{DISTRIBUTION} {ebm.__version__} (import other), from {tmp_path}"
    )
    # The advice of the library is written as an option under any name.
    assert "--spins" in done.stderr
    assert "space=" not in done.stderr


def test_a_foreign_distribution_of_this_name_is_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for found, said in (
        ({"ebm": [DISTRIBUTION]}, None),
        ({"ebm": ["ebm", DISTRIBUTION, "ebm"]}, "ebm also provides a package ebm"),
        ({"ebm": ["ebm", "ebmlib"]}, "ebm, ebmlib also provide a package ebm"),
    ):
        monkeypatch.setattr(origin, "packages_distributions", lambda found=found: found)
        with pytest.raises(SystemExit) as end:
            main(["--version"])
        assert end.value.code == 0
        out = capsys.readouterr().out
        assert out.startswith(f"ebm-framework {ebm.__version__} (import ebm), from {FOLDER}\n")
        assert out.count("\n") == (2 if said is None else 3)
        assert said is None or said in out
        assert ("environment of its own" in out) == (said is not None)
