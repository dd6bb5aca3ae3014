"""Estimators of scikit-learn: numbers of the core, codings, names, weights, missing cells."""

import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.neural_network import BernoulliRBM
from sklearn.pipeline import make_pipeline

import ebm
from ebm.errors import (
    CodingError,
    EbmError,
    LimitError,
    MissingValueError,
    ModelError,
    NoCouplingError,
    NoMaximumWarning,
    PoorWeightsWarning,
    ShapeError,
)
from ebm.sklearn import (
    BoltzmannMachine,
    IsingNetwork,
    RestrictedBoltzmannMachine,
)
from ebm.sklearn._density import RowDensity

NAMES = ["a", "b", "c", "d", "e"]
CHAIN = np.diag([0.7, -0.6, 0.8, 0.5], 1)
TRUTH = ebm.IsingModel(CHAIN + CHAIN.T, [0.2, 0, -0.1, 0, 0.3])
SPINS = ebm.exact(TRUTH).sample(400, rng=1).astype(int)
ROWS = (SPINS + 1) // 2
START = ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5))
ISING = ebm.IsingModel(np.zeros((5, 5)), np.zeros(5))
WEIGHTS = np.random.default_rng(2).integers(0, 4, len(ROWS))

EVERY = [
    (BoltzmannMachine(), ROWS),
    (IsingNetwork(), SPINS),
    (RestrictedBoltzmannMachine(4, n_epochs=3, random_state=0), ROWS),
]
by_estimator = pytest.mark.parametrize(
    ("estimator", "rows"), EVERY, ids=[type(e).__name__ for e, _ in EVERY]
)


def all_states(space):
    return np.concatenate(list(space(5).enumerate()))


# -- numbers of the core ---------------------------------------------------------------------------


@pytest.mark.parametrize(("l2", "l2_biases"), [(0.0, 0.0), (0.01, 0.0), (0.02, 0.003)])
def test_boltzmann_machines_are_those_of_fit(l2, l2_biases):
    density = BoltzmannMachine(l2, l2_biases=l2_biases).fit(ROWS)
    result = ebm.fit(START, ROWS, penalty=ebm.Penalty(l2, l2_biases))
    np.testing.assert_array_equal(density.model_.parameters, result.model.parameters)
    np.testing.assert_array_equal(density.result_.standard_errors, result.standard_errors)
    logs = result.ensemble.log_probability(ROWS)
    np.testing.assert_array_equal(density.score_samples(ROWS), logs)
    assert density.log_partition_.value == result.ensemble.log_partition
    assert density.log_partition_.standard_error == 0
    assert density.log_partition_.message == result.ensemble.route
    assert density.score(ROWS) == pytest.approx(result.log_likelihood, abs=1e-13)


def test_the_loss_is_that_of_fit():
    loss = ebm.inversion.Pseudolikelihood()
    density = BoltzmannMachine(loss=loss).fit(ROWS)
    model = ebm.fit(START, ROWS, loss=loss).model
    np.testing.assert_array_equal(density.model_.parameters, model.parameters)
    np.testing.assert_array_equal(
        density.score_samples(ROWS), ebm.exact(model).log_probability(ROWS)
    )
    chains = ebm.Likelihood(ebm.PersistentChains(20))
    steps = ebm.GradientSteps(n_epochs=5)
    density = BoltzmannMachine(loss=chains, solver=steps, random_state=3).fit(ROWS)
    model = ebm.fit(START, ROWS, loss=chains, solver=steps, rng=3).model
    np.testing.assert_array_equal(density.model_.parameters, model.parameters)


