"""Regressions of units of levels by themselves: against loops, another solver, true parameters."""

import numpy as np
import pytest
from scipy.special import logsumexp

import ebm
from ebm.errors import (
    EbmError,
    ModelError,
    NoMaximumWarning,
    SingularCovarianceError,
    UnusedCategoryError,
)
from ebm.inversion import (
    InteractionScreening,
    MinimumProbabilityFlow,
    Pseudolikelihood,
    cross_validation,
    extended_bic,
    one_step,
    refit,
    regularization_path,
    stability_selection,
)
from ebm.inversion._level_regressions import LevelScreening
from ebm.inversion.path import sparse_problem
from ebm.learning._pair_groups import pair_groups
from tests.inversion.test_level_pseudolikelihood import (
    Redundant,
    counted,
    items,
    mixed,
    potts,
    rows_of,
)

NODES, EITHER = Pseudolikelihood(node_wise=True), Pseudolikelihood(node_wise=True, rule="or")
RISE, LOGRISE = InteractionScreening(logarithm=False), InteractionScreening()
LOSSES = [NODES, RISE, LOGRISE]
NAMES = ["node-wise", "RISE", "logRISE"]
PRECISE = ebm.ProximalNewton(tolerance=1e-12)
TRUTHS = [potts, items, mixed]


def at_zero(model):
    return model.with_parameters(np.zeros(len(model.parameters)))


def problem_of(model, rows, loss, penalty=None):
    return sparse_problem(at_zero(model), rows, loss, penalty or ebm.Penalty())[0]


def part_by_loops(model, rows, unit, loss, parameters):
    """The part of one unit from energies of all its levels, written from the definition."""
    values = model.space.values_of(unit)
    states, weights = np.asarray(rows.states, float), np.asarray(rows.weights)
    changed = np.repeat(states[None], len(values), axis=0)
    changed[:, :, unit] = np.asarray(values)[:, None]
    logs = -model.with_parameters(parameters).energy(changed)
    place = np.abs(states[:, unit] - np.asarray(values)[:, None]).argmin(axis=0)
    seen = logs[place, np.arange(len(states))]
    if loss is NODES:
        return -float(weights @ (seen - logsumexp(logs, axis=0)))
    value = float(weights @ np.exp(logs.mean(axis=0) - seen))
    return value if loss is RISE else float(np.log(value))


class TestTheLoss:
    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    @pytest.mark.parametrize("truth", [*TRUTHS, Redundant])
    def test_slopes_and_curvatures_are_derivatives(self, truth, loss):
        model = truth()
        rows = counted() if truth is Redundant else rows_of(model)
        problem = problem_of(model, rows, loss, ebm.Penalty(0.03, 0.07))
        smooth = problem.smooth
        theta = np.random.default_rng(1).normal(0, 0.3, len(problem.is_coupling))
        point, steps = smooth.point(theta), 1e-5 * np.eye(len(theta))
        pairs = [(smooth.point(theta + step), smooth.point(theta - step)) for step in steps]
        slopes = [(up.value - down.value) / 2e-5 for up, down in pairs]
        np.testing.assert_allclose(point.slopes, slopes, atol=1e-8)
        curved = np.array([(up.slopes - down.slopes) / 2e-5 for up, down in pairs])
        for part, hessian in zip(smooth.parts, smooth.hessians(theta), strict=True):
            np.testing.assert_allclose(hessian, curved[np.ix_(part, part)], atol=1e-8)
            curved[np.ix_(part, part)] = 0
        np.testing.assert_allclose(curved, 0, atol=1e-8)
        assert smooth.unit_losses(theta).sum() == pytest.approx(point.loss, abs=1e-12)

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    @pytest.mark.parametrize("truth", TRUTHS)
    def test_parts_are_those_of_the_definition(self, truth, loss):
        model = truth()
        rows, theta = rows_of(model), np.random.default_rng(2).normal(0, 0.4, len(model.parameters))
        problem = problem_of(model, rows, loss)
        parts = problem.smooth.unit_losses(problem.coordinates_of(model.with_parameters(theta)))
        wanted = [part_by_loops(model, rows, k, loss, theta) for k in range(model.space.n)]
        np.testing.assert_allclose(parts, wanted, rtol=1e-12)

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    @pytest.mark.parametrize("truth", TRUTHS)
    def test_exact_probabilities_have_their_minimum_at_the_true_parameters(self, truth, loss):
        model = truth()
        problem = problem_of(model, ebm.exact(model), loss)
        slopes = problem.smooth.point(problem.coordinates_of(model)).slopes
        np.testing.assert_allclose(slopes, 0, atol=1e-13)
        found = ebm.fit(at_zero(model), ebm.exact(model), loss=loss, solver=PRECISE)
        states = model.space.random(50, 0)
        assert np.ptp(found.model.energy(states) - model.energy(states)) < 1e-7

    @pytest.mark.parametrize("wrong", ["shares", "not centered"])
    def test_no_other_average_over_levels_will_do(self, wrong, monkeypatch):
        """Of values by their frequencies, or none: slopes at the true parameters do not vanish."""
        model = potts()

        def margins(self, logs, rows):
            seen = np.take_along_axis(logs, self.seen[rows], axis=1)
            if wrong == "not centered":
                return seen
            return seen - np.add.reduceat(logs * self.shares, self.features.starts, axis=1)

        monkeypatch.setattr(LevelScreening, "margins_of_units", margins)
        problem = problem_of(model, ebm.exact(model), RISE)
        theta = problem.coordinates_of(model)
        steps = 1e-5 * np.eye(len(theta))
        values = [
            problem.smooth.point(theta + step).value - problem.smooth.point(theta - step).value
            for step in steps
        ]
        assert np.abs(values).max() / 2e-5 > 1e-2

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_two_levels_are_those_of_an_ising_model(self, loss):
        rng = np.random.default_rng(3)
        upper = np.triu(rng.normal(0, 0.4, (4, 4)), 1)
        truth = ebm.IsingModel(upper + upper.T, rng.normal(0, 0.2, 4))
        spins = ebm.exact(truth).sample(800, 1)
        flat = ebm.IsingModel(np.zeros((4, 4)), np.zeros(4))
        levels = ebm.PottsModel(np.zeros((4, 4, 2, 2)), np.zeros((4, 2)))
        one = ebm.fit(flat, spins, loss=loss, penalty=ebm.Penalty(l1=0.06), solver=PRECISE)
        # The length of J (1, -1; -1, 1) is 2 |J|.
        two = ebm.fit(
            levels, (spins + 1) // 2, loss=loss, penalty=ebm.Penalty(group_l1=0.03), solver=PRECISE
        )
        np.testing.assert_allclose(
            two.model.zero_sum().couplings[:, :, 1, 1], one.model.couplings, atol=1e-9
        )
        is_zero = (two.model.couplings == 0).all(axis=(2, 3))
        np.testing.assert_array_equal(is_zero, one.model.couplings == 0)
        assert is_zero[np.triu_indices(4, 1)].any()


