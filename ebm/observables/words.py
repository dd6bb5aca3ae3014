"""Entropy of words from how often each was seen: the plug-in and four corrections, with errors.

Counts n_w of N words, K₊ of them seen out of K possible ones. All is summed over the distinct
values of n, of which there are few, and each entropy but NSB's is a sum of terms of single words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ebm._arrays import as_floats, as_number, in_base
from ebm._types import Array
from ebm.ensembles import Ensemble, Estimate
from ebm.errors import EbmError, FewSamplesWarning, LimitError, ModelError, ShapeError, warn
from ebm.observables._dirichlet import nsb
from ebm.spaces import FiniteSpace

__all__ = ["ENTROPY_ESTIMATORS", "word_entropy"]


#: Largest number of possible words.
MOST_WORDS = 1e50


class Counts(NamedTuple):
    """Distinct numbers n of times that a word was seen, and how many words were seen so often."""

    n: Array
    words: Array

    @property
    def total(self) -> float:
        """N = Σ n."""
        return float(self.n @ self.words)

    @property
    def seen(self) -> float:
        """K₊, the number of words seen."""
        return float(self.words.sum())


def word_entropy(
    data: Any,
    estimator: str = "nsb",
    *,
    n_words: float | None = None,
    base: float | None = None,
) -> Estimate:
    """Entropy S = −Σ p ln p of the words in data, corrected for words that were not seen.

    The plug-in is low by about (K₊ − 1)/2N nats, and by far more where many words were seen once.
    ``"miller-madow"`` adds these (K₊ − 1)/2N :cite:`miller1955`. ``"grassberger"`` is
    ln N − Σ (n/N) G(n) with G(n) = ψ(n) + ½(−1)ⁿ[ψ((n+1)/2) − ψ(n/2)] :cite:`grassberger2003`.
    ``"chao-shen"`` weighs words by the probability to be seen, −Σ p̃ ln p̃ / (1 − (1 − p̃)^N) with
    p̃ = (1 − f₁/N) n/N and f₁ words seen once :cite:`chao2003`. ``"nsb"`` is the posterior mean for
    a mixture of Dirichlet priors that is nearly flat in S :cite:`nemenman2002`.

    Parameters
    ----------
    data : Ensemble or array_like of int
        Data, whose words are its distinct rows, or the counts n of the words, zeros included or
        not.
    estimator : {"plug-in", "miller-madow", "grassberger", "chao-shen", "nsb"}
        The estimator.
    n_words : float, optional
        K, the number of possible words, which ``"nsb"`` alone needs. By default that of all states
        of the space of an ensemble.
    base : float, optional
        Base of the logarithm, 2 for bits; nats if not given.

    Returns
    -------
    Estimate
        The entropy with its standard error: that of the jackknife over rows, which says nothing of
        a bias, and for ``"nsb"`` the deviation of the posterior, which rests on its prior.

    Raises
    ------
    EbmError
        If the estimator is unknown, counts are not whole numbers, no word was seen, more words were
        seen than there are, or ``n_words`` is missing.

    LimitError
        If ``"nsb"`` is given more than 1e12 rows.

    Warns
    -----
    FewSamplesWarning
        If no word was seen twice: the data then say nothing of how many words there are.

    Examples
    --------
    >>> from ebm.observables import word_entropy
    >>> counts = [4, 2, 3, 0, 2, 4, 0, 0, 2, 1, 1]
    >>> print(word_entropy(counts, n_words=16))
    2.29 ± 0.21
    >>> round(word_entropy(counts, "grassberger").value, 4)
    2.1446
    """
    if estimator not in ENTROPY_ESTIMATORS:
        names = ", ".join(repr(name) for name in ENTROPY_ESTIMATORS)
        raise EbmError(f"estimator must be one of {names}, got {estimator!r}")
    counts = _counts_of(data)
    if counts.n[-1] == 1 and counts.seen > 1:
        warn(
            f"each of the {counts.total:g} words was seen once: no estimator knows how many others "
            "there are; give more rows, or fewer units",
            FewSamplesWarning,
        )
    if estimator == "nsb":
        if counts.total > MOST_COUNTED:
            raise LimitError(
                f"'nsb' takes at most {MOST_COUNTED:g} rows, got {counts.total:.3g}: beyond, its "
                "error is below rounding; give 'plug-in', which differs by less"
            )
        value, error = nsb(counts.n, counts.words, _possible(data, n_words, counts.seen))
    else:
        if n_words is not None:
            raise EbmError(f"n_words has no effect on {estimator!r}: leave it out")
        value, error = _jackknife(_TERMS[estimator], counts)
    return Estimate(in_base(value, base), in_base(error, base))


def plug_in(n: Array, total: float, once: float) -> Array:
    """−p ln p with p = n/N."""
    p = n / total
    return np.asarray(-p * np.log(p))


def miller_madow(n: Array, total: float, once: float) -> Array:
    """The plug-in and (1 − p)/2N, in sum (K₊ − 1)/2N."""
    return plug_in(n, total, once) + (1 - n / total) / (2 * total)


def grassberger(n: Array, total: float, once: float) -> Array:
    """(n/N)(ln N − G(n)), G(n) = ψ(n) + ½(−1)ⁿ[ψ((n+1)/2) − ψ(n/2)]."""
    from scipy.special import digamma

    sign = np.where(n % 2, -1.0, 1.0)
    g = digamma(n) + 0.5 * sign * (digamma((n + 1) / 2) - digamma(n / 2))
    return np.asarray(n / total * (math.log(total) - g))


def chao_shen(n: Array, total: float, once: float) -> Array:
    """−p̃ ln p̃ / (1 − (1 − p̃)^N), p̃ = (1 − f₁/N) n/N, with N − 1 for f₁ = N; 0 for p̃ = 1."""
    p = np.minimum((1 - min(once, total - 1) / total) * n / total, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(p * np.log(p) / np.expm1(total * np.log1p(-p)))


#: What a word that was seen n > 0 times of N adds, where f₁ words were seen once.
_TERMS: dict[str, Callable[[Array, float, float], Array]] = {
    "plug-in": plug_in,
    "miller-madow": miller_madow,
    "grassberger": grassberger,
    "chao-shen": chao_shen,
}
#: Names of the estimators of :func:`word_entropy`.
ENTROPY_ESTIMATORS = (*_TERMS, "nsb")
#: Rows up to which the deviation of ``nsb`` is more than rounding.
MOST_COUNTED = 1e12


def _jackknife(term: Callable[[Array, float, float], Array], counts: Counts) -> tuple[float, float]:
    """S, and √((N − 1)/N Σ (S₋ᵣ − mean)²) over the rows r left out; rows of one n are alike.

    Without a row S is a sum of terms for N − 1 and for f₁, f₁ − 1 or f₁ + 1, of which one word has
    n − 1 in place of n.
    """
    n, words, total = counts.n, counts.words, counts.total
    once = float(words[0]) if n[0] == 1 else 0.0
    value = float(words @ term(n, total, once))
    # Rows of which each is a word of its own do not tell how much they vary.
    if total < 2 or n[-1] == 1:
        return value, math.inf
    # S₋ᵣ but for a number that all rows have in common.
    without = np.empty_like(n)
    usual = term(n, total - 1, once)
    for change, which in ((-1, n == 1), (1, n == 2), (0, n > 2)):
        terms = usual if change == 0 else term(n, total - 1, once + change)
        fewer = term(np.maximum(n - 1, 1), total - 1, once + change) * (n > 1)
        without[which] = (words @ (terms - usual) + fewer - terms)[which]
    shares = n * words / total
    spread = float(shares @ (without - shares @ without) ** 2)
    return value, math.sqrt((total - 1) * spread)


def _counts_of(data: Any) -> Counts:
    """The distinct counts of data, or of an array of counts."""
    if isinstance(data, Ensemble):
        if not math.isfinite(data.sample_size):
            raise EbmError("an exact ensemble needs no estimate: give ensemble.entropy()")
        parts = [weights for _, weights in data.blocks()]
        counts = np.concatenate(parts) * data.sample_size
        whole = np.rint(counts)
        # Shares of rows are whole numbers but for rounding.
        counts = np.where(np.abs(counts - whole) < 1e-6 * np.maximum(counts, 1), whole, counts)
    else:
        counts = as_floats(data, "counts")
        if counts.ndim != 1:
            raise ShapeError(
                f"counts must have one axis, got {counts.shape}: rows of data are given as "
                "ebm.Ensemble.from_data(rows)"
            )
    wrong = ~np.isfinite(counts) | (counts < 0) | (counts != np.rint(counts))
    if wrong.any():
        raise EbmError(
            f"counts of words must be whole numbers of at least 0, got {counts[wrong][0]:g}: "
            "weights of rows must be frequencies, and rows independent, which successive draws of "
            "a chain are not"
        )
    n, words = np.unique(counts[counts > 0], return_counts=True)
    if not len(n):
        raise EbmError("no word was seen: give counts above 0")
    return Counts(n, words.astype(np.float64))


def _possible(data: Any, n_words: float | None, seen: float) -> float:
    """K, the number of possible words."""
    if n_words is None:
        space = getattr(data, "space", None)
        if not isinstance(space, FiniteSpace):
            raise EbmError("n_words, the number of possible words, must be given beside counts")
        n_words = float(min(space.size, int(MOST_WORDS)))
    number = as_number(n_words, "n_words")
    if not seen <= number <= MOST_WORDS:
        raise ModelError(
            f"n_words must be the number of possible words, from the {seen:g} seen to "
            f"{MOST_WORDS:g}, got {n_words!r}"
        )
    return number
