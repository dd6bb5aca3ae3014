"""Sampling errors of inversions: the delta method and resampling against independent data sets."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

import ebm
from ebm.errors import ConstantUnitError, EbmError, LimitError, ModelError
from ebm.inversion import (
    bethe,
    bootstrap,
    independent_pair,
    mean_field,
    naive_mean_field,
    pseudolikelihood,
    sessak_monasson,
    standard_errors,
    tap,
    uncertainty,
)
from tests.statistical import FALSE_FAIL_RATE


def machine(seed=3, n=4):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 0.7, (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0.2, 0.6, n))


def spread(method, center, n_sets=80, n_rows=1500):
    """Standard deviations of the parameters over independent data sets, at one center."""
    exact, rng = ebm.exact(machine()), np.random.default_rng(17)
    found = []
    for _ in range(n_sets):
        result = method(ebm.Ensemble.from_data(exact.sample(n_rows, rng)))
        model = getattr(result, "model", result)
        found.append(model.recentered(center).parameters)
    return np.std(found, axis=0, ddof=1), n_sets


def check_errors(errors, deviations, n_sets, slack):
    """(n−1) s²/σ² is chi-square: each error within its quantiles, widened by ``slack``.

    False-fail rate FALSE_FAIL_RATE for all of them together, were errors exact and normal;
    ``slack`` is for their own noise.
    """
    tail = FALSE_FAIL_RATE / 2 / len(errors)
    low, high = np.sqrt(chi2.ppf([tail, 1 - tail], n_sets - 1) / (n_sets - 1))
    ratio = deviations / errors
    assert (ratio > low / slack).all(), ratio
    assert (ratio < high * slack).all(), ratio


class TestAgainstIndependentData:
    @pytest.mark.parametrize(
        "method", [mean_field, independent_pair, naive_mean_field, tap, bethe, sessak_monasson]
    )
    def test_both_ways(self, method):
        data = ebm.Ensemble.from_data(ebm.exact(machine()).sample(1500, 5))
        deviations, n_sets = spread(method, data.moments().mean)
        delta = standard_errors(method, data)
        resampled = bootstrap(method, data, n_resamples=100, rng=2)
        assert resampled.n_failed == 0
        check_errors(delta, deviations, n_sets, slack=1.15)
        check_errors(resampled.standard_errors, deviations, n_sets, slack=1.3)
        np.testing.assert_allclose(resampled.standard_errors, delta, rtol=0.35)

    def test_pseudolikelihood(self):
        data = ebm.Ensemble.from_data(ebm.exact(machine()).sample(1500, 5))
        result = pseudolikelihood(data)
        deviations, n_sets = spread(pseudolikelihood, result.model.center, n_sets=60)
        check_errors(result.standard_errors, deviations, n_sets, slack=1.15)
        resampled = bootstrap(pseudolikelihood, data, n_resamples=60, rng=2)
        np.testing.assert_allclose(resampled.standard_errors, result.standard_errors, rtol=0.45)


@pytest.mark.parametrize("of", [standard_errors, bootstrap])
@pytest.mark.parametrize(
    ("method", "got"),
    [("tap", "'tap'"), (None, "NoneType"), (3, "int"), (ebm.inversion, "module")],
)
def test_what_is_no_method(of, method, got):
    rows = [[0, 0], [1, 1], [0, 1], [1, 0]]
    refusal = rf"method must be a function such as ebm\.inversion\.tap, .*, got {got}$"
    with pytest.raises(ModelError, match=refusal):
        of(method, rows)


class TestDeltaMethod:
    def test_a_logit_by_hand(self):
        # b = logit m has standard error 1/√(N m(1−m)).
        rows = np.repeat([[0], [1]], [30, 70], axis=0)
        expected = 1 / np.sqrt(100 * 0.3 * 0.7)
        assert standard_errors(mean_field, rows)[0] == pytest.approx(expected, rel=1e-8)

    def test_a_pair_by_hand(self):
        # The variance of a log odds ratio is the sum of inverse counts.
        counts = np.array([20, 30, 25, 45])
        rows = ebm.Binary(2).states_at(np.repeat(np.arange(4), counts))
        errors = standard_errors(independent_pair, rows)
        assert errors[2] == pytest.approx(np.sqrt((1 / counts).sum()), rel=1e-7)
        # b at a fixed center x̂ is (1−x̂₂) ln p₁₀/p₀₀ + x̂₂ ln p₁₁/p₀₁.
        share = rows[:, 1].mean()
        variance = (1 - share) ** 2 * (1 / 20 + 1 / 25) + share**2 * (1 / 30 + 1 / 45)
        assert errors[0] == pytest.approx(np.sqrt(variance), rel=1e-7)

    def test_codings(self):
        rows = ebm.exact(machine()).sample(400, 5)
        spins = ebm.Ensemble.from_data(2 * rows - 1, space=ebm.Spins)
        binary = standard_errors(bethe, rows)
        np.testing.assert_allclose(4 * standard_errors(bethe, spins)[4:], binary[4:], rtol=1e-6)

    def test_settings_of_the_method(self):
        rows = ebm.exact(machine()).sample(400, 5)
        plain, shrunk = (
            standard_errors(method, rows)
            for method in (naive_mean_field, partial(naive_mean_field, shrinkage=0.5))
        )
        assert (shrunk[4:] < 0.75 * plain[4:]).all()

    def test_exact_ensembles_have_no_errors(self):
        np.testing.assert_array_equal(standard_errors(tap, ebm.exact(machine())), 0.0)

    def test_blocks_of_rows(self, monkeypatch):
        rows = ebm.exact(machine()).sample(400, 5)
        whole = standard_errors(tap, rows)
        monkeypatch.setattr(uncertainty, "BLOCK", 30)
        np.testing.assert_allclose(standard_errors(tap, rows), whole, rtol=1e-12)

    def test_refusals(self):
        rows = np.random.default_rng(0).integers(0, 2, (80, 60))
        with pytest.raises(LimitError, match=r"1830 parameters.*bootstrap"):
            standard_errors(bethe, rows)
        with pytest.raises(ModelError, match="rows are wanted"):
            standard_errors(bethe, ebm.exact(machine()).moments())
        with pytest.raises(EbmError, match="must return a model"):
            standard_errors(lambda moments: 3, rows[:, :3])
        with pytest.raises(ConstantUnitError):
            standard_errors(bethe, [[0, 1], [1, 1], [0, 1]])


class TestBootstrap:
    def test_degenerate_resamples_are_counted(self):
        # Unit 1 is on twice in 40 rows: about e^−2 of the resamples never show it.
        rows = np.random.default_rng(0).integers(0, 2, (40, 3))
        rows[:, 1] = 0
        rows[:2, 1] = 1
        result = bootstrap(mean_field, rows, n_resamples=200, rng=1)
        assert 10 <= result.n_failed <= 60
        assert len(result.parameters) == 200 - result.n_failed
        assert result.failures[0][0].startswith("ConstantUnitError: unit '1' never changes")
        assert sum(count for _, count in result.failures) == result.n_failed
        assert np.isfinite(result.standard_errors).all()
        cured = bootstrap(partial(mean_field, pseudocount=1), rows, n_resamples=50, rng=1)
        assert cured.n_failed == 0

    def test_singular_covariances_are_one_reason(self):
        # The first two units differ in two of 30 rows: e^−2 of the resamples show neither.
        rows = np.random.default_rng(0).integers(0, 2, (30, 3))
        rows[:, 1] = rows[:, 0]
        rows[:2, 1] = 1 - rows[:2, 0]
        result = bootstrap(naive_mean_field, rows, n_resamples=200, rng=1)
        reasons = [reason for reason, _ in result.failures]
        singular = [reason for reason in reasons if reason.startswith("SingularCovarianceError")]
        assert len(singular) == 1
        assert "'0' and '1' are always equal" in singular[0]
        assert 10 <= dict(result.failures)[singular[0]] <= 50

    def test_errors_of_linear_algebra_count_among_them(self):
        rows = np.random.default_rng(0).integers(0, 2, (30, 2))
        with pytest.raises(EbmError, match="SingularCovarianceError: Singular matrix"):
            bootstrap(partial(_singular, calls=[]), rows, n_resamples=5, rng=0)

    def test_fits_without_a_maximum_are_failures(self):
        rows = [[0, 0]] * 5 + [[1, 1]] * 5 + [[0, 1]] * 5 + [[1, 0]]
        result = bootstrap(pseudolikelihood, rows, n_resamples=40, rng=1)
        assert result.n_failed > 5
        assert "'0' and '1' are never on and off" in result.failures[0][0]

    def test_reproducible_and_read_only(self):
        rows = ebm.exact(machine()).sample(200, 5)
        one, other = (bootstrap(tap, rows, n_resamples=5, rng=8) for _ in range(2))
        np.testing.assert_array_equal(one.parameters, other.parameters)
        with pytest.raises(ValueError, match="read-only"):
            one.parameters[0] = 0
        lower, upper = one.interval(0.5)
        assert (lower < upper).all()
        assert one.model.equals(tap(ebm.Ensemble.from_data(rows)))

    def test_nothing_left(self):
        rows = [[0, 0], [1, 1], [0, 1], [1, 0]]
        with pytest.raises(EbmError, match="resamples gave a model; most often: "):
            bootstrap(partial(_never, calls=[]), rows, n_resamples=5, rng=0)

    def test_refusals(self):
        with pytest.raises(EbmError, match="sample_size=inf"):
            bootstrap(bethe, ebm.exact(machine()))
        for wrong in (1, 2.5, True, "9"):
            with pytest.raises(EbmError, match="n_resamples must be an integer of at least 2"):
                bootstrap(bethe, [[0, 1], [1, 0]], n_resamples=wrong)
        result = bootstrap(mean_field, ebm.exact(machine()).sample(50, 1), n_resamples=3, rng=0)
        for wrong in (1.5, 0, np.nan, "0.9", [0.5, 0.9]):
            with pytest.raises(EbmError, match="level must"):
                result.interval(wrong)


def _never(data, calls):
    """A method that works on the data themselves and never again."""
    calls.append(data)
    if len(calls) > 1:
        raise EbmError("no luck")
    return mean_field(data)


def _singular(data, calls):
    """A method that fails as numpy does."""
    calls.append(data)
    if len(calls) > 1:
        np.linalg.inv(np.zeros((2, 2)))
    return mean_field(data)


@pytest.mark.parametrize("method", [naive_mean_field, tap])
def test_combinations_never_seen_have_errors(method):
    """Steps of both signs would leave what has a distribution; those inwards do not."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (400, 4))
    rows[:, 1] = rows[:, 0] & rows[:, 2]
    errors = standard_errors(partial(method, pseudocount=1), rows)
    again = bootstrap(partial(method, pseudocount=1), rows, n_resamples=200, rng=1)
    assert np.isfinite(errors).all()
    assert np.median(np.abs(errors / again.standard_errors - 1)) < 0.25


