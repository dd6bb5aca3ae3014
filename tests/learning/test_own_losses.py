"""Losses of a user's own, by their value and slopes alone."""

import numpy as np
import pytest

import ebm
from ebm.errors import CodingError, EbmError, ModelError, NotConvergedWarning

START = ebm.IsingModel(np.zeros((3, 3)), np.zeros(3))
ROWS = np.array([[1, 1, -1], [-1, 1, 1], [1, -1, 1], [1, 1, 1], [-1, -1, 1]])
TARGET = np.linspace(-0.5, 0.7, 6)


class Quartic(ebm.learning.LossOnRows):
    """Σ (θ − t)² + (θ − t)⁴."""

    def value_and_slopes(self, model):
        gap = model.parameters - TARGET
        return (gap**2 + gap**4).sum(), 2 * gap + 4 * gap**3


class Loss:
    def __init__(self, kind=Quartic):
        self.of = kind


def test_it_is_minimized():
    result = ebm.fit(START, ROWS, loss=Loss())
    assert result.converged
    assert result.sample_size == 5
    np.testing.assert_allclose(result.model.parameters, TARGET, atol=1e-7)


def test_penalties_ties_and_names_are_those_of_every_fit():
    penalty = ebm.Penalty(
        l2=0.2, l2_biases=0.3, free=["h[0]", "h[1]", "J[0, 1]"], ties=[0, 0, *"1234"]
    )
    theta = ebm.fit(START, ROWS, loss=Loss(), penalty=penalty).model.parameters
    assert theta[0] == pytest.approx(theta[1], rel=1e-12)
    gap = theta - TARGET
    slopes = 2 * gap + 4 * gap**3 + np.where(START.is_coupling, 0.2, 0.3) * theta
    assert slopes[0] + slopes[1] == pytest.approx(0, abs=1e-6)
    assert slopes[3] == pytest.approx(0, abs=1e-6)
    assert not theta[[2, 4, 5]].any()


def test_a_stopped_fit_goes_on_from_its_checkpoint(tmp_path):
    path = tmp_path / "fit.npz"
    with pytest.warns(NotConvergedWarning, match="iterations after 2 iterations"):
        ebm.fit(START, ROWS, loss=Loss(), solver=ebm.LBFGS(max_iterations=2), checkpoint=path)
    resumed = ebm.fit(START, ROWS, loss=Loss(), checkpoint=path)
    at_once = ebm.fit(START, ROWS, loss=Loss())
    assert np.array_equal(resumed.model.parameters, at_once.model.parameters)

    class Other(Quartic):
        pass

    with pytest.raises(EbmError, match="loss"):
        ebm.fit(START, ROWS, loss=Loss(Other), checkpoint=path)


@pytest.mark.parametrize(
    "answer", [None, 1.0, (np.nan, np.zeros(6)), (0.0, np.zeros(5)), (0.0, np.full(6, np.inf))]
)
def test_wrong_answers_are_named(answer):
    class Wrong(ebm.learning.LossOnRows):
        def value_and_slopes(self, model):
            return answer

    with pytest.raises(ModelError, match=r"Wrong\.value_and_slopes must return .* 6 finite slopes"):
        ebm.fit(START, ROWS, loss=Loss(Wrong))


def test_data_are_rows_of_the_space():
    with pytest.raises(ModelError, match="ensemble of states is wanted"):
        ebm.fit(START, ebm.Ensemble.from_data(ROWS, space=ebm.Spins).moments(), loss=Loss())
    with pytest.raises(CodingError):
        ebm.fit(START, ebm.Ensemble.from_data((ROWS + 1) // 2), loss=Loss())


def test_other_solvers_are_refused():
    with pytest.raises(EbmError, match=r"ebm\.LBFGS\(\) for this loss"):
        ebm.fit(START, ROWS, loss=Loss(), solver=ebm.Newton())


def test_a_step_that_goes_too_far_is_taken_back():
    class Walled(ebm.learning.LossOnRows):
        """Nearly straight ways down, so that the second step is long, and a wall behind."""

        visited = 0

        def value_and_slopes(self, model):
            gap = model.parameters - 3.0
            if gap.max() > 1.0:
                Walled.visited += 1
                return np.inf, np.full(6, np.nan)
            size = np.sqrt(0.01 + gap**2)
            return size.sum(), gap / size

    result = ebm.fit(START, ROWS, loss=Loss(Walled))
    np.testing.assert_allclose(result.model.parameters, 3.0, atol=1e-6)
    assert Walled.visited
