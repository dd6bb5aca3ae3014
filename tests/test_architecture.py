"""The house rules: who imports whom, what an import costs, public names, sizes."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import ebm

PACKAGE = Path(ebm.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: A module imports from earlier rungs, and inside its own subpackage, only.
RUNGS = (
    "_names _version",
    "_imports",
    "errors",
    "_types",
    "_arrays",
    "_devices _files _frames _pictures _progress _randomness _parallel _text",
    "_summary",
    "_model_summary",
    "_checkpoints _processor",
    "_jobs",
    "_iterate _differences",
    "spaces",
    "units",
    "_normalization",
    "_kernels",
    "model ensembles _conditioning _term_keys",
    "_factor_form _energy_words",
    "forms",
    "models",
    "enumeration",
    "sampling state_table",
    "perturbation",
    "effective ground information observables",
    "learning",
    "inversion",
    "networks plotting datasets tables io",
    "_landscape",
    "report comparison temperature sklearn",
    "cli",
    "__main__",
)
RUNG = {name: height for height, names in enumerate(RUNGS) for name in names.split()}

#: Names that `ebm` offers to everybody; a name is added here with its feature, never removed.
PUBLIC = """
    Adam Annealing Binary BoltzmannMachine ClampedChains ContrastiveDivergence EbmError EbmWarning
    EnergyModel Ensemble Estimate ExactEnsemble FitResult Gibbs GradientDescent GradientSteps
    HamiltonianMonteCarlo IncompleteEnsemble InteractionModel Intervals IsingModel KPairwiseModel
    LBFGS Langevin Levels
    Likelihood MarginalModel Metropolis Moments NaturalGradient Newton OrdinalModel
    ParallelTempering ParametricModel Penalty
    PairwiseModel PersistentChains PopulationAnnealing PottsModel Product ProximalNewton Reals
    RestrictedBoltzmannMachine Samples Spins StateTable SwendsenWang TabularModel WeightedStates
    Wolff analyze compare compare_groups
    datasets density_of_states
    effective errors exact fisher_information fit from_dimod from_graph from_qubo ground_state
    information inversion
    landscape lattice load
    local_minima log_partition marginalize networks perturbation plotting read_table sample save
    table thermodynamics to_dimod to_graph to_qubo to_sparse
    units
"""

#: What `import ebm` must leave alone.
HEAVY = {
    "dimod",
    "joblib",
    "matplotlib",
    "networkx",
    "numba",
    "openpyxl",
    "pandas",
    "polars",
    "pyarrow",
    "pyreadstat",
    "scipy",
    "sklearn",
    "threadpoolctl",
    "torch",
    "tqdm",
    "xarray",
}


def part_of(path):
    """The rung-bearing name of a file: its first name below ``ebm``."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(tree):
    """(line, part of ebm) for each import anywhere in a module, functions included.

    ``from ebm import name`` imports the part of that name; a name that is no part, such as
    ``__version__``, stands for ``ebm`` itself, the part ``""``.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            found = [f"ebm.<relative: {node.module}>"]
        elif isinstance(node, ast.ImportFrom) and node.module == "ebm":
            found = [f"ebm.{alias.name}" if alias.name in RUNG else "ebm" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [node.module or ""]
        else:
            continue
        for name in found:
            if name.split(".")[0] == "ebm":
                yield node.lineno, name.partition(".")[2].partition(".")[0]


def breaches(source, part):
    """Lines of a module of ``part`` that import what they may not."""
    own = RUNG[part]
    lines = []
    for line, other in imported_parts(ast.parse(source)):
        # The package itself imports nearly everything: only the last rungs may.
        height = RUNG.get(other, RUNG["report"] if other == "" else len(RUNGS))
        if other != part and height >= own:
            lines.append(f"line {line}: {part} imports ebm.{other}".rstrip("."))
    return lines


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_import_from_earlier_rungs(path):
    """Read from the source, so that imports inside functions count."""
    if path != PACKAGE / "__init__.py":
        assert part_of(path) in RUNG, f"{part_of(path)} has no rung"
        assert breaches(path.read_text("utf-8"), part_of(path)) == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("spaces", "from ebm.models import BoltzmannMachine"),
        ("spaces", "import ebm.models.pairwise"),
        ("spaces", "from ebm import models"),
        ("models", "def f():\n    from ebm.enumeration import exact"),
        ("effective", "from ebm.observables import activity"),
        ("models", "from ebm import BoltzmannMachine"),
        ("learning", "import ebm"),
        ("learning", "from . import fit"),
        ("report", "from ebm import __version__"),
    ],
)
def test_the_reader_of_imports_sees_a_breach(part, source):
    """The test above can fail."""
    assert len(breaches(source, part)) == 1


def test_the_reader_of_imports_allows_what_is_below():
    """Earlier rungs, the own subpackage, other packages."""
    source = "import numpy\nfrom ebm.errors import EbmError\nfrom ebm.models import couplings\n"
    assert breaches(source, "models") == []
    assert breaches("from ebm import __version__, datasets", "cli") == []


@pytest.fixture(scope="module")
def loaded():
    """Modules that ``import ebm`` adds to those of numpy, in a fresh process."""
    script = """