class TestCheckpointsOfABootstrap:
    ROWS = np.random.default_rng(4).integers(0, 2, (60, 3))

    def test_more_resamples_go_on(self, tmp_path):
        path = tmp_path / "answers"
        bootstrap(tap, self.ROWS, n_resamples=5, rng=3, checkpoint=path)
        longer = bootstrap(tap, self.ROWS, n_resamples=9, rng=3, checkpoint=path)
        fresh = bootstrap(tap, self.ROWS, n_resamples=9, rng=3)
        np.testing.assert_array_equal(longer.parameters, fresh.parameters)

    @pytest.mark.parametrize(
        ("method", "rows", "rng", "said"),
        [
            (partial(mean_field, pseudocount=2), ROWS, 3, "another method"),
            (lambda data: mean_field(data), ROWS, 3, "another method"),
            (partial(mean_field, pseudocount=1), np.tile(ROWS, (2, 1)), 3, "another data"),
            (partial(mean_field, pseudocount=1), ROWS, 4, "another rng: .* another seed"),
        ],
    )
    def test_answers_of_another_bootstrap_are_refused(self, tmp_path, method, rows, rng, said):
        path = tmp_path / "answers"
        first = partial(mean_field, pseudocount=1)
        bootstrap(first, self.ROWS, n_resamples=3, rng=3, checkpoint=path)
        with pytest.raises(EbmError, match=said):
            bootstrap(method, rows, n_resamples=3, rng=rng, checkpoint=path)

    @pytest.mark.parametrize("checkpoint", ["", 1, b"a.npz", object()])
    def test_a_checkpoint_is_a_path(self, checkpoint):
        with pytest.raises(EbmError, match="checkpoint must be the path of a folder"):
            bootstrap(tap, self.ROWS, n_resamples=3, checkpoint=checkpoint)

    def test_a_file_is_none_and_its_parent_must_be_there(self, tmp_path):
        file = tmp_path / "a.npz"
        file.write_bytes(b"")
        with pytest.raises(EbmError, match="is a file"):
            bootstrap(tap, self.ROWS, n_resamples=3, checkpoint=file)
        with pytest.raises(FileNotFoundError, match="no such folder"):
            bootstrap(tap, self.ROWS, n_resamples=3, checkpoint=tmp_path / "none" / "answers")


