"""L-BFGS: the same maximum as Newton's, from averages that know no fourth moments."""

import numpy as np
import pytest
from hypothesis import given, settings

import ebm
from ebm.errors import EbmError, NotConvergedWarning
from ebm.learning._likelihood import LikelihoodLoss
from ebm.learning.penalties import AppliedPenalty
from tests import oracles, strategies


def by_moments(model):
    """An average that makes ebm.fit take L-BFGS."""
    return ebm.exact(model).moments()


class TestAgainstNewton:
    @given(strategies.binary_rows(min_units=2))
    @settings(max_examples=12)
    def test_both_codings(self, rows):
        n = rows.shape[1]
        for family, data in (
            (ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n), center=0.7), rows),
            (ebm.IsingModel(np.zeros((n, n)), np.zeros(n)), 2 * rows.astype(int) - 1),
        ):
            slow, fast = (
                ebm.fit(family, data, loss=ebm.Likelihood(by_moments)),
                ebm.fit(family, data),
            )
            assert slow.converged
            assert fast.converged
            own, target = slow.ensemble, fast.ensemble.moments()
            np.testing.assert_allclose(own.mean, target.mean, atol=1e-6)
            np.testing.assert_allclose(own.covariance, target.covariance, atol=1e-6)
            assert slow.log_likelihood == pytest.approx(fast.log_likelihood, abs=1e-11)

    @pytest.mark.parametrize("l2", [0.0, 1e-3])
    def test_ten_spiking_cells(self, l2):
        """Sparse spikes, for which plain L-BFGS took 2459 iterations."""
        spikes = ebm.datasets.spikes()
        for family, rows in (
            (ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10)), spikes.states),
            (ebm.IsingModel(np.zeros((10, 10)), np.zeros(10)), 2 * spikes.states - 1),
        ):
            slow = ebm.fit(
                family, rows, loss=ebm.Likelihood(by_moments), penalty=ebm.Penalty(l2=l2)
            )
            fast = ebm.fit(family, rows, penalty=ebm.Penalty(l2=l2))
            assert slow.converged
            assert slow.n_iterations <= 150
            # Where data are rare the likelihood is flat: compare in standard errors.
            difference = slow.model.parameters - fast.model.parameters
            assert np.abs(difference / fast.standard_errors).max() < 1e-3
            # Without a penalty the likelihood itself is at its maximum.
            within = 1e-10 if l2 == 0 else 1e-6
            assert slow.log_likelihood == pytest.approx(fast.log_likelihood, abs=within)

    def test_center_does_not_change_the_number_of_iterations(self):
        # The search runs about the data means whatever the center.
        rows = ebm.datasets.spikes().states
        counts = {
            ebm.fit(
                ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10), center=center),
                rows,
                loss=ebm.Likelihood(by_moments),
            ).n_iterations
            for center in (0.0, 0.5, -3.0)
        }
        assert max(counts) - min(counts) <= 10

    def test_no_standard_errors_without_fourth_moments(self):
        rows = np.concatenate([ebm.Binary(3).states_at(np.arange(8))] * 3)
        family = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
        result = ebm.fit(family, rows, loss=ebm.Likelihood(by_moments))
        assert result.standard_errors is None
        assert result.fisher is None
        assert result.warnings == ("no standard errors: Moments has no fourth moments",)

    def test_most_iterations(self):
        rows = ebm.datasets.spikes().states
        family = ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10))
        with pytest.warns(NotConvergedWarning, match="raise max_iterations"):
            result = ebm.fit(
                family, rows, loss=ebm.Likelihood(by_moments), solver=ebm.LBFGS(max_iterations=3)
            )
        assert not result.converged
        assert "raise max_iterations" in result.message
        assert len(result.history) <= 5
        likelihood = oracles.mean_log_likelihood(result.model, rows)
        assert result.log_likelihood == pytest.approx(likelihood, rel=1e-9)

    @pytest.mark.parametrize("call", range(3, 9))
    def test_interrupted_in_a_line_search_it_returns_the_best_point_met(self, call):
        # Spikes as a far start for a strong penalty: trial points are often worse.
        rows = ebm.datasets.spikes().states[:500, 4:9]
        met = []

        def average(model):
            if len(met) == call:
                raise KeyboardInterrupt
            met.append(model)
            return by_moments(model)

        family = ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5), center=2.0)
        result = ebm.fit(
            family, rows, loss=ebm.Likelihood(average), penalty=ebm.Penalty(l2=0.02, l2_biases=0.02)
        )
        losses = [
            0.01 * model.parameters @ model.parameters - oracles.mean_log_likelihood(model, rows)
            for model in met
        ]
        assert result.message.startswith("interrupted")
        own = 0.01 * result.model.parameters @ result.model.parameters - result.log_likelihood
        assert own == pytest.approx(min(losses), rel=1e-12)


