"""The probability of every edge, as a section of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ebm._jobs import interruptible
from ebm._progress import stage
from ebm._randomness import RandomSource
from ebm.inversion import EdgePosterior, EdgePrior, edge_posterior
from ebm.report.analysis import Report
from ebm.report.parts import EdgeProbability, Edges


def with_edges(
    report: Report, prior: EdgePrior, rng: RandomSource, *, max_seconds: float, progress: bool
) -> Report:
    """The report with the posterior over edges of its data, without it after Ctrl-C."""
    posterior: Any = None
    if not report.interrupted:
        with interruptible(), stage(progress, "walking over graphs"):
            posterior = edge_posterior(report.data, prior, rng=rng, max_seconds=max_seconds)
    if posterior is None:
        notes = (*report.warnings, "Interrupted before the probabilities of edges were known")
        return replace(report, interrupted=True, warnings=notes)
    notes = tuple(dict.fromkeys((*report.warnings, *posterior.warnings)))
    return replace(report, posterior=posterior, edges=_section(posterior), warnings=notes)


def _section(posterior: EdgePosterior) -> Edges:
    labels, p, prior = posterior.space.labels, posterior.probabilities, posterior.prior
    i, j = np.triu_indices(posterior.space.n, 1)
    return Edges(
        field_width=prior.field_width,
        coupling_width=prior.coupling_width,
        edge_probability=prior.edge_probability,
        n_expected=float(p.sum()),
        edges=tuple(
            EdgeProbability((labels[i[k]], labels[j[k]]), float(p[k]), float(posterior.errors[k]))
            for k in np.argsort(-p, kind="stable")
        ),
    )