@pytest.mark.parametrize(
    "loss",
    [None, ebm.Likelihood(), ebm.inversion.Pseudolikelihood(node_wise=True, rule="or")],
)
def test_networks_are_those_of_the_path(loss):
    network = IsingNetwork(loss=loss, gamma=0.5).fit(SPINS)
    path = ebm.inversion.regularization_path(ISING, SPINS, loss=loss)
    chosen = ebm.inversion.extended_bic(path, gamma=0.5)
    np.testing.assert_array_equal(network.couplings_, chosen.model.couplings)
    np.testing.assert_array_equal(network.fields_, chosen.model.fields)
    np.testing.assert_array_equal(network.selection_.scores, chosen.scores)
    assert list(network.graph_.edges) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert network.graph_.edges[1, 2]["weight"] == chosen.model.couplings[1, 2]
    logs = ebm.exact(chosen.model).log_probability(SPINS)
    np.testing.assert_array_equal(network.score_samples(SPINS), logs)


def test_networks_by_folds_are_those_of_the_path():
    network = IsingNetwork("cv", n_folds=4, random_state=5).fit(SPINS)
    path = ebm.inversion.regularization_path(ISING, SPINS)
    chosen = ebm.inversion.cross_validation(path, n_folds=4, rng=5)
    np.testing.assert_array_equal(network.couplings_, chosen.model.couplings)
    np.testing.assert_array_equal(network.selection_.scores, chosen.scores)


def test_machines_with_hidden_units_are_those_of_fit():
    machine = RestrictedBoltzmannMachine(3, n_epochs=4, batch_size=50, l2=0.01, random_state=7)
    machine.set_params(l2_biases=0.02).fit(ROWS)
    result = ebm.fit(
        ebm.RestrictedBoltzmannMachine.for_data(ROWS, 3, rng=7),
        ROWS,
        loss=ebm.Likelihood(ebm.PersistentChains(100)),
        penalty=ebm.Penalty(0.01, 0.02),
        solver=ebm.GradientSteps(n_epochs=4, batch_size=50),
        rng=7,
    )
    np.testing.assert_array_equal(machine.model_.parameters, result.model.parameters)
    np.testing.assert_array_equal(machine.transform(ROWS), result.model.hidden_conditional(ROWS))
    logs = ebm.exact(result.model).log_probability(ROWS)
    np.testing.assert_array_equal(machine.score_samples(ROWS), logs)


@by_estimator
def test_probabilities_of_all_states_sum_to_one(estimator, rows):
    fitted = clone(estimator).fit(rows)
    logs = fitted.score_samples(all_states(type(fitted.model_.space)))
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-12)


def test_numbers_of_bernoulli_machines_are_those_of_the_core():
    theirs = BernoulliRBM(6, n_iter=5, random_state=0).fit(ROWS)
    ours = ebm.RestrictedBoltzmannMachine(
        theirs.components_.T, theirs.intercept_visible_, theirs.intercept_hidden_
    )
    np.testing.assert_allclose(ours.hidden_conditional(ROWS), theirs.transform(ROWS), rtol=1e-13)
    np.testing.assert_allclose(ours.energy(ROWS), theirs._free_energy(ROWS), rtol=1e-13)


# -- coding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "rows", "message"),
    [
        (BoltzmannMachine(), ROWS + 1, r"column '0' .* 1, 2, .* takes 0 and 1 .*threshold=1\.5, "),
        (BoltzmannMachine(), SPINS, r"takes 0 and 1 alone .* threshold=0, above which"),
        (IsingNetwork(), ROWS, r"takes -1 and 1 alone .* threshold=0\.5, .* read as 1"),
        (RestrictedBoltzmannMachine(), ROWS / 2, r"BoltzmannMachine takes 0 and 1 .*=0\.25"),
        (BoltzmannMachine(), ROWS + 0.1 * SPINS[:, ::-1], r"threshold=…, above"),
    ],
)
def test_other_codings_are_refused_by_a_sentence(estimator, rows, message):
    with pytest.raises(CodingError, match=message):
        estimator.fit(rows)


@by_estimator
def test_rows_in_another_coding_are_refused_after_the_fit(estimator, rows):
    fitted = clone(estimator).fit(rows)
    with pytest.raises(CodingError, match="column '0'"):
        fitted.score_samples(2 * rows + 1)


