"""A report on ordinal items as text, at most 80 columns wide as far as their names allow."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ebm._text import labelled, short, table, wrapped

#: Items whose shares and thresholds, and couplings, that are listed.
_MOST_ITEMS, _MOST_COUPLINGS = 30, 15

Lines = Iterator[str]


def render_items(report: Any) -> str:
    """All sections, separated by empty lines."""
    parts = (_trouble, _data, _fit, _thresholds, _couplings, _warnings)
    texts = ("\n".join(part(report)) for part in parts)
    return "\n\n".join(text for text in texts if text)


def _trouble(report: Any) -> Lines:
    """Failure to converge, before everything else."""
    if not report.fit.converged:
        yield from wrapped(
            f"NOT CONVERGED: {report.fit.message}. All results on the model refer to the point "
            "where the search stopped" + (", see the warnings below." if report.warnings else "."),
            "",
        )


def _data(report: Any) -> Lines:
    s = report.summary
    yield "Data"
    yield labelled("rows x items", f"{s.n_rows} x {s.n_units}")
    if s.sample_size != s.n_rows:
        yield labelled("sum of weights", f"{s.sample_size:g}")
    yield labelled("distinct patterns", f"{s.n_patterns}")
    if s.n_missing:
        n_cells = s.sample_size * s.n_units
        yield labelled("missing answers", f"{sum(s.n_missing):g} of {n_cells:g}")
        yield labelled("complete rows", f"{s.n_complete:g}")
    if s.n_units > _MOST_ITEMS:
        return
    rows = [["item", "codes", "share of each category"]]
    for name, (first, last), shares in zip(s.names, s.codes, s.shares, strict=True):
        written = " ".join(f"{share:.3f}" for share in shares)
        rows.append([short(name), f"{first} to {last}", written])
    yield from table(rows, "<<<")


def _fit(report: Any) -> Lines:
    s = report.fit
    yield "Fit"
    yield from wrapped(report.route)
    for label, value in (
        ("log-likelihood per row", s.log_likelihood),
        ("log pseudo-likelihood per row", s.log_pseudolikelihood),
    ):
        if value is not None:
            yield labelled(label, f"{value:.6f} nats")
    yield labelled("parameters", f"{s.n_parameters}")
    if s.aic is not None:
        yield labelled("AIC, BIC", f"{s.aic:.2f}, {s.bic:.2f}")
    yield labelled("iterations", f"{s.n_iterations}")
    yield from wrapped(s.message if s.converged else f"not converged: {s.message}")
    yield labelled("entropy of independent items", f"{report.independent_entropy:.4f} bits")
    if report.model_entropy is not None:
        yield labelled("entropy of the model", f"{report.model_entropy:.4f} bits")
    if report.plug_in_entropy is not None:
        yield labelled("entropy of the rows, plug-in", f"{report.plug_in_entropy:.4f} bits")


def _thresholds(report: Any) -> Lines:
    if report.summary.n_units > _MOST_ITEMS:
        return
    yield "Thresholds in units of k_B T, relative to the first category of each item"
    rows = [["item", "code", "threshold", ""]]
    for threshold in report.thresholds:
        error = _bound(threshold.standard_error)
        rows.append([short(threshold.unit), f"{threshold.code}", f"{threshold.value:+.4f}", error])
    yield from table(rows, "<>><")


def _couplings(report: Any) -> Lines:
    shown = report.couplings.strongest[:_MOST_COUPLINGS]
    if not shown:
        return
    n_couplings = report.couplings.n_couplings
    yield f"Strongest couplings W of levels in units of k_B T ({n_couplings} in all)"
    rows = [
        [" -- ".join(map(short, one.units)), f"{one.value:+.4f}", _bound(one.standard_error)]
        for one in shown
    ]
    yield from table(rows, "<><")


def _bound(error: float | None) -> str:
    if error is None:
        return ""
    return f"± {error:.4f}" if math.isfinite(error) else "± inf, no bound"


def _warnings(report: Any) -> Lines:
    if report.warnings:
        yield "Warnings"
    for text in report.warnings:
        yield from wrapped(text, "  - ")
