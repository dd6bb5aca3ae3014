"""Curves and images of learning show the numbers they claim to show."""

import numpy as np
import pytest
from matplotlib import pyplot

import ebm
from ebm.errors import EbmError, ModelError, ShapeError
from ebm.plotting import images, learning_curve

ROWS = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0], [1, 1]]
START = ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2))


def by_steps(**settings):
    steps = ebm.GradientSteps(ebm.GradientDescent(0.5), n_epochs=4)
    return ebm.fit(START, ROWS, solver=steps, **settings)


@pytest.mark.parametrize("quantity", ["log_likelihood", "rms_moment_error", "largest_parameter"])
def test_curve_of_gradient_steps(quantity):
    result = by_steps()
    (line,) = learning_curve(result, quantity).lines
    assert list(line.get_xdata()) == [1, 2, 3, 4]
    assert list(line.get_ydata()) == [getattr(epoch, quantity) for epoch in result.history]


def test_curve_of_newton_steps_on_given_axes():
    result = ebm.fit(START, ROWS)
    ax = pyplot.subplots()[1]
    assert learning_curve(result, ax=ax) is ax
    assert ax.get_xlabel() == "iteration"
    assert list(ax.lines[0].get_ydata()) == [step.log_likelihood for step in result.history]


def test_what_is_drawn_by_default_was_measured():
    assert learning_curve(ebm.fit(START, ROWS)).get_ylabel().startswith("log-likelihood")
    chains = ebm.fit(START, ROWS, loss=ebm.Likelihood(ebm.PersistentChains(10)), rng=0)
    assert learning_curve(chains).get_ylabel().startswith("rms misfit")


def test_what_was_not_measured_is_an_error():
    with pytest.raises(EbmError, match="free_energy_gap was not measured"):
        learning_curve(by_steps(), "free_energy_gap")
    with pytest.raises(EbmError, match="quantity must be one of log_likelihood, gradient_norm"):
        learning_curve(by_steps(), "loss")


def test_a_fit_draws_itself():
    result = by_steps()
    ax = pyplot.subplots()[1]
    assert result.plot("largest_parameter", ax=ax) is ax
    assert list(ax.lines[0].get_ydata()) == [epoch.largest_parameter for epoch in result.history]


def test_images_stand_side_by_side():
    rows = np.arange(3 * 6).reshape(3, 6)
    sheet = images(rows, (2, 3), n_columns=2).get_images()[0].get_array()
    assert sheet.shape == (2 * 3 + 1, 2 * 4 + 1)
    sheet = sheet[1:, 1:]
    assert np.array_equal(sheet[:2, :3], rows[0].reshape(2, 3))
    assert np.array_equal(sheet[:2, 4:7], rows[1].reshape(2, 3))
    assert np.array_equal(sheet[3:5, :3], rows[2].reshape(2, 3))
    assert np.ma.getmaskarray(np.ma.masked_invalid(sheet))[2].all()


def test_signed_images_have_zero_in_the_middle():
    rows = np.array([[1.0, -4.0], [0.0, 0.0], [0.5, 0.25]])
    picture = images(rows, (1, 2), signed=True).get_images()[0]
    assert picture.get_clim() == (-1, 1)
    assert np.array_equal(picture.get_array()[1, 1:3], [0.25, -1])
    assert np.array_equal(picture.get_array()[3, 1:3], [1, 0.5])


@pytest.mark.parametrize(
    ("rows", "shape", "error", "message"),
    [
        (np.zeros((2, 5)), (2, 3), ShapeError, r"shape \(n_images, 6\)"),
        (np.zeros(6), (2, 3), ShapeError, "rows must have shape"),
        (np.zeros((0, 6)), (2, 3), ShapeError, "rows must have shape"),
        ([["a"] * 6], (2, 3), ModelError, "rows"),
        ([[np.nan] * 6], (2, 3), EbmError, "rows must be finite"),
        (np.zeros((2, 6)), 6, ShapeError, r"shape must be \(height, width\)"),
        (np.zeros((2, 6)), (2, 3.0), ShapeError, r"shape must be \(height, width\)"),
    ],
)
def test_bad_images_are_named(rows, shape, error, message):
    with pytest.raises(error, match=message):
        images(rows, shape)


@pytest.mark.parametrize("n_columns", [0, -1, 2.5])
def test_columns_are_counted(n_columns):
    with pytest.raises(EbmError, match="n_columns must be a positive integer"):
        images(np.zeros((2, 6)), (2, 3), n_columns=n_columns)
