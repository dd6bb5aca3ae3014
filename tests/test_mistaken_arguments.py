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
