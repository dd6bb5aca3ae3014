"""Every page of the built documentation in Chromium, on a desk and on a phone.

``sphinx-build -W docs docs/_build/html`` builds them; without them, Playwright or Chromium the
tests are skipped.
"""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

BUILT = Path(__file__).parents[1] / "docs" / "_build" / "html"
PAGES = sorted(path for path in BUILT.rglob("*.html") if "_static" not in path.parts)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
#: Of a desk and of a phone, in pixels.
WIDTHS = (1440, 360)

pytestmark = pytest.mark.skipif(not PAGES, reason="the documentation is not built")

#: Pixels by which the page is wider than the window, and the first element that sticks out of it.
OVERFLOW = """() => {
    const root = document.documentElement;
    const excess = root.scrollWidth - root.clientWidth;
    if (excess <= 0) return null;
    const inside = [...document.querySelectorAll("article *")];
    const wide = inside.find(element => element.getBoundingClientRect().right > root.clientWidth);
    return `${excess} pixels: ${wide ? wide.outerHTML.slice(0, 200) : "outside of the article"}`;
}"""
#: Formulas that MathJax could not set, or has not set.
UNSET = """() => [...document.querySelectorAll("mjx-merror, .math:not(:has(mjx-container))")]
    .map(element => element.textContent)"""


class Links(HTMLParser):
    """Targets of links and images of a page, and the names that links can point to."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.anchors = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        name = {"a": "href", "link": "href", "img": "src", "script": "src"}.get(tag)
        if values.get(name):
            self.targets.add(values[name])


def broken(page, links):
    """Targets inside of the documentation that do not exist."""
    for target in links[page].targets:
        address, anchor = urldefrag(target)
        if re.match(r"[a-z]+:|//", address):
            continue
        path = page if not address else (page.parent / unquote(address.split("?")[0])).resolve()
        if not path.exists() or (anchor and path in links and anchor not in links[path].anchors):
            yield f"{page.relative_to(BUILT)}: {target}"


def test_links_inside_of_the_pages_resolve():
    links = {page: Links(page.read_text("utf-8")) for page in PAGES}
    assert len(links) > 350
    assert [target for page in PAGES for target in broken(page, links)] == []


def test_the_reader_of_links_sees_a_broken_one():
    """The test above can fail."""
    page = BUILT / "index.html"
    text = '<a href="api.html#gone">b</a><a href="api.html">b</a><img src="gone.png"><a href="#x">'
    links = {page: Links(text), BUILT / "api.html": Links('<p id="there">')}
    wanted = ["index.html: #x", "index.html: api.html#gone", "index.html: gone.png"]
    assert sorted(broken(page, links)) == wanted


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are opened by playwright")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def complaints(window, address):
    """What is wrong with a page, as sentences."""
    said = []
    handlers = {
        "console": lambda message: message.type == "error" and said.append(message.text),
        "pageerror": lambda error: said.append(str(error)),
        "request": lambda asked: (
            asked.url.startswith(("file:", "data:", "blob:"))
            or said.append(f"asks for {asked.url}")
        ),
        "requestfailed": lambda asked: said.append(f"did not get {asked.url}"),
    }
    for event, handler in handlers.items():
        window.on(event, handler)
    window.goto(address)
    if window.evaluate("() => Boolean(document.querySelector('.math'))"):
        window.wait_for_function("() => window.MathJax && MathJax.startup.promise")
        window.evaluate("() => MathJax.startup.promise.then(() => null)")
        said += [f"formula {formula}" for formula in window.evaluate(UNSET)]
    for width in WIDTHS:
        window.set_viewport_size({"width": width, "height": 800})
        if excess := window.evaluate(OVERFLOW):
            said.append(f"{width} pixels are exceeded by {excess}")
    for event, handler in handlers.items():
        window.remove_listener(event, handler)
    return said


def test_every_page_opens_without_errors_requests_or_overflow(browser):
    window = browser.new_page()
    wrong = {}
    for page in PAGES:
        if said := complaints(window, page.as_uri()):
            wrong[str(page.relative_to(BUILT))] = said
    window.close()
    assert wrong == {}


def test_a_bad_page_is_seen(browser, tmp_path):
    """An error, a request and a width."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<script>throw new Error('first')</script><img src='http://localhost:9/x.png'>"
        "<article><div style='width: 900px'>wide</div></article>"
    )
    window = browser.new_page()
    said = " ".join(complaints(window, page.as_uri()))
    window.close()
    assert "first" in said
    assert "asks for http://localhost:9/x.png" in said
    assert "360 pixels are exceeded by" in said
    assert "1440 pixels are exceeded" not in said
