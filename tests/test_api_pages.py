"""Every public name has a page of its own, and stands in a table of the API page."""

import re
import runpy

import pytest

pytest.importorskip("sphinx", reason="pages of names need the extra docs")
pytest.importorskip("torch", reason="names of ebm.networks need torch")

from tests.test_docstrings import ENTRIES, PAGE

PAGES = runpy.run_path(str(PAGE.parent / "api_pages.py"))
TEXT = PAGE.read_text("utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The pages that a build writes."""
    source = tmp_path_factory.mktemp("docs")
    (source / "api.rst").write_text(TEXT, "utf-8")
    (source / "api").mkdir()
    (source / "api" / "ebm.gone.rst").write_text("a name of yesterday", "utf-8")

    class App:
        srcdir = source

    PAGES["write_pages"](App())
    return {path.stem: path.read_text("utf-8") for path in (source / "api").iterdir()}


def test_every_public_name_has_a_page(written):
    names = {name for name, _, _ in ENTRIES}
    assert len(names) > 300
    assert names <= set(written)
    assert "ebm.gone" not in written
    for name in names:
        assert re.search(rf"^\.\. auto(class|function):: {re.escape(name)}$", written[name], re.M)


def test_modules_and_constants_have_pages(written):
    assert ".. automodule:: ebm.observables" in written["ebm.observables"]
    assert "<ebm.observables.word_entropy>" in written["ebm.observables"]
    assert ":value: 28\n\n   Most units" in written["ebm.observables.MAX_UNITS"]


def test_options_of_the_list_are_those_of_the_page(written):
    """What a class inherits is shown where the list says so, and nowhere else."""
    assert (
        ":: ebm.IsingModel\n   :members:\n   :inherited-members:\n\n" in written["ebm.IsingModel"]
    )
    assert ".. autoclass:: ebm.Spins\n\n" in written["ebm.Spins"]
    assert ".. autoclass:: ebm.Product\n   :members: units, subspace\n\n" in written["ebm.Product"]
    assert "set_fit_request" in written["ebm.sklearn.IsingNetwork"].split(":exclude-members:")[1]


def test_the_page_of_all_names_has_each_once():
    """In a table, with its first sentence; no directive of autodoc is left."""
    text = PAGES["with_tables"](TEXT)
    listed = re.findall(r"^   \* - :py:obj:`\S+ <(\S+)>`\n     - \S", text, re.M)
    assert {name for name, _, _ in ENTRIES} <= set(listed)
    assert len(listed) == len(set(listed))
    assert ".. auto" not in text
    assert re.findall(r"^(.+)\n-+$", text, re.M) == re.findall(r"^(.+)\n-+$", TEXT, re.M)


def test_a_table_is_read_from_directives():
    text = ".. currentmodule:: ebm\n\nOne\n---\n\n.. autofunction:: exact\n\nTwo\n---\n"
    lines = PAGES["with_tables"](text).split("\n")
    assert lines.index("   * - :py:obj:`exact <ebm.exact>`") < lines.index("Two")
    said = lines[lines.index("   * - :py:obj:`exact <ebm.exact>`") + 1]
    assert said.startswith("     - The exact distribution of a finite model")


def test_a_constant_without_a_comment_is_an_error():
    with pytest.raises(LookupError, match="WITHOUT_EXAMPLE is public and has no comment"):
        PAGES["comment"]("tests.test_api_pages", "WITHOUT_EXAMPLE")
    assert PAGES["comment"]("ebm.report", "MAX_UNITS_EXACT").startswith("Largest number")
