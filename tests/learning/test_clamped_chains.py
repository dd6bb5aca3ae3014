"""Learning with hidden units that are sampled beside the rows; [EBM] eq 11."""

import numpy as np
import pytest
from scipy.stats import norm

import ebm
from ebm.effective import CompletedRows
from ebm.errors import EbmError, EnumerationLimitError, ModelError
from ebm.learning._batches import IndexedRows, filled_in
from tests.statistical import FALSE_FAIL_RATE
from tests.test_marginal_parameters import GradientAlone, boltzmann, deep, growing, potts, triples


def own():
    """A model of a user's own, known by energies and their derivatives alone."""
    marginal = triples()
    return ebm.marginalize(GradientAlone(marginal.model), marginal.keep)


FAMILIES = [boltzmann, triples, potts, deep, own]


def visits(marginal, data, completion, n_visits, seed=0):
    """Joint states of all rows after each of so many visits at fixed parameters."""
    rows = IndexedRows.of(data)
    state = completion.start(marginal, rows, np.random.default_rng(seed))
    for _ in range(n_visits):
        ensemble, state = completion.step(marginal, rows.everything(), state)
        yield ensemble


def check_gradients(marginal, data, ensembles, n_batches=40):
    """Their mean ∂E/∂θ is that of the exact completion, to the error of batch means."""
    gradients = np.array([marginal.mean_energy_gradient(one) for one in ensembles])
    means = gradients.reshape(n_batches, -1, gradients.shape[1]).mean(axis=1)
    errors = means.std(axis=0, ddof=1) / np.sqrt(n_batches)
    deviation = means.mean(axis=0) - marginal.mean_energy_gradient(data)
    # What depends on the rows alone is the same in every draw.
    is_known = errors < 1e-12
    np.testing.assert_allclose(deviation[is_known], 0, atol=1e-12)
    z = deviation[~is_known] / errors[~is_known]
    assert np.abs(z).max() < norm.isf(FALSE_FAIL_RATE / 2 / len(z)) + 1.5


@pytest.mark.parametrize("make", FAMILIES)
def test_the_gradient_over_clamped_draws_is_that_of_exact_sums(make):
    marginal = make()
    data = growing(marginal)
    n_visits = 200 if make is own else 800
    ensembles = list(visits(marginal, data, ebm.ClampedChains(2), n_visits + 20))[20:]
    check_gradients(marginal, data, ensembles)


@pytest.mark.parametrize("make", [boltzmann, potts])
def test_hidden_units_drawn_without_regard_to_the_rows_are_seen(make):
    marginal = make()
    data = growing(marginal)
    # The joint model without couplings between the layers that rows could act by.
    beside = marginal.with_parameters(0.5 * marginal.parameters)
    ensembles = list(visits(beside, data, ebm.ClampedChains(2), 820))[20:]
    with pytest.raises(AssertionError):
        check_gradients(marginal, data, ensembles)


@pytest.mark.parametrize("make", FAMILIES)
def test_rows_and_their_weights_stay_as_they_are(make):
    marginal = make()
    data = growing(marginal)
    rows = IndexedRows.of(data).everything()
    for ensemble in visits(marginal, data, ebm.ClampedChains(), 3):
        np.testing.assert_array_equal(ensemble.states[:, list(marginal.keep)], rows.states)
        np.testing.assert_array_equal(ensemble.weights, rows.weights)
        assert ensemble.space == marginal.model.space


def test_each_row_has_a_chain_that_goes_on_from_visit_to_visit():
    """Batches in any order: hidden units of rows that are not visited wait where they were."""
    marginal = deep()
    rows = IndexedRows.of(growing(marginal))
    completion = ebm.ClampedChains(1)
    before = completion.start(marginal, rows, np.random.default_rng(0))
    visited = np.array([5, 2, 17])
    _, after = completion.step(marginal, rows.take(visited), before)
    waiting = np.setdiff1d(np.arange(len(rows)), visited)
    np.testing.assert_array_equal(after["states"][waiting], before["states"][waiting])
    assert (after["states"][visited] != before["states"][visited]).any()
    assert not np.array_equal(after["streams"], before["streams"])


