"""Docstrings: the full numpydoc form on the API page, no sections for what is internal."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import ebm

docscrape = pytest.importorskip("numpydoc.docscrape")
pytest.importorskip("torch")

PACKAGE = Path(ebm.__file__).parent
PAGE = PACKAGE.parent / "docs" / "api.rst"

#: Classes that only functions of the library make, whose examples stand there, and interfaces.
WITHOUT_EXAMPLE = """
    ebm.comparison.Comparison ebm.comparison.Difference ebm.comparison.EqualityTest
    ebm.comparison.GlobalTest ebm.comparison.GroupComparison ebm.comparison.GroupDifferences
    ebm.comparison.ResampledTests ebm.comparison.Route
    ebm.datasets.FashionMNIST
    ebm.effective.EffectiveExpansion
    ebm.information.CoupledInformation ebm.information.EnsembleInformation
    ebm.information.JointInformation ebm.information.Metric ebm.information.Response
    ebm.information.Subsystem ebm.information.SymmetricOperator
    ebm.learning.FitEpoch ebm.learning.FitStep
    ebm.networks.LayerMetrics ebm.networks.TrainingRecord ebm.networks.TrainingResult
    ebm.perturbation.BetheSolution ebm.perturbation.PlefkaSolution
    ebm.report.ItemReport ebm.report.Report
    ebm.report.items.ItemFit ebm.report.items.ItemSummary ebm.report.items.Threshold
    ebm.report.parts.Coupling ebm.report.parts.Couplings ebm.report.parts.DataSummary
    ebm.report.parts.Entropies ebm.report.parts.FitSummary ebm.report.parts.Goodness
    ebm.report.parts.InversionComparison ebm.report.parts.Minima ebm.report.parts.Minimum
    ebm.report.parts.MomentMisfit ebm.report.parts.PopulationShare ebm.report.parts.Populations
    ebm.report.parts.Valley ebm.report.parts.Valleys ebm.report.parts.WordEntropy
    ebm.StateTable
    ebm.sampling.AnnealedSamples ebm.sampling.ChainState ebm.sampling.ContinuousChains
    ebm.sampling.ContinuousSamples ebm.sampling.PopulationSamples ebm.sampling.ReweightedSamples
    ebm.temperature.Thermodynamics
