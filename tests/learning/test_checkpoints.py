"""What is stopped goes on as if it had not, or says why it cannot."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cached_property, partial

import numpy as np
import pytest
from scipy.sparse import coo_array

import ebm
from ebm._checkpoints import _digest_of, fingerprint
from ebm.errors import EbmError, FileFormatError
from ebm.learning import Decay
from tests.learning.stepping import fit

ROWS = (np.random.default_rng(0).random((70, 6)) < 0.4).astype(np.int8)


class Stopping:
    """A constant rate that raises once, in the middle of an epoch."""

    def __init__(self, at, error):
        self.at, self.error = at, error

    def __call__(self, update):
        if update == self.at:
            self.at = None
            raise self.error
        return 0.05


def start(seed=0):
    return ebm.RestrictedBoltzmannMachine.for_data(ROWS, 3, rng=seed)


def train(model=None, rows=ROWS, **changes):
    settings = {
        "average": ebm.PersistentChains(20),
        "optimizer": ebm.GradientDescent(lambda update: 0.05, momentum=0.5),
        "batch_size": 30,
        "n_epochs": 6,
        "l2": 1e-3,
        "rng": 7,
    } | changes
    return fit(start() if model is None else model, rows, **settings)


def write_signed(path, arrays):
    """Write the arrays of a checkpoint after an edit, as a run in which they are so would."""
    header = json.loads(str(arrays["ebm_checkpoint"]))
    of_state = {name: array for name, array in arrays.items() if name.startswith("state")}
    header["digest"] = _digest_of(header["settings"], of_state)
    np.savez(path, **of_state | {"ebm_checkpoint": np.array(json.dumps(header))})


def check_same(first, second):
    assert np.array_equal(first.model.parameters, second.model.parameters)
    assert repr(first.history) == repr(second.history)
    assert first.message == second.message
    for one, other in zip(first.ensemble.blocks(), second.ensemble.blocks(), strict=True):
        assert np.array_equal(one[0], other[0])


@pytest.mark.parametrize(
    "average", [ebm.PersistentChains(20), ebm.ContrastiveDivergence(2), ebm.exact]
)
@pytest.mark.parametrize("kind", [ebm.GradientDescent, ebm.Adam])
def test_resume_equals_the_uninterrupted_run(tmp_path, average, kind):
    path = tmp_path / "run.npz"
    with pytest.raises(RuntimeError, match="stop"):
        train(average=average, optimizer=kind(Stopping(11, RuntimeError("stop"))), checkpoint=path)
    resumed = train(average=average, optimizer=kind(lambda t: 0.05), checkpoint=path, rng=None)
    whole = train(average=average, optimizer=kind(lambda t: 0.05))
    assert len(resumed.history) == 6
    check_same(resumed, whole)


def test_pairwise_models_resume_too(tmp_path):
    path = tmp_path / "run.npz"
    family = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6))
    settings = {"batch_size": None, "optimizer": None, "rng": 3}
    train(family, n_epochs=10, checkpoint=path, **settings)
    resumed = train(family, n_epochs=40, checkpoint=path, **settings)
    check_same(resumed, train(family, n_epochs=40, **settings))
    # A run that is complete is read, not made again.
    check_same(resumed, train(family, n_epochs=40, checkpoint=path, **settings))


def test_interrupt_gives_the_last_model(tmp_path):
    stopping = ebm.GradientDescent(Stopping(11, KeyboardInterrupt()), momentum=0.5)
    result = train(optimizer=stopping)
    assert result.message.startswith("interrupted after 3 epochs, 11 updates")
    assert not result.converged
    by_three = train(n_epochs=3)
    assert result.history == by_three.history
    assert not np.array_equal(result.model.parameters, by_three.model.parameters)


def test_interrupt_before_anything_gives_the_start():
    result = train(optimizer=ebm.GradientDescent(Stopping(0, KeyboardInterrupt())))
    assert np.array_equal(result.model.parameters, start().parameters)
    assert result.history == ()
    assert "interrupted after 0 epochs" in result.message
    assert "FitResult" in repr(result)


CHANGES = [
    ({"model": start(1)}, "start"),
    ({"model": ebm.RestrictedBoltzmannMachine.for_data(ROWS, 4, rng=0)}, "number of parameters"),
    ({"model": ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6))}, "model"),
    ({"rows": 1 - ROWS}, "data"),
    ({"validation": 1 - ROWS[:20]}, "validation"),
    ({"average": ebm.PersistentChains(21)}, "average"),
    ({"average": ebm.exact}, "average"),
    ({"optimizer": ebm.Adam(0.05)}, "optimizer"),
    ({"optimizer": ebm.GradientDescent(Decay(0.05, 10), momentum=0.5)}, "optimizer"),
    ({"batch_size": 20}, "batch_size"),
    ({"l2": 0.0}, "l2"),
    ({"l2_biases": 0.1}, "l2_biases"),
    ({"l1": 0.1}, "l1"),
    ({"centering": False}, "centering"),
]


@pytest.mark.parametrize(("change", "name"), CHANGES)
def test_a_checkpoint_of_another_fit_is_refused_by_name(tmp_path, change, name):
    path = tmp_path / "run.npz"
    train(n_epochs=1, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(EbmError, match=f"belongs to a run with another {name}: "):
        train(n_epochs=2, checkpoint=path, **change)
    assert path.read_bytes() == before


def test_differences_are_said_in_words(tmp_path):
    """Digests say nothing; other settings are shown."""
    path = tmp_path / "run.npz"
    train(n_epochs=1, checkpoint=path, validation=ROWS[:9])
    for change, words in (
        ({"rows": 1 - ROWS}, "the rows, their order or their weights differ; give"),
        ({"validation": ROWS[:8]}, "the validation rows differ, or only one"),
        ({"validation": None}, "the validation rows differ, or only one"),
        ({"model": start(1)}, "the parameters or centers of the model at the start differ"),
        ({"l2": 0.5}, "0.001 there, 0.5 here"),
    ):
        with pytest.raises(EbmError, match=words):
            train(**{"checkpoint": path, "validation": ROWS[:9]} | change)


def test_fewer_epochs_than_the_checkpoint_are_said(tmp_path):
    path = tmp_path / "run.npz"
    first = train(n_epochs=4, checkpoint=path)
    second = train(n_epochs=2, checkpoint=path)
    assert "the checkpoint is 4 epochs on, n_epochs = 2 is less" in second.message
    assert np.array_equal(first.model.parameters, second.model.parameters)
    assert train(n_epochs=4, checkpoint=path).message == first.message


@pytest.mark.parametrize("value", ["", 3, b"", ["run.npz"]])
def test_a_checkpoint_is_a_path(value):
    with pytest.raises(EbmError, match="checkpoint must be the path of a file, got"):
        train(checkpoint=value)


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(EbmError, match=r"is a folder: give a file in it, such as .*fit\.npz"):
        train(checkpoint=tmp_path)


def test_files_that_are_no_checkpoints_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    ebm.save(start(), path)
    with pytest.raises(FileFormatError, match="is no checkpoint"):
        train(checkpoint=path)
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="is no checkpoint"):
        train(checkpoint=path)
    path = tmp_path / "run.npz"
    train(n_epochs=1, checkpoint=path)
    with np.load(path) as archive:
        arrays = dict(archive)
    del arrays["state.state.theta"]
    np.savez(path, **arrays)
    with pytest.raises(FileFormatError, match="damaged checkpoint"):
        train(checkpoint=path)
    header = json.loads(str(arrays["ebm_checkpoint"])) | {"format_version": 99}
    np.savez(path, **arrays | {"ebm_checkpoint": np.array(json.dumps(header))})
    with pytest.raises(FileFormatError, match="format version 99"):
        train(checkpoint=path)


def test_a_missing_folder_is_an_error_before_long(tmp_path):
    with pytest.raises(FileNotFoundError):
        train(checkpoint=tmp_path / "none" / "run.npz")


class Opaque:
    """A route whose state no file can hold."""

    def start(self, model, data, rng):
        return object()

    def step(self, model, batch, state):
        return ebm.exact(model), state


def test_a_route_of_ones_own_needs_arrays(tmp_path):
    with pytest.raises(EbmError, match=r"state\.state\.chains is a object"):
        train(average=Opaque(), checkpoint=tmp_path / "run.npz")
    assert train(average=Opaque(), n_epochs=1).model is not None


SCRIPT = """
import sys
import numpy as np
import ebm
rows = (np.random.default_rng(0).random((70, 6)) < 0.4).astype(np.int8)
start = ebm.RestrictedBoltzmannMachine.for_data(rows, 3, rng=0)
steps = ebm.GradientSteps(ebm.GradientDescent(0.05), batch_size=30, n_epochs=10**6)
chains = ebm.Likelihood(ebm.PersistentChains(20))
ebm.fit(start, rows, loss=chains, solver=steps, rng=7, checkpoint=sys.argv[1])
"""


def test_a_killed_run_leaves_a_whole_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)]) as process:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGKILL)
    with np.load(path) as archive:
        done = len(archive["state.history"])
    settings = {"optimizer": ebm.GradientDescent(0.05), "l2": 0.0, "n_epochs": done + 2}
    check_same(train(checkpoint=path, **settings), train(**settings))


class Momentum:
    """An optimizer of one's own, whose state starts as a number and becomes an array."""

    def __init__(self, rate):
        self.rate = rate

    def start(self, theta):
        return {"velocity": 0, "half_steps": 0}

    def step(self, gradient, state):
        velocity = 0.5 * state["velocity"] + gradient
        half_steps = state["half_steps"] + 0.5
        move = -self.rate * (1 + half_steps) * velocity
        return move, {"velocity": velocity, "half_steps": half_steps}


