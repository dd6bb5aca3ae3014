"""Solvers of a user's own: what they lack, or do otherwise than agreed, is said by name."""

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError
from ebm.learning import FitStep

ROWS = (np.random.default_rng(0).random((70, 3)) < 0.4).astype(np.int8)
START = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))


class Descent:
    """Steepest descent with a velocity, laid out at the start as in ``layout``."""

    record_type, draws, losses = FitStep, False, (ebm.Likelihood,)
    max_iterations, tolerance, word = 1000, 1e-6, "converged"

    def __init__(self, **changes):
        vars(self).update(changes)

    def start(self, loss, theta, rng):
        velocity = getattr(self, "velocity", np.zeros_like(theta))
        return {"theta": theta, "velocity": velocity, "iteration": 0}

    def step(self, loss, state):
        slopes = loss.scaling @ (loss.scaling.T @ loss.point(state["theta"]).slopes)
        before = 0.0 if state["velocity"] is None else state["velocity"]
        velocity = 0.5 * before - 0.3 * slopes
        theta = state["theta"] + velocity
        return {"theta": theta, "velocity": velocity, "iteration": state["iteration"] + 1}

    def record(self, loss, state):
        here = loss.point(state["theta"])
        norm = float(np.abs(loss.scaling.T @ here.slopes).max())
        return FitStep(state["iteration"], here.log_likelihood, norm, 0.3)

    def verdict(self, loss, state, history):
        if history[-1].gradient_norm <= self.tolerance:
            return self.word
        return "iterations" if len(history) > self.max_iterations else ""

    def settings(self):
        return {}


def resumed(path, **layout):
    """Three steps, and then the rest."""
    with pytest.warns(ebm.errors.NotConvergedWarning):
        ebm.fit(START, ROWS, solver=Descent(max_iterations=3, **layout), checkpoint=path)
    return ebm.fit(START, ROWS, solver=Descent(**layout), checkpoint=path)


@pytest.mark.parametrize("layout", [{}, {"velocity": None}])
def test_what_is_none_at_the_start_goes_on_as_it_was_stored(layout, tmp_path):
    whole = ebm.fit(START, ROWS, solver=Descent(**layout))
    again = resumed(tmp_path / "run.npz", **layout)
    assert again.converged
    assert again.model.equals(whole.model)
    assert again.history == whole.history


def test_an_entry_of_another_shape_than_at_the_start_is_named(tmp_path):
    words = r"Descent\.start must lay out 'velocity' as step does: shape \(6,\) stored in .*, \(\)"
    with pytest.raises(EbmError, match=words):
        resumed(tmp_path / "run.npz", velocity=0.0)


def test_a_verdict_without_a_sentence_is_refused_by_the_words_that_have_one():
    words = "must be one of 'converged', 'flat', .*got 'done'"
    with pytest.raises(EbmError, match=words):
        ebm.fit(START, ROWS, solver=Descent(word="done"))


def test_a_member_that_a_loss_lacks_is_named():
    solver = Descent(losses=(ebm.inversion.Pseudolikelihood,))
    words = "Descent uses 'scaling', which ConditionalLoss does not have; it has .*norm, .*point"
    with pytest.raises(EbmError, match=words):
        ebm.fit(START, ROWS, solver=solver, loss=ebm.inversion.Pseudolikelihood())


def test_a_member_that_a_point_lacks_is_named():
    class Curving(Descent):
        def step(self, loss, state):
            return loss.point(state["theta"]).curvatures

    with pytest.raises(EbmError, match=r"Curving uses 'curvatures', which Point does .*slopes"):
        ebm.fit(START, ROWS, solver=Curving())


def test_errors_within_a_solver_stay_its_own():
    class Broken(Descent):
        def step(self, loss, state):
            return self.missing

    with pytest.raises(AttributeError, match="missing"):
        ebm.fit(START, ROWS, solver=Broken())


class PseudoDescent(Descent):
    losses = (ebm.inversion.Pseudolikelihood,)

    def step(self, loss, state):
        theta = state["theta"] - 0.5 * loss.point(state["theta"]).gradient
        return {**state, "theta": theta, "iteration": state["iteration"] + 1}

    def record(self, loss, state):
        here = loss.point(state["theta"])
        return FitStep(state["iteration"], here.log_likelihood, loss.norm(here), 0.5)


def test_a_solver_of_ones_own_maximizes_a_pseudolikelihood():
    loss = ebm.inversion.Pseudolikelihood()
    own = ebm.fit(START, ROWS, solver=PseudoDescent(tolerance=1e-8), loss=loss)
    assert own.converged
    np.testing.assert_allclose(
        own.model.parameters, ebm.fit(START, ROWS, loss=loss).model.parameters, atol=1e-6
    )
    with pytest.raises(EbmError, match="must be one of 'converged', 'rounding', 'iterations', got"):
        ebm.fit(START, ROWS, solver=PseudoDescent(word="flat"), loss=loss)


def test_a_solver_without_methods_or_state_is_refused():
    class Empty:
        losses = (ebm.Likelihood,)

    class Half(Descent):
        step, settings = None, None

    with pytest.raises(EbmError, match="Empty has no record_type, start, step, record, verdict"):
        ebm.fit(START, ROWS, solver=Empty())
    with pytest.raises(EbmError, match="Half has no step, settings: a solver has the methods"):
        ebm.fit(START, ROWS, solver=Half())
    with pytest.raises(EbmError, match=r"Descent\.losses must be a tuple of classes"):
        ebm.fit(START, ROWS, solver=Descent(losses=["likelihood"]))
    for state in ({"iteration": 0}, None):
        solver = Descent(start=lambda loss, theta, rng, state=state: state)
        with pytest.raises(EbmError, match=r"Descent\.start must return a mapping .*'theta'"):
            ebm.fit(START, ROWS, solver=solver)