def test_a_fit_with_sampled_hidden_units_comes_to_the_likelihood_of_exact_sums():
    family = boltzmann()
    rows = ebm.exact(family).sample(2000, rng=3)
    start = family.with_parameters(0.1 * family.parameters)
    exact = ebm.fit(start, rows)
    sampled = ebm.Likelihood(ebm.PersistentChains(500), completion=ebm.ClampedChains(2))
    steps = ebm.GradientSteps(ebm.Adam(0.02), n_epochs=60, batch_size=200)
    result = ebm.fit(start, rows, loss=sampled, solver=steps, rng=0)
    log_likelihood = ebm.exact(result.model).log_probability(rows).mean()
    # An independent model is .3 nats below.
    assert exact.log_likelihood - 0.01 < log_likelihood < exact.log_likelihood + 1e-6
    assert result.log_likelihood is None
    assert "stopped at n_epochs" in result.message


def test_chains_of_a_marginal_are_chains_of_its_joint_model():
    marginal = deep()
    chains = ebm.PersistentChains(4000, sweeps=30)
    rows = IndexedRows.of(growing(marginal))
    state = chains.start(marginal, rows, np.random.default_rng(0))
    assert state.states.shape == (4000, 9)
    ensemble, _ = chains.step(marginal, rows.everything(), state)
    wanted = ebm.exact(marginal.model).moments()
    error = np.sqrt(wanted.covariance.diagonal() / 4000)
    z = (ensemble.moments().mean - wanted.mean) / error
    assert np.abs(z).max() < norm.isf(FALSE_FAIL_RATE / 2 / 9)