def proximal_gradient(problem, l1, steps=20000):
    """FISTA with restarts on slopes alone, apart from curvatures and coordinate descent."""
    smooth, starts = problem.smooth, problem.starts
    is_pair = problem.are_couplings
    theta = ahead = problem.start()
    momentum, rate = 1.0, 0.05
    groups = np.repeat(np.arange(len(is_pair)), np.diff(starts))
    value, last = np.inf, np.inf
    for step in range(steps):
        moved = ahead - rate * smooth.point(ahead).slopes
        size = np.sqrt(np.bincount(groups, moved**2))
        shrunk = np.where(is_pair, np.maximum(1 - rate * l1 / np.maximum(size, 1e-300), 0), 1.0)
        after = shrunk[groups] * moved
        if (ahead - after) @ (after - theta) > 0:
            momentum = 1.0
        faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead, theta, momentum = after + (momentum - 1) / faster * (after - theta), after, faster
        if step % 500 == 499:
            sizes = np.sqrt(np.bincount(groups, theta**2))[is_pair]
            value = smooth.point(theta).value + l1 * sizes.sum()
            if abs(last - value) < 1e-13:
                break
            last = value
    return value


class TestZeros:
    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    @pytest.mark.parametrize("truth", TRUTHS)
    def test_objectives_are_those_of_another_convex_solver(self, truth, loss):
        rows = rows_of(truth())
        path = regularization_path(at_zero(truth()), rows, loss=loss, strengths=[1, 0.4, 0.1])
        for index in (1, 2):
            wanted = proximal_gradient(path.problem, path.l1[index])
            assert path.objectives[index] == pytest.approx(wanted, abs=1e-8)

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    @pytest.mark.parametrize("truth", TRUTHS)
    def test_paths_meet_the_conditions_and_end_at_the_minimum(self, truth, loss):
        flat, rows = at_zero(truth()), rows_of(truth())
        path = regularization_path(flat, rows, loss=loss, strengths=np.geomspace(1, 0.03, 10))
        assert (path.residuals < 1e-6).all()
        assert not path.supports[0].any()
        assert path.supports[-1].any()
        groups = pair_groups(flat)
        for row, there in zip(path.parameters, path.supports, strict=True):
            own = row[groups.n_fields :][~np.repeat(there, groups.sizes)]
            assert (own == 0).all()
        nearly = ebm.fit(flat, rows, loss=loss, penalty=ebm.Penalty(group_l1=1e-11), solver=PRECISE)
        whole = ebm.fit(flat, rows, loss=loss, solver=PRECISE)
        np.testing.assert_allclose(nearly.model.parameters, whole.model.parameters, atol=1e-8)

    def test_the_rule_joins_both_regressions(self):
        flat, rows = at_zero(mixed()), rows_of(mixed())
        path = regularization_path(flat, rows, loss=NODES, strengths=40)
        problem, differs = path.problem, 0
        for theta in path.coordinates:
            sides = problem.apart.sides(theta)
            begins = problem.coordinates.starts[len(problem.coordinates.fields) : -1]
            begins = begins - len(problem.coordinates.fields)
            there = [np.logical_or.reduceat(side != 0, begins) for side in sides]
            for rule, wanted in (("and", there[0] & there[1]), ("or", there[0] | there[1])):
                found = problem.groups.supports(problem.parameters(theta, rule))
                np.testing.assert_array_equal(found, wanted)
            differs += (there[0] != there[1]).any()
        assert differs
        either = regularization_path(flat, rows, loss=EITHER, strengths=40)
        assert (either.supports >= path.supports).all()

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_masks_hold_pairs_at_zero(self, loss):
        flat = at_zero(items())
        free = np.ones(len(flat.parameters), dtype=bool)
        free[-1] = False
        penalty = ebm.Penalty(group_l1=0.005, free=free)
        model = ebm.fit(flat, rows_of(items()), loss=loss, penalty=penalty).model
        assert model.parameters[-1] == 0
        assert (model.parameters[-3:-1] != 0).any()