@by_estimator
def test_thresholds_cut_numbers_in_two(estimator, rows):
    values = 3.0 + 2 * rows
    for threshold in (3.0 + rows.min(), [3.0 + rows.min()] * 5):
        cut = clone(estimator).set_params(threshold=threshold).fit(values)
        plain = clone(estimator).fit(rows)
        np.testing.assert_array_equal(cut.model_.parameters, plain.model_.parameters)
        np.testing.assert_array_equal(cut.score_samples(values), plain.score_samples(rows))
    with pytest.raises(CodingError, match="threshold has shape"):
        clone(estimator).set_params(threshold=[0.0, 1.0]).fit(values)
    with pytest.raises(CodingError, match="threshold must be numbers, got 'mean'"):
        clone(estimator).set_params(threshold="mean").fit(values)


def test_a_value_at_the_threshold_is_below_it():
    density = BoltzmannMachine(threshold=[1, 1, 1, 1, 1]).fit(2 * ROWS)
    logs = density.score_samples([[1.0] * 5, [1 + 1e-9] * 5])
    expected = BoltzmannMachine().fit(ROWS).score_samples([[0] * 5, [1] * 5])
    np.testing.assert_array_equal(logs, expected)


# -- names -----------------------------------------------------------------------------------------


@by_estimator
def test_columns_have_their_names(estimator, rows):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=NAMES)
    fitted = clone(estimator).fit(frame)
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.model_.names == tuple(NAMES)
    with pytest.raises(ValueError, match="same order"):
        fitted.score_samples(frame[NAMES[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fitted.score_samples(rows)


def test_edges_have_the_names_of_columns():
    pandas = pytest.importorskip("pandas")
    network = IsingNetwork().fit(pandas.DataFrame(SPINS, columns=NAMES))
    assert list(network.graph_.edges) == [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


def test_tables_serve_as_rows_by_their_names():
    table = ebm.tables.Table(ROWS, tuple(NAMES), len(ROWS))
    turned = ebm.tables.Table(ROWS[:, ::-1], tuple(NAMES[::-1]), len(ROWS))
    density = BoltzmannMachine().fit(table)
    assert density.model_.names == tuple(NAMES)
    np.testing.assert_array_equal(density.score_samples(turned), density.score_samples(table))


def test_features_come_out_as_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=NAMES, index=np.arange(len(ROWS))[::-1])
    machine = RestrictedBoltzmannMachine(2, n_epochs=2, random_state=0)
    features = machine.set_output(transform="pandas").fit_transform(frame)
    names = [f"restrictedboltzmannmachine{k}" for k in range(2)]
    assert features.columns.tolist() == names == machine.get_feature_names_out().tolist()
    assert features.index.equals(frame.index)
    np.testing.assert_array_equal(features.to_numpy(), machine.model_.hidden_conditional(ROWS))


# -- weights ---------------------------------------------------------------------------------------


@by_estimator
def test_a_weight_is_a_row_repeated(estimator, rows):
    weighted = clone(estimator).fit(rows, sample_weight=WEIGHTS)
    copies = np.random.default_rng(0).permutation(np.repeat(rows, WEIGHTS, axis=0))
    repeated = clone(estimator).fit(copies)
    np.testing.assert_array_equal(weighted.model_.parameters, repeated.model_.parameters)
    mean = weighted.score(copies)
    assert weighted.score(rows, sample_weight=WEIGHTS) == pytest.approx(mean, abs=1e-12)
    assert not np.array_equal(
        clone(estimator).fit(rows).model_.parameters, weighted.model_.parameters
    )


def test_weights_in_a_series_are_read_by_the_labels_of_the_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=NAMES, index=[f"r{k}" for k in range(len(ROWS))])
    series = pandas.Series(WEIGHTS, index=frame.index)
    in_order = BoltzmannMachine().fit(frame, sample_weight=WEIGHTS)
    by_label = BoltzmannMachine().fit(frame, sample_weight=series[::-1])
    np.testing.assert_array_equal(by_label.model_.parameters, in_order.model_.parameters)
    assert by_label.score(frame, sample_weight=series[::-1]) == in_order.score(
        frame, sample_weight=WEIGHTS
    )


def test_weights_that_are_none_are_refused():
    density = BoltzmannMachine().fit(ROWS)
    with pytest.raises(ShapeError, match="sample_weight must have shape"):
        density.score(ROWS, sample_weight=[1, 2])
    with pytest.raises(ModelError, match="not negative"):
        density.score(ROWS, sample_weight=np.full(len(ROWS), -1.0))
    with pytest.raises(ModelError, match="zero everywhere"):
        BoltzmannMachine().fit(ROWS, sample_weight=np.zeros(len(ROWS)))


# -- missing cells ---------------------------------------------------------------------------------


def with_holes(rows):
    holes = rows.astype(float)
    holes[np.random.default_rng(3).random(rows.shape) < 0.1] = np.nan
    holes[0] = np.nan
    return holes


@by_estimator
def test_missing_cells_are_refused(estimator, rows):
    message = r"2 of 400 rows of X have missing values \(NaN\), in '1', '3'"
    holes = rows.astype(float)
    holes[3, 1] = holes[5, 3] = np.nan
    with pytest.raises(MissingValueError, match=message) as raised:
        clone(estimator).fit(holes)
    is_offered = "missing_at_random=True" in str(raised.value)
    assert is_offered == isinstance(estimator, BoltzmannMachine)
    with pytest.raises(MissingValueError, match=message):
        clone(estimator).fit(rows).score_samples(holes)
    masked = np.ma.masked_array(rows, np.isnan(holes))
    with pytest.raises(MissingValueError, match=message):
        clone(estimator).fit(masked)


def test_missing_cells_are_summed_over_where_this_is_stated():
    holes = with_holes(ROWS)
    density = BoltzmannMachine(missing_at_random=True).fit(holes)
    result = ebm.fit(START, ebm.IncompleteEnsemble.from_data(holes))
    np.testing.assert_array_equal(density.model_.parameters, result.model.parameters)
    logs = density.score_samples(holes)
    assert logs[0] == 0
    assert logs[1:].mean() == pytest.approx(result.log_likelihood, abs=1e-12)
    states = all_states(ebm.Binary)
    p = np.exp(density.score_samples(states))
    for row, value in zip(holes[:50], logs, strict=False):
        matches = ((states == row) | np.isnan(row)).all(axis=1)
        assert value == pytest.approx(math.log(p[matches].sum()), abs=1e-12)
    cut = BoltzmannMachine(missing_at_random=True, threshold=4.5).fit(4 + holes)
    np.testing.assert_array_equal(cut.score_samples(4 + holes), logs)


def test_complete_rows_are_fitted_as_such_whatever_may_be_missing():
    density = BoltzmannMachine(missing_at_random=True).fit(ROWS)
    np.testing.assert_array_equal(
        density.model_.parameters, BoltzmannMachine().fit(ROWS).model_.parameters
    )
    with pytest.raises(EbmError, match="missing_at_random must be True or False, got 'yes'"):
        BoltzmannMachine(missing_at_random="yes").fit(ROWS)


# -- units that never change, and networks without couplings ---------------------------------------


@pytest.mark.parametrize(
    ("estimator", "rows", "low"),
    [
        (BoltzmannMachine(), ROWS, 0),
        (IsingNetwork(), SPINS, -1),
        (IsingNetwork("cv", n_folds=3, strengths=8), SPINS, -1),
    ],
)
def test_a_unit_that_never_changes_is_half_a_row_from_certain(estimator, rows, low):
    extended = np.column_stack([rows[:, :2], np.full(len(rows), low), rows[:, 2:]])
    estimator = clone(estimator).set_params(random_state=0)
    with pytest.warns(NoMaximumWarning, match=r"unit '2' never changes.*probability 0\.0013"):
        fitted = clone(estimator).fit(extended)
    plain = clone(estimator).fit(rows)
    difference = fitted.score_samples(extended) - plain.score_samples(rows)
    np.testing.assert_allclose(difference, math.log(1 - 1 / 800), atol=1e-6)
    other = extended.copy()
    other[:, 2] = 1
    difference = fitted.score_samples(other) - plain.score_samples(rows)
    np.testing.assert_allclose(difference, math.log(1 / 800), atol=1e-6)


@pytest.mark.parametrize(("estimator", "value"), [(BoltzmannMachine(), 0), (IsingNetwork(), 1)])
def test_rows_that_are_all_alike_have_a_density(estimator, value):
    rows = np.full((10, 3), value)
    with pytest.warns(NoMaximumWarning, match="units '0', '1', '2' never change"):
        fitted = estimator.fit(rows)
    np.testing.assert_allclose(fitted.score_samples(rows), 3 * math.log(0.95))


def test_a_penalty_of_biases_holds_units_that_never_change_as_in_the_core():
    rows = np.column_stack([ROWS, np.ones(len(ROWS))])
    density = BoltzmannMachine(l2_biases=0.01).fit(rows)
    start = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6))
    model = ebm.fit(start, rows, penalty=ebm.Penalty(l2_biases=0.01)).model
    np.testing.assert_array_equal(density.model_.parameters, model.parameters)


