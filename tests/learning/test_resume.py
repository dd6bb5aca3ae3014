"""A run of any solver, stopped after any of its steps, ends with the same bits when taken up."""

import numpy as np
import pytest

import ebm
from ebm import _checkpoints, _iterate
from ebm._iterate import iterate
from ebm.learning._sampled_likelihood import SampledLikelihood
from ebm.learning.averages import as_stateful
from ebm.learning.natural_gradient import NaturalGradient

ROWS = (np.random.default_rng(0).random((70, 4)) < [0.3, 0.5, 0.6, 0.4]).astype(np.int8)
ROWS[:30, 1] = ROWS[:30, 0]
PAIRS = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4), center=0.3)
TRIPLES = ebm.InteractionModel(
    {(0,): 0.0, (1,): 0.0, (2,): 0.0, (3,): 0.0, (0, 1): 0.0, (1, 2, 3): 0.0}, ebm.Binary(4)
)
LAYERS = ebm.RestrictedBoltzmannMachine.for_data(ROWS, 2, rng=0)
TIED = ebm.Penalty(l2=0.05, ties=[0, 0, 1, 2, 3, 3, 3, 4, 4, 4])
CHAINS = ebm.PersistentChains(20)
HIDDEN = ebm.marginalize(
    ebm.BoltzmannMachine(np.ones((6, 6)) - np.eye(6), np.zeros(6)), keep=range(4)
)
SAMPLED = ebm.Likelihood(ebm.PersistentChains(20, restarts=0.1), completion=ebm.ClampedChains(2))


def by_moments(model):
    """An average that L-BFGS serves alone."""
    return ebm.exact(model).moments()


def steps(optimizer=None, n_epochs=4, **settings):
    optimizer = optimizer or ebm.GradientDescent(lambda update: 0.2 / (1 + update), momentum=0.5)
    return ebm.GradientSteps(optimizer, n_epochs, **settings)


#: Solver, model, loss or its average, penalty.
RUNS = {
    "Newton": (ebm.Newton(), PAIRS, ebm.exact, None),
    "Newton, penalty": (ebm.Newton(tolerance=1e-12), PAIRS, ebm.exact, 0.01),
    "Newton, triples": (ebm.Newton(), TRIPLES, ebm.exact, None),
    "Newton, ties": (ebm.Newton(), PAIRS, ebm.exact, TIED),
    "L-BFGS": (ebm.LBFGS(), PAIRS, by_moments, None),
    "L-BFGS, short memory": (ebm.LBFGS(memory=3), TRIPLES, ebm.exact, 0.01),
    "L-BFGS, layers": (ebm.LBFGS(max_iterations=25), LAYERS, ebm.exact, 0.01),
    "L-BFGS, ties": (ebm.LBFGS(), PAIRS, ebm.exact, TIED),
    "proximal Newton": (ebm.ProximalNewton(1e-12), PAIRS, ebm.exact, ebm.Penalty(l1=0.01)),
    "proximal Newton, no corners": (ebm.ProximalNewton(1e-12), PAIRS, ebm.exact, None),
    "exact steps": (steps(n_epochs=12), PAIRS, ebm.exact, None),
    "exact steps, not centered": (steps(n_epochs=12, centering=False), PAIRS, ebm.exact, 0.01),
    "exact steps, batches": (steps(batch_size=16), PAIRS, ebm.exact, None),
    "exact steps, ties": (steps(n_epochs=12), PAIRS, ebm.exact, TIED),
    "Adam, layers": (steps(ebm.Adam(0.1), batch_size=16), LAYERS, ebm.exact, 0.01),
    "persistent chains": (steps(n_epochs=12), PAIRS, CHAINS, None),
    "persistent chains, batches": (steps(batch_size=16), LAYERS, CHAINS, 0.01),
    "persistent chains, ties": (steps(batch_size=16), PAIRS, CHAINS, TIED),
    "persistent chains, validation": (steps(validation=ROWS[:9]), LAYERS, CHAINS, None),
    "contrastive divergence": (steps(batch_size=16), LAYERS, ebm.ContrastiveDivergence(2), None),
    "contrastive divergence, pairs": (steps(), PAIRS, ebm.ContrastiveDivergence(), None),
    "clamped chains": (steps(ebm.Adam(0.1), batch_size=16), HIDDEN, SAMPLED, 0.01),
    "natural gradient": (steps(NaturalGradient(0.5), 8), PAIRS, ebm.exact, None),
    "natural gradient, chains": (
        steps(NaturalGradient(0.2), 8),
        PAIRS,
        ebm.PersistentChains(200),
        0.01,
    ),
    "natural gradient, ties": (steps(NaturalGradient(0.2), 8), PAIRS, ebm.exact, TIED),
}


def begin(solver, model, average, penalty):
    """A loss that nothing was asked of, and where to begin."""
    penalty = ebm.Penalty(l2=penalty) if isinstance(penalty, float) else penalty or ebm.Penalty()
    loss = average if isinstance(average, ebm.Likelihood) else ebm.Likelihood(average)
    problem = loss.of(model, ebm.Ensemble.from_data(ROWS), penalty)
    if isinstance(solver, ebm.ProximalNewton):
        sparse = problem.sparse()
        return sparse.loss(penalty.l1), sparse.start()
    if isinstance(solver, ebm.GradientSteps):
        loss = SampledLikelihood.of(problem, solver)
    else:
        loss = problem._loss()
    return loss, loss.start()