class TestErrors:
    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_errors_are_the_influence_of_each_row(self, loss):
        """The delete-one jackknife of 300 rows, which differs by its second order."""
        flat, rows = at_zero(items()), ebm.exact(items()).sample(300, 5)
        states = rows
        whole = ebm.fit(flat, states, loss=loss)
        weights = ebm.Ensemble.from_data(states, space=flat.space)
        counts = np.asarray(weights.weights) * 300
        moved = []
        for k in range(len(counts)):
            fewer = np.where(np.arange(len(counts)) == k, counts[k] - 1, counts)
            there = fewer > 0.5
            data = ebm.Ensemble.from_data(
                weights.states[there], space=flat.space, sample_weight=fewer[there]
            )
            moved.append(ebm.fit(flat, data, loss=loss).model.parameters)
        deviations = np.array(moved) - np.average(moved, axis=0, weights=counts)
        jackknife = np.sqrt(299 / 300 * counts @ deviations**2)
        np.testing.assert_allclose(whole.standard_errors, jackknife, rtol=0.06)


@pytest.fixture(scope="module")
def data():
    couplings, rng = np.zeros((5, 5, 3, 3)), np.random.default_rng(0)
    block = 0.7 * (np.eye(3) - 1 / 3)
    for k in range(5):
        for i, j in ((k, (k + 1) % 5), ((k + 1) % 5, k)):
            couplings[i, j] = block
    truth = ebm.PottsModel(couplings, rng.normal(0, 0.2, (5, 3)), names=list("abcde"))
    rows = ebm.Ensemble.from_data(ebm.exact(truth).sample(1500, 1), space=truth.space)
    return at_zero(truth), rows, (truth.couplings != 0).any(axis=(2, 3))[np.triu_indices(5, 1)]


class TestChoices:
    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_all_choices_find_the_ring(self, data, loss):
        flat, rows, wanted = data
        path = regularization_path(flat, rows, loss=loss, strengths=np.geomspace(1, 0.05, 10))
        validated = cross_validation(path, n_folds=3, rng=0)
        assert validated.support[wanted].all()
        stable = stability_selection(
            regularization_path(flat, rows, loss=loss, strengths=[1, 0.6, 0.4]), n_halves=10, rng=0
        )
        np.testing.assert_array_equal(stable.support, wanted)
        if loss is not NODES:
            with pytest.raises(EbmError, match="needs a likelihood or a pseudo-likelihood"):
                extended_bic(path)
            return
        chosen = extended_bic(path, gamma=0.5)
        np.testing.assert_array_equal(chosen.support, wanted)
        assert chosen.scores.shape == (5, 10)
        again = refit(chosen.model, rows, loss=loss)
        assert (pair_groups(flat).supports(again.model.parameters) == wanted).all()
        assert again.model.space.names == tuple("abcde")

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_one_step_has_the_errors_of_the_whole_fit(self, data, loss):
        flat, rows, _ = data
        path = regularization_path(flat, rows, loss=loss, strengths=[1, 0.3])
        step, whole = one_step(path.models[1], rows, loss=loss), ebm.fit(flat, rows, loss=loss)
        assert step.converged
        np.testing.assert_allclose(step.standard_errors, whole.standard_errors, rtol=0.1)