class TestMissingCells:
    """Rows that lack some of their units, each its own ones."""

    @staticmethod
    def holes(make, share=0.3):
        marginal = make()
        data = growing(marginal)
        rows = np.repeat(data.states, np.arange(1, len(data.states) + 1), axis=0).astype(float)
        rows[np.random.default_rng(4).random(rows.shape) < share] = np.nan
        return ebm.IncompleteEnsemble.from_data(rows, space=marginal.space)

    @staticmethod
    def visible(make):
        """A model of the units that rows are of, without hidden ones."""
        marginal = make()
        n = marginal.space.n
        if make is potts:
            model = ebm.PottsModel(np.zeros((n, n, 3, 3)), np.zeros((n, 3)))
        else:
            model = ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n))
        return model.with_parameters(np.sin(np.arange(1, len(model.parameters) + 1)))

    @pytest.mark.parametrize("make", [boltzmann, potts, deep])
    @pytest.mark.parametrize("is_hidden", [False, True])
    def test_the_gradient_is_that_of_rows_completed_exactly(self, make, is_hidden):
        data = self.holes(make)
        model = make() if is_hidden else self.visible(make)
        rows = IndexedRows.of(filled_in(data))
        completion = ebm.ClampedChains(2)
        state = completion.start(model, rows, np.random.default_rng(0))
        gradients = []
        for _ in range(420):
            ensemble, state = completion.step(model, rows.everything(), state)
            gradients.append(model.mean_energy_gradient(ensemble))
        means = np.array(gradients[20:]).reshape(40, 10, -1).mean(axis=1)
        errors = means.std(axis=0, ddof=1) / np.sqrt(40)
        wanted = model.mean_energy_gradient(CompletedRows(model, data))
        z = ((means.mean(axis=0) - wanted) / np.maximum(errors, 1e-12))[errors > 1e-12]
        assert np.abs(z).max() < norm.isf(FALSE_FAIL_RATE / 2 / len(z)) + 1.5
        # Cells filled in by their column alone, as at the start, are seen to be wrong.
        if not is_hidden:
            column = model.mean_energy_gradient(rows.everything())
            assert np.abs((column - wanted) / np.maximum(errors, 1e-12)).max() > 10

    def test_cells_that_were_seen_stay_as_they_are(self):
        data = self.holes(boltzmann)
        model, rows = self.visible(boltzmann), IndexedRows.of(filled_in(data))
        completion = ebm.ClampedChains(3)
        state = completion.start(model, rows, np.random.default_rng(0))
        batch = rows.take(np.array([7, 3, 11, 0, 20]))
        ensemble, _ = completion.step(model, batch, state)
        assert batch.missing.any()
        np.testing.assert_array_equal(ensemble.states[~batch.missing], batch.states[~batch.missing])

    def test_a_fit_comes_to_the_likelihood_of_exact_sums(self):
        truth = ebm.BoltzmannMachine([[0, 1.5, -1], [1.5, 0, 1], [-1, 1, 0]], [-0.5, -0.4, 0.2])
        rows = ebm.exact(truth).sample(3000, rng=1).astype(float)
        rows[np.random.default_rng(2).random(rows.shape) < 0.3] = np.nan
        data = ebm.IncompleteEnsemble.from_data(rows, names=["a", "b", "c"])
        start = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
        exact = ebm.fit(start, data)
        loss = ebm.Likelihood(ebm.PersistentChains(500), completion=ebm.ClampedChains(2))
        steps = ebm.GradientSteps(ebm.Adam(0.02), n_epochs=60, batch_size=200)
        result = ebm.fit(start, data, loss=loss, solver=steps, rng=0)
        z = (result.model.parameters - exact.model.parameters) / exact.standard_errors
        assert np.abs(z).max() < 1
        assert "missing at random" in result.message
        assert any("cells are missing" in note for note in result.warnings)

    def test_more_units_than_can_be_summed(self):
        rng = np.random.default_rng(0)
        coin = rng.integers(0, 2, (400, 1)).repeat(40, axis=1)
        rows = (coin ^ (rng.random((400, 40)) < 0.3)).astype(float)
        rows[rng.random(rows.shape) < 0.1] = np.nan
        data = ebm.IncompleteEnsemble.from_data(rows)
        start = ebm.BoltzmannMachine(np.zeros((40, 40)), np.zeros(40))
        loss = ebm.Likelihood(ebm.PersistentChains(100), completion=ebm.ClampedChains(1))
        steps = ebm.GradientSteps(n_epochs=20)
        result = ebm.fit(start, data, loss=loss, solver=steps, rng=0, penalty=0.01)
        drawn = ebm.sample(result.model, n_draws=200, n_chains=20, rng=1).moments()
        np.testing.assert_allclose(drawn.mean, data.seen_mean, atol=0.15)
        assert drawn.covariance[0, 1] > 0.01

    def test_columns_that_say_nothing_are_refused_by_name(self):
        rows = np.array([[0, 1, 1], [1, 0, 1], [np.nan, 1, 1], [1, np.nan, 1]] * 10)
        data = ebm.IncompleteEnsemble.from_data(rows, names=["a", "b", "c"])
        start = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
        loss = ebm.Likelihood(ebm.PersistentChains(), completion=ebm.ClampedChains())
        with pytest.raises(EbmError, match="'c'"):
            ebm.fit(start, data, loss=loss)


