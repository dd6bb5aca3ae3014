"""Arguments of another kind than wanted: the message names what to give instead."""

import pathlib

import numpy as np
import pytest

import ebm
from ebm.errors import CodingError, EbmError, ModelError, NamesError

ROWS = np.random.default_rng(0).integers(0, 2, (60, 3)).astype(np.int8)
START = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
SPINS = ebm.IsingModel(np.zeros((3, 3)), np.zeros(3))


@pytest.mark.parametrize(
    "use",
    [
        ebm.exact,
        ebm.log_partition,
        lambda result: ebm.sample(result, n_draws=3),
        ebm.local_minima,
        ebm.fisher_information,
        ebm.to_graph,
        ebm.to_dimod,
        ebm.to_qubo,
        ebm.to_sparse,
        lambda result: ebm.fit(result, ROWS),
    ],
)
@pytest.mark.parametrize("fitted", [ebm.fit, lambda start, rows: ebm.analyze(rows).result])
def test_a_result_in_place_of_its_model_is_named(use, fitted):
    with pytest.raises(ModelError, match=r"FitResult is no model: give result\.model"):
        use(fitted(START, ROWS))


@pytest.mark.parametrize("path", ["survey.csv", pathlib.Path("survey.csv")])
@pytest.mark.parametrize(
    "use",
    [
        ebm.analyze,
        ebm.Ensemble.from_data,
        ebm.inversion.pseudolikelihood,
        lambda data: ebm.fit(START, data),
        lambda data: ebm.inversion.bootstrap(ebm.inversion.bethe, data),
    ],
)
def test_a_path_in_place_of_rows_is_read_by_read_table(use, path):
    words = r"'survey\.csv' is a path: give ebm\.read_table\('survey\.csv'\)"
    with pytest.raises(EbmError, match=words):
        use(path)


def test_a_table_serves_wherever_rows_do():
    names = ("a", "b", "c")
    table = ebm.tables.Table(ROWS, names, len(ROWS))
    result = ebm.fit(START, table)
    np.testing.assert_array_equal(result.model.parameters, ebm.fit(START, ROWS).model.parameters)
    assert result.model.names == names
    assert ebm.Ensemble.from_data(table).space.names == names
    assert ebm.RestrictedBoltzmannMachine.for_data(table, 2).space.names == names
    assert ebm.inversion.pseudolikelihood(table).model.names == names
    again = ebm.inversion.bootstrap(ebm.inversion.bethe, table, n_resamples=3, rng=0)
    assert again.model.names == names
    # Columns are taken by their names.
    turned = ebm.tables.Table(ROWS[:, ::-1], names[::-1], len(ROWS))
    named = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), names=names)
    np.testing.assert_allclose(ebm.fit(named, turned).model.weights, result.model.weights)


def test_rows_in_the_other_coding_want_another_model():
    with pytest.raises(CodingError, match=r"−1 and 1 give a model .*, such as ebm\.IsingModel$"):
        ebm.fit(START, 2 * ROWS - 1)
    with pytest.raises(CodingError, match=r"give a model .*, such as ebm\.BoltzmannMachine"):
        ebm.fit(SPINS, ROWS)


def test_names_in_place_of_flags_are_flags():
    with pytest.raises(NamesError, match=r"holds 'W\[smoker, cough\]': .*'W\[0, 1\]'"):
        ebm.fit(START, ROWS, penalty=ebm.Penalty(free=["W[smoker, cough]"]))
    chosen = ["W[0, 1]"]
    free = [name in chosen for name in START.parameter_names]
    by_flags, by_names = (
        ebm.fit(START, ROWS, penalty=ebm.Penalty(free=way)).model for way in (free, chosen)
    )
    assert by_flags.weights[0, 2] == 0
    assert by_names.equals(by_flags)


NO_ENSEMBLES = [None, "abc", object(), [0.5, 0.5, 1.0], np.ones((4, 3)), np.inf, ebm.Ensemble]


@pytest.mark.parametrize("thing", NO_ENSEMBLES, ids=lambda thing: type(thing).__name__)
@pytest.mark.parametrize(
    "use",
    [
        ebm.observables.population_count,
        ebm.observables.third_moments,
        ebm.observables.central_pairs,
        lambda thing: ebm.observables.activity(thing, ROWS),
        lambda thing: ebm.observables.central_triples(thing, [0.1]),
        START.mean_energy_gradient,
        SPINS.mean_energy_gradient,
        lambda thing: ebm.information.EnsembleInformation(START, thing),
        lambda thing: ebm.inversion.mean_field(thing),
    ],
)
def test_what_is_no_ensemble_is_refused(use, thing):
    with pytest.raises(EbmError, match=r"(ensemble|Moments).*got "):
        use(thing)


@pytest.mark.parametrize("value", [None, np.inf, np.nan, 1.5, "1", object(), 10**30, [[None]]])
def test_numbers_of_states_are_whole(value):
    for space in (ebm.Binary(3), ebm.Levels(2, 4), ebm.Product(v=ebm.Binary(2), h=ebm.Spins(1))):
        with pytest.raises(EbmError, match="indices must be whole numbers"):
            space.states_at(value)
    np.testing.assert_array_equal(ebm.Binary(3).states_at(4.0), [1, 0, 0])
    with pytest.raises(EbmError, match=r"n_states must be .*, got"):
        ebm.Binary(3).random(value)


@pytest.mark.parametrize(
    ("rates", "match"),
    [
        ([0.5, np.nan], "probabilities from 0 to 1, got nan of unit 1"),
        ([np.inf], "got inf of unit 0"),
        ([0.2, -0.1], "got -0.1 of unit 1"),
        (0.5, "one axis"),
        (None, "rates must"),
        (["a"], "rates must hold numbers, got text"),
        (np.full((2, 2), 0.5), "one axis"),
    ],
)
def test_rates_are_probabilities(rates, match):
    for use in (
        ebm.observables.independent_entropy,
        ebm.observables.independent_population_count,
    ):
        with pytest.raises(EbmError, match=match):
            use(rates)


def test_rounding_of_a_mean_is_no_wrong_rate():
    beyond = [1 + 1e-15, -1e-15]
    assert ebm.observables.independent_entropy(beyond) == 0
    np.testing.assert_array_equal(ebm.observables.independent_population_count(beyond), [0, 1, 0])


@pytest.mark.parametrize("n", [None, -1, 2.5, np.inf, "3"])
def test_triples_are_of_a_number_of_units(n):
    with pytest.raises(EbmError, match=r"n must be an integer of at least 0"):
        ebm.observables.triples(n)


@pytest.mark.parametrize("use", [ebm.load, ebm.read_table])
@pytest.mark.parametrize("path", [None, 3, "", [1], ROWS])
def test_files_are_named_by_paths(use, path):
    with pytest.raises(EbmError, match="path must name a file"):
        use(path)


@pytest.mark.parametrize("thing", [None, "abc", object(), np.ones(3), START])
def test_what_is_no_network_is_refused(thing):
    networks = pytest.importorskip("ebm.networks", exc_type=ImportError)
    theta = np.zeros(4)
    for use in (
        networks.minimize,
        networks.initial_parameters,
        networks.ActionHessian,
        networks.ActionThirdDerivatives,
        lambda action: networks.main_terms(action, theta, 2),
        lambda action: networks.closed_forms(action, theta, 2),
        lambda action: networks.ray_radius(action, theta),
        lambda action: networks.as_module(action, theta),
        lambda action: networks.probabilities(action, theta, [[1.0]]),
    ):
        with pytest.raises(EbmError, match="action must be that of a network"):
            use(thing)