def test_missing_cells_beside_a_unit_that_never_changes():
    holes = np.column_stack([with_holes(ROWS), np.where(ROWS[:, :1] > 0, np.nan, 1)])
    with pytest.warns(NoMaximumWarning, match="unit '5' never changes"):
        density = BoltzmannMachine(missing_at_random=True).fit(holes)
    plain = BoltzmannMachine(missing_at_random=True).fit(holes[:, :5])
    np.testing.assert_allclose(density.model_.weights[:5, :5], plain.model_.weights, atol=1e-6)


def test_independent_units_have_a_network_without_couplings():
    states = all_states(ebm.Spins)
    with pytest.raises(NoCouplingError):
        ebm.inversion.regularization_path(ISING, states)
    network = IsingNetwork().fit(states)
    assert network.selection_ is None
    assert not network.couplings_.any()
    np.testing.assert_allclose(network.score_samples(states), -5 * math.log(2))


# -- within scikit-learn ---------------------------------------------------------------------------


def test_a_grid_finds_the_penalty_with_the_best_held_out_rows():
    few, grid = ROWS[:60], [0.001, 0.003, 0.1]
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(BoltzmannMachine(), {"l2": grid}, cv=folds).fit(few)
    expected = []
    for l2 in grid:
        held_out = [
            ebm.fit(START, few[train], penalty=l2).ensemble.log_probability(few[test]).mean()
            for train, test in folds.split(few)
        ]
        expected.append(np.mean(held_out))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, atol=1e-13)
    assert search.best_params_ == {"l2": 0.003}