class TestRestarts:
    def test_the_share_of_chains_that_begin_again_is_the_one_given(self):
        rows = np.ones((50, 40))
        rows[:, 0] = np.arange(50) % 2
        machine = ebm.BoltzmannMachine(np.zeros((40, 40)), np.full(40, -30.0))
        chains = ebm.PersistentChains(2000, restarts=0.25)
        data = IndexedRows.of(ebm.Ensemble.from_data(rows))
        state = chains.start(machine, data, np.random.default_rng(0))
        _, state = chains.step(machine, data.everything(), state)

        class Still:
            """Sweeps that leave all as it is."""

            def sweeper(self, model, n_chains):
                class Sweeps(ebm.sampling.Sweeper):
                    def advance(self, work, stream, n_sweeps):
                        pass

                return Sweeps()

        still = ebm.PersistentChains(2000, sampler=Still(), restarts=0.25)
        moved, after = still.step(machine, data.everything(), state)
        began = moved.states[:, 1] == 1
        assert abs(began.mean() - 0.25) < norm.isf(FALSE_FAIL_RATE / 2) * np.sqrt(0.1875 / 2000)
        # Both kinds of rows are among them.
        assert abs(moved.states[began, 0].mean() - 0.5) < 0.15
        again, _ = still.step(machine, data.everything(), after)
        assert 0.3 < again.states[:, 1].mean() < 0.6

    def test_hidden_units_of_a_chain_that_begins_again_are_its_own(self):
        marginal = deep()
        rows = IndexedRows.of(growing(marginal))
        chains = ebm.PersistentChains(64, restarts=0.5)
        state = chains.start(marginal, rows, np.random.default_rng(0))
        ensemble, after = chains.step(marginal, rows.everything(), state)
        assert ensemble.states.shape == after.states.shape == (64, 9)

    @pytest.mark.parametrize("share", [-0.1, 1.0, np.nan, "few"])
    def test_a_share_that_is_no_probability(self, share):
        with pytest.raises(EbmError, match=r"restarts must (be|hold)"):
            ebm.PersistentChains(restarts=share)

    def test_moments_have_no_rows_to_begin_again_at(self):
        machine = ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2))
        moments = ebm.Ensemble.from_data([[0, 1], [1, 0], [1, 1], [0, 0]] * 5).moments()
        with pytest.raises(ModelError, match="moments: give rows"):
            ebm.fit(machine, moments, loss=ebm.Likelihood(ebm.PersistentChains(restarts=0.1)))


class TestTooLargeToSum:
    """Forty hidden units, each coupled to all others: 2^40 states for each row."""

    @staticmethod
    def family(n=6, m=40):
        weights = np.triu(np.random.default_rng(0).normal(0, 0.05, (n + m, n + m)), 1)
        return ebm.marginalize(ebm.BoltzmannMachine(weights + weights.T, np.zeros(n + m)), range(n))

    #: A fair coin, and six units that each agree with it in four rows of five.
    ROWS = np.random.default_rng(1).integers(0, 2, (400, 1)).repeat(6, axis=1)
    ROWS ^= np.random.default_rng(2).random((400, 6)) < 0.2

    def test_they_are_learnt_by_clamped_chains(self):
        loss = ebm.Likelihood(ebm.PersistentChains(100), completion=ebm.ClampedChains())
        steps = ebm.GradientSteps(ebm.Adam(0.005), n_epochs=200)
        result = ebm.fit(self.family(), self.ROWS, loss=loss, solver=steps, rng=0, penalty=0.01)
        drawn = ebm.sample(result.model.model, n_draws=200, n_chains=20, rng=1).moments()
        data = ebm.Ensemble.from_data(self.ROWS).moments()
        np.testing.assert_allclose(drawn.mean[:6], data.mean, atol=0.1)
        # At the start .01 of any pair.
        np.testing.assert_allclose(drawn.covariance[:6, :6], data.covariance, atol=0.04)

    @pytest.mark.parametrize("average", [ebm.exact, ebm.PersistentChains()])
    def test_without_them_the_refusal_names_them(self, average):
        with pytest.raises(EnumerationLimitError, match=r"completion=ebm\.ClampedChains\(\)"):
            ebm.fit(self.family(), self.ROWS, loss=ebm.Likelihood(average))

    def test_units_that_no_row_acts_on_are_still_named(self):
        family = self.family()
        blank = family.with_parameters(np.zeros(len(family.parameters)))
        loss = ebm.Likelihood(ebm.PersistentChains(), completion=ebm.ClampedChains())
        with pytest.warns(ebm.errors.SymmetricStartWarning, match="coupled to no unit") as caught:
            ebm.fit(blank, self.ROWS, loss=loss, solver=ebm.GradientSteps(n_epochs=1), rng=0)
        # Draws tell exchangeable units apart.
        assert "exchangeable" not in str(caught[0].message)


