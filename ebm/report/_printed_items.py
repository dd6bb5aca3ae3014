"""What a report on ordinal items says, section by section."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebm.report._blocks import (
    Blocks,
    Names,
    Rows,
    Section,
    Sentence,
    Value,
    bound,
    known_sections,
    trouble,
)

#: Items whose shares and thresholds, and couplings, that are listed.
_MOST_ITEMS, _MOST_COUPLINGS = 30, 15


def items_in_words(report: Any) -> Iterator[Section]:
    """The sections that are known."""
    parts = {
        "trouble": trouble,
        "data": _data,
        "fit": _fit,
        "thresholds": _thresholds,
        "couplings": _couplings,
        "warnings": _warnings,
    }
    return known_sections(report, parts)


def _data(report: Any) -> Blocks:
    s = report.summary
    yield "Data"
    yield Value("rows x items", f"{s.n_rows} x {s.n_units}")
    if s.sample_size != s.n_rows:
        yield Value("sum of weights", f"{s.sample_size:g}")
    yield Value("distinct patterns", f"{s.n_patterns}")
    if s.n_missing:
        n_cells = s.sample_size * s.n_units
        yield Value("missing answers", f"{sum(s.n_missing):g} of {n_cells:g}")
        yield Value("complete rows", f"{s.n_complete:g}")
    rows = []
    for name, (first, last), shares in zip(s.names, s.codes, s.shares, strict=True):
        written = " ".join(f"{share:.3f}" for share in shares)
        rows.append((Names((name,)), f"{first} to {last}", written))
    head = ("item", "codes", "share of each category")
    yield Rows(head, tuple(rows), "<<<", shown=_most_rows(s.n_units, len(rows)))


def _most_rows(n_items: int, n_rows: int) -> int:
    """All rows of text, none where items are many."""
    return n_rows if n_items <= _MOST_ITEMS else 0


def _fit(report: Any) -> Blocks:
    s = report.fit
    yield "Fit"
    yield Sentence(report.route)
    for label, value in (
        ("log-likelihood per row", s.log_likelihood),
        ("log pseudo-likelihood per row", s.log_pseudolikelihood),
    ):
        if value is not None:
            yield Value(label, f"{value:.6f} nats")
    yield Value("parameters", f"{s.n_parameters}")
    if s.aic is not None:
        yield Value("AIC, BIC", f"{s.aic:.2f}, {s.bic:.2f}")
    yield Value("iterations", f"{s.n_iterations}")
    yield Sentence(s.message if s.converged else f"not converged: {s.message}")
    yield Value("entropy of independent items", f"{report.independent_entropy:.4f} bits")
    if report.model_entropy is not None:
        yield Value("entropy of the model", f"{report.model_entropy:.4f} bits")
    if report.plug_in_entropy is not None:
        yield Value("entropy of the rows, plug-in", f"{report.plug_in_entropy:.4f} bits")


def _thresholds(report: Any) -> Blocks:
    yield "Thresholds in units of k_B T, relative to the first category of each item"
    rows = tuple(
        (
            Names((threshold.unit,)),
            f"{threshold.code}",
            f"{threshold.value:+.4f}",
            bound(threshold.standard_error),
        )
        for threshold in report.thresholds
    )
    shown = _most_rows(report.summary.n_units, len(rows))
    yield Rows(("item", "code", "threshold", ""), rows, "<>><", shown=shown)


def _couplings(report: Any) -> Blocks:
    strongest = report.couplings.strongest
    if not strongest:
        return
    n_couplings = report.couplings.n_couplings
    yield f"Strongest couplings W of levels in units of k_B T ({n_couplings} in all)"
    yield Rows(
        ("items", "W", "standard error"),
        tuple(
            (Names(one.units), f"{one.value:+.4f}", bound(one.standard_error)) for one in strongest
        ),
        "<><",
        has_head=False,
        shown=_MOST_COUPLINGS,
        total=n_couplings,
    )


def _warnings(report: Any) -> Blocks:
    if report.warnings:
        yield "Warnings"
    for text in report.warnings:
        yield Sentence(text, "  - ")
