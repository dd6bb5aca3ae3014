"""Every assertion about random numbers, with the rate at which it fails though all is right."""

import numpy as np
from scipy.stats import chi2, norm

#: Probability that one assertion of this module fails on correct code.
FALSE_FAIL_RATE = 1e-6


def distribution_p_value(draws, probabilities, space):
    """p-value of a pooled chi-square test of independent draws against exact probabilities."""
    counts = np.bincount(space.index(draws), minlength=len(probabilities))
    return counts_p_value(counts, np.asarray(probabilities))


def counts_p_value(counts, probabilities):
    """That of how often each outcome was seen.

    Outcomes are pooled, rarest first, into cells of at least ten expected draws.
    """
    expected = counts.sum() * probabilities
    if counts[expected == 0].any():
        return 0.0
    order = np.argsort(expected)
    edges, filled = [0], 0.0
    for k, value in enumerate(expected[order]):
        filled += value
        if filled >= 10:
            edges.append(k + 1)
            filled = 0.0
    edges = edges[:-1] if len(edges) > 1 else edges
    observed = np.add.reduceat(counts[order], edges)
    wanted = np.add.reduceat(expected[order], edges)
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    return float(chi2.sf(statistic, len(edges) - 1)) if len(edges) > 1 else 1.0


def check_distribution(draws, probabilities, space):
    """Independent draws follow the exact probabilities; false-fail rate FALSE_FAIL_RATE."""
    p_value = distribution_p_value(draws, probabilities, space)
    assert p_value > FALSE_FAIL_RATE, f"chi-square p-value {p_value:.2e}"


def check_z_scores(estimates, truth, standard_errors):
    """Many independent estimates lie about the truth as their standard errors say.

    The sum of squared z-scores is chi-square; both tails are bounded.
    """
    z = (np.asarray(estimates) - truth) / standard_errors
    assert np.isfinite(z).all(), "an error is refused, so that nothing was compared"
    statistic, freedom = float((z**2).sum()), z.size
    tail = min(chi2.sf(statistic, freedom), chi2.cdf(statistic, freedom))
    assert tail > FALSE_FAIL_RATE / 2, f"Σz² = {statistic:.1f} for {freedom} scores"


def check_mean(values, truth):
    """The mean of many independent values is ``truth``, by its normal limit; FALSE_FAIL_RATE."""
    values = np.asarray(values)
    z = (values.mean() - truth) / (values.std(ddof=1) / np.sqrt(len(values)))
    assert abs(z) < norm.isf(FALSE_FAIL_RATE / 2), f"the mean is off by {z:.1f} standard errors"


def check_transitions(counts, matrix):
    """Counts (from, to) of independent steps follow a stochastic matrix; FALSE_FAIL_RATE."""
    least = min(counts_p_value(*rows) for rows in zip(counts, matrix, strict=True))
    assert least * len(counts) > FALSE_FAIL_RATE, f"chi-square p-value {least:.2e} in one row"
