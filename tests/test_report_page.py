"""The page of a report: its numbers are those of the text, and names of units stay text."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.cli import main
from ebm.inversion import EdgePrior
from ebm.report import analyze_items
from ebm.report._edges import with_edges
from ebm.report._html.elements import escaped, prose
from ebm.report._html.temperature import script_data, temperature_section

pytest.importorskip("matplotlib")

SPIKES = ebm.datasets.spikes()

#: Elements without an end.
VOID = {"meta", "input", "br", "hr", "img", "link"}
#: What names of a user's file may try.
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(2)</script>",
    "</style><b>&amp;",
    "\u202egnal",
    "x" * 200,
)


class Page(HTMLParser):
    """Elements that are open, texts, tables, identifiers, links and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.words: list[str] = []
        self.identifiers: list[str] = []
        self.links: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.raw: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags[tag] += 1
        self.attributes |= {key for key, _ in attributes}
        values = dict(attributes)
        if "id" in values:
            self.identifiers.append(values["id"])
        self.links += [values[key] for key in ("href", "xlink:href") if key in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.raw[self.open[-1]] = self.raw.get(self.open[-1], "") + data
        elif "svg" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"[+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?", text))


def page_of(report: Any, folder: Path, **settings: Any) -> str:
    path = folder / "report.html"
    report.save_report(path, overwrite=True, **settings)
    return path.read_text("utf-8")


def parsed(text: str) -> Page:
    page = Page(text)
    assert page.open == []
    assert len(set(page.identifiers)) == len(page.identifiers)
    inner = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inner) <= set(page.identifiers)
    # Color bars are images inside of the file; nothing else is fetched from anywhere.
    outside = [link for link in page.links if not link.startswith(("#", "data:image/png"))]
    assert outside == []
    assert "style" not in page.attributes
    assert not [key for key in page.attributes if key.startswith("on")]
    return page


def coupled_rows(n_rows: int = 400, n: int = 6, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = (rng.random((n_rows, n)) < 0.4).astype(np.int8)
    rows[:, 1] = np.where(rng.random(n_rows) < 0.5, rows[:, 0], rows[:, 1])
    return rows


def answers(seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(1, 4, (200, 4))
    drawn[:, 1] = np.where(rng.random(200) < 0.5, drawn[:, 0], drawn[:, 1])
    return drawn


def with_holes(rows: np.ndarray) -> np.ndarray:
    holes = rows.astype(float)
    holes[np.random.default_rng(1).random(rows.shape) < 0.05] = np.nan
    return holes


def two_triangles() -> np.ndarray:
    couplings = np.kron(np.eye(2), np.ones((3, 3)) - np.eye(3)) * 1.2
    return ebm.exact(ebm.IsingModel(couplings, np.zeros(6))).sample(3000, rng=1)


def incomplete() -> Any:
    return ebm.IncompleteEnsemble.from_data(with_holes(coupled_rows()))


#: Reports of every kind that has a text.
KINDS = {
    "ten cells": lambda: ebm.analyze(SPIKES.states, names=SPIKES.names),
    "penalty": lambda: ebm.analyze(coupled_rows(), penalty=0.01),
    "valleys": lambda: ebm.analyze(two_triangles(), space=ebm.Spins),
    "counts": lambda: ebm.analyze(coupled_rows(), penalty=0.01, k_pairwise=True),
    "edges": lambda: with_edges(
        ebm.analyze(coupled_rows()), EdgePrior(), 0, max_seconds=300, progress=False
    ),
    "incomplete rows": lambda: ebm.analyze(incomplete()),
    "one unit": lambda: ebm.analyze([[0], [1], [1]]),
    "inversion": lambda: ebm.analyze(coupled_rows(30, 35)),
    "no convergence": lambda: ebm.analyze([[0, 0], [1, 1], [0, 0], [1, 1], [0, 1]] * 20),
    "items": lambda: analyze_items(answers(), (1, 3)),
    "incomplete items": lambda: analyze_items(
        with_holes(answers()), (1, 3), missing_at_random=True
    ),
    "many items": lambda: analyze_items(np.random.default_rng(2).integers(0, 3, (500, 32)), (0, 2)),
}


@cache
def written(kind: str) -> tuple[Any, str]:
    """A report of this kind and its page."""
    report = KINDS[kind]()
    with tempfile.TemporaryDirectory() as folder:
        return report, page_of(report, Path(folder))


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_holds_every_number_of_the_text(kind: str) -> None:
    report, source = written(kind)
    page = parsed(source)
    missing = numbers(str(report)) - numbers(page.text)
    assert missing == Counter()
    assert len(source) < 1_000_000
    assert page.tags["svg"] >= 1
    for text in report.warnings:
        assert " ".join(text.split()) in page.text


def test_another_number_would_be_noticed() -> None:
    report, source = written("penalty")
    text = str(report)
    likelihood = f"{report.fit.log_likelihood:.6f}"
    changed = text.replace(likelihood, likelihood[:-1] + str((int(likelihood[-1]) + 1) % 10))
    assert changed != text
    page = parsed(source)
    assert numbers(changed) - numbers(page.text)


def test_tables_are_whole_where_text_lists_the_first_rows() -> None:
    report, source = written("ten cells")
    table = source.split('<section id="couplings">')[1].split("</section>")[0]
    assert report.couplings is not None
    assert table.count("<tr>") == 1 + report.couplings.n_couplings
    for coupling in report.couplings.strongest:
        assert f'<td class="number">{coupling.value:+.4f}</td>' in table
    units = source.split('<section id="units">')[1].split("</section>")[0]
    assert report.result is not None
    assert report.result.standard_errors is not None
    for k, name in enumerate(report.summary.names):
        error = report.result.standard_errors[k]
        assert f"<bdi>{name}</bdi>" in units
        assert f"{report.result.model.parameters[k]:+.4f}" in units
        assert f"± {error:.4f}" in units


def test_the_file_is_the_same_each_time(tmp_path: Path) -> None:
    again = page_of(KINDS["penalty"](), tmp_path)
    assert again == written("penalty")[1]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    report = ebm.analyze(coupled_rows(), penalty=0.01, names=HOSTILE)
    source = page_of(report, tmp_path, title=HOSTILE[0], note=HOSTILE[2])
    page = parsed(source)
    wanted = parsed(written("penalty")[1])
    for tag in ("script", "style", "img", "b"):
        assert page.tags[tag] == wanted.tags[tag]
    # A mark that would turn what follows is written out; a long name is whole in a title.
    names = [name.replace("\u202e", "\\u202e") for name in HOSTILE]
    for name in names[:-1]:
        assert name in page.text
    assert f'title="{names[-1]}"' in source


def test_words_from_right_to_left_do_not_turn_the_numbers_after_them() -> None:
    hebrew = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd"
    assert prose(f"worst: <a>, {hebrew}: -4.9") == (f"worst: &lt;a&gt;, <bdi>{hebrew}</bdi>: -4.9")
    assert "\u202e" not in prose("\u202e -4.9")


@given(st.text(st.characters(codec=None), max_size=40))
@settings(max_examples=200)
def test_any_text_is_escaped_and_can_be_read_again(text: str) -> None:
    written = escaped(text)
    assert not set("<>\"'") & set(written)
    # Halves of pairs, and what no page holds, are written as in Python.
    assert "\x00" not in written
    written.encode()
    page = Page(f'<p title="{written}">{written}</p>')
    assert page.open == []
    assert page.tags == Counter(p=1)
    if text.isprintable():
        assert "".join(page.words) == text


@given(st.lists(st.text(max_size=20)))
@settings(max_examples=100)
def test_json_in_a_script_element_ends_where_it_should(names: list[str]) -> None:
    text = script_data({"names": names})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"names": names}


def states_of(source: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(source.split('id="states">')[1].split("</script>")[0])
    return found


@pytest.mark.parametrize("kind", ["ten cells", "valleys", "counts", "items"])
def test_energies_of_all_states_are_those_of_the_very_model(kind: str) -> None:
    report, source = written(kind)
    states = states_of(source)
    space: Any = report.model.space
    energies = np.array(states["energies"])
    assert np.array_equal(energies, report.model.energy(space.states_at(np.arange(space.size))))
    assert states["values"] == [space.values_of(unit).tolist() for unit in range(space.n)]
    first = "1" if kind == "items" else "0"
    assert {marks[0] for marks in states["marks"]} == {first}


def test_a_model_of_many_states_has_no_slider() -> None:
    def section(n: int) -> str:
        model = ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n))
        return temperature_section(SimpleNamespace(model=model, summary=None))

    assert 'id="beta"' in section(12)
    assert section(13) == ""
    assert temperature_section(SimpleNamespace(model=None)) == ""


