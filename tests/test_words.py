"""Entropies of words: reference numbers, independent formulas, simulated truth, coverage."""

import math
import warnings

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, FewSamplesWarning, LimitError, ModelError, ShapeError
from ebm.observables import ENTROPY_ESTIMATORS, word_entropy
from ebm.observables._dirichlet import entropy_moments, log_rising, xi_slope

COUNTS = [4, 2, 3, 0, 2, 4, 0, 0, 2, 1, 1]
REFERENCE = {
    "plug-in": 1.9683824087,
    "miller-madow": 2.1525929350,
    "grassberger": 2.1446263860,
    "chao-shen": 2.2011371013,
}


def settings(estimator, n_words):
    return {"n_words": n_words} if estimator == "nsb" else {}


@pytest.mark.parametrize(("estimator", "value"), REFERENCE.items())
def test_reference_numbers_of_the_corrections(estimator, value):
    assert word_entropy(COUNTS, estimator).value == pytest.approx(value, abs=1e-9)


def test_reference_number_of_nsb():
    estimate = word_entropy(COUNTS, n_words=16)
    assert estimate.value == pytest.approx(2.29127471, abs=1e-8)
    assert estimate.standard_error == pytest.approx(0.21107575, abs=1e-8)


def test_nsb_does_not_depend_on_its_mesh(monkeypatch):
    from ebm.observables import _dirichlet

    fine = word_entropy(COUNTS, n_words=16)
    monkeypatch.setattr(_dirichlet, "POINTS", 1501)
    finer = word_entropy(COUNTS, n_words=16)
    assert finer.value == pytest.approx(fine.value, abs=1e-11)
    assert finer.standard_error == pytest.approx(fine.standard_error, abs=1e-10)


def test_grassbergers_numbers_obey_his_recursion():
    """G(1) = −γ − ln 2, G(2) = 2 + G(1), G(2k + 1) = G(2k), G(2k + 2) = G(2k) + 2/(2k + 1)."""
    g = [math.nan, -np.euler_gamma - math.log(2), 2 - np.euler_gamma - math.log(2)]
    for k in range(3, 9):
        g.append(g[-1] if k % 2 else g[-2] + 2 / (k - 1))
    for k in range(1, 9):
        # Of two words that were seen k times each.
        expected = math.log(2 * k) - g[k]
        with_warning = pytest.warns(FewSamplesWarning) if k == 1 else _silent()
        with with_warning:
            assert word_entropy([k, k], "grassberger").value == pytest.approx(expected, abs=1e-12)


class _silent:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def test_the_sign_of_grassbergers_term_matters():
    """The mutant takes ψ alone, and misses the reference by more than its last digits."""
    from scipy.special import digamma

    n = np.array([c for c in COUNTS if c], dtype=float)
    mutant = math.log(n.sum()) - (n * digamma(n)).sum() / n.sum()
    assert abs(mutant - REFERENCE["grassberger"]) > 0.01


def test_dirichlet_moments_are_those_of_draws():
    n, words = np.array([1.0, 2, 3, 4]), np.array([2.0, 3, 1, 2])
    mean, variance = entropy_moments(n, words, 16.0, np.array([0.3]))
    alpha = np.append(np.repeat(n, words.astype(int)) + 0.3, np.full(8, 0.3))
    p = np.random.default_rng(0).dirichlet(alpha, 200_000)
    drawn = -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)
    assert mean[0] == pytest.approx(drawn.mean(), abs=5 * drawn.std() / 447)
    assert math.sqrt(variance[0]) == pytest.approx(drawn.std(), rel=0.01)


def test_rising_factorials_and_slopes_of_the_prior_have_all_digits():
    from scipy.special import gammaln, poch

    z, n = np.array([0.3, 20.0, 49.9, 50.1, 400.0]), 7.0
    np.testing.assert_allclose(log_rising(z, n), np.log(poch(z, n)), rtol=1e-13)
    # ln (z)_n = n ln z + n (n − 1)/2z + … where the difference of two ln Γ is rounding.
    assert log_rising(np.array([1e15]), 9.0)[0] == pytest.approx(9 * math.log(1e15), rel=1e-14)
    assert gammaln(1e15 + 9) - gammaln(1e15) != pytest.approx(9 * math.log(1e15), rel=1e-6)
    below, above = xi_slope(16.0, np.array([9999.0, 10001.0]))
    assert above / below == pytest.approx((9999 / 10001) ** 2, rel=1e-6)


def test_words_of_data_are_its_distinct_rows():
    rows = np.random.default_rng(0).integers(0, 2, (300, 4))
    data = ebm.Ensemble.from_data(rows)
    counts = np.unique(rows @ [8, 4, 2, 1], return_counts=True)[1]
    for estimator in ENTROPY_ESTIMATORS:
        given = word_entropy(counts, estimator, **settings(estimator, 16))
        of_rows = word_entropy(data, estimator)
        assert of_rows.value == pytest.approx(given.value, abs=1e-12)
        bits = word_entropy(data, estimator, base=2)
        assert bits.value * math.log(2) == pytest.approx(given.value)
        assert bits.standard_error * math.log(2) == pytest.approx(given.standard_error)
    assert word_entropy(data, "plug-in").value == pytest.approx(data.entropy(), abs=1e-12)


