"""Choice along a path, refits and honest errors: reference numbers, counts, reproducibility."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ebm
from ebm.errors import (
    ConstantUnitError,
    EbmError,
    LimitError,
    ModelError,
    NotConvergedWarning,
    SingularCovarianceError,
)
from ebm.inversion import (
    InteractionScreening,
    Pseudolikelihood,
    cross_validation,
    extended_bic,
    one_step,
    refit,
    regularization_path,
    selection,
    stability_selection,
)
from ebm.inversion._sandwich import Sandwich
from ebm.inversion.path import followed
from tests.inversion.test_path import ring
from tests.inversion.test_sparse import BINARY, COUNTS, ISING, PRECISE, STATES, TABLE, flat

#: The couplings 01, 03, 12 of the table.
THREE = [True, False, True, True, False, False]


def path_of(loss, data=TABLE, **how):
    return regularization_path(flat(BINARY), data, loss=loss, **{"strengths": 40, **how})


class TestExtendedBIC:
    def test_of_exact_refits(self):
        path = path_of(ebm.Likelihood(), strengths=np.geomspace(1, 1e-3, 60))
        wanted = {
            0: [1089.07381272, 1073.13285377, 1064.83443835, 1062.30688137, 1076.61762205],
            0.25: [1089.07381272, 1074.51914813, 1067.60702708, 1066.46576446, 1084.93538822],
            0.5: [1089.07381272, 1075.90544249, 1070.3796158, 1070.62464754, 1093.25315438],
        }
        for gamma, numbers in wanted.items():
            chosen = extended_bic(path, gamma)
            for number in numbers:
                assert abs(chosen.scores - number).min() < 1e-7
            assert chosen.scores[chosen.indices[0]] == chosen.scores.min()
        assert extended_bic(path, 0.25).support.tolist() == THREE
        assert extended_bic(path, 0.5).support.sum() == 2

    def test_of_regressions(self):
        """The reference has a grid for each unit, λ_max,i 10^(−3k/199), a path one for all."""
        wanted = [255.13116974, 243.24386049, 276.18220584, 270.43688701]
        path = path_of(Pseudolikelihood(node_wise=True), strengths=np.geomspace(1, 1e-3, 200))
        smooth = path.problem.smooth
        slopes = smooth.point(path.problem.without_couplings).slopes[4:]
        largest = [np.abs(slopes[smooth.entries[0] == unit]).max() for unit in range(4)]
        for unit in range(4):
            strengths = largest[unit] * 10 ** (-3 * np.arange(200) / 199)
            runs = followed(path.problem, strengths, ebm.ProximalNewton(1e-11))
            coordinates = np.array([run.state["theta"] for _, run, _ in runs])
            own = extended_bic(replace(path, l1=strengths, coordinates=coordinates))
            assert own.scores[unit].min() == pytest.approx(wanted[unit], abs=1e-8)
        chosen = extended_bic(path)
        for rule in ("and", "or"):
            joined = path.problem.parameters(path.problem.coordinates_of(chosen.model), rule)
            assert (joined[4:] != 0).tolist() == THREE
        # The least criterion within a set of couplings is that at the smallest strength of a grid.
        assert np.ptp(largest) > 0.01
        np.testing.assert_allclose(chosen.scores.min(axis=1), wanted, atol=0.03)

    def test_the_joint_pseudolikelihood_charges_what_couplings_gain(self):
        path = path_of(Pseudolikelihood())
        assert extended_bic(path).support.tolist() == THREE
        problem = path.problem
        theta = problem.coordinates_of(refit(machine(THREE), TABLE).model)
        there = np.append(np.ones(4, dtype=bool), THREE)
        some = problem.smooth.among(there, theta)
        charged = Sandwich(some, theta[there]).effective_parameters()
        assert charged == pytest.approx(9.828677616753716, abs=1e-6)

    def test_settings(self):
        path = path_of(InteractionScreening(), strengths=3)
        with pytest.raises(EbmError, match="needs a likelihood or a pseudo-likelihood"):
            extended_bic(path)
        for gamma in (-1, np.nan, np.inf, 1e308):
            with pytest.raises(EbmError, match="gamma must not be negative"):
                extended_bic(path, gamma)
        with pytest.raises(EbmError, match="path must be a result of"):
            extended_bic(TABLE)
        exact = regularization_path(flat(BINARY, 3), ebm.exact(machine3()), strengths=3)
        with pytest.raises(EbmError, match="needs a number of rows"):
            extended_bic(exact)


def machine(flags, size=0.5):
    weights = np.zeros((4, 4))
    weights[np.triu_indices(4, 1)] = size * np.array(flags)
    return ebm.BoltzmannMachine(weights + weights.T, np.zeros(4))


def machine3():
    return ebm.BoltzmannMachine([[0, 1, 0], [1, 0, -0.5], [0, -0.5, 0]], [0.1, 0, 0])


class TestRefits:
    def test_are_those_of_the_reference(self):
        exact = refit(machine(THREE), TABLE, loss=ebm.Likelihood())
        np.testing.assert_allclose(
            exact.model.parameters[4:], [1.4472335, 0, -1.0647107, 0.8388768, 0, 0], atol=6e-8
        )
        wanted = [0.33046423, 0, 0.29386906, 0.30355854, 0, 0]
        np.testing.assert_allclose(exact.standard_errors[4:], wanted, atol=2e-8)
        local = refit(machine(THREE), TABLE)
        np.testing.assert_allclose(
            local.model.parameters[4:], [1.43958228, 0, -1.04525247, 0.85258297, 0, 0], atol=2e-8
        )
        wanted = [0.33171131, 0, 0.29754588, 0.30799011, 0, 0]
        np.testing.assert_allclose(local.standard_errors[4:], wanted, atol=2e-7)
        assert any("given this set of couplings" in note for note in local.warnings)

    def test_one_step_is_that_of_the_reference(self):
        sparse = ebm.fit(flat(BINARY), TABLE, penalty=ebm.Penalty(l1=0.02), solver=PRECISE).model
        honest = one_step(sparse, TABLE, loss=ebm.Likelihood())
        wanted = [1.3997679, 0.0006514, -1.0226278, 0.8469326, -0.1969863, 0.3064488]
        np.testing.assert_allclose(honest.model.parameters[4:], wanted, atol=6e-8)
        full = ebm.fit(flat(BINARY), TABLE)
        wanted = [0.32158918, 0.29867058, 0.29677844, 0.30721774, 0.31210912, 0.28963949]
        np.testing.assert_allclose(honest.standard_errors[4:], wanted, atol=2e-8)
        np.testing.assert_allclose(honest.standard_errors, full.standard_errors, rtol=0.1)
        assert "intervals are honest" in honest.message

    @pytest.mark.parametrize(
        "loss",
        [ebm.Likelihood(), Pseudolikelihood(), Pseudolikelihood(True), InteractionScreening()],
    )
    @pytest.mark.parametrize("kind", [BINARY, ISING])
    def test_one_step_from_the_free_minimum_stays_there(self, loss, kind):
        data = TABLE
        if kind is ISING:
            data = ebm.Ensemble.from_data(2 * STATES - 1, sample_weight=COUNTS, space=ebm.Spins)
        full = ebm.fit(flat(kind), data, loss=loss)
        again = one_step(full.model, data, loss=loss)
        np.testing.assert_allclose(again.model.parameters, full.model.parameters, atol=2e-4)
        # A regression starts from the mean of two estimates.
        np.testing.assert_allclose(again.standard_errors, full.standard_errors, rtol=1e-3)

    def test_a_model_that_is_shrunk_too_far_for_one_step_is_said_to_be(self):
        rows = ring(m=800)
        path = regularization_path(flat(ISING, 12), rows, strengths=10)
        with pytest.warns(NotConvergedWarning, match="take its refit, or a smaller l1"):
            assert not one_step(path.models[1], rows).converged
        assert one_step(refit(path.models[5], rows).model, rows).converged

    def test_intervals_cover(self):
        """A short version of tests/inversion/honest_intervals.py: 300 problems of three pairs."""
        truth = machine3()
        exact, inside = ebm.exact(truth), []
        for seed in range(300):
            data = ebm.Ensemble.from_data(exact.sample(300, seed))
            sparse = ebm.fit(
                flat(BINARY, 3), data, loss=Pseudolikelihood(), penalty=ebm.Penalty(l1=0.04)
            ).model
            honest = one_step(sparse, data)
            miss = np.abs(honest.model.parameters - truth.parameters)
            inside.append(miss < 1.96 * honest.standard_errors)
        coverage = np.mean(inside, axis=0)
        # Five binomial deviations.
        assert (np.abs(coverage - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 300)).all(), coverage

    @pytest.mark.filterwarnings("ignore::ebm.errors.FewSamplesWarning")
    def test_fewer_rows_than_parameters(self):
        rows = np.random.default_rng(0).integers(0, 2, (5, 10))
        rows[0], rows[1] = 0, 1
        with pytest.raises(SingularCovarianceError, match="no standard errors"):
            one_step(flat(BINARY, 10), rows)
        with pytest.raises(EbmError, match="need a number of samples"):
            one_step(machine3(), ebm.exact(machine3()))


class TestDivisions:
    def test_folds_are_draws_of_counts(self, monkeypatch):
        """Each row is held out once; a table of counts and its rows are divided alike."""
        seen = []
        original = selection.run_jobs

        def spy(job, draws, **how):
            seen.append(np.array(draws))
            return original(job, draws, **how)

        monkeypatch.setattr(selection, "run_jobs", spy)
        one = cross_validation(
            path_of(Pseudolikelihood(), strengths=np.geomspace(1, 0.1, 5)), n_folds=7, rng=3
        )
        repeated = ebm.Ensemble.from_data(np.repeat(STATES, COUNTS, axis=0))
        path = path_of(Pseudolikelihood(), repeated, strengths=np.geomspace(1, 0.1, 5))
        other = cross_validation(path, n_folds=7, rng=3)
        np.testing.assert_array_equal(seen[0], seen[1])
        np.testing.assert_array_equal(seen[0].sum(axis=0), COUNTS)
        assert sorted(set(seen[0].sum(axis=1).tolist())) == [28, 29]
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-9)

    def test_held_out_losses_are_those_of_the_models_on_the_rows(self):
        path = path_of(Pseudolikelihood(), strengths=np.geomspace(1, 0.1, 4))
        fold = np.array(COUNTS) // 5
        rows, counts = selection._counted_rows(path)
        order = [int("".join(map(str, row)), 2) for row in rows.states.astype(int)]
        answer = selection._held_out(path, rows, counts, fold[order])
        rest = ebm.Ensemble.from_data(STATES, sample_weight=np.array(COUNTS) - fold)
        held = ebm.Ensemble.from_data(STATES, sample_weight=fold)
        for l1, loss in zip(path.l1, answer["losses"], strict=True):
            model = ebm.fit(
                flat(BINARY), rest, loss=Pseudolikelihood(), penalty=ebm.Penalty(l1=l1)
            ).model
            wanted = -ebm.inversion.log_pseudolikelihood(model, held)
            assert loss == pytest.approx(wanted, abs=2e-6)
            # The rows learnt from are no test.
            assert abs(loss + ebm.inversion.log_pseudolikelihood(model, rest)) > 1e-4

    def test_of_the_likelihood(self):
        path = path_of(ebm.Likelihood(), strengths=np.geomspace(1, 0.1, 6))
        chosen = cross_validation(path, n_folds=4, rng=0)
        assert chosen.scores.shape == chosen.score_errors.shape == (6,)
        assert chosen.support[[0, 2]].all()

    def test_a_seed_gives_the_same_and_processes_too(self, tmp_path):
        path = path_of(Pseudolikelihood(), strengths=np.geomspace(1, 0.1, 4))
        one = stability_selection(path, n_halves=6, rng=5)
        file = tmp_path / "halves.npz"
        with ProcessPoolExecutor(1) as executor:
            other = stability_selection(path, n_halves=6, rng=5, executor=executor, checkpoint=file)
        np.testing.assert_array_equal(one.frequencies, other.frequencies)
        again = stability_selection(path, n_halves=6, rng=5, checkpoint=file)
        np.testing.assert_array_equal(one.frequencies, again.frequencies)
        with pytest.raises(EbmError, match="belongs to a run with another rng"):
            stability_selection(path, n_halves=6, rng=6, checkpoint=file)

    def test_stable_couplings_are_those_of_the_ring(self):
        path = regularization_path(flat(ISING, 12), ring(m=600), strengths=np.geomspace(1, 0.3, 8))
        result = stability_selection(path, n_halves=20, rng=0)
        i, j = path.family.pairs
        is_ring = (j - i == 1) | (j - i == 11)
        assert result.support[is_ring].all()
        assert result.support.sum() <= is_ring.sum() + 2
        assert "couplings from 0.75 on" in repr(result)
        wanted = result.n_chosen**2 / (0.5 * 66)
        assert result.expected_false == pytest.approx(wanted)
        says_nothing = result.expected_false >= result.support.sum()
        assert ("says nothing: end the path earlier" in repr(result)) is bool(says_nothing)
        assert f"{wanted:.2g}" in repr(result)

    def test_a_part_in_which_a_unit_never_changes_is_said(self):
        rows = [[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
        path = regularization_path(flat(BINARY, 3), rows, strengths=np.geomspace(1, 0.5, 4))
        with pytest.raises(ConstantUnitError, match="in one of the parts of the rows unit '0'"):
            cross_validation(path, n_folds=7, rng=0)

    def test_settings(self):
        path = path_of(Pseudolikelihood(), strengths=np.geomspace(1, 0.5, 3))
        with pytest.raises(EbmError, match="threshold must be above"):
            stability_selection(path, threshold=0.5)
        with pytest.raises(EbmError, match="n_folds"):
            cross_validation(path, n_folds=1)
        with pytest.raises(EbmError, match="500 folds need as many rows, got 200"):
            cross_validation(path, n_folds=500)
        shares = ebm.Ensemble.from_data(STATES, sample_weight=0.37 * np.array(COUNTS))
        with pytest.raises(EbmError, match="whole counts"):
            cross_validation(path_of(Pseudolikelihood(), shares, strengths=3))

    def test_frequencies_are_whole_however_large(self):
        """A half is no rounding, even of ten thousand."""
        rows = ebm.Ensemble.from_data(STATES, sample_weight=1000 * np.array(COUNTS) + 0.5)
        path = path_of(Pseudolikelihood(), rows, strengths=np.geomspace(1, 0.9, 2))
        with pytest.raises(EbmError, match="rows are divided by whole counts"):
            stability_selection(path, n_halves=2, rng=0)

    @pytest.mark.parametrize("choose", [cross_validation, stability_selection])
    def test_more_rows_than_can_be_drawn_are_refused(self, choose):
        rows = ebm.Ensemble.from_data(STATES, sample_weight=1e8 * np.array(COUNTS))
        path = path_of(Pseudolikelihood(), rows, strengths=np.geomspace(1, 0.9, 2))
        with pytest.raises(LimitError, match=r"the limit is 1e\+09 cases, got 2e\+10"):
            choose(path, rng=0)

    def test_a_checkpoint_is_that_of_one_task_and_penalty(self, tmp_path):
        """Two folds are two halves, drawn alike."""
        path, file = (
            path_of(Pseudolikelihood(), strengths=np.geomspace(1, 0.9, 2)),
            tmp_path / "folds.npz",
        )
        cross_validation(path, n_folds=2, rng=0, checkpoint=file)
        with pytest.raises(EbmError, match="belongs to a run with another task"):
            stability_selection(path, n_halves=2, rng=0, checkpoint=file)
        other = replace(path, penalty=ebm.Penalty(l2=0.1))
        with pytest.raises(EbmError, match="belongs to a run with another l2"):
            cross_validation(other, n_folds=2, rng=0, checkpoint=file)

    def test_a_half_without_a_minimum_is_said(self):
        """Parts are fitted by the solver of the path."""
        path = path_of(Pseudolikelihood(), strengths=np.geomspace(1, 0.1, 3))
        path = replace(path, solver=ebm.ProximalNewton(1e-6, 1))
        with pytest.raises(EbmError, match="in one half there is no model at l1 = "):
            stability_selection(path, n_halves=2, rng=0)


class TestModelsOfARefit:
    def test_a_choice_is_no_model(self):
        path = path_of(Pseudolikelihood(), strengths=np.geomspace(1, 0.5, 3))
        with pytest.raises(ModelError, match="Selection is no model"):
            refit(extended_bic(path), TABLE)

    def test_other_families_are_refused(self):
        terms = ebm.InteractionModel({(0,): 0.0, (0, 1, 2): 0.1}, ebm.Binary(4))
        for job in (refit, one_step, regularization_path):
            with pytest.raises(
                ModelError, match="pairwise models of two-valued units or of levels"
            ):
                job(terms, TABLE)

    @pytest.mark.filterwarnings("ignore::ebm.errors.EbmWarning")
    def test_where_there_are_no_errors_none_are_said_to_be_given(self):
        model = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
        result = refit(model, [[0, 0], [1, 1]] * 20)
        assert result.standard_errors is None
        assert not any("standard errors are given" in note for note in result.warnings)


def test_chosen_pairs_are_named_by_their_units_whatever_the_order_of_columns():
    weights = np.zeros((3, 3))
    weights[0, 2] = weights[2, 0] = 0.7
    truth = ebm.IsingModel(weights, np.zeros(3))
    rows = pd.DataFrame(ebm.exact(truth).sample(400, rng=1), columns=["z", "y", "x"])
    start = ebm.IsingModel(np.zeros((3, 3)), np.zeros(3), names=["y", "x", "z"])
    path = regularization_path(start, rows, strengths=[1, 0.5])
    assert extended_bic(path).pairs == (("x", "z"),)
    assert stability_selection(path, n_halves=10, rng=0).pairs == (("x", "z"),)
