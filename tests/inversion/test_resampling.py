"""Schemes of the bootstrap and dropped cases, against exact errors and counts."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import ebm
from ebm.errors import (
    CodingError,
    EbmError,
    EnumerationLimitError,
    LimitError,
    ModelError,
    ShapeError,
)
from ebm.inversion import (
    BlockResampling,
    CaseDropping,
    ModelResampling,
    RowResampling,
    bethe,
    bootstrap,
    case_dropping,
    tap,
)
from ebm.inversion._rows import read_rows
from tests.inversion.dependent_chain import MODEL, RIGHT, series

ROWS = ebm.exact(MODEL).sample(400, rng=3)


def fitted(data):
    return ebm.fit(ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)), data)


class TestBlocksOfTime:
    def test_standard_errors_are_those_of_dependent_rows(self):
        """Methods: .93 to 1.0 of the truth at 30 and 125 rows, .55 to .70 at one row."""
        rng, n_rows = np.random.default_rng(5), 4000
        ratios = {1: [], 60: []}
        for _ in range(4):
            rows = series(n_rows, rng)
            for length, ratio in ratios.items():
                scheme = BlockResampling(length)
                result = bootstrap(fitted, rows, scheme=scheme, n_resamples=60, rng=7)
                ratio.append(result.standard_errors * np.sqrt(n_rows) / RIGHT)
        alone, blocks = (np.mean(ratios[length]) for length in (1, 60))
        assert 0.55 < alone < 0.72
        assert 0.88 < blocks < 1.08

    def test_every_row_is_equally_often_in_a_block(self):
        rows = read_rows(np.random.default_rng(0).integers(0, 2, (60, 7)))
        draw = BlockResampling(7).of(rows, None)
        rng, total = np.random.default_rng(1), 0.0
        for _ in range(4000):
            drawn = draw(rng)
            assert drawn.sample_size == 60
            places = np.array([np.flatnonzero((rows.states == x).all(1))[0] for x in drawn.states])
            total = total + np.bincount(places, drawn.weights * 60, minlength=len(rows.states))
        # Counts of overlapping blocks vary by at most 7 times what single rows would.
        expected = rows.weights * 60
        assert (abs(total / 4000 - expected) < 5 * np.sqrt(7 * expected / 4000)).all()

    def test_neighbors_stay_together(self):
        times = np.arange(64)
        rows = (times[:, None] >> np.arange(6) & 1).astype(np.int8)
        rows = rows[np.random.default_rng(0).permutation(64)]
        data = read_rows(rows)
        drawn = BlockResampling(32).of(data, None)(np.random.default_rng(4))
        place = {tuple(row): t for t, row in enumerate(rows)}
        seen = sorted(place[tuple(row)] for row in drawn.states)
        steps = np.diff([*seen, seen[0] + 64])
        assert (steps != 1).sum() <= 2

    def test_a_lost_order_is_refused(self):
        table = ebm.Ensemble.from_data(ROWS, sample_weight=np.ones(len(ROWS)))
        written_out = np.repeat(ebm.exact(MODEL).states[[3, 0, 7, 5, 1, 2, 4, 6]], 20, axis=0)
        for data in (table, written_out):
            with pytest.raises(EbmError, match="order"):
                bootstrap(bethe, data, scheme=BlockResampling(2))

    def test_an_ensemble_of_rows_in_order_is_taken(self):
        data = ebm.Ensemble.from_data(ROWS)
        both = [
            bootstrap(bethe, x, scheme=BlockResampling(20), n_resamples=5, rng=1).parameters
            for x in (ROWS, data)
        ]
        np.testing.assert_array_equal(*both)

    @pytest.mark.parametrize("length", [0, 2.5, True])
    def test_lengths_are_whole_numbers(self, length):
        with pytest.raises(ShapeError, match="length"):
            BlockResampling(length)

    def test_blocks_longer_than_half_of_the_rows_are_refused(self):
        with pytest.raises(ShapeError, match="at most half of the 400 rows, got 201"):
            bootstrap(bethe, ROWS, scheme=BlockResampling(201))


class TestModelResampling:
    def test_spread_is_that_of_the_fisher_information(self):
        result = fitted(ROWS)
        drawn = bootstrap(fitted, ROWS, scheme=ModelResampling(), n_resamples=200, rng=2)
        np.testing.assert_allclose(drawn.standard_errors, result.standard_errors, rtol=0.25)

    def test_draws_of_the_user_are_taken(self):
        def draw(model, n_rows, rng):
            return ebm.sample(model, n_draws=n_rows, n_chains=1, rng=rng).chains[0]

        scheme = ModelResampling(draw)
        result = bootstrap(bethe, ROWS, scheme=scheme, n_resamples=5, rng=1)
        assert result.n_failed == 0

    def test_draws_of_another_shape_are_refused(self):
        scheme = ModelResampling(lambda model, n_rows, rng: np.zeros((2, 3)))
        with pytest.raises(EbmError, match=r"shape \(400, 3\), got \(2, 3\)"):
            bootstrap(bethe, ROWS, scheme=scheme, n_resamples=5, rng=1)

    def test_the_coding_is_that_of_the_data(self):
        spins = ebm.Ensemble.from_data(2 * ROWS - 1, space=ebm.Spins)
        result = bootstrap(bethe, spins, scheme=ModelResampling(), n_resamples=5, rng=1)
        assert isinstance(result.model, ebm.IsingModel)

    def test_large_models_need_draws_of_the_user(self):
        rows = np.random.default_rng(0).integers(0, 2, (300, 44))
        method = ebm.inversion.independent_pair
        with pytest.raises(EnumerationLimitError, match=r"give ModelResampling\(draw=…\)"):
            bootstrap(method, rows, scheme=ModelResampling(), n_resamples=2, rng=0)

    def test_what_is_no_function_is_refused(self):
        with pytest.raises(EbmError, match="draw must be a function"):
            ModelResampling(draw=3)


@pytest.mark.parametrize("scheme", [RowResampling(), BlockResampling(), ModelResampling()])
def test_resamples_depend_on_the_seed_alone(scheme):
    alone = bootstrap(tap, ROWS, scheme=scheme, n_resamples=12, rng=4)
    with ThreadPoolExecutor(3) as pool:
        shared = bootstrap(tap, ROWS, scheme=scheme, n_resamples=12, rng=4, executor=pool)
    np.testing.assert_array_equal(alone.parameters, shared.parameters)


def test_rows_are_the_scheme_by_default():
    given = bootstrap(tap, ROWS, scheme=RowResampling(), n_resamples=5, rng=4)
    np.testing.assert_array_equal(
        given.parameters, bootstrap(tap, ROWS, n_resamples=5, rng=4).parameters
    )


@pytest.mark.parametrize("scheme", ["blocks", BlockResampling, 3])
def test_what_is_no_scheme_is_refused(scheme):
    with pytest.raises(EbmError, match="scheme must be an object"):
        bootstrap(tap, ROWS, scheme=scheme)


def test_a_checkpoint_belongs_to_one_scheme(tmp_path):
    path = tmp_path / "answers"
    bootstrap(tap, ROWS, n_resamples=4, rng=1, checkpoint=path)
    with pytest.raises(EbmError, match="scheme"):
        bootstrap(tap, ROWS, scheme=BlockResampling(5), n_resamples=4, rng=1, checkpoint=path)


class TestDroppedCases:
    def test_the_stability_coefficient_of_a_table(self):
        """Methods: .5 of .25, .5, .75 with 99×.9 + .1, 96×.9 + 4×.6 and 95×.9 + 5×.7."""
        table = [[0.9] * 99 + [0.1], [0.9] * 96 + [0.6] * 4, [0.9] * 95 + [0.7] * 5]
        result = CaseDropping(np.array([0.25, 0.5, 0.75]), np.array(table))
        assert result.stability_coefficient() == 0.5
        # A mutant: "at least" instead of "more than".
        assert (np.array(table) > 0.7).mean(axis=1)[2] >= 0.95
        assert result.stability_coefficient(correlation=0.95) == 0.0
        assert result.stability_coefficient(share=0.9) == 0.75

    def test_subsets_are_drawn_without_replacement(self):
        seen = []

        def noting(data):
            seen.append((data.sample_size, data.weights * data.sample_size, data.states))
            return bethe(data)

        counts = np.array([30, 20, 25, 25, 10, 40, 20, 30])
        states = ebm.exact(MODEL).states
        data = ebm.Ensemble.from_data(states, sample_weight=counts)
        case_dropping(noting, data, dropped=[0.1, 0.5], n_resamples=10, rng=0)
        sizes = [size for size, _, _ in seen]
        assert sizes == [200, *([180, 100] * 10)]
        for _, drawn, rows in seen:
            of = counts[(rows @ [4, 2, 1]).astype(int)]
            assert (np.rint(drawn) <= of).all()

    def test_correlations_fall_with_the_share(self):
        result = case_dropping(bethe, ROWS, dropped=[0.05, 0.9], n_resamples=40, rng=1)
        near, far = result.correlations.mean(axis=1)
        assert near > 0.98 > far
        assert result.stability_coefficient() == 0.05

    def test_an_undefined_correlation_is_zero(self):
        def constant_on_subsets(data):
            n = 3
            weights = np.ones((n, n)) - np.eye(n)
            if data.sample_size == len(ROWS):
                weights[0, 1] = weights[1, 0] = 2.0
            return ebm.BoltzmannMachine(weights, np.zeros(n))

        result = case_dropping(constant_on_subsets, ROWS, dropped=[0.5], n_resamples=4, rng=0)
        np.testing.assert_array_equal(result.correlations, 0.0)
        assert result.stability_coefficient() == 0.0

    def test_failures_are_counted_with_their_reasons(self):
        rows = np.vstack([np.eye(3, dtype=int)] * 4 + [[[1, 1, 0]], [[0, 1, 1]], [[1, 0, 1]]])
        result = case_dropping(ebm.inversion.mean_field, rows, dropped=[0.8], n_resamples=30, rng=0)
        assert result.n_failed == sum(count for _, count in result.failures) > 0
        assert (result.correlations == 0).sum() >= result.n_failed

    def test_subsets_depend_on_the_seed_alone(self, tmp_path):
        def run(n_resamples, **how):
            return case_dropping(
                bethe, ROWS, dropped=[0.2, 0.4], n_resamples=n_resamples, rng=9, **how
            ).correlations

        alone = run(8)
        with ThreadPoolExecutor(2) as pool:
            np.testing.assert_array_equal(run(8, executor=pool), alone)
        path = tmp_path / "subsets.npz"
        np.testing.assert_array_equal(run(4, checkpoint=path), alone[:, :4])
        np.testing.assert_array_equal(run(8, checkpoint=path), alone)

    def test_any_statistic_can_be_compared(self):
        def strength(model):
            return abs(model.weights).sum(axis=0)

        result = case_dropping(
            bethe, ROWS, dropped=[0.1], statistic=strength, n_resamples=10, rng=0
        )
        assert (result.correlations > 0.5).all()

    @pytest.mark.parametrize(
        ("how", "error", "sentence"),
        [
            ({"dropped": [0.0]}, EbmError, "between 0 and 1"),
            ({"dropped": [0.9999]}, EbmError, "leave out some of the 400 cases, not all"),
            ({"dropped": []}, ShapeError, "list of shares"),
            ({"statistic": lambda model: 3.0}, ShapeError, "at least two numbers"),
            ({"statistic": lambda model: np.ones(4)}, EbmError, "are equal"),
            ({"n_resamples": 1}, ShapeError, "n_resamples"),
        ],
    )
    def test_bad_settings_are_sentences(self, how, error, sentence):
        with pytest.raises(error, match=sentence):
            case_dropping(bethe, ROWS, **how)

    def test_moments_and_fractions_are_refused(self):
        with pytest.raises(ModelError, match="not their moments"):
            case_dropping(bethe, ebm.Ensemble.from_data(ROWS).moments())
        weighted = ebm.Ensemble.from_data(ROWS, sample_weight=np.full(len(ROWS), 0.3))
        with pytest.raises(EbmError, match="whole numbers"):
            case_dropping(bethe, weighted)
        many = ebm.Ensemble.from_data(ROWS, sample_weight=np.full(len(ROWS), 1e8))
        with pytest.raises(LimitError, match="the limit is"):
            case_dropping(bethe, many)


def test_more_rows_than_integers_count_are_refused():
    rows = ebm.Ensemble.from_data([[0, 0], [0, 1], [1, 0], [1, 1]], sample_weight=[1e20] * 4)
    with pytest.raises(LimitError, match=r"resampling draws fewer than 9.2e\+18 rows, got 4e\+20"):
        bootstrap(ebm.inversion.bethe, rows)


@pytest.mark.parametrize("job", [partial(bootstrap, bethe), partial(case_dropping, bethe)])
def test_spins_are_asked_for_as_an_ensemble(job):
    with pytest.raises(CodingError, match=r"Ensemble.from_data\(rows, space=ebm.Spins\)"):
        job(2 * ROWS - 1)
