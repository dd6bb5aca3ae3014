"""Sparse networks of levels: reference numbers, another convex solver, pairs that are zero."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp

import ebm
from ebm.errors import EbmError, LimitError, ModelError, UnusedCategoryError
from ebm.inversion import (
    MinimumProbabilityFlow,
    Pseudolikelihood,
    cross_validation,
    extended_bic,
    one_step,
    refit,
    regularization_path,
    stability_selection,
)
from ebm.inversion import path as path_module
from ebm.learning._pair_groups import pair_groups
from ebm.learning.penalties import AppliedPenalty
from tests.inversion.test_level_pseudolikelihood import (
    Redundant,
    counted,
    items,
    mixed,
    potts,
    rows_of,
)
from tests.inversion.test_sparse import BINARY, SPINS, TABLE, flat

PRECISE = ebm.ProximalNewton(tolerance=1e-12)
LOSSES = [ebm.Likelihood(), Pseudolikelihood()]
FLAT = ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3)))


def at_zero(model):
    return model.with_parameters(np.zeros(len(model.parameters)))


def lengths(model):
    return pair_groups(model).lengths(np.asarray(model.parameters))


def ring_of_items(n=6, m=1500):
    """Items in a ring with couplings of both signs, and rows of them."""
    rng, weights = np.random.default_rng(0), np.zeros((n, n))
    for k in range(n):
        weights[k, (k + 1) % n] = weights[(k + 1) % n, k] = 0.35 * (-1) ** k
    truth = ebm.OrdinalModel(weights, [rng.normal(0, 0.5, q) for q in (3, 4, 2, 3, 4, 3)])
    return truth, ebm.Ensemble.from_data(ebm.exact(truth).sample(m, 1), space=truth.space)


class TestReferenceNumbers:
    """Three units of three levels, 95 rows."""

    @pytest.mark.parametrize("model", [FLAT, Redundant()])
    def test_of_the_joint_pseudolikelihood(self, model):
        """In every gauge of the parameters: the last value zero, or all values free."""
        penalty = ebm.Penalty(group_l1=0.12)
        problem = Pseudolikelihood().of(model, counted(), penalty)
        assert problem.largest_l1 == pytest.approx(0.3082563, abs=6e-8)
        result = ebm.fit(model, counted(), loss=Pseudolikelihood(), penalty=penalty, solver=PRECISE)
        wanted = [0.4378533, 0.2873102, 0.6790689]
        np.testing.assert_allclose(lengths(result.model), wanted, atol=6e-8)

    def test_lengths_are_frobenius_norms_of_the_zero_sum_gauge(self):
        model = potts()
        i, j = model.pairs
        wanted = np.linalg.norm(model.zero_sum().couplings[i, j], axis=(1, 2))
        np.testing.assert_allclose(lengths(model), wanted, rtol=1e-12)
        in_their_gauge = np.linalg.norm(model.last_state_zero().couplings[i, j], axis=(1, 2))
        assert not np.allclose(lengths(model), in_their_gauge, rtol=1e-2)

    def test_the_optimum_of_all_numbers_is_zero_sum(self):
        model = ebm.fit(
            Redundant(), counted(), penalty=ebm.Penalty(group_l1=0.05), solver=PRECISE
        ).model
        for block in model.parameters[9:].reshape(3, 3, 3):
            np.testing.assert_allclose(block.sum(axis=0), 0, atol=1e-10)
            np.testing.assert_allclose(block.sum(axis=1), 0, atol=1e-10)


def table_loss(logs, shares, *, is_local):
    """−Σ D ln p of unnormalized log probabilities (q_1, …, q_n), and its slopes."""
    value, slopes = 0.0, np.zeros_like(logs)
    for axis in range(logs.ndim) if is_local else [None]:
        normalized = logs - logsumexp(logs, axis=axis, keepdims=True)
        value -= float((shares * normalized).sum())
        slopes += np.exp(normalized) * shares.sum(axis=axis, keepdims=True) - shares
    return value, slopes


def lowest(features, groups, shares, l1, *, is_local):
    """The minimum over θ by accelerated proximal steps, groups by their own prox."""

    def smooth(theta):
        logs = (features @ theta).reshape(shares.shape)
        value, slopes = table_loss(logs, shares, is_local=is_local)
        return value, features.T @ slopes.ravel()

    theta = ahead = np.zeros(features.shape[1])
    momentum, step = 1.0, 1.0
    for _ in range(20_000):
        value, slopes = smooth(ahead)
        while True:
            after = ahead - step * slopes
            for group in groups:
                length = np.linalg.norm(after[group])
                after[group] *= max(0.0, 1 - step * l1 / length) if length else 0.0
            change = after - ahead
            if smooth(after)[0] <= value + slopes @ change + change @ change / (2 * step) + 1e-15:
                break
            step /= 2
        if (ahead - after) @ (after - theta) > 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = after + (momentum - 1) / following * (after - theta)
        is_done = np.abs(after - theta).max() < 1e-13
        theta, momentum = after, following
        if is_done:
            break
    return smooth(theta)[0] + l1 * sum(np.linalg.norm(theta[group]) for group in groups)


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("l1", [0.02, 0.08])
class TestAnotherConvexSolver:
    def objective(self, model, shares, l1, *, is_local):
        states = model.space.states_at(np.arange(shares.size))
        logs = -model.energy(states).reshape(shares.shape)
        return table_loss(logs, shares, is_local=is_local)[0] + l1 * lengths(model).sum()

    def fitted(self, model, rows, l1, *, is_local):
        loss = Pseudolikelihood() if is_local else ebm.Likelihood()
        result = ebm.fit(model, rows, loss=loss, penalty=ebm.Penalty(group_l1=l1))
        assert result.converged, result.message
        return result.model

    def test_of_blocks(self, l1, is_local):
        """All q² numbers of each pair, of which that solver knows no gauge."""
        for seed in range(3):
            rows = rows_of(potts(seed), 150)
            shares = np.bincount(rows.space.index(rows.states), rows.weights, 27).reshape(3, 3, 3)
            states = rows.space.states_at(np.arange(27))
            features = -Redundant().energy_gradient(states)
            groups = [slice(first, first + 9) for first in (9, 18, 27)]
            model = self.fitted(FLAT, rows, l1, is_local=is_local)
            wanted = lowest(features, groups, shares, l1, is_local=is_local)
            assert self.objective(model, shares, l1, is_local=is_local) == pytest.approx(
                wanted, abs=1e-8
            )

    def test_of_scores(self, l1, is_local):
        for seed in range(3):
            truth = items(seed=seed)
            rows = rows_of(truth, 150)
            shares = np.bincount(rows.space.index(rows.states), rows.weights, 24).reshape(3, 4, 2)
            features = -truth.energy_gradient(rows.space.states_at(np.arange(24)))
            groups = [slice(k, k + 1) for k in range(6, 9)]
            model = self.fitted(at_zero(truth), rows, l1, is_local=is_local)
            wanted = lowest(features, groups, shares, l1, is_local=is_local)
            assert self.objective(model, shares, l1, is_local=is_local) == pytest.approx(
                wanted, abs=1e-8
            )


FAMILIES = [items, potts, mixed]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FAMILIES)
class TestThePath:
    def test_its_end_is_the_maximum_without_a_penalty(self, family, loss):
        model = at_zero(family())
        rows = rows_of(family())
        free = ebm.fit(model, rows, loss=loss)
        path = regularization_path(
            model,
            rows,
            loss=loss,
            strengths=np.geomspace(1, 1e-10, 8),
            solver=ebm.ProximalNewton(1e-12),
        )
        np.testing.assert_allclose(path.models[-1].parameters, free.model.parameters, atol=1e-8)

    def test_the_largest_strength_admits_nothing(self, family, loss):
        model, rows = at_zero(family()), rows_of(family())
        path = regularization_path(model, rows, loss=loss, strengths=3)
        assert not path.supports[0].any()
        assert (lengths(path.models[0]) == 0).all()
        for factor, is_there in ((1.001, False), (0.99, True)):
            penalty = ebm.Penalty(group_l1=factor * path.l1[0])
            assert lengths(ebm.fit(model, rows, loss=loss, penalty=penalty).model).any() == is_there

    def test_conditions_are_those_of_slopes_by_differences(self, family, loss):
        """KKT of all pairs from values of the loss alone; a wrong strength fails."""
        model, rows = at_zero(family()), rows_of(family())
        solver = ebm.ProximalNewton(tolerance=1e-9)
        path = regularization_path(
            model, rows, loss=loss, strengths=np.geomspace(1, 0.1, 4), solver=solver
        )
        problem, groups = path.problem, pair_groups(model)
        assert (path.residuals <= 1e-9).all()
        for l1, theta in zip(path.l1[1:], path.coordinates[1:], strict=True):
            steps = 1e-5 * np.eye(len(theta))
            high, low = (
                np.array([problem.smooth.point(theta + sign * step).value for step in steps])
                for sign in (1, -1)
            )
            slopes, first = (high - low) / 2e-5, groups.n_fields
            np.testing.assert_allclose(slopes[:first], 0, atol=1e-8)
            for start, end in itertools.pairwise(groups.starts):
                own, length = theta[start:end], np.linalg.norm(theta[start:end])
                if length:
                    np.testing.assert_allclose(slopes[start:end], -l1 * own / length, atol=1e-8)
                    assert not np.allclose(slopes[start:end], -1.01 * l1 * own / length)
                else:
                    assert np.linalg.norm(slopes[start:end]) <= l1 + 1e-8

    def test_it_is_the_fit_at_that_strength(self, family, loss):
        model, rows = at_zero(family()), rows_of(family())
        path = regularization_path(model, rows, loss=loss, strengths=np.geomspace(1, 0.1, 4))
        for l1, one in zip(path.l1, path.models, strict=True):
            single = ebm.fit(model, rows, loss=loss, penalty=ebm.Penalty(group_l1=l1))
            np.testing.assert_allclose(one.parameters, single.model.parameters, atol=5e-5)

    def test_pairs_left_out_by_the_strong_rule_are_put_back(self, family, loss, monkeypatch):
        model, rows = at_zero(family()), rows_of(family())
        whole = regularization_path(model, rows, loss=loss, strengths=np.geomspace(1, 0.05, 6))
        original = path_module.SparseProblem.loss
        monkeypatch.setattr(
            path_module.SparseProblem,
            "loss",
            lambda problem, l1, screen=0.0: original(problem, l1, screen=1e9),
        )
        strict = regularization_path(model, rows, loss=loss, strengths=np.geomspace(1, 0.05, 6))
        np.testing.assert_allclose(strict.parameters, whole.parameters, atol=5e-5)
        assert (strict.residuals <= 1e-6).all()

    def test_squares_and_fields_that_are_held(self, family, loss):
        """With l2 and l2_biases the end is the ridge; held fields and pairs stay."""
        model, rows = at_zero(family()), rows_of(family())
        for strength in (ebm.Penalty(l2=0.1), ebm.Penalty(l2=0.05, l2_biases=0.3)):
            ridge = ebm.fit(model, rows, loss=loss, penalty=strength).model.parameters
            nearly = ebm.Penalty(strength.l2, strength.l2_biases, group_l1=1e-11)
            there = ebm.fit(model, rows, loss=loss, penalty=nearly, solver=PRECISE)
            assert there.converged, there.message
            np.testing.assert_allclose(there.model.parameters, ridge, atol=1e-7)
        groups, held = pair_groups(model), model.with_parameters(0.1 + model.parameters)
        free = groups.flags(np.arange(len(groups.sizes)) != 1)
        free[0] = False
        result = ebm.fit(held, rows, loss=loss, penalty=ebm.Penalty(free=free, group_l1=0.02))
        assert result.converged, result.message
        np.testing.assert_allclose(result.model.parameters[~free], 0.1, atol=1e-12)

    def test_a_parted_pair_is_refused(self, family, loss):
        model, rows = at_zero(family()), rows_of(family())
        free = np.ones(len(model.parameters), dtype=bool)
        free[-1] = False
        penalty = ebm.Penalty(group_l1=0.1, free=free)
        if pair_groups(model).roots is None:
            ebm.fit(model, rows, loss=loss, penalty=penalty)
        else:
            with pytest.raises(EbmError, match="all couplings of a pair or none"):
                ebm.fit(model, rows, loss=loss, penalty=penalty)


@pytest.mark.parametrize("loss", LOSSES)
class TestSymmetries:
    def test_the_numbering_of_values_does_not_matter(self, loss):
        """Another last value is another gauge of the parameters."""
        rows, penalty = rows_of(potts()), ebm.Penalty(group_l1=0.05)
        order = np.array([2, 0, 1])
        moved = ebm.Ensemble.from_data(
            order[rows.states], space=rows.space, sample_weight=rows.weights * 400
        )
        one, other = (
            ebm.fit(FLAT, data, loss=loss, penalty=penalty, solver=PRECISE).model
            for data in (rows, moved)
        )
        np.testing.assert_allclose(lengths(other), lengths(one), atol=1e-9)
        assert (lengths(other) == 0).tolist() == (lengths(one) == 0).tolist()
        numbered = other.zero_sum().couplings[:, :, order][:, :, :, order]
        np.testing.assert_allclose(numbered, one.zero_sum().couplings, atol=1e-9)

    def test_values_of_two_are_spins(self, loss):
        """[[J, −J], [−J, J]] has the length 2|J|."""
        ising = ebm.fit(
            flat(ebm.IsingModel), SPINS, loss=loss, penalty=ebm.Penalty(l1=0.06), solver=PRECISE
        ).model
        levels = ebm.Ensemble.from_data(
            TABLE.states, space=ebm.Levels(4, 2), sample_weight=TABLE.weights * 200
        )
        two = ebm.PottsModel(np.zeros((4, 4, 2, 2)), np.zeros((4, 2)))
        model = ebm.fit(
            two, levels, loss=loss, penalty=ebm.Penalty(group_l1=0.03), solver=PRECISE
        ).model
        wanted = ising.couplings[np.triu_indices(4, 1)]
        np.testing.assert_allclose(lengths(model), 2 * np.abs(wanted), atol=1e-9)
        assert (wanted == 0).any()
        np.testing.assert_array_equal(lengths(model) == 0, wanted == 0)

    def test_one_coupling_a_pair_is_l1(self, loss):
        for model, data in ((flat(BINARY), TABLE), (at_zero(items()), rows_of(items()))):
            one, other = (
                ebm.fit(model, data, loss=loss, penalty=penalty).model.parameters
                for penalty in (ebm.Penalty(l1=0.02), ebm.Penalty(group_l1=0.02))
            )
            np.testing.assert_array_equal(one, other)


class TestPenaltyOfGroups:
    @pytest.mark.parametrize("model", [potts(), mixed(), items(), Redundant()])
    def test_its_slope_is_that_of_its_value(self, model):
        """What gradient steps take, beside squares and absolute values."""
        theta = np.random.default_rng(3).normal(size=len(model.parameters))
        penalty = AppliedPenalty(model, ebm.Penalty(0.2, 0.1, group_l1=0.7))
        differences = [
            (penalty.value(theta + step) - penalty.value(theta - step)) / 2e-6
            for step in 1e-6 * np.eye(len(theta))
        ]
        np.testing.assert_allclose(penalty.gradient(theta), differences, atol=1e-7)
        squares = AppliedPenalty(model, ebm.Penalty(0.2, 0.1))
        groups = pair_groups(model)
        added = penalty.value(theta) - squares.value(theta)
        assert added == pytest.approx(0.7 * groups.lengths(theta).sum())
        assert not penalty.is_absent

    def test_squares_of_lengths_are_what_l2_takes(self):
        model = potts()
        value = AppliedPenalty(model, ebm.Penalty(l2=2.0)).value(model.parameters)
        assert value == pytest.approx((lengths(model) ** 2).sum())

    def test_gradient_steps_take_it(self):
        penalty = ebm.Penalty(group_l1=0.05)
        exact = ebm.fit(FLAT, counted(), penalty=penalty)
        steps = ebm.GradientSteps(ebm.Adam(0.05), n_epochs=500)
        near = ebm.fit(FLAT, counted(), penalty=penalty, solver=steps)
        assert lengths(exact.model).all()
        np.testing.assert_allclose(lengths(near.model), lengths(exact.model), atol=1e-7)

    def test_families_without_pairs_are_refused(self):
        machine = ebm.RestrictedBoltzmannMachine(np.zeros((4, 2)), np.zeros(4), np.zeros(2))
        steps = ebm.GradientSteps()
        with pytest.raises(ModelError, match="which of its parameters couple which pair"):
            ebm.fit(machine, TABLE, penalty=ebm.Penalty(group_l1=0.1), solver=steps)
        with pytest.raises(EbmError, match="group_l1 must be a number from 0"):
            ebm.Penalty(group_l1=-1)

    def test_a_length_that_mixes_pairs_is_none(self):
        class Mixed(Redundant):
            def penalized(self):
                def of(theta):
                    return np.append(theta[:-1], theta[9:].sum())

                def transposed(slopes):
                    back = np.append(slopes[:-1], 0.0)
                    back[9:] += slopes[-1]
                    return back

                return ebm.model.Penalized(of, transposed, np.arange(36) >= 9)

        with pytest.raises(ModelError, match="mixes those of different pairs"):
            ebm.fit(Mixed(), counted(), penalty=ebm.Penalty(group_l1=0.1))


class TestRefusals:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_l1_of_blocks_says_what_to_take(self, loss):
        with pytest.raises(EbmError, match="give group_l1, which makes whole pairs zero"):
            ebm.fit(FLAT, counted(), loss=loss, penalty=ebm.Penalty(l1=0.1))

    def test_losses_of_two_valued_units(self):
        with pytest.raises(ModelError, match="no pairwise model of two-valued units"):
            regularization_path(FLAT, counted(), loss=MinimumProbabilityFlow())

    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_single_unit_has_no_pairs(self, loss):
        one, rows = ebm.PottsModel(np.zeros((1, 1, 3, 3)), np.zeros((1, 3))), [[0], [1], [2], [1]]
        result = ebm.fit(one, rows, loss=loss, penalty=ebm.Penalty(group_l1=0.1))
        assert result.converged
        assert "for all 0 couplings" in result.message
        with pytest.raises(EbmError, match="no coupling enters the path"):
            regularization_path(one, rows, loss=loss)

    def test_more_numbers_than_memory_holds(self):
        large = ebm.PottsModel(np.zeros((60, 60, 20, 20)), np.zeros((60, 20)))
        with pytest.raises(LimitError, match="lengths of the couplings of 1770 pairs"):
            regularization_path(large, np.arange(6000).reshape(100, 60) % 20)

    @pytest.mark.parametrize("solver", [ebm.Newton(), ebm.LBFGS()])
    def test_other_solvers(self, solver):
        with pytest.raises(EbmError, match="l1 belongs to gradient steps"):
            ebm.fit(FLAT, counted(), penalty=ebm.Penalty(group_l1=0.1), solver=solver)

    def test_levels_seen_in_one_row(self):
        """Fields and couplings that nearly replace each other take many sweeps, not many steps."""
        rows = np.vstack([rows_of(potts()).states[:40] % 2, np.full((1, 3), 2)])
        for l1 in (0.02, 0.005):
            penalty = ebm.Penalty(group_l1=l1)
            result = ebm.fit(FLAT, rows, loss=Pseudolikelihood(), penalty=penalty)
            assert result.converged
            assert len(result.history) < 40

    @pytest.mark.parametrize("loss", LOSSES)
    def test_levels_that_never_occur(self, loss):
        rows = np.where(rows_of(potts()).states == 2, 1, rows_of(potts()).states)
        for start, said in ((FLAT, "value 2 of '0', .* never occur"), (items((3, 3, 3)), "never")):
            with pytest.raises(UnusedCategoryError, match=said) as refused:
                regularization_path(at_zero(start), rows, loss=loss)
            # A path takes no strength.
            assert "group_l1" not in str(refused.value)
            held = ebm.Penalty(l2_biases=0.05)
            path = regularization_path(at_zero(start), rows, loss=loss, penalty=held, strengths=4)
            assert (path.residuals <= 1e-6).all()

    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_unit_that_is_predicted_without_error_ends_the_path(self, loss):
        rows = np.random.default_rng(0).integers(0, 3, (80, 3))
        rows[:, 2] = rows[:, 1]
        with pytest.warns(ebm.errors.NoMaximumWarning, match="'1', '2' are predicted without"):
            path = regularization_path(FLAT, rows, loss=loss, strengths=np.geomspace(1, 1e-5, 50))
        assert len(path.l1) < 50
        assert np.isfinite(path.parameters).all()

    def test_ties_are_told_where_they_have_a_place(self):
        ties = ebm.Penalty(group_l1=0.1, ties=np.zeros(18))
        with pytest.raises(EbmError, match="hold couplings by free, or give solver"):
            ebm.fit(FLAT, counted(), penalty=ties)
        for loss in LOSSES:
            with pytest.raises(EbmError, match=r"ties have no place.*by free$"):
                regularization_path(
                    FLAT, counted(), loss=loss, penalty=ebm.Penalty(ties=np.zeros(18))
                )


@pytest.mark.parametrize("loss", LOSSES)
class TestChoices:
    def test_the_ring_is_found_and_refitted(self, loss):
        truth, rows = ring_of_items()
        path = regularization_path(
            at_zero(truth), rows, loss=loss, strengths=np.geomspace(1, 0.02, 25)
        )
        chosen = extended_bic(path)
        wanted = truth.weights[np.triu_indices(6, 1)] != 0
        np.testing.assert_array_equal(chosen.support, wanted)
        given = refit(chosen.model, rows, loss=loss)
        known = ebm.fit(at_zero(truth), rows, loss=loss, penalty=ebm.Penalty(free=chosen.free))
        np.testing.assert_allclose(given.model.parameters, known.model.parameters, atol=1e-7)
        error = np.abs(given.model.parameters - truth.parameters)[chosen.free]
        assert (error < 4.5 * given.standard_errors[chosen.free]).all()
        assert any("given this set of couplings" in note for note in given.warnings)

    def test_the_criterion_counts_parameters_and_pairs(self, loss):
        """−2ℓ + k ln M + 4γκ ln n, ℓ that of the refit."""
        path = regularization_path(FLAT, counted(), loss=loss, strengths=np.geomspace(1, 0.3, 6))
        plain, extended = (extended_bic(path, gamma).scores for gamma in (0, 0.5))
        size = counted().sample_size
        for index, (model, there) in enumerate(zip(path.models, path.supports, strict=True)):
            result = refit(model, counted(), loss=loss)
            k, n_pairs = 4 * there.sum(), there.sum()
            likelihood = result.log_likelihood
            if likelihood is None:
                likelihood = result.log_pseudolikelihood
                k = (plain[index] + 2 * size * likelihood) / math.log(size)
                assert 0.7 < k / max(8 * n_pairs, 1) < 1.4 or not n_pairs
                n_pairs = k / 4
            wanted = -2 * size * likelihood + k * math.log(size)
            assert plain[index] == pytest.approx(wanted, abs=1e-6)
            assert extended[index] == pytest.approx(wanted + 2 * n_pairs * math.log(3), abs=1e-6)

    def test_held_out_losses_are_those_of_the_models(self, loss):
        solver = ebm.ProximalNewton(tolerance=1e-9)
        path = regularization_path(
            FLAT, counted(), loss=loss, strengths=np.geomspace(1, 0.2, 4), solver=solver
        )
        rows, counts = ebm.inversion.selection._counted_rows(path)
        fold = counts // 4
        answer = ebm.inversion.selection._held_out(path, rows, counts, fold)
        rest, held = rows.resampled(counts - fold), rows.resampled(fold)
        for l1, value in zip(path.l1, answer["losses"], strict=True):
            model = ebm.fit(FLAT, rest, loss=loss, penalty=ebm.Penalty(group_l1=l1)).model
            if isinstance(loss, ebm.Likelihood):
                logs = -model.energy(held.states) - ebm.exact(model).log_partition
                wanted = -held.weights @ logs
            else:
                wanted = -ebm.inversion.log_pseudolikelihood(model, held)
            assert value == pytest.approx(wanted, abs=1e-7)
        chosen = cross_validation(path, n_folds=3, rng=0)
        assert chosen.scores.shape == (4,)

    def test_stable_pairs(self, loss, tmp_path):
        truth, rows = ring_of_items(m=900)
        path = regularization_path(
            at_zero(truth), rows, loss=loss, strengths=np.geomspace(1, 0.2, 5)
        )
        file = tmp_path / "halves.npz"
        one, other = (
            stability_selection(path, n_halves=8, rng=2, checkpoint=file) for _ in range(2)
        )
        np.testing.assert_array_equal(one.frequencies, other.frequencies)
        wanted = truth.weights[np.triu_indices(6, 1)] != 0
        assert (one.support & wanted).sum() >= 4
        assert (one.support & ~wanted).sum() <= 2

    @pytest.mark.parametrize("family", FAMILIES)
    def test_one_step_from_the_free_maximum_stays_there(self, family, loss):
        rows = rows_of(family())
        full = ebm.fit(at_zero(family()), rows, loss=loss)
        again = one_step(full.model, rows, loss=loss)
        np.testing.assert_allclose(again.model.parameters, full.model.parameters, atol=1e-7)
        np.testing.assert_allclose(again.standard_errors, full.standard_errors, rtol=1e-5)
        assert "in 1 iteration, log_" in repr(again)
        assert "unknown" not in repr(again)

    def test_intervals_of_one_step_cover(self, loss):
        """A short version of tests/inversion/honest_intervals.py: 80 problems of three items."""
        weights = np.array([[0, 0.5, 0], [0.5, 0, 0.1], [0, 0.1, 0]])
        truth = ebm.OrdinalModel(weights, [[0, 0.4, 0.1], [0, 0.2, -0.3], [0, -0.2, 0.3]])
        exact, inside, zeros = ebm.exact(truth), [], 0
        for seed in range(80):
            data = ebm.Ensemble.from_data(exact.sample(400, seed), space=truth.space)
            sparse = ebm.fit(at_zero(truth), data, loss=loss, penalty=ebm.Penalty(l1=0.05)).model
            zeros += np.count_nonzero(sparse.parameters[6:] == 0)
            honest = one_step(sparse, data, loss=loss)
            miss = np.abs(honest.model.parameters - truth.parameters)
            inside.append(miss < 1.96 * honest.standard_errors)
        assert zeros > 40
        coverage = np.mean(inside, axis=0)
        # Five binomial deviations.
        assert (np.abs(coverage - 0.95) < 5 * np.sqrt(0.95 * 0.05 / 80)).all(), coverage