def test_trouble_and_warnings_come_first() -> None:
    _, source = written("no convergence")
    page = parsed(source)
    assert "NOT CONVERGED" in page.text
    assert source.index("NOT CONVERGED") < source.index("<nav") < source.index('id="warnings"')
    assert source.index('id="warnings"') < source.index('id="data"')
    assert 'class="verdict good"' not in source


def test_existing_files_and_missing_packages_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = ebm.analyze(coupled_rows(), penalty=0.1)
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        report.save_report(path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ebm.errors.MissingExtraError, match=r"ebm-framework\[plot\]"):
        report.save_report(path, overwrite=True)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


# Command line


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    np.savetxt(path, coupled_rows(), fmt="%d", delimiter=",", header="a,b,c,d,e,<i>", comments="")
    return path


def test_fit_writes_the_page_with_its_command(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table.with_name("my report.html")
    argv = ["fit", str(table), "--l2", "0.01", "--report", str(path)]
    assert main(argv) == 0
    page = parsed(path.read_text("utf-8"))
    assert numbers(capsys.readouterr().out) - numbers(page.text) == Counter()
    assert "table.csv" in page.text
    assert f"ebm fit {table} --l2 0.01 --report '{path}'" in page.text
    assert f"ebm {ebm.__version__}" in page.text
    # The name of a column.
    assert "<i>" in page.text


def test_incomplete_rows_have_a_page(table: Path) -> None:
    path = table.with_name("r.html")
    table.write_text(table.read_text().replace("1,1,", "1,,", 3))
    argv = ["fit", str(table), "--l2", "0.01", "--missing-at-random", "--report", str(path)]
    assert main(argv) == 0
    assert "missing cells" in parsed(path.read_text("utf-8")).text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("r.pdf", "has no suffix of a page, wanted .html"),
        ("nowhere/r.html", "no such folder"),
        ("there.html", "the file exists, pass --force"),
        ("table.csv", "is named twice"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_the_fit(
    table: Path,
    name: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table.with_name("there.html").write_text("mine")
    monkeypatch.setattr("ebm.cli.fitting.read_table", lambda *_, **__: pytest.fail("was read"))
    assert main(["fit", str(table), "--report", str(table.parent / name)]) == 2
    assert said in capsys.readouterr().err
