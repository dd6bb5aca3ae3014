"""The examples run where the README's main command leads, and publish whole figures."""

import ast
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import pyplot

from ebm.plotting.style import COLORS

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.py"))
EXAMPLES = [*sorted((ROOT / "examples").glob("plot_*.py")), *TUTORIALS]

#: What the extra ``plot`` does not bring.
EXTRAS = ("joblib", "pandas", "sklearn", "sphinx", "torch", "tqdm")
#: Examples that need none of it and take few seconds.
QUICK = ("diagrams", "fit_spikes", "five_spins", "own_model")
#: What the tutorials end with, where no extra is needed; numbers that are drawn are at a seed.
SENTENCES = {
    "spikes": "active in 5.92 ± 0.13 % of the bins. The pairwise model predicts 5.87 %, "
    "independent cells of the same rates 2.97 %; its strongest coupling is W[cell 1, cell 6] = "
    "0.88 ± 0.16.",
    "questionnaires": "8 of the 8 true ties are among them.",
    "spin_systems": "have the energy -1.3438 J per spin; there are 184 of them",
    "teaching": "has 6 ground states of energy -1 J and a residual entropy of 1.7918 nats",
}

RUN = """
import json, runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in json.loads(absent):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent, ends = sys.argv[1], {}
sys.meta_path.insert(0, Absent())
for path in sys.argv[2:]:
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
        ends[path] = ""
    except SystemExit as end:
        ends[path] = str(end.code)
print(json.dumps(ends))
"""


def needs_extras(path):
    """Whether it asks for one of the extras."""
    names = re.findall(r"^ *(?:from|import) ([\w.]+)", path.read_text("utf-8"), re.MULTILINE)
    return any(name.split(".")[0] in EXTRAS or name == "ebm.networks" for name in names)


def ends_without_extras(paths):
    """The last words of scripts in an environment with the extra ``plot`` alone."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, json.dumps(EXTRAS), *map(str, paths)],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_examples_say_which_extra_is_missing():
    """A sentence with the command that installs it, no traceback."""
    asking = [path for path in EXAMPLES if needs_extras(path)]
    assert len(asking) > 5
    for path, end in ends_without_extras(asking).items():
        said, _, advice = end.partition(": ")
        assert said in ("No module named 'torch'", "No module named 'sklearn'"), path
        assert advice == "this example needs the extra docs, pip install 'ebm-framework[docs]'"


@pytest.mark.parametrize("name", SENTENCES)
def test_tutorials_end_with_the_sentences_that_they_promise(name):
    """Every statement of theirs runs, with warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "tutorials" / f"{name}.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert SENTENCES[name] in done.stdout


def test_the_other_examples_run_without_extras():
    quick = [path for path in EXAMPLES if path.stem.removeprefix("plot_") in QUICK]
    assert len(quick) == len(QUICK)
    assert set(ends_without_extras(quick).values()) == {""}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_extras_are_asked_for_where_it_is_said_that_they_are_missing(path):
    """Never outside of ``try``, where their absence would be a traceback."""
    allowed = {"ebm", "matplotlib", "networkx", "numpy", "scipy", *sys.stdlib_module_names}
    assert set(plainly_imported(path.read_text("utf-8"))) <= allowed


def plainly_imported(source):
    """Packages imported outside of ``try``; ``ebm.networks``, which imports torch, by its name."""
    tree = ast.parse(source)
    guarded = {id(n) for t in ast.walk(tree) if isinstance(t, ast.Try) for n in ast.walk(t)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        for name in names if id(node) not in guarded else []:
            yield name if name.startswith("ebm.networks") else name.split(".")[0]


def test_the_reader_of_imports_sees_an_extra():
    """The test above can fail."""
    assert list(plainly_imported("import numpy.random\nfrom torch import nn")) == ["numpy", "torch"]
    assert list(plainly_imported("from ebm.networks import x")) == ["ebm.networks"]
    guarded = "try:\n    import torch\nexcept ImportError:\n    pass"
    assert list(plainly_imported(guarded)) == []


# Figures

#: What makes a figure or a panel.
MAKERS = ("figure", "subplots", "subplot", "add_subplot", "subfigures", "subplot_mosaic")


def drawn_late(source):
    """Names of figures and panels that code after a block of text draws into."""
    made, late = set(), []
    for block in re.split(r"^# ?%%.*$", source, flags=re.MULTILINE):
        own = set()
        for statement in ast.parse(block).body:
            uses, binds = set(), set()
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    (uses if isinstance(node.ctx, ast.Load) else binds).add(node.id)
            late += sorted(uses & made - own)
            own |= binds
            if any(is_maker(node) for node in ast.walk(statement)):
                made |= binds
    return late


def is_maker(node):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in MAKERS
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_figure_is_drawn_between_two_texts(path):
    """The gallery takes it at the end of a block of code, and closes it."""
    assert drawn_late(path.read_text("utf-8")) == []


def test_the_reader_of_figures_sees_a_late_panel():
    """The test above can fail, and two figures of one name are two figures."""
    first = "figure, (left, right) = plt.subplots(1, 2)\nleft.plot(x)\n# %%\n# Text.\n"
    assert drawn_late(first + "right.plot(y)") == ["right"]
    assert drawn_late(first + "figure, right = plt.subplots()\nright.plot(y)") == []
    assert drawn_late(first.replace("# %%\n# Text.\n", "") + "right.plot(y)") == []


@pytest.fixture(scope="module")
def gallery():
    return runpy.run_path(str(ROOT / "docs" / "gallery.py"))


def test_the_gallery_has_a_place_for_each_script(gallery):
    assert sorted(gallery["ORDER"]) == sorted(path.stem for path in EXAMPLES)
    place = gallery["ByNeed"]("anywhere")
    assert place("spikes.py") < place("teaching.py") < place("plot_fit_spikes.py")
    with pytest.raises(ValueError, match="plot_new"):
        place("plot_new.py")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_starts_from_a_file_and_ends_with_a_sentence(path):
    """Its last block prints what could be published; ``SENTENCES`` has the numbers."""
    blocks = re.split(r"^# %%.*$", path.read_text("utf-8"), flags=re.MULTILINE)
    assert "path = Path(" in blocks[0]
    assert "# The sentence" in blocks[-1]
    assert "print(" in blocks[-1]
    assert "plt.show()" in "".join(blocks)


def test_the_gallery_refuses_an_empty_panel(gallery):
    """Panels that are switched off, or hold an image or a line, are as they should be."""
    pytest.importorskip("sphinx_gallery", reason="the gallery needs the extra docs")
    figure, axes = pyplot.subplots(1, 4)
    axes[0].plot([0, 1])
    axes[1].imshow([[0, 1]])
    axes[2].set_axis_off()
    assert gallery["empty_panels"](figure) == [3]
    with pytest.raises(RuntimeError, match=r"plot_x\.py: panels \[3\] of figure"):
        gallery["complete_figures"](None, {"src_file": "plot_x.py"}, {})
    pyplot.close(figure)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_colors_are_those_that_the_color_blind_tell_apart(path):
    """Of the palette, gray or black, or of a map that grows lighter."""
    source = path.read_text("utf-8")
    colors = set(re.findall(r'"(#[0-9A-Fa-f]{6}|C\d|tab:\w+)"', source))
    assert colors <= set(COLORS)
    maps = set(re.findall(r'(?:get_cmap\(|cmap=|shades\()"(\w+)"', source))
    assert maps <= {"viridis", "plasma", "RdBu_r", "gray_r"}