class TestRefusals:
    ROWS = [[0, 0], [0, 1], [1, 0], [1, 1]] * 5

    def test_of_what_is_no_completion(self):
        for wrong in (ebm.exact, "chains", ebm.ClampedChains):
            with pytest.raises(ModelError, match="completion must have start and step"):
                ebm.Likelihood(completion=wrong)

    def test_levels_that_no_row_has_are_named_by_exact_sums_and_chains_alike(self):
        joint = ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3)))
        family = ebm.marginalize(joint, [2, 0])
        family = family.with_parameters(
            np.random.default_rng(0).normal(0, 0.5, len(family.parameters))
        )
        rows = np.random.default_rng(1).integers(0, 3, (60, 2))
        chains = ebm.Likelihood(ebm.PersistentChains(10), completion=ebm.ClampedChains())
        for loss, solver in ((None, None), (chains, ebm.GradientSteps(n_epochs=1))):
            how = {"solver": solver} if loss is None else {"solver": solver, "loss": loss, "rng": 0}
            with pytest.warns(ebm.errors.NoMaximumWarning, match="combination of '0' never occurs"):
                result = ebm.fit(family, np.minimum(rows, [1, 2]), **how)
            assert not result.converged
            assert not any("maximum" in x for x in ebm.fit(family, rows, **how).warnings)

    def test_of_chains_on_the_wrong_side(self):
        # Both have start and step: either exchange would learn nothing, without a word.
        for chains in (ebm.PersistentChains(10), ebm.ContrastiveDivergence()):
            with pytest.raises(ModelError, match="whatever the rows are, and completes none"):
                ebm.Likelihood(ebm.PersistentChains(10), completion=chains)
        with pytest.raises(ModelError, match=r"give completion=ClampedChains\(sweeps=2"):
            ebm.Likelihood(ebm.ClampedChains(2))

    def test_of_a_model_that_sums_nothing_out(self):
        machine = ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2))
        loss = ebm.Likelihood(ebm.PersistentChains(), completion=ebm.ClampedChains())
        for family in (machine, ebm.marginalize(machine, [1, 0])):
            with pytest.raises(ModelError, match="leave completion out, or give a marginal"):
                ebm.fit(family, self.ROWS, loss=loss)

    def test_of_solvers_that_need_sums(self):
        family = ebm.marginalize(ebm.BoltzmannMachine(np.ones((3, 3)), np.zeros(3)), [0, 1])
        loss = ebm.Likelihood(completion=ebm.ClampedChains())
        with pytest.raises(EbmError, match="completion belongs to gradient steps"):
            ebm.fit(family, self.ROWS, loss=loss, solver=ebm.LBFGS())

    def test_of_validation_rows(self):
        family = ebm.marginalize(ebm.BoltzmannMachine(np.ones((3, 3)), np.zeros(3)), [0, 1])
        loss = ebm.Likelihood(ebm.PersistentChains(), completion=ebm.ClampedChains())
        steps = ebm.GradientSteps(validation=self.ROWS)
        with pytest.raises(ModelError, match="validation compares energies"):
            ebm.fit(family, self.ROWS, loss=loss, solver=steps)

    def test_of_copies_and_of_no_sweeps(self):
        with pytest.raises(ModelError, match="carries copies along"):
            ebm.ClampedChains(sampler=ebm.ParallelTempering([0.5]))
        with pytest.raises(EbmError, match="sweeps"):
            ebm.ClampedChains(0)