class TestWhatResamplesGive:
    ROWS = np.random.default_rng(4).integers(0, 2, (60, 3))

    @pytest.mark.parametrize("executor", ["threads", 1, ThreadPoolExecutor, []])
    def test_an_executor_is_an_object_of_its_kind(self, executor):
        with pytest.raises(EbmError, match="executor must have submit"):
            bootstrap(tap, self.ROWS, n_resamples=3, executor=executor)

    def test_what_cannot_go_to_other_processes_is_said(self):
        with (
            ProcessPoolExecutor(1) as executor,
            pytest.raises(EbmError, match="define it with def"),
        ):
            bootstrap(lambda data: tap(data), self.ROWS, n_resamples=3, rng=0, executor=executor)

    @pytest.mark.parametrize(
        ("later", "said"), [(np.full(6, np.nan), "not finite"), (np.zeros(4), "4 parameters")]
    )
    def test_numbers_that_are_none_are_failures(self, later, said):
        answers = iter([np.zeros(6), later, np.ones(6), np.zeros(6)])

        def method(data):
            return SimpleNamespace(parameters=next(answers))

        result = bootstrap(method, self.ROWS, n_resamples=3, rng=0)
        assert result.n_failed == 1
        assert said in result.failures[0][0]
        assert np.isfinite(result.standard_errors).all()
