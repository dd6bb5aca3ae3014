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


class Scaled(ebm.learning.LossOnRows):
    """a Σ_k g((θ_k − t_k)/s) of a curve g, whose slopes may be wrong by factors."""

    size, width, factors, curve, slope = 1.0, 1.0, 1.0, staticmethod(np.cosh), staticmethod(np.sinh)

    def value_and_slopes(self, model):
        gap = (model.parameters - TARGET) / self.width
        value, slopes = self.size * self.curve(gap).sum(), self.size / self.width * self.slope(gap)
        return value, self.factors * slopes


CURVES = {
    "square": (np.square, lambda x: 2 * x),
    "fourth power": (lambda x: x**4, lambda x: 4 * x**3),
    "cosh": (np.cosh, np.sinh),
    "modulus": (np.abs, np.sign),
    "hinge": (lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0)),
    "softplus": (lambda x: np.logaddexp(0, x), lambda x: 1 / (1 + np.exp(-x))),
    "wave": (lambda x: 1 - np.cos(x), np.sin),
    "flat": (lambda x: 0 * x, lambda x: 0 * x),
}


def scaled(curve, **settings):
    function, slope = CURVES[curve]
    members = {"curve": staticmethod(function), "slope": staticmethod(slope), **settings}
    data = ebm.Ensemble.from_data(ROWS, space=ebm.Spins)
    return type("Own", (Scaled,), members)(START, data, ebm.Penalty())


@pytest.mark.parametrize("size", [1e-12, 1e-3, 1.0, 1e6, 1e15])
@pytest.mark.parametrize("width", [1e-3, 0.1, 1.0, 1e4])
@pytest.mark.parametrize("curve", CURVES)
def test_no_true_slopes_are_refused(curve, width, size):
    if curve == "cosh" and width < 0.01:
        pytest.skip("values overflow")
    assert scaled(curve, size=size, width=width)._require_own_slopes() is None


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e15])
@pytest.mark.parametrize("curve", ["square", "cosh", "softplus", "wave"])
@pytest.mark.parametrize(("factor", "why"), [(-1, "sign is wrong"), (2, "factor"), (0, "factor")])
def test_wrong_slopes_are_named(curve, size, factor, why):
    factors = np.ones(6)
    factors[4] = factor
    loss = scaled(curve, size=size, factors=factors)
    with pytest.raises(ModelError, match=rf"slope of 'J\[0, 2\]' as .* give .*{why}"):
        loss._require_own_slopes()


def test_a_fit_refuses_a_wrong_sign_before_its_first_step():
    class Uphill(Quartic):
        def value_and_slopes(self, model):
            value, slopes = super().value_and_slopes(model)
            return value, -slopes

    with pytest.raises(ModelError, match=r"Uphill\.value_and_slopes .*the sign is wrong"):
        ebm.fit(START, ROWS, loss=Loss(Uphill))