def test_an_optimizer_of_ones_own_goes_on_in_another_object(tmp_path):
    path = tmp_path / "run.npz"
    train(optimizer=Momentum(0.01), n_epochs=3, checkpoint=path)
    resumed = train(optimizer=Momentum(0.01), n_epochs=7, checkpoint=path)
    check_same(resumed, train(optimizer=Momentum(0.01), n_epochs=7))
    with pytest.raises(EbmError, match=r"another optimizer: Momentum\(rate=0.01\) there, Mom"):
        train(optimizer=Momentum(0.02), n_epochs=9, checkpoint=path)


def test_rows_of_other_frequencies_are_other_data(tmp_path):
    """The same distinct rows, as many in all."""
    start = ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2))
    once, twice = [[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [1, 1]]
    how = {"solver": ebm.GradientSteps(n_epochs=1), "checkpoint": tmp_path / "run.npz"}
    ebm.fit(start, once * 3 + twice, **how)
    for rows in (once * 3 + [[0, 0]] * 2, 2 * (once * 3 + twice)):
        with pytest.raises(EbmError, match="another data"):
            ebm.fit(start, rows, **how)


def test_a_history_that_is_no_table_is_damage(tmp_path):
    path = tmp_path / "run.npz"
    train(n_epochs=1, checkpoint=path)
    arrays = dict(np.load(path))
    write_signed(path, arrays | {"state.history": np.array("x")})
    with pytest.raises(FileFormatError, match="damaged checkpoint"):
        train(checkpoint=path)


def test_functions_without_a_name_are_told_apart():
    one, same, other = lambda d: d + 1, lambda d: d + 1, lambda d: d + 2
    assert fingerprint(one) == fingerprint(same) != fingerprint(other)
    assert fingerprint(partial(max, 1)) != fingerprint(partial(max, 2))
    assert fingerprint(partial(max, key=abs)) != fingerprint(partial(max))


class Estimator:
    """A function with a setting, that keeps what it found."""

    def __init__(self, strength):
        self.strength, self.inner = strength, {"strengths": [np.array([strength])]}

    def __call__(self, rows):
        return self.strength * rows

    def estimate(self, rows):
        return self(rows)

    @cached_property
    def slow(self):
        return self.strength


class Around:
    def __init__(self, inner):
        self.inner = inner


def named(strength):
    def estimate(rows):
        return strength * rows

    return estimate


def named_by_default(strength):
    def estimate(rows, *, strength=strength):
        return strength * rows

    return estimate


@pytest.mark.parametrize(
    "made",
    [
        named,
        named_by_default,
        Estimator,
        lambda strength: lambda rows: strength * rows,
        lambda strength: lambda rows, strength=strength: strength * rows,
        lambda strength: Estimator(strength).estimate,
        lambda strength: partial(Estimator.__call__, Estimator(strength)),
        lambda strength: Around(Around(Estimator(strength))),
        lambda strength: Around(ebm.IsingModel(np.zeros((1, 1)), [strength])),
        lambda strength: named(coo_array([[strength]])),
        lambda strength: named({"l2": [strength, "text", np.array([None, strength])]}),
    ],
)
def test_settings_are_told_apart_wherever_a_function_or_an_object_has_them(made):
    assert fingerprint(made(1.0)) == fingerprint(made(1.0)) != fingerprint(made(2.0))
    assert "0x" not in fingerprint(made(1.0))


def test_what_is_computed_later_and_what_holds_itself_are_told_as_before():
    fresh, used, loop = Estimator(1.0), Estimator(1.0), Around(None)
    assert used.slow == 1
    assert fingerprint(fresh) == fingerprint(used)
    loop.inner = [loop, np.random.default_rng(0), lambda: loop]
    assert "0x" not in fingerprint(loop)
    assert fingerprint(named(np)) == fingerprint(named(np))


def sparse_ring(pairs, fields=5):
    """Two couplings of zero, at given pairs."""
    i, j = np.array(pairs).T
    stored = coo_array((np.ones(2), (i, j)), (fields, fields))
    model = ebm.IsingModel(stored + stored.T, np.zeros(fields))
    return model.with_parameters(np.zeros(len(model.parameters)))


class Rule(ebm.ParametricModel):
    """E = θ x_k."""

    space = ebm.Spins(5)
    parameters = None

    def __init__(self, k, theta=(0.0,)):
        self.k, self.parameters = k, np.array(theta, dtype=float)

    def with_parameters(self, theta):
        return Rule(self.k, theta)

    def energy(self, states):
        return self.parameters[0] * np.asarray(states, dtype=float)[..., self.k]

    def energy_gradient(self, states):
        return np.asarray(states, dtype=float)[..., self.k : self.k + 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sparse_ring([(0, 1), (2, 3)]), sparse_ring([(0, 2), (1, 3)])),
        (Rule(1), Rule(2)),
    ],
)
@pytest.mark.parametrize("how", ["exact", "chains"])
def test_models_of_equal_parameters_and_another_rule_are_told_apart(one, other, how, tmp_path):
    rows = np.random.default_rng(0).choice([-1, 1], (60, 5))
    settings = {"checkpoint": tmp_path / "run.npz"}
    if how == "chains":
        loss = ebm.Likelihood(ebm.PersistentChains(10))
        settings |= {"loss": loss, "solver": ebm.GradientSteps(n_epochs=2), "rng": 1}
    first = ebm.fit(one, rows, **settings)
    again = ebm.fit(one, rows, **settings)
    np.testing.assert_array_equal(first.model.parameters, again.model.parameters)
    with pytest.raises(EbmError, match="another energy function"):
        ebm.fit(other, rows, **settings)


