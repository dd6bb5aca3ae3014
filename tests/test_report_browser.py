"""The page of a report in Chromium: errors, requests, layout, contrast, sorting, temperature."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebm

pytest.importorskip("matplotlib")
playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

#: Every text of the page against what is behind it: texts whose ratio of luminance is below 4.5.
CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const levels = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b].map((x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
    .reduce((sum, x, k) => sum + x * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = levels(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const weak = [];
  let count = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), isDrawn = element instanceof SVGElement;
    const pair = [levels(isDrawn ? style.fill : style.color), behind(element)].map(luminance);
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    count += 1;
    if (ratio < 4.5) weak.push([walker.currentNode.textContent.trim(), ratio]);
  }
  return { count, weak };
}"""
SPIKES = ebm.datasets.spikes()


def answers() -> Any:
    rng = np.random.default_rng(3)
    drawn = rng.integers(1, 4, (200, 4))
    drawn[:, 1] = np.where(rng.random(200) < 0.5, drawn[:, 0], drawn[:, 1])
    return ebm.report.analyze_items(drawn, (1, 3))


def counted() -> Any:
    return ebm.analyze(SPIKES.states[:4000, :6], penalty=0.001, k_pairwise=True)


def spins() -> Any:
    rows = 2 * SPIKES.states[:2000, :5].astype(int) - 1
    return ebm.analyze(rows, space=ebm.Spins, penalty=0.01, names=["<b>", "a" * 200, '"', "'", "&"])


def stuck() -> Any:
    return ebm.analyze([[0, 0], [1, 1], [0, 0], [1, 1], [0, 1]] * 20)


MAKERS = {
    "cells": lambda: ebm.analyze(SPIKES.states, names=SPIKES.names),
    "counts": counted,
    "spins": spins,
    "items": answers,
    "stuck": stuck,
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module", params=MAKERS)
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Path]:
    """A report and its page."""
    report = MAKERS[request.param]()
    path = tmp_path_factory.mktemp(request.param) / "report.html"
    report.save_report(path, note="ebm fit table.csv --report report.html")
    return report, path


