"""Optimizers: textbook steps, pure functions, settings that are refused by name."""

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError
from ebm.learning import Decay


def steps(optimizer, theta, gradients):
    state = optimizer.start(theta)
    for gradient in gradients:
        move, state = optimizer.step(gradient, state)
        theta = theta + move
    return theta, state


GRADIENTS = np.random.default_rng(0).normal(size=(6, 4))


def test_plain_steps():
    theta, _ = steps(ebm.GradientDescent(0.1), np.ones(4), GRADIENTS)
    assert np.allclose(theta, 1 - 0.1 * GRADIENTS.sum(axis=0), rtol=0, atol=1e-15)


def test_momentum_by_the_loop():
    theta, velocity = np.ones(4), np.zeros(4)
    for gradient in GRADIENTS:
        velocity = 0.7 * velocity + gradient
        theta = theta - 0.1 * velocity
    assert np.array_equal(steps(ebm.GradientDescent(0.1, 0.7), np.ones(4), GRADIENTS)[0], theta)


def test_adam_by_the_loop():
    theta, m, v = np.ones(4), np.zeros(4), np.zeros(4)
    for t, gradient in enumerate(GRADIENTS, 1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient**2
        theta = theta - 0.05 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    assert np.allclose(steps(ebm.Adam(0.05), np.ones(4), GRADIENTS)[0], theta, rtol=1e-13)


@pytest.mark.parametrize("optimizer", [ebm.GradientDescent(0.1, 0.5), ebm.Adam(0.1)])
def test_nothing_is_changed_in_place(optimizer):
    theta = np.ones(3)
    state = optimizer.start(theta)
    _, state = optimizer.step(np.ones(3), state)
    for array in state.values():
        array.setflags(write=False)
    again = [optimizer.step(np.ones(3), state)[0] for _ in range(2)]
    assert np.array_equal(*again)


@pytest.mark.parametrize("kind", [ebm.GradientDescent, ebm.Adam])
def test_a_schedule_is_asked_with_the_number_of_updates(kind):
    asked = []

    def rate(updates):
        asked.append(updates)
        return 0.1

    theta, _ = steps(kind(rate), np.ones(4), GRADIENTS)
    assert asked == list(range(6))
    assert np.array_equal(theta, steps(kind(0.1), np.ones(4), GRADIENTS)[0])


def test_decay_halves():
    assert Decay(0.2, 50)(0) == 0.2
    assert Decay(0.2, 50)(50) == 0.1


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ebm.GradientDescent(0), "rate must be a positive number, got 0"),
        (lambda: ebm.GradientDescent(float("nan")), "rate must be a positive number"),
        (lambda: ebm.Adam("fast"), "rate must be a positive number, got 'fast'"),
        (lambda: ebm.GradientDescent(0.1, momentum=1.0), "momentum must be at least 0"),
        (lambda: ebm.Adam(0.1, beta2=-1), "beta2 must be at least 0"),
        (lambda: ebm.Adam(0.1, epsilon=0), "epsilon must be a positive number"),
        (lambda: Decay(0.1, 0), "steps must be a positive number"),
    ],
)
def test_wrong_settings_are_named(make, name):
    with pytest.raises(EbmError, match=name):
        make()


def test_a_schedule_that_gives_nonsense_is_named():
    with pytest.raises(EbmError, match="after 0 updates, got nan"):
        steps(ebm.Adam(lambda t: float("nan")), np.ones(4), GRADIENTS)