PAIRS = ebm.BoltzmannMachine(np.zeros((6, 6)), np.zeros(6))
SOLVERS = {
    "Newton": lambda n: {"solver": ebm.Newton(max_iterations=n)},
    "L-BFGS": lambda n: {"solver": ebm.LBFGS(max_iterations=n)},
    "truncated Newton": lambda n: {
        "solver": ebm.inversion.TruncatedNewton(max_iterations=n),
        "loss": ebm.inversion.Pseudolikelihood(),
    },
    "gradient steps": lambda n: {
        "solver": ebm.GradientSteps(ebm.GradientDescent(0.1, momentum=0.5), n, batch_size=30),
        "loss": ebm.Likelihood(ebm.PersistentChains(20)),
        "rng": 0,
    },
}


@pytest.mark.filterwarnings("ignore::ebm.errors.EbmWarning")
@pytest.mark.parametrize("edit", ["shorter", "one axis more", "none"])
@pytest.mark.parametrize("name", SOLVERS)
def test_an_array_of_another_shape_is_named_with_its_file(name, edit, tmp_path):
    path = tmp_path / "run.npz"
    ebm.fit(PAIRS, ROWS, checkpoint=path, **SOLVERS[name](2))
    whole = dict(np.load(path))
    for field, array in whole.items():
        # What is empty at the start has no shape to be held to.
        is_open = edit != "none" and field.endswith((".order", ".center"))
        has_length = array.ndim and array.shape[-1] > 1
        # numpy 2.0 writes the keyword of savez as an array of the file.
        is_no_state = field in {"ebm_checkpoint", "allow_pickle"}
        if is_no_state or is_open or (edit == "shorter" and not has_length):
            continue
        edited = {name: x for name, x in whole.items() if name != field}
        if edit != "none":
            edited[field] = array[..., :-1] if edit == "shorter" else array[None]
        write_signed(path, edited)
        name_of_field = field.removeprefix("state.").removeprefix("state.")
        with pytest.raises(FileFormatError, match=rf"run\.npz is a damaged.*{name_of_field}"):
            ebm.fit(PAIRS, ROWS, checkpoint=path, **SOLVERS[name](3))


def test_an_edited_file_of_resamples_is_named(tmp_path):
    path = tmp_path / "answers"

    def again():
        ebm.inversion.bootstrap(ebm.inversion.tap, ROWS, n_resamples=3, rng=0, checkpoint=path)

    again()
    file = path / "000001.npz"
    whole = dict(np.load(file))
    for edited in (
        whole | {"state.parameters": whole["state.parameters"][:-1]},
        whole | {"state.parameters": whole["state.parameters"] + 1e-9},
        {name: array for name, array in whole.items() if name != "state.parameters"},
    ):
        np.savez(file, **edited)
        with pytest.raises(FileFormatError, match=r"000001\.npz is a damaged checkpoint"):
            again()