def test_features_serve_a_classifier_in_a_pipeline():
    rows = np.random.default_rng(0).integers(0, 2, (200, 6))
    labels = rows[:, 0] ^ rows[:, 1]
    pipeline = make_pipeline(
        RestrictedBoltzmannMachine(8, n_epochs=5, threshold=0.5, random_state=0),
        LogisticRegression(),
    )
    pipeline.fit(rows, labels)
    machine, classifier = pipeline.named_steps.values()
    by_hand = classifier.predict(machine.model_.hidden_conditional(rows))
    np.testing.assert_array_equal(pipeline.predict(rows), by_hand)
    assert pipeline[:-1].get_feature_names_out().shape == (8,)
    assert cross_val_score(pipeline, rows, labels, cv=3).shape == (3,)


@by_estimator
def test_estimators_come_back_from_files(estimator, rows):
    fitted = clone(estimator).fit(rows)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.score_samples(rows), fitted.score_samples(rows))
    np.testing.assert_array_equal(again.sample(5, 0), fitted.sample(5, 0))


# -- randomness ------------------------------------------------------------------------------------


def test_random_states_of_any_kind_are_taken():
    def parameters(random_state):
        machine = RestrictedBoltzmannMachine(3, n_epochs=2, random_state=random_state)
        return machine.fit(ROWS).model_.parameters

    np.testing.assert_array_equal(parameters(4), parameters(4))
    assert not np.array_equal(parameters(4), parameters(5))
    for kind in (np.random.RandomState, np.random.default_rng):
        np.testing.assert_array_equal(parameters(kind(4)), parameters(kind(4)))
        moving = kind(4)
        assert not np.array_equal(parameters(moving), parameters(moving))
    assert not np.array_equal(parameters(None), parameters(None))
    with pytest.raises(ShapeError, match="random_state must be an integer of at least 0"):
        parameters("seed")


