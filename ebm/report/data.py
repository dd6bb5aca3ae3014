"""Sections of a report that need no fit: the data and their entropies."""

from __future__ import annotations

import math

from ebm.ensembles import WeightedStates
from ebm.observables import independent_entropy
from ebm.report.parts import DataSummary, Entropies
from ebm.spaces import Binary

__all__ = ["entropies", "summarize_data"]


def summarize_data(data: WeightedStates) -> DataSummary:
    """Rows, units, patterns and rates.

    Parameters
    ----------
    data : WeightedStates
        From ``Ensemble.from_data``.

    Returns
    -------
    DataSummary
        The first section of a report.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.data import summarize_data
    >>> summarize_data(ebm.Ensemble.from_data([[0, 1], [0, 1], [1, 1]])).n_patterns
    2
    """
    return DataSummary(
        n_rows=data.n_rows,
        n_units=data.space.n,
        n_patterns=len(data.states),
        sample_size=data.sample_size,
        coding="{0, 1}" if isinstance(data.space, Binary) else "{-1, 1}",
        names=data.space.labels,
        rates=tuple(float(rate) for rate in data.moments().to(Binary).mean),
    )


def entropies(
    data: WeightedStates,
    model: float | None = None,
    *,
    error: float | None = None,
    reproduces: bool = True,
) -> Entropies:
    """S₁, S₂ and the entropy of the data, in bits, with the bias of the last.

    The plug-in entropy is low by about (K−1)/(2N ln 2) bits for K patterns seen in N rows
    :cite:`miller1955`; the estimate holds while K is small against N.

    Parameters
    ----------
    data : WeightedStates
        The data.
    model : float, optional
        The entropy of the fitted model in bits.
    error : float, optional
        Its standard error, where it is an estimate.
    reproduces : bool, default True
        Whether the model has the rates and pairs of the data, so that its entropy is S₂.

    Returns
    -------
    Entropies
        With the fractions I₂/I_N = (S₁ − S₂)/(S₁ − S) where S₂ is known, S₁ > S, and patterns
        were seen often enough for S to mean anything: K ≤ N/2.

    Examples
    --------
    >>> import ebm
    >>> from ebm.report.data import entropies
    >>> s = entropies(ebm.Ensemble.from_data([[0, 0], [1, 1], [0, 0], [1, 1]]), 1.0)
    >>> s.independent, s.plug_in, s.captured
    (2.0, 1.0, 1.0)
    """
    alone = independent_entropy(data.moments().to(Binary).mean)
    plug_in = data.entropy(base=2)
    bias = (len(data.states) - 1) / (2 * data.sample_size * math.log(2))
    pairwise = model if reproduces else None
    # Where next to every row is a pattern of its own, S is about ln N whatever the data.
    seen_again = 2 * len(data.states) <= data.sample_size
    shared = pairwise if seen_again else None
    return Entropies(
        independent=alone,
        model=model,
        pairwise=pairwise,
        plug_in=plug_in,
        bias=bias,
        corrected=plug_in + bias,
        captured=_captured(alone, shared, plug_in),
        captured_corrected=_captured(alone, shared, plug_in + bias),
        model_error=error,
    )


def _captured(alone: float, pairwise: float | None, whole: float) -> float | None:
    """The share (S₁ − S₂)/(S₁ − S); None where there is no dependence to share in."""
    if pairwise is None or alone - whole <= 1e-12 * alone:
        return None
    return (alone - pairwise) / (alone - whole)