@pytest.mark.parametrize("estimator", REFERENCE)
@pytest.mark.parametrize("counts", [[3, 1, 5, 2, 2], [1, 1, 2], [100, 1], [4, 4], [7, 3, 6]])
def test_the_jackknife_is_that_of_rows_left_out_one_by_one(counts, estimator):
    values = []
    with warnings.catch_warnings():
        # Without a row all words may have been seen once.
        warnings.simplefilter("ignore", FewSamplesWarning)
        for word, n in enumerate(counts):
            left = counts - np.eye(len(counts), dtype=int)[word]
            values += [word_entropy(left, estimator).value] * n
        error = word_entropy(counts, estimator).standard_error
    expected = math.sqrt((len(values) - 1) / len(values) * np.sum((values - np.mean(values)) ** 2))
    assert error == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_the_jackknife_takes_as_many_different_counts_as_there_are():
    """Of words seen 1, 2, …, m times; m² sums would take hours."""
    m = 10**6
    counts, p = np.arange(1, m + 1), np.arange(1, m + 1) / (m * (m + 1) / 2)
    estimate = word_entropy(counts, "plug-in")
    # The delta method, √(Var ln p / N), for many rows.
    spread = p @ np.log(p) ** 2 - (p @ np.log(p)) ** 2
    assert estimate.standard_error == pytest.approx(math.sqrt(spread / counts.sum()), rel=1e-5)


def test_means_over_samples_are_as_low_as_they_are_known_to_be():
    """p ∝ 1/k over 200 words, 100 rows, S = 4.149: bias −.70, −.45, −.22, −.19, −.13."""
    p = 1 / np.arange(1, 201)
    p /= p.sum()
    truth, rng = -(p * np.log(p)).sum(), np.random.default_rng(0)
    samples = [rng.multinomial(100, p) for _ in range(120)]
    biases = [
        np.mean([word_entropy(c, name, **settings(name, 200)).value for c in samples]) - truth
        for name in ENTROPY_ESTIMATORS
    ]
    np.testing.assert_allclose(biases, [-0.70, -0.45, -0.22, -0.19, -0.13], atol=0.03)


def covered(p, n_rows, n_samples, seed):
    """Share of samples whose NSB value is within two stated deviations of the truth."""
    rng, truth = np.random.default_rng(seed), -(p * np.log(p)).sum()
    within = 0
    for _ in range(n_samples):
        estimate = word_entropy(rng.multinomial(n_rows, p), n_words=len(p))
        within += abs(estimate.value - truth) < 2 * estimate.standard_error
    return within / n_samples


def test_the_deviation_of_nsb_covers_what_its_prior_expects_and_less_of_what_it_does_not():
    """Of words from Dirichlet priors 96 % of 1000 samples, of p ∝ 1/k with a longer tail 83 %."""
    rng = np.random.default_rng(1)
    flat = [covered(rng.dirichlet(np.full(100, 0.5)) + 1e-300, 100, 1, k) for k in range(150)]
    assert np.mean(flat) > 0.88
    zipf = 1 / np.arange(1, 201)
    assert 0.7 < covered(zipf / zipf.sum(), 100, 150, 2) < 0.92


@pytest.mark.parametrize("n_words", [1e6, 2.0**50, 1e50])
def test_many_possible_words_are_no_trouble(n_words):
    estimate = word_entropy(COUNTS, n_words=n_words)
    assert 1.9 < estimate.value < math.log(n_words)
    assert 0 < estimate.standard_error < 20


def test_many_rows_leave_no_correction():
    counts = np.array([40_000, 30_000, 20_000, 10_000])
    values = [word_entropy(counts, name, **settings(name, 4)).value for name in ENTROPY_ESTIMATORS]
    assert np.ptp(values) < 1e-4


def test_one_word_alone_has_no_entropy():
    for name in ENTROPY_ESTIMATORS[:2]:
        assert word_entropy([7], name).value == pytest.approx(0, abs=1e-12)
    assert word_entropy([7], "chao-shen").value == 0
    assert word_entropy([7], n_words=1).value == 0


def test_words_seen_once_each_are_warned_of():
    for name in ENTROPY_ESTIMATORS:
        with pytest.warns(FewSamplesWarning, match="seen once"):
            estimate = word_entropy(np.ones(20), name, **settings(name, 1000))
        assert math.isfinite(estimate.value)
        assert math.isinf(estimate.standard_error) == (name != "nsb")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1, 2], "nbs"), EbmError, "estimator must be one of 'plug-in'"),
        (([1.5, 2],), EbmError, "whole numbers"),
        (([-1, 2],), EbmError, "whole numbers"),
        (([np.nan, 2],), EbmError, "whole numbers"),
        (([0, 0],), EbmError, "no word was seen"),
        (([[1, 2]],), ShapeError, "from_data"),
        (([1, 2],), EbmError, "n_words.*must be given"),
        ((ebm.exact(ebm.BoltzmannMachine([[0]], [0])),), EbmError, "needs no estimate"),
        (([1e300, 1], "nsb"), LimitError, "at most 1e.12 rows"),
    ],
)
def test_bad_input_is_refused_by_a_sentence(arguments, error, message):
    with pytest.raises(error, match=message):
        word_entropy(*arguments)


def test_n_words_has_a_place_and_a_size():
    with pytest.raises(EbmError, match="no effect on 'plug-in'"):
        word_entropy(COUNTS, "plug-in", n_words=16)
    with pytest.raises(ModelError, match="from the 8 seen"):
        word_entropy(COUNTS, n_words=7)


def test_several_numbers_of_words_are_refused():
    with pytest.raises(ShapeError, match="n_words must be one number"):
        word_entropy(COUNTS, n_words=[16, 32])


def test_successive_draws_of_a_chain_are_no_independent_rows():
    samples = ebm.sample(ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0]), n_draws=20, rng=0)
    with pytest.raises(EbmError, match="draws of a chain are not"):
        word_entropy(samples)