@pytest.fixture
def opened(browser: Any, written: tuple[Any, Path]) -> Iterator[Any]:
    """A function that opens the page; no error, no message and no other request may come."""
    _, path = written
    complaints: list[str] = []
    requests: list[str] = []
    contexts: list[Any] = []

    def view(width: int = 1440, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: requests.append(asked.url))
        page.goto(path.as_uri())
        return page

    yield view
    for context in contexts:
        context.close()
    assert complaints == []
    # Images are parts of the file.
    assert {url for url in requests if not url.startswith("data:")} == {path.as_uri()}


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_can_be_read(opened: Any, width: int, scheme: str) -> None:
    page = opened(width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing but what scrolls by itself stands out of the page.
    beyond = page.evaluate(
        """width => [...document.querySelectorAll("body *")].filter((element) =>
        !element.closest(".scroll, svg") && element.getBoundingClientRect().right > width + 1)
        .map((element) => element.outerHTML.slice(0, 80))""",
        width,
    )
    assert beyond == []
    contrast = page.evaluate(CONTRAST)
    assert contrast["weak"] == []
    assert contrast["count"] > 50
    assert page.evaluate("[...document.querySelectorAll('svg')].every((s) => s.clientHeight > 60)")


def test_weak_contrast_and_wide_elements_are_seen(opened: Any) -> None:
    page = opened(360)
    page.evaluate("document.querySelector('h2').style.color = '#999'")
    assert len(page.evaluate(CONTRAST)["weak"]) == 1
    page.evaluate("document.querySelector('h2').style.width = '900px'")
    assert page.evaluate("document.documentElement.scrollWidth") > 360


def test_links_lead_to_sections(opened: Any) -> None:
    page = opened()
    links = page.evaluate("[...document.links].map((link) => link.getAttribute('href'))")
    assert len(links) >= 4
    for link in links:
        assert re.fullmatch(r"#[a-z-]+", link)
        assert page.evaluate("link => document.querySelectorAll(link).length", link) == 1


def column(page: Any, k: int) -> list[float]:
    cells = page.locator(f"#couplings tbody tr td:nth-child({k})").all_inner_texts()
    return [float(re.sub(r"[±, a-z]|(?<=inf).*", "", text) or "inf") for text in cells]


def test_tables_are_sorted_by_click_and_by_keyboard(opened: Any) -> None:
    page = opened()
    head = page.locator("#couplings thead th").nth(1)
    before = column(page, 2)
    assert head.get_attribute("aria-sort") is None
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert column(page, 2) == sorted(before)
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column(page, 2) == sorted(before, reverse=True)
    other = page.locator("#couplings thead th").nth(2)
    if other.count() and len(before) > 1:
        other.locator("button").press("Space")
        assert head.get_attribute("aria-sort") is None
        assert column(page, 3) == sorted(column(page, 3))


def numbers_at(page: Any, selector: str) -> dict[str, float]:
    """The numbers of elements in full, by what they are named in the page."""
    key = selector.strip("[]").removeprefix("data-")
    key = re.sub("-(.)", lambda match: match[1].upper(), key)
    values: dict[str, str] = page.evaluate(
        """([selector, key]) => Object.fromEntries([...document.querySelectorAll(selector)].map(
        (place) => [place.dataset[key], place.dataset.value]))""",
        [selector, key],
    )
    return {name: float(value) for name, value in values.items()}


@pytest.mark.parametrize("beta", [0.0, 0.37, 1.0, 2.4])
def test_averages_against_temperature_are_those_of_exact_sums(
    opened: Any, written: tuple[Any, Path], beta: float
) -> None:
    report, _ = written
    page = opened()
    page.evaluate(
        """beta => { const slider = document.getElementById("beta");
        slider.value = beta; slider.dispatchEvent(new Event("input")); }""",
        beta,
    )
    model = report.model
    ensemble: Any = ebm.exact(model.scaled(beta))
    space = model.space
    states = space.states_at(np.arange(space.size))
    energies, p = model.energy(states), np.exp(ensemble.log_probability(states))
    mean = float(p @ energies)
    wanted = {
        "partition": ensemble.log_partition,
        "energy": mean,
        "entropy": ensemble.entropy(base=2),
        "capacity": beta**2 * float(p @ (energies - mean) ** 2),
    }
    assert numbers_at(page, "[data-average]") == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    means = {str(unit): x for unit, x in enumerate((p @ states).tolist())}
    assert numbers_at(page, "[data-mean]") == pytest.approx(means, rel=1e-9, abs=1e-9)
    at_one: Any = ebm.exact(model)
    p_one = np.exp(at_one.log_probability(states))
    means = {str(unit): x for unit, x in enumerate((p_one @ states).tolist())}
    assert numbers_at(page, "[data-at-one]") == pytest.approx(means, rel=1e-9, abs=1e-9)
    listed = page.evaluate(
        """[...document.querySelectorAll("#patterns tr")].map((row) => [row.cells[0].textContent,
        ...[1, 2].map((k) => Number(row.cells[k].dataset.value))])"""
    )
    assert len(listed) == min(10, space.size)
    assert [row[2] for row in listed] == pytest.approx(sorted(p, reverse=True)[: len(listed)])
    first = np.array([codes[0] for codes in getattr(report.summary, "codes", [(0, 0)] * space.n)])
    for pattern, energy, probability in listed:
        levels = np.array([int(mark) for mark in pattern]) - first
        state = space.states(levels)
        assert energy == pytest.approx(float(model.energy(state)), rel=1e-9, abs=1e-9)
        wanted_here = float(np.exp(ensemble.log_probability(state)))
        assert probability == pytest.approx(wanted_here, rel=1e-9, abs=1e-12)


def test_the_slider_moves_by_keyboard_and_returns(opened: Any) -> None:
    page = opened()
    before = page.locator("[data-average=entropy]").inner_text()
    page.locator("#beta").press("ArrowRight")
    assert page.locator("#beta-value").inner_text() == "1.01"
    page.locator("#beta").press("End")
    assert page.locator("#beta-value").inner_text() == "3.00"
    assert page.locator("[data-average=entropy]").inner_text() != before
    page.locator("#beta-reset").click()
    assert page.locator("#beta-value").inner_text() == "1.00"
    assert page.locator("[data-average=entropy]").inner_text() == before


def test_print_shows_whole_tables_in_black_on_white(opened: Any) -> None:
    page = opened(1440, "dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    cut = page.evaluate(
        """[...document.querySelectorAll(".scroll")].filter((box) =>
        box.scrollHeight > box.clientHeight + 2).length"""
    )
    assert cut == 0
    assert page.evaluate(CONTRAST)["weak"] == []
    assert page.pdf().startswith(b"%PDF")


def test_scripts_that_are_not_its_own_do_not_run(browser: Any, tmp_path: Path) -> None:
    """The policy of the page holds even if a name were written as it is."""
    path = tmp_path / "report.html"
    spins().save_report(path)
    path.write_text(
        path.read_text("utf-8").replace("<main>", "<main><script>window.seen = 1</script>")
    )
    page = browser.new_page()
    page.goto(path.as_uri())
    assert page.evaluate("window.seen === undefined")
    assert page.locator("#beta-value").inner_text() == "1.00"
    page.close()
