"""Averages, optimizers and schedules of a user's own that give something else."""

import math

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError
from tests.learning.stepping import fit

ROWS = (np.random.default_rng(0).random((60, 3)) < 0.4).astype(np.int8)
START = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
GARBAGE = [None, [1, 2], 3.0, "x", 1j, np.zeros(4), ebm.Moments]


@pytest.mark.parametrize("answer", GARBAGE, ids=lambda answer: str(type(answer).__name__))
def test_an_average_gives_an_ensemble(answer):
    def average(model):
        return answer

    with pytest.raises(ModelError, match=r"average must give an ensemble .*average gave "):
        fit(START, ROWS, average=average)
    with pytest.raises(ModelError, match=r"average must give an ensemble .*average gave "):
        fit(START, ROWS, average=average, n_epochs=2)


class StatefulAverage:
    """A route that answers with what it was told."""

    def __init__(self, answer):
        self.answer = answer

    def start(self, model, data, rng):
        return ()

    def step(self, model, batch, state):
        return self.answer


@pytest.mark.parametrize("answer", [*GARBAGE, (), (1, 2, 3), (None, ()), ("x", ())], ids=str)
def test_a_route_gives_an_ensemble_and_a_state(answer):
    with pytest.raises(ModelError, match="step of StatefulAverage"):
        fit(START, ROWS, average=StatefulAverage(answer))


class Optimizer:
    """An optimizer that answers with what it was told."""

    def __init__(self, answer):
        self.answer = answer

    def start(self, theta):
        return {}

    def step(self, gradient, state):
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [*GARBAGE, (), (np.zeros(5), {}), (np.zeros(6),), (0.0, {}), (None, {}), ("x", {}),
     (np.zeros(6) * 1j, {}), (np.zeros((6, 1)), {}), ([[1], [1, 2]], {})],
    ids=str,
)  # fmt: skip
def test_an_optimizer_gives_a_move_and_a_state(answer):
    with pytest.raises(EbmError, match="step of Optimizer"):
        fit(START, ROWS, average=ebm.exact, optimizer=Optimizer(answer), n_epochs=2)


def test_lists_of_numbers_are_moves():
    settings = {"optimizer": Optimizer(([0.05] * 6, {})), "centering": False, "n_epochs": 2}
    result = fit(START, ROWS, average=ebm.exact, **settings)
    assert np.array_equal(result.model.parameters, np.full(6, 0.1))


@pytest.mark.parametrize("value", [None, "x", 1j, [1.0, 2.0], -1.0])
@pytest.mark.parametrize("kind", [ebm.GradientDescent, ebm.Adam])
def test_a_schedule_gives_a_rate(kind, value):
    with pytest.raises(EbmError, match=r"rate .*after 0 updates"):
        fit(START, ROWS, average=ebm.exact, optimizer=kind(lambda update: value), n_epochs=2)


def test_ln_z_of_an_average_is_a_number():
    class Known(ebm.Ensemble):
        space = START.space
        log_partition = "x"

        def blocks(self):
            return ebm.exact(START).blocks()

    with pytest.raises(EbmError, match="log_partition of the average must hold numbers"):
        fit(START, ROWS, average=lambda model: Known(), n_epochs=2)


def test_an_average_in_the_other_coding_gives_no_false_errors():
    """Its moments are converted; its fourth moments are those of other features."""
    wanted = ebm.fit(START, ROWS, solver=ebm.LBFGS())
    result = fit(START, ROWS, average=lambda model: ebm.exact(model.to_spins()))
    np.testing.assert_allclose(result.model.parameters, wanted.model.parameters, atol=1e-5)
    assert result.standard_errors is None
    with pytest.raises(EbmError, match="fourth moments"):
        ebm.fit(
            START,
            ROWS,
            loss=ebm.Likelihood(lambda model: ebm.exact(model.to_spins())),
            solver=ebm.Newton(),
        )


def test_an_average_over_other_units_is_refused():
    other = ebm.exact(ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2)))
    with pytest.raises(ebm.errors.CodingError, match="cannot be converted"):
        fit(START, ROWS, average=lambda model: other)


class WithoutPartition:
    """Moments and a ln Z that is no number."""

    space, log_partition = START.space, float("nan")

    def moments(self):
        return ebm.exact(START).moments()


def test_an_average_knows_a_finite_partition_function():
    with pytest.raises(ModelError, match="log_partition of the average must be finite"):
        ebm.fit(START, ROWS, loss=ebm.Likelihood(lambda model: WithoutPartition()))


def test_every_reason_for_missing_errors_is_given(monkeypatch):
    monkeypatch.setattr("ebm.learning._assessment.MOST_PARAMETERS", 2)

    class Known(ebm.Ensemble):
        sample_size, states, weights = math.inf, None, None

        def __init__(self, model):
            self.space, self._exact = model.space, ebm.exact(model)
            self.log_partition = self._exact.log_partition

        def blocks(self):
            return self._exact.blocks()

    terms = ebm.InteractionModel({(0,): 0.1, (1,): 0.2, (0, 1, 2): 0.3}, ebm.Binary(3))
    rows = [[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 0]]
    result = ebm.fit(terms, rows, loss=ebm.Likelihood(lambda model: Known(model)))
    (reasons,) = result.warnings
    assert "exact average of the model, Known is none" in reasons
    assert "at most 2 parameters, not 3" in reasons
