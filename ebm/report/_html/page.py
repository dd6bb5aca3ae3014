"""The page: head, contents, sections with figures between them, and foot."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np

from ebm.plotting.style import binomial_error
from ebm.report._blocks import Names, Rows, Section, bound
from ebm.report._html.drawings import edges_figure, network_figure, panels
from ebm.report._html.elements import (
    escaped,
    resource,
    rows_element,
    section_element,
    section_of,
    titled,
)
from ebm.report._html.temperature import temperature_section

#: Names of sections in the contents, in their order on the page.
CONTENTS = {
    "warnings": "Warnings",
    "data": "Data",
    "fit": "Fit",
    "entropy": "Entropy",
    "misfit": "What is left out",
    "figures": "Figures",
    "units": "Units",
    "thresholds": "Thresholds",
    "couplings": "Couplings",
    "network": "Network",
    "edges": "Edges",
    "inversion": "Comparison",
    "populations": "Active units",
    "minima": "Minima",
    "valleys": "Valleys",
    "temperature": "Temperature",
}


def page_of(report: Any, sections: Iterable[Section], *, title: str, note: str) -> str:
    """The whole page of a report."""
    parts = {part.name: part for part in sections}
    trouble = parts.pop("trouble", None)
    elements = {name: section_element(part) for name, part in parts.items()}
    if "edges" in parts:
        elements["edges"] = section_element(parts["edges"], edges_figure(report))
    figures = "".join(panels(report))
    elements["figures"] = _section("figures", "Figures", f'<div class="figures">{figures}</div>')
    elements["units"] = _units(report)
    elements["network"] = _section("network", "Network of couplings", network_figure(report))
    elements["temperature"] = temperature_section(report)
    shown = {name: elements[name] for name in CONTENTS if elements.get(name)}
    summary = report.summary
    kind = "items" if hasattr(summary, "codes") else "units"
    heading = title or f"{summary.n_rows} rows of {summary.n_units} {kind}"
    style, script = (resource(name) for name in ("report.css", "report.js"))
    return resource("page.html").format(
        policy=f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'",
        title=escaped(heading),
        style=style,
        script=script,
        route=escaped(report.route),
        verdict=_verdict(report, trouble),
        contents="".join(f'<li><a href="#{name}">{CONTENTS[name]}</a></li>' for name in shown),
        sections="\n".join(shown.values()),
        note=f"<code>{escaped(note)}</code>" if note else "",
        version=import_module(__name__.partition(".")[0]).__version__,
    )


def _digest(text: str) -> str:
    """The only style, or script, that the page allows itself."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _section(name: str, title: str, body: str) -> str:
    if not body:
        return ""
    return section_of(name, f"<h2>{title}</h2>{body}", is_wide=name == "figures")


def _verdict(report: Any, trouble: Section | None) -> str:
    """Whether the fit converged, before everything else, and how many warnings there are."""
    n_warnings = len(report.warnings)
    warned = f'<a href="#warnings">{n_warnings} warning{"s" * (n_warnings > 1)}</a>'
    if trouble is not None:
        texts = " ".join(getattr(block, "text", "") for block in trouble.blocks)
        kind, text = "bad", escaped(texts)
    elif report.fit is None:
        kind, text = "bad", "No fit was made."
    else:
        kind, text = "good", escaped(report.fit.message)
    line = f'<p class="verdict {kind}">{text}</p>'
    if report.interrupted:
        line += '<p class="verdict bad">Interrupted: sections that had not begun are left out.</p>'
    return line + (f'<p class="verdict warned">{warned}</p>' if n_warnings else "")


def _units(report: Any) -> str:
    """Rates and biases of two-valued units with their standard errors."""
    s = report.summary
    if not hasattr(s, "rates"):
        return ""
    sizes = s.sample_size - np.array(s.n_missing or [0.0] * s.n_units)
    errors = binomial_error(np.array(s.rates), np.maximum(sizes, 1.0))
    head = ["unit", "rate", "standard error"]
    columns = [
        [Names((label,)) for label in s.names],
        [f"{rate:.4f}" for rate in s.rates],
        list(map(bound, errors)),
    ]
    if report.result is not None:
        n, result = s.n_units, report.result
        head.append("bias\u00a0b" if s.coding == "{0, 1}" else "field\u00a0h")
        columns.append([f"{value:+.4f}" for value in result.model.parameters[:n]])
        if result.standard_errors is not None:
            head.append("standard error")
            columns.append(list(map(bound, result.standard_errors[:n])))
    rows = Rows(tuple(head), tuple(zip(*columns, strict=True)), "")
    note = "Rates are probabilities of being active"
    if report.result is not None:
        letter = "Biases" if s.coding == "{0, 1}" else "Fields"
        center = ", at center 0" if s.coding == "{0, 1}" else ""
        note += f"; {letter.lower()} are those of the pairwise model in units of k_B T{center}"
    return _section("units", "Units", rows_element(rows, "Units") + f"<p>{titled(note)}.</p>")