import json, sys
import numpy.random, numpy.typing
before = set(sys.modules)
import ebm
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    return json.loads(done.stdout)


def test_import_loads_numpy_and_the_standard_library_only(loaded):
    """All else waits for its first use."""
    packages = {name.split(".")[0] for name in loaded}
    assert packages & HEAVY == set()
    assert packages - set(sys.stdlib_module_names) == {"ebm"}


def test_import_adds_little(loaded):
    """Few modules beyond our own; plotting, data sets and the command line are not among ours."""
    assert len([name for name in loaded if name.split(".")[0] != "ebm"]) <= 40
    late = {
        f"ebm.{part}" for part in "plotting datasets report tables cli networks _kernels".split()
    }
    assert late.isdisjoint(loaded)


def test_public_names_are_those_agreed():
    """Sorted, complete, and each of them there."""
    pytest.importorskip("torch")
    # As ruff has it: constants, classes, the rest.
    wanted = sorted(PUBLIC.split(), key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert ebm.__all__ == wanted
    for name in ebm.__all__:
        assert getattr(ebm, name) is not None
    with pytest.raises(AttributeError, match="module 'ebm' has no attribute 'no_such_name'"):
        ebm.no_such_name  # noqa: B018


def test_every_list_of_public_names_is_sorted_and_true():
    """__all__ of every module holds different names, sorted, that exist."""
    pytest.importorskip("torch")
    for path in FILES:
        name = ".".join(["ebm", *path.relative_to(PACKAGE).with_suffix("").parts])
        if path.stem in {"__main__", "__init__"}:
            name = name.removesuffix(".__init__")
        if path.stem == "__main__":
            continue
        module = importlib.import_module(name)
        names = getattr(module, "__all__", [])
        # As ruff has it: constants, classes, the rest.
        wanted = sorted(set(names), key=lambda n: (not n.isupper(), not n[0].isupper(), n))
        assert list(names) == wanted, name
        assert [public for public in names if not hasattr(module, public)] == [], name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_assert_guards_against_a_users_mistake(path):
    """``python -O`` drops assert statements: errors are raised."""
    tree = ast.parse(path.read_text("utf-8"))
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_is_long(path):
    """One subject a file; beyond 600 lines it is hardly one."""
    assert len(path.read_text("utf-8").splitlines()) <= 600


def examples_asked_for(source):
    """(line, k) of each ``max_examples=k`` in a test module."""
    return [
        (word.value.lineno, ast.literal_eval(word.value))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "max_examples"
    ]


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parent.rglob("test_*.py")), ids=lambda path: path.name
)
def test_no_property_is_tried_at_the_simplest_draw_alone(path):
    """The first draw of hypothesis is the simplest, where slips hide; others must follow it."""
    few = [line for line, k in examples_asked_for(path.read_text("utf-8")) if k < 4]
    assert few == []


def test_the_reader_of_examples_sees_one():
    """The test above can fail."""
    assert examples_asked_for("@settings(max_examples=1)\ndef test(): ...") == [(1, 1)]