class TestAverages:
    def test_average_without_log_partition(self):
        rows = np.concatenate([ebm.Binary(3).states_at(np.arange(8))] * 3)
        family = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
        data = ebm.Ensemble.from_data(rows)
        with pytest.raises(EbmError, match=r"average must know ln Z.*WeightedStates"):
            ebm.fit(family, rows, loss=ebm.Likelihood(lambda model: data))

    def test_limits_are_lifted_through_average(self):
        family = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6))
        rows = np.random.default_rng(0).integers(0, 2, (500, 6))
        with pytest.raises(EbmError, match="max_seconds"):
            ebm.fit(
                family, rows, loss=ebm.Likelihood(lambda model: ebm.exact(model, max_seconds=1e-12))
            )
        assert ebm.fit(
            family, rows, loss=ebm.Likelihood(lambda m: ebm.exact(m, max_seconds=600))
        ).converged


class TestGeneralLoss:
    def loss(self, l2=0.2):
        def features(x):
            return np.stack([x[..., 0], x[..., 0] * x[..., 1], x.sum(axis=-1) ** 2], axis=-1)

        rng = np.random.default_rng(0)
        data = ebm.Ensemble.from_data(rng.integers(0, 2, (60, 3)))
        family = oracles.LinearFamily(ebm.Binary(3), features, [0.3, -0.2, 0.1])
        penalty = AppliedPenalty(family, ebm.Penalty(l2=l2))
        return LikelihoodLoss(family, data, ebm.exact, penalty, data)

    def test_gradient_is_the_slope_of_the_value(self):
        loss = self.loss()

        def value(theta):
            return loss.point(theta).value

        slopes = oracles.finite_difference(value, loss.family.parameters)
        gradient = loss.point(loss.family.parameters).slopes
        np.testing.assert_allclose(gradient, slopes, atol=1e-8)

    def test_scaling_is_by_the_deviations_over_the_data(self):
        loss = self.loss()
        features = loss.family.features(loss.data.states.astype(float))
        weights = loss.data.weights
        variance = weights @ features**2 - (weights @ features) ** 2
        np.testing.assert_allclose(loss.scaling.diagonal(), 1 / np.sqrt(variance), rtol=1e-10)

    def test_a_feature_that_never_changes_is_left_where_it_is(self):
        def features(x):
            return np.stack([x[..., 0], np.ones(x.shape[:-1])], axis=-1)

        family = oracles.LinearFamily(ebm.Binary(2), features, [0.0, 0.7])
        result = ebm.fit(family, [[0, 1], [1, 1], [1, 0]])
        assert result.converged
        np.testing.assert_allclose(result.model.parameters, [np.log(2), 0.7], atol=1e-6)


@pytest.mark.parametrize("place", ["information", "the first Newton step", "the linear program"])
def test_an_interrupt_after_the_last_step_leaves_a_result(place, monkeypatch):
    """The parameters are those of the search; errors are missing, with a reason."""
    rows = (np.random.default_rng(0).random((500, 4)) < [0.3, 0.5, 0.6, 0.4]).astype(np.int8)
    family = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
    average = by_moments if place == "the linear program" else ebm.exact
    wanted = ebm.fit(family, rows, loss=ebm.Likelihood(average), solver=ebm.LBFGS())

    def interrupted(*arguments):
        raise KeyboardInterrupt

    name = {
        "information": "ebm.learning._assessment.information_at",
        "the first Newton step": "ebm.learning.newton.Newton.start",
        "the linear program": "ebm.learning._assessment.doubt_of_maximum",
    }[place]
    monkeypatch.setattr(name, interrupted)
    result = ebm.fit(family, rows, loss=ebm.Likelihood(average), solver=ebm.LBFGS())
    np.testing.assert_allclose(result.model.parameters, wanted.model.parameters, atol=1e-6)
    assert any("interrupted" in note for note in (*result.warnings, result.message))
    if place != "the first Newton step":
        assert result.standard_errors is None
    with pytest.raises(KeyboardInterrupt):
        ebm.inversion.bootstrap(
            lambda data: ebm.fit(family, data, loss=ebm.Likelihood(average), solver=ebm.LBFGS()),
            rows,
            n_resamples=3,
            rng=0,
        )


@pytest.mark.parametrize("seed", [0, 4, 12, 24])
def test_where_values_are_rounding_slopes_lead_on(seed):
    rng = np.random.default_rng(seed)
    parts = rng.normal(0, 1.5, (4, 2)), rng.normal(size=4), rng.normal(size=2)
    rows = ebm.exact(ebm.RestrictedBoltzmannMachine(*parts)).sample(300, rng=seed)
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 2, rng=seed)
    result = ebm.fit(start, rows)
    assert result.converged, result.message
    assert result.gradient_norm <= 1e-7