def stops(solver, loss, theta, rng):
    """State and history after each step of a run."""
    state, history = solver.start(loss, theta, rng), []
    while True:
        record = solver.record(loss, state)
        history += [] if record is None else [record]
        yield state, tuple(history)
        if solver.verdict(loss, state, history):
            return
        state = solver.step(loss, state)


def laid_out(state):
    """All arrays of a state by name."""
    arrays = {}
    _checkpoints._pack(state, "state", arrays)
    return arrays


def check_same(run, state, history, reason):
    assert run.reason == reason
    assert repr(run.history) == repr(history)
    one, other = laid_out(run.state), laid_out(state)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("name", RUNS)
def test_stopped_at_any_step_a_run_ends_with_the_same_bits(name, tmp_path):
    solver, *problem = RUNS[name]
    loss, theta = begin(solver, *problem)
    stored = list(stops(solver, loss, theta, 7))
    state, history = stored[-1]
    reason = solver.verdict(loss, state, history)
    assert len(stored) > 3
    assert len(history) > 1
    check_same(iterate(solver, *begin(solver, *problem), rng=7), state, history, reason)
    for k, (stopped, so_far) in enumerate(stored):
        path = tmp_path / f"{k}.npz"
        _iterate._store(path, solver, loss, theta).write(stopped, so_far)
        # The random streams are those of the file, whatever seeds a fresh start.
        fresh = begin(solver, *problem)
        check_same(iterate(solver, *fresh, rng=k, checkpoint=path), state, history, reason)


@pytest.mark.parametrize(
    "name", ["Newton", "L-BFGS", "L-BFGS, short memory", "persistent chains, batches"]
)
def test_interrupted_in_any_average_a_fit_ends_with_the_same_bits(name, tmp_path):
    """Ctrl-C at any time, and :func:`ebm.fit` called again with the same checkpoint."""
    solver, model, average, penalty = RUNS[name]

    class Interrupted:
        """The average, stopped once."""

        follows_model = True

        def __init__(self, at):
            self.at, self.calls, self.route = at, 0, as_stateful(average)

        def __repr__(self):
            return repr(self.route)

        def start(self, model, data, rng):
            return self.route.start(model, data, rng)

        def step(self, model, batch, state):
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt
            return self.route.step(model, batch, state)

    def fit(at, checkpoint=None):
        # An average without a memory is a function.
        route = Interrupted(at)
        own = route if solver.draws else lambda model: route.step(model, None, ())[0]
        loss, rng = ebm.Likelihood(own), 7 if solver.draws else None
        settings = {"penalty": penalty, "solver": solver, "checkpoint": checkpoint, "rng": rng}
        return ebm.fit(model, ROWS, loss=loss, **settings), route.calls

    whole, calls = fit(0)
    assert calls > 4
    n_interrupted = 0
    for at in range(1, calls + 1):
        path = tmp_path / f"{at}.npz"
        try:
            stopped, _ = fit(at, path)
        except KeyboardInterrupt:
            # Before the first step and after the last there is nothing to give back.
            continue
        n_interrupted += stopped.message.startswith("interrupted")
        resumed, _ = fit(0, path)
        assert repr(resumed.history) == repr(whole.history)
        np.testing.assert_array_equal(resumed.model.parameters, whole.model.parameters)
        assert resumed.message == whole.message
    assert n_interrupted > 1


def test_a_run_of_another_solver_is_refused(tmp_path):
    path = tmp_path / "fit.npz"
    ebm.fit(PAIRS, ROWS, solver=ebm.Newton(), checkpoint=path)
    assert path.exists()
    for solver in (ebm.LBFGS(), ebm.GradientSteps()):
        with pytest.raises(ebm.EbmError, match="belongs to a run with another"):
            ebm.fit(PAIRS, ROWS, solver=solver, checkpoint=path)
    with pytest.raises(ebm.EbmError, match="another tolerance"):
        ebm.fit(PAIRS, ROWS, solver=ebm.Newton(tolerance=1e-5), checkpoint=path)
    for penalty in (ebm.Penalty(l2=0.1), ebm.Penalty(free=np.arange(10) != 3), TIED):
        with pytest.raises(ebm.EbmError, match="belongs to a run with another"):
            ebm.fit(PAIRS, ROWS, penalty=penalty, solver=ebm.Newton(), checkpoint=path)


def test_more_iterations_go_on_from_fewer(tmp_path):
    path = tmp_path / "fit.npz"
    with pytest.warns(ebm.errors.NotConvergedWarning):
        ebm.fit(PAIRS, ROWS, solver=ebm.Newton(max_iterations=2), checkpoint=path)
    resumed = ebm.fit(PAIRS, ROWS, solver=ebm.Newton(), checkpoint=path)
    whole = ebm.fit(PAIRS, ROWS, solver=ebm.Newton())
    np.testing.assert_array_equal(resumed.model.parameters, whole.model.parameters)
    assert resumed.history == whole.history