def test_draws_are_those_of_the_exact_ensemble():
    density = BoltzmannMachine().fit(ROWS)
    draws = density.sample(50, random_state=3)
    np.testing.assert_array_equal(draws, ebm.exact(density.model_).sample(50, rng=3))
    assert IsingNetwork().fit(SPINS).sample(9, 0).dtype == np.int8
    assert density.sample().shape == (1, 5)


# -- beyond enumeration ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large():
    """Forty units, coupled so that neither their states nor a narrow graph can be summed."""
    random = np.random.default_rng(0)
    return random.integers(0, 2, (300, 40))


def test_more_units_are_refused_unless_a_loss_is_named(large):
    with pytest.raises(LimitError, match="PersistentChains"):
        BoltzmannMachine().fit(large)


def test_an_estimate_of_the_partition_function_has_its_error(large):
    loss = ebm.inversion.Pseudolikelihood()
    density = BoltzmannMachine(0.1, loss=loss, random_state=1).fit(large)
    model = ebm.fit(
        ebm.BoltzmannMachine(np.zeros((40, 40)), np.zeros(40)), large, loss=loss, penalty=0.1
    ).model
    estimate = ebm.log_partition(model, rng=1)
    assert density.log_partition_.value == estimate.value
    assert density.log_partition_.standard_error == estimate.standard_error > 0
    logs = density.score_samples(large[:9])
    np.testing.assert_array_equal(logs, -model.energy(large[:9]) - estimate.value)
    blank = density.set_params(missing_at_random=True).score_samples(np.full((1, 40), np.nan))
    assert blank == [0]
    draws = density.sample(100, random_state=2)
    assert draws.shape == (100, 40)
    assert set(np.unique(draws)) == {0, 1}
    # Five standard errors of the mean activity.
    assert abs(draws.mean() - large.mean()) < 5 * 0.5 / math.sqrt(draws.size / 4)


def test_an_estimate_without_an_error_is_warned_of():
    glass = np.triu(np.random.default_rng(0).normal(0, 3, (45, 45)), 1)
    density = RowDensity(ebm.IsingModel(glass + glass.T, np.zeros(45)), None, seed=0)
    with pytest.warns(PoorWeightsWarning, match=r"rests on ln Z = .*; no error: .*log_partition\("):
        estimate = density.log_partition
    assert math.isnan(estimate.standard_error)


# -- settings and imports --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selection": "bic"}, "selection must be 'ebic' or 'cv', got 'bic'"),
        ({"selection": "cv", "gamma": 0.5}, "gamma has no effect on selection='cv'"),
        ({"n_folds": 5}, "n_folds has no effect on selection='ebic'"),
    ],
)
def test_settings_without_effect_are_refused(settings, message):
    with pytest.raises(EbmError, match=message):
        IsingNetwork(**settings).fit(SPINS)


@pytest.mark.parametrize("rows", [ebm.Ensemble.from_data(ROWS), ebm.datasets.spikes()])
def test_what_holds_rows_is_no_rows(rows):
    name = type(rows).__name__
    with pytest.raises(ModelError, match=f"X must be rows, got {name}: give its states"):
        BoltzmannMachine().fit(rows)


def test_the_extra_is_named_where_it_is_missing():
    script = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import ebm\n"
        "try:\n    import ebm.sklearn\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    assert "not installed: pip install 'ebm-framework[sklearn]'" in done.stdout


def test_fits_of_good_rows_do_not_warn():
    for estimator, rows in EVERY:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            score = clone(estimator).fit(rows).score(rows)
        assert [str(each.message) for each in caught] == []
        assert np.isfinite(score)