class TestBadInput:
    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_a_category_never_chosen(self, loss):
        rows = [[0, 1], [1, 0], [1, 1], [0, 0], [0, 1]]
        flat = ebm.OrdinalModel(np.zeros((2, 2)), np.zeros((2, 3)))
        with pytest.raises(UnusedCategoryError, match="category 2 of '0'"):
            ebm.fit(flat, rows, loss=loss)
        potts = ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))
        with pytest.raises(UnusedCategoryError, match="never occur"):
            regularization_path(potts, rows, loss=loss)
        held = ebm.fit(potts, rows, loss=loss, penalty=ebm.Penalty(0.1, 0.1))
        assert held.converged

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_units_that_others_predict(self, loss):
        rows = np.repeat([[0, 0], [1, 1], [2, 2]], 20, axis=0)
        flat = ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))
        with pytest.warns(NoMaximumWarning, match="predicted without error by the other units"):
            result = ebm.fit(flat, rows, loss=loss)
        assert not result.converged
        assert result.standard_errors is None
        with pytest.warns(NoMaximumWarning, match="predicted without error|falls for ever"):
            regularization_path(flat, rows, loss=loss, strengths=np.geomspace(1, 1e-6, 30))

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_squares_hold_a_unit_that_never_changes(self, loss):
        rows = np.column_stack([np.zeros(60, dtype=int), np.arange(60) % 3, np.arange(60) // 2 % 3])
        flat = ebm.PottsModel(np.zeros((3, 3, 3, 3)), np.zeros((3, 3)))
        for penalty in (ebm.Penalty(0.01, 0.01, group_l1=0.1), ebm.Penalty(0, 0.005, group_l1=0.3)):
            assert ebm.fit(flat, rows, loss=loss, penalty=penalty).converged

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_few_rows_have_no_minimum(self, loss):
        couplings = np.zeros((3, 3, 3, 3))
        couplings[0, 1] = couplings[1, 0] = 0.8 * (np.eye(3) - 1 / 3)
        truth = ebm.PottsModel(couplings, np.zeros((3, 3)))
        rows = ebm.exact(truth).sample(400, 1)[:12]
        with pytest.warns(NoMaximumWarning, match="no minimum at finite parameters"):
            assert not ebm.fit(at_zero(truth), rows, loss=loss).converged

    @pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
    def test_l1_of_blocks_says_what_to_take(self, loss):
        with pytest.raises(EbmError, match="give group_l1, which makes whole pairs zero"):
            ebm.fit(at_zero(potts()), rows_of(potts()), loss=loss, penalty=ebm.Penalty(l1=0.1))

    def test_flow_is_that_of_two_values(self):
        with pytest.raises(ModelError, match="no pairwise model of two-valued units"):
            ebm.fit(at_zero(potts()), rows_of(potts()), loss=MinimumProbabilityFlow())


@pytest.mark.filterwarnings("ignore::ebm.errors.FewSamplesWarning")
@pytest.mark.parametrize("loss", [Pseudolikelihood(), NODES])
@pytest.mark.parametrize(
    "truth", [items, potts, lambda: ebm.IsingModel(np.zeros((4, 4)), [0.1] * 4)]
)
def test_no_more_rows_than_units_say_nothing_of_how_rows_vary(truth, loss):
    # Without a refusal errors of a single row are exactly zero.
    model, held = truth(), ebm.Penalty(l2=0.1, l2_biases=0.1)
    n = model.space.n
    states = ebm.exact(model).sample(n + 1, rng=1)
    for rows in (states[:1], states[:n]):
        result = ebm.fit(at_zero(model), rows, loss=loss, penalty=held)
        with pytest.raises(SingularCovarianceError, match=f"rows? for {n} units say nothing"):
            _ = result.standard_errors
    enough = ebm.fit(at_zero(model), states, loss=loss, penalty=held)
    assert np.isfinite(enough.standard_errors).all()
    # Frequencies that sum to one are those of all rows.
    shares = ebm.Ensemble.from_data(states, space=model.space, sample_weight=np.full(n + 1, 0.1))
    if len(shares.weights) > n:
        assert ebm.fit(at_zero(model), shares, loss=loss, penalty=held).standard_errors is not None
    groups = {"many": ebm.exact(model).sample(200, rng=2), "one": states[:1]}
    if loss is not NODES:
        with pytest.raises(SingularCovarianceError, match=r"group 'one': .* 1 row for"):
            ebm.compare_groups(groups, model=at_zero(model), loss=loss, penalty=held)