""".split()

SECTION = re.compile(
    r"^ *(Parameters|Returns|Yields|Raises|Warns|Examples)\n *-{4,}$", re.MULTILINE
)


def directives(text):
    """(kind, full name, options) of each directive of autodoc, in the order of the page."""
    module, answer = "", []
    for line in text.splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.match(r"\.\. auto(\w+):: (\S+)", line):
            kind, name = match.groups()
            answer.append((kind, name if name.startswith("ebm.") else f"{module}.{name}", {}))
            module = name if kind == "module" else module
        elif match := re.match(r"   :([\w-]+):\s*(.*)", line):
            answer[-1][2][match[1]] = match[2]
    return answer


def members_of(name, options):
    """(full name, object, options) of the functions and classes that a module shows."""
    module = importlib.import_module(name)
    excluded = options.get("exclude-members", "").replace(",", " ").split()
    for member in module.__all__:
        value = getattr(module, member)
        if member not in excluded and callable(value):
            yield f"{name}.{member}", value, options


def everything_on_the_page():
    """(full name, object, options) of each function and class."""
    for kind, name, options in directives(PAGE.read_text("utf-8")):
        if kind == "module":
            yield from members_of(name, options)
        elif kind in {"class", "function"}:
            module, _, last = name.rpartition(".")
            yield name, getattr(importlib.import_module(module), last), options


def methods_of(value, options):
    """(name, function, whether its first argument is bound) of the methods that the page shows."""
    if inspect.isclass(value) and "members" in options:
        parents = value.__mro__ if "inherited-members" in options else (value,)
        for parent in parents:
            for name, member in vars(parent).items():
                function = inspect.unwrap(getattr(member, "__func__", member))
                is_own = getattr(function, "__qualname__", "").startswith(f"{parent.__name__}.")
                if not name.startswith("_") and inspect.isfunction(function) and is_own:
                    yield name, function, not isinstance(member, staticmethod)


ENTRIES = list(everything_on_the_page())
METHODS = {
    f"{name}.{method}": (function, is_bound)
    for name, value, options in ENTRIES
    for method, function, is_bound in methods_of(value, options)
}


def documented(doc, sections=("Parameters",)):
    """Names in sections, ``a, b : type`` taken apart."""
    entries = [entry.name for section in sections for entry in doc[section]]
    return {name.strip().lstrip("*") for entry in entries for name in entry.split(",")}


def signature_names(function, *, is_bound=False):
    """Names of the arguments that a caller gives."""
    names = list(inspect.signature(function).parameters)[is_bound:]
    return {name for name in names if not name.startswith("_")}


def class_documentation(value):
    """What a class and its parents say of its fields."""
    parents = [parent for parent in value.__mro__ if parent.__module__.startswith("ebm")]
    docs = [docscrape.FunctionDoc(None, doc=inspect.cleandoc(p.__doc__ or "")) for p in parents]
    return set().union(*(documented(doc, ("Parameters", "Attributes")) for doc in docs))


def returns_something(function):
    return inspect.signature(function).return_annotation not in {"None", None}


@pytest.mark.parametrize(("name", "value"), [pytest.param(*e[:2], id=e[0]) for e in ENTRIES])
def test_public_names_are_documented_in_full(name, value):
    """Parameters are those of the signature; what is returned is said; there is an example."""
    if inspect.isclass(value):
        if issubclass(value, BaseException):
            assert value.__doc__
            return
        assert signature_names(value) <= class_documentation(value)
        doc = docscrape.FunctionDoc(None, doc=inspect.cleandoc(value.__doc__))
        if "__init__" in vars(value):
            assert documented(doc) <= signature_names(value)
    else:
        doc = docscrape.FunctionDoc(value)
        assert documented(doc) == signature_names(value)
        assert bool(doc["Returns"] or doc["Yields"]) == returns_something(value)
    assert bool(doc["Examples"]) == (name not in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("name", METHODS)
def test_sections_of_public_methods_fit_their_signatures(name):
    """A method may say all in a line with shapes; where it has sections, they are complete."""
    function, is_bound = METHODS[name]
    doc = docscrape.FunctionDoc(function)
    assert doc["Summary"]
    if doc["Parameters"]:
        assert documented(doc) == signature_names(function, is_bound=is_bound)
        assert bool(doc["Returns"] or doc["Yields"]) == returns_something(function)


def internal_docstrings(path):
    """(qualified name, docstring) of what a module keeps to itself."""
    is_internal = any(part.startswith("_") for part in path.relative_to(PACKAGE).parts)
    is_internal &= path.name not in {"__init__.py", "__main__.py"} or path.parent.name[0] == "_"

    def inside(node, name, internal):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                hidden = internal or (child.name[0] == "_" and not child.name.startswith("__"))
                full = f"{name}.{child.name}".lstrip(".")
                if hidden:
                    yield full, ast.get_docstring(child) or ""
                yield from inside(child, full, hidden)

    yield from inside(ast.parse(path.read_text("utf-8")), "", is_internal)


def public_places():
    """(module, qualified name) of all that the page shows, wherever it is defined."""
    for _, value, options in ENTRIES:
        yield value.__module__, value.__qualname__
        for parent in value.__mro__ if inspect.isclass(value) and "members" in options else ():
            for member in vars(parent):
                yield parent.__module__, f"{parent.__qualname__}.{member}"


def test_internal_docstrings_have_no_sections():
    """One line, the formula and the shapes are enough where no user looks."""
    public, wordy = set(public_places()), []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(("ebm", *path.relative_to(PACKAGE).with_suffix("").parts))
        module = module.removesuffix(".__init__")
        for name, text in internal_docstrings(path):
            if SECTION.search(text) and (module, name) not in public:
                wordy.append(f"{module}.{name}")
    assert wordy == []


def test_files_that_pages_name_exist():
    """Maps and decisions go stale in silence otherwise."""
    root, missing = PACKAGE.parent, []
    files = [path.as_posix() for part in ("ebm", "tests") for path in (root / part).rglob("*.py")]
    pages = [*(root / "docs" / "contributing").glob("*.md"), *root.glob("docs/decisions/*.md")]
    for page in pages:
        for name in re.findall(r"`([\w/]+\.py)[`:]", page.read_text("utf-8")):
            if not any(file.endswith(f"/{name}") for file in files):
                missing.append(f"{page.name}: {name}")
    assert len(pages) > 20
    assert missing == []


def test_the_page_is_read_as_sphinx_reads_it():
    """A directive, a module with what it imports, and what is left out."""
    text = (
        ".. currentmodule:: ebm\n\n.. autofunction:: exact\n.. automodule:: ebm.io\n   :members:\n"
    )
    assert directives(text) == [
        ("function", "ebm.exact", {}),
        ("module", "ebm.io", {"members": ""}),
    ]


def test_the_page_names_everything_that_is_public():
    """What packages offer is there, and the list of exceptions names nothing that is not."""
    names = {name for name, _, _ in ENTRIES}
    assert set(WITHOUT_EXAMPLE) <= names
    shown = {id(value) for _, value, _ in ENTRIES}
    for package in ("", ".information", ".learning", ".models", ".observables", ".sampling"):
        module = importlib.import_module(f"ebm{package}")
        for name in module.__all__:
            value = getattr(module, name)
            assert inspect.ismodule(value) or not callable(value) or id(value) in shown, name
