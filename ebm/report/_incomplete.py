"""The sections of a report on rows with missing cells: those that need no complete rows."""

from __future__ import annotations

from typing import Any

from ebm.effective import CompletedRows
from ebm.ensembles import IncompleteEnsemble
from ebm.learning import FitResult
from ebm.observables import independent_entropy
from ebm.report._sections import (
    MAX_UNITS_MINIMA,
    couplings_of,
    minima_and_valleys,
    summarize_fit,
    was_interrupted,
    while_uninterrupted,
)
from ebm.report.parts import DataSummary, Entropies
from ebm.spaces import Binary


def sections_of_incomplete_rows(
    data: IncompleteEnsemble, result: FitResult, penalty: tuple[float, float]
) -> dict[str, Any]:
    """Sections by name; inversion, KL(data‖model) and triples are those of complete rows."""
    n, model, ensemble = data.space.n, result.model, result.ensemble
    # What rows say of a cell that is missing is known by the model alone.
    completed = CompletedRows(model, data)
    errors = None if result.standard_errors is None else result.standard_errors[n:]
    sections = {
        "summary": summarize_incomplete_rows(data),
        "fit": summarize_fit(result, completed, *penalty),
        "entropies": Entropies(
            independent=independent_entropy(ensemble.moments().to(Binary).mean),
            model=ensemble.entropy(base=2),
            pairwise=None,
            plug_in=None,
            bias=None,
            corrected=None,
            captured=None,
            captured_corrected=None,
        ),
        "couplings": couplings_of(model, errors),
        "comparison": None,
        "goodness": None,
        "minima": None,
    }
    is_small = n <= MAX_UNITS_MINIMA
    return sections | while_uninterrupted(
        was_interrupted(result), lambda: minima_and_valleys(model, ensemble) if is_small else {}
    )


def summarize_incomplete_rows(data: IncompleteEnsemble) -> DataSummary:
    """Rows, units, patterns, rates of the cells seen, and how many are missing."""
    is_binary = isinstance(data.space, Binary)
    rates = data.seen_mean if is_binary else (1 + data.seen_mean) / 2
    return DataSummary(
        n_rows=data.n_rows,
        n_units=data.space.n,
        n_patterns=len(data.levels),
        sample_size=data.sample_size + data.n_blank,
        coding="{0, 1}" if is_binary else "{-1, 1}",
        names=data.space.labels,
        rates=tuple(rates.tolist()),
        n_missing=tuple(data.n_missing.tolist()),
        n_complete=data.n_complete,
    )
