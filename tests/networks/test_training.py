"""Minimization: the path of a hand-written loop, its records, early stopping, resuming."""

import math
import os
import signal

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import ebm.networks
from ebm.errors import (
    CodingError,
    DivergenceError,
    EbmError,
    FileFormatError,
    ModelError,
    ShapeError,
)
from ebm.networks import TrainingRecord, TrainingResult, initial_parameters
from ebm.networks.natural_gradient.relative_natural_gradient import RelativeNaturalGradient
from tests.networks.systems import minimize, softmax_mlp


def rows_of(n=23, e=3, m=3, seed=0):
    """Random rows whose labels depend on them, with noise; every class is there."""
    rng = np.random.default_rng(seed)
    z, teacher = rng.normal(0.3, 1, (n, e)), np.random.default_rng(99).normal(0, 1, (e, m))
    labels = (z @ teacher + rng.gumbel(size=(n, m))).argmax(1)
    labels[:m] = np.arange(m)
    return z, labels


def system(n_hidden=4, **settings):
    return softmax_mlp(*rows_of(), n_hidden, **settings)


def key_of(seed):
    return int(np.random.default_rng(seed).integers(2**63))


def orders_of(seed, n_epochs, n_rows, size):
    """The batches of a run, by its definition."""
    for epoch in range(n_epochs):
        order = np.random.default_rng([key_of(seed), epoch]).permutation(n_rows)
        yield from (order[k : k + size] for k in range(0, n_rows, size))


def by_hand(action, rows, theta, make, batches, weights=None):
    """θ after a loop that a user of torch would write."""
    z, labels = torch.from_numpy(rows[0]), torch.from_numpy(rows[1])
    w = torch.ones(len(z), dtype=torch.float64) if weights is None else torch.from_numpy(weights)
    w = w / w.mean()
    blocks = [torch.from_numpy(x.copy()).requires_grad_() for x in action.unflatten(theta)]
    U, c, W, b = blocks
    optimizer = make(blocks)
    for batch in batches:
        f = torch.nn.functional.silu(z[batch] @ W.T + b) @ U.T + c
        surprise = torch.nn.functional.cross_entropy(f, labels[batch], reduction="none")
        loss = (w[batch] * surprise).mean()
        squares = sum(x.square().sum() for x in blocks)
        loss = loss + 0.5 * action.prior_precision / action.scale * squares
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return action.flatten(*(x.detach().numpy() for x in blocks))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", [0.0, 0.8])
@pytest.mark.parametrize("size", [None, 5])
def test_the_path_is_that_of_a_loop_by_hand(size, precision, weighted):
    """To rounding, by name or by a function; the last batch of an epoch is smaller."""
    rows = rows_of()
    weights = np.random.default_rng(3).uniform(0.2, 2, 23) if weighted else None
    action = system(prior_precision=precision, scale=2.5, sample_weight=weights)
    theta = initial_parameters(action, 1)
    batches = list(orders_of(4, 3, 23, size or 23))
    wanted = by_hand(action, rows, theta, lambda x: torch.optim.Adam(x, lr=0.02), batches, weights)
    settings = {"n_epochs": 3, "batch_size": size, "rng": 4}
    result = minimize(action, theta, optimizer="adam", lr=0.02, **settings)
    np.testing.assert_allclose(result.theta, wanted, rtol=1e-10, atol=1e-13)
    assert result.n_steps == len(batches)
    other = minimize(
        action,
        theta,
        optimizer=lambda network: torch.optim.Adam(network.parameters()),
        lr=lambda step: 0.02,
        **settings,
    )
    np.testing.assert_array_equal(other.theta, result.theta)


@pytest.mark.parametrize("activation", ["tanh", "softplus", "formal_relu", "gelu"])
def test_a_step_follows_the_gradient_of_the_energy(activation):
    action = system(activation=activation, scale=3.0, prior_precision=0.4)
    theta = initial_parameters(action, 2)
    result = minimize(action, theta, optimizer="sgd", lr=0.1, n_epochs=1)
    slope = action.state_gradient(theta) / 3
    np.testing.assert_allclose(result.last_theta, theta - 0.1 * slope, rtol=1e-12, atol=1e-14)


def test_a_users_activation_of_a_known_name_is_not_replaced():
    own = ebm.networks.Activation("tanh", torch.sin, [0, 1, 0, -1])
    action = system(activation=own)
    theta = initial_parameters(action, 2)
    result = minimize(action, theta, optimizer="sgd", lr=0.1, n_epochs=1)
    wanted = theta - 0.1 * action.state_gradient(theta)
    np.testing.assert_allclose(result.last_theta, wanted, rtol=1e-12, atol=1e-14)


def test_records_say_what_they_say():
    """Each number against the action of the same rows, with all of them in the records."""
    action, held_out = system(), rows_of(17, seed=1)
    there = ebm.networks.SoftmaxMLPAction(*held_out, 4)
    states = []

    class Recorded(torch.optim.SGD):
        def step(self, closure=None):
            U, c = parts["logits"].weight, parts["logits"].bias
            W, b = parts["hidden"].weight, parts["hidden"].bias
            blocks = (x.detach().numpy().copy() for x in (U, c, W, b))
            states.append(action.flatten(*blocks))
            return super().step(closure)

    parts = {}

    def make(network):
        parts.update(network.named_children())
        return Recorded(network.parameters(), lr=0.3)

    result = minimize(
        action,
        optimizer=make,
        n_epochs=4,
        batch_size=8,
        validation=held_out,
        monitor_every=2,
        series_order=3,
        rng=5,
    )
    states.append(result.last_theta)
    assert result.curve("step").tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert result.curve("epoch").tolist() == [k / 3 for k in result.curve("step")]
    for before, record in zip((None, *result.history), result.history, strict=False):
        theta = states[record.step]
        here, other = action.state_gradient(theta), there.state_gradient(theta)
        product = here @ other
        cosine = product / np.linalg.norm(here) / np.linalg.norm(other)
        assert record.training_action == pytest.approx(float(action.action(theta)), rel=1e-12)
        assert record.validation_action == pytest.approx(float(there.action(theta)), rel=1e-12)
        assert record.gradient_product == pytest.approx(product, rel=1e-10)
        assert record.gradient_cosine == pytest.approx(cosine, rel=1e-10)
        assert record.learning_rate == 0.3
        U, c, W, b = action.unflatten(theta)
        for (z, labels), found in (
            (rows_of(), record.training_accuracy),
            (held_out, record.validation_accuracy),
        ):
            a = z @ W.T + b
            guess = (a / (1 + np.exp(-a)) @ U.T + c).argmax(1)
            assert found == pytest.approx((guess == labels).mean(), rel=1e-12)
        forms = ebm.networks.closed_forms(action, theta, 3)
        np.testing.assert_allclose(record.series, forms.coefficients, rtol=1e-10, atol=1e-14)
        assert record.terms == pytest.approx(dict(forms.terms), rel=1e-10, abs=1e-14)
        if before is None:
            assert math.isnan(record.update_product)
            assert math.isnan(record.batch_action)
        else:
            start = states[before.step]
            moved = there.state_gradient(start) @ (theta - start)
            assert record.update_product == pytest.approx(moved, rel=1e-10)
    assert result.curve("series").shape == (7, 4)
    with pytest.raises(ModelError, match="name must be one of step, epoch"):
        result.curve("loss")
    frame = result.to_frame()
    assert list(frame.index) == result.curve("step").tolist()
    for name in ("training_action", "validation_accuracy", "update_product"):
        np.testing.assert_array_equal(frame[name], result.curve(name))
    np.testing.assert_array_equal(frame[[f"series_{k}" for k in range(4)]], result.curve("series"))
    for term in result.history[0].terms:
        assert frame[term].tolist() == [record.terms[term] for record in result.history]


def test_batch_action_is_the_mean_over_the_batches():
    action = system()
    theta = initial_parameters(action, 1)
    result = minimize(action, theta, lr=0.0, optimizer="sgd", n_epochs=2, batch_size=23, rng=1)
    wanted = float(action.action(theta))
    np.testing.assert_allclose(result.curve("batch_action")[1:], wanted, rtol=1e-12)


def test_without_validation_rows_the_last_parameters_are_returned():
    result = minimize(system(), n_epochs=3, rng=1)
    np.testing.assert_array_equal(result.theta, result.last_theta)
    assert result.best_step == result.n_steps == 3
    assert np.isnan(result.curve("validation_action")).all()
    assert minimize(system(), n_epochs=3, monitor_every=0, rng=1).history == ()


@pytest.mark.parametrize(("name", "seed"), [("sgd", 0), ("sgd", 1), ("momentum", 1), ("adam", 1)])
def test_early_stopping_finds_the_minimum_of_the_validation_action(name, seed):
    """Eq 7 with a record at every step: the first upward update starts at a minimum of S_E."""
    action, held_out = system(n_hidden=12), rows_of(40, seed=10 + seed)
    rate = 0.01 if name == "adam" else 0.1
    settings = {"optimizer": name, "lr": rate, "validation": held_out, "rng": seed}
    stopped = minimize(action, n_epochs=900, patience=1, **settings)
    n = stopped.n_steps
    assert 10 < n < 900
    assert stopped.stopped_early
    assert "S_E no longer fell" in stopped.message
    upward = stopped.curve("update_product") >= 0
    assert upward.nonzero()[0].tolist() == [n]
    curve = stopped.curve("validation_action")
    # The last of the downward updates may go a little beyond the minimum.
    assert (np.diff(curve[: n - 1]) < 0).all()
    assert stopped.best_step == curve.argmin() >= n - 2
    there = ebm.networks.SoftmaxMLPAction(*held_out, 12)
    assert float(there.action(stopped.theta)) == pytest.approx(curve.min(), rel=1e-12)
    if name == "sgd":
        product = -rate * stopped.curve("gradient_product")[:-1]
        np.testing.assert_allclose(stopped.curve("update_product")[1:], product, rtol=1e-8)
        whole = minimize(action, n_epochs=n + 100, **settings)
        assert whole.best_step == stopped.best_step


def test_patience_counts_records_in_a_row():
    action, held_out = system(n_hidden=12), rows_of(40, seed=11)
    settings = {"lr": 0.05, "batch_size": 6, "validation": held_out, "rng": 3, "monitor_every": 1}
    result = minimize(action, n_epochs=200, patience=4, **settings)
    upward = result.curve("update_product") >= 0
    assert upward[-4:].all()
    runs = [upward[k : k + 4].all() for k in range(len(upward) - 4)]
    assert not any(runs)
    assert result.best_step == result.curve("validation_action").argmin()
    assert not np.array_equal(result.theta, result.last_theta)


DAMAGED = r"run\.pt is (no checkpoint of ebm|a damaged checkpoint)"


class Killed(BaseException):
    """What a kill is to the loop: nothing that it may catch."""


def killing(kind, at):
    """An optimizer that dies in the middle of an update, after so many of them."""

    class Dying(kind):
        count = 0

        def step(self, closure=None):
            if type(self).count == at:
                with torch.no_grad():
                    self.param_groups[0]["params"][0].add_(1)
                raise Killed
            type(self).count += 1
            return super().step(closure)

    # The settings of a run name its optimizer.
    Dying.__name__ = kind.__name__
    return Dying


MAKERS = {
    "adam": (torch.optim.Adam, lambda kind: lambda net: kind(net.parameters(), lr=0.05)),
    "momentum": (
        torch.optim.SGD,
        lambda kind: lambda net: kind(net.parameters(), lr=0.05, momentum=0.9, nesterov=True),
    ),
    "relative": (
        RelativeNaturalGradient,
        lambda kind: lambda net: kind(net, 0.05, period=3, decay=0.1),
    ),
}


@pytest.mark.parametrize("every", [3, 1])
@pytest.mark.parametrize("name", MAKERS)
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, name, every):
    """Parameters, best parameters and history, at the end of an epoch of 4 steps or inside."""
    kind, maker = MAKERS[name]
    settings = {
        "lr": None if name == "relative" else lambda step: 0.05 / (1 + step / 10),
        "n_epochs": 5,
        "batch_size": 6,
        "validation": rows_of(15, seed=2),
        "monitor_every": every,
        "series_order": 2,
        "rng": 8,
    }
    whole = minimize(system(), optimizer=maker(kind), **settings)
    path = tmp_path / "run.pt"
    settings |= {"checkpoint": path}
    for at in (0, 5, 6):
        with pytest.raises(Killed):
            minimize(system(), optimizer=maker(killing(kind, at)), **settings)
        assert path.exists()
    result = minimize(system(), optimizer=maker(kind), **settings)
    np.testing.assert_array_equal(result.theta, whole.theta)
    np.testing.assert_array_equal(result.last_theta, whole.last_theta)
    for mine, its in zip(result.history, whole.history, strict=True):
        assert repr(mine) == repr(its)
    again = minimize(system(), optimizer=maker(kind), **settings)
    np.testing.assert_array_equal(again.last_theta, whole.last_theta)
    longer = minimize(system(), optimizer=maker(kind), **{**settings, "n_epochs": 7})
    fresh = {**settings, "n_epochs": 7, "checkpoint": None}
    np.testing.assert_array_equal(
        longer.last_theta, minimize(system(), optimizer=maker(kind), **fresh).last_theta
    )


def test_a_run_that_stopped_early_stays_stopped(tmp_path):
    settings = {
        "lr": 0.02,
        "n_epochs": 900,
        "validation": rows_of(40, seed=11),
        "patience": 1,
        "rng": 1,
        "checkpoint": tmp_path / "run.pt",
    }
    first = minimize(system(12), **settings)
    with np.load(settings["checkpoint"]) as content:
        header = str(content["ebm_checkpoint"])
    # Nothing in it depends on the process that wrote it.
    assert "0x" not in header
    again = minimize(system(12), **settings)
    assert first.stopped_early
    assert again.stopped_early
    assert again.n_steps == first.n_steps
    np.testing.assert_array_equal(again.theta, first.theta)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"batch_size": 4}, "batch_size"),
        ({"optimizer": "sgd"}, "optimizer"),
        ({"lr": lambda step: 0.1 / (1 + step)}, "learning rate"),
        ({"rng": 2}, "start"),
        ({"theta": np.zeros(31)}, "start"),
        ({"validation": rows_of(9, seed=3)}, "validation"),
        ({"action": system(activation="tanh")}, "model"),
        ({"action": ebm.networks.SoftmaxMLPAction(*rows_of(seed=9), 4)}, "rows"),
        ({"action": ebm.networks.SoftmaxMLPAction(rows_of()[0], np.arange(23) % 3, 4)}, "rows"),
        ({"action": system(sample_weight=1 + np.arange(23.0))}, "rows"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, change, name):
    settings = {"action": system(), "lr": 0.1, "n_epochs": 1, "rng": 1}
    settings["checkpoint"] = tmp_path / "run.pt"
    minimize(**settings)
    with pytest.raises(EbmError, match=f"another {name}"):
        minimize(**{**settings, **change})


def test_a_checkpoint_with_a_wrong_bit_is_named(tmp_path):
    """It is not gone on from with other parameters."""
    path = tmp_path / "run.pt"
    minimize(system(), n_epochs=1, rng=1, checkpoint=path)
    with np.load(path) as stored:
        theta = stored["state.state.theta"].tobytes()
    content = bytearray(path.read_bytes())
    content[content.index(theta) + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=DAMAGED):
        minimize(system(), n_epochs=1, rng=1, checkpoint=path)


def test_a_checkpoint_that_cannot_be_written_is_named_before_any_step(tmp_path):
    steps = []
    settings = {"lr": lambda step: steps.append(step) or 0.1, "n_epochs": 3}
    (tmp_path / "file").touch()
    for path in (tmp_path / "no" / "run.pt", tmp_path / "file" / "run.pt"):
        with pytest.raises(FileNotFoundError, match="no such folder"):
            minimize(system(), checkpoint=path, **settings)
    with pytest.raises(EbmError, match="is a folder"):
        minimize(system(), checkpoint=tmp_path, **settings)
    assert minimize(system(), checkpoint=tmp_path / "run.pt", **settings).n_steps == 3
    assert [path.name for path in tmp_path.iterdir()] == ["file", "run.pt"]


def test_a_run_without_a_seed_keeps_its_rows(tmp_path):
    """Records before and after it is taken up are of the same rows; so is the rest of an epoch."""
    seen = []

    class Watching(torch.optim.SGD):
        def step(self, closure=None):
            seen.append(self.param_groups[0]["params"][1].grad.sum().item())
            if len(seen) == stop:
                raise Killed
            return super().step(closure)

    Watching.__name__ = "SGD"
    settings = {"optimizer": lambda net: Watching(net.parameters(), lr=0.0), "batch_size": 4}
    settings |= {"n_epochs": 1, "monitor_rows": 5, "monitor_every": 1}
    start = initial_parameters(system(), 1)
    stop = 4
    with pytest.raises(Killed):
        minimize(system(), start, checkpoint=tmp_path / "run.pt", **settings)
    stop = 0
    result = minimize(system(), start, checkpoint=tmp_path / "run.pt", **settings)
    assert len(set(result.curve("training_action"))) == 1
    # The batch that was cut off is the first one now.
    assert seen[3] == seen[4]


def test_a_schedule_may_end_with_its_run(tmp_path):
    """Checkpoints compare schedules no farther than they go."""
    rates = [0.1, 0.05, 0.02]
    settings = {"n_epochs": 3, "rng": 1, "checkpoint": tmp_path / "run.pt"}
    first = minimize(system(), lr=lambda step: rates[step], **settings)
    again = minimize(system(), lr=lambda step: rates[step], **settings)
    np.testing.assert_array_equal(again.theta, first.theta)
    with pytest.raises(EbmError, match="another learning rate"):
        minimize(system(), lr=lambda step: rates[-step], **settings)


@pytest.mark.parametrize("number", [np.float32, np.int64, torch.tensor, lambda x: np.array(x)])
def test_rates_are_numbers_of_any_type(number):
    wanted = minimize(system(), optimizer="sgd", lr=1, n_epochs=2, rng=1).theta
    for lr in (number(1), lambda step: number(1)):
        got = minimize(system(), optimizer="sgd", lr=lr, n_epochs=2, rng=1).theta
        np.testing.assert_array_equal(got, wanted)


def test_records_that_overflow_end_the_run():
    """Before they are stored as NaN; also where only the validation rows overflow."""
    action = system(dtype="float32")
    theta = initial_parameters(action, 1)
    z, labels = rows_of(9, seed=1)
    with pytest.raises(DivergenceError, match=r"diverged at step 0.*S_T is"):
        minimize(action, 1e30 * theta, n_epochs=1)
    with pytest.raises(DivergenceError, match=r"diverged at step 0.*S_E is"):
        minimize(action, 10 * theta, n_epochs=1, validation=(1e38 * z, labels))


def test_rows_without_weight_in_a_file_are_absent(tmp_path):
    """They stay in the file; batches, epochs and records do not see them."""
    z, labels = rows_of()
    file = np.memmap(tmp_path / "z", dtype=np.float64, mode="w+", shape=z.shape)
    file[:] = z
    weights = np.arange(23) % 3 != 1
    settings = {"n_hidden": 4, "sample_weight": weights}
    mapped = softmax_mlp(file, labels, **settings)
    stored = softmax_mlp(z, labels, **settings)
    run = {"n_epochs": 2, "batch_size": 4, "monitor_rows": 3, "rng": 5}
    got, wanted = minimize(mapped, **run), minimize(stored, **run)
    assert got.n_steps == wanted.n_steps
    np.testing.assert_allclose(got.theta, wanted.theta, rtol=1e-12)
    np.testing.assert_allclose(
        got.curve("training_action"), wanted.curve("training_action"), rtol=1e-12
    )


@pytest.mark.parametrize("content", [b"", b"no checkpoint", "cut", "other"])
def test_a_damaged_checkpoint_is_named(tmp_path, content):
    path = tmp_path / "run.pt"
    if content == "cut":
        minimize(system(), n_epochs=1, rng=1, checkpoint=path)
        content = path.read_bytes()[:-40]
    if content == "other":
        torch.save({"theta": torch.zeros(3)}, path)
    else:
        path.write_bytes(content)
    with pytest.raises(FileFormatError, match=DAMAGED):
        minimize(system(), n_epochs=1, rng=1, checkpoint=path)


def test_a_seed_tells_everything():
    settings = {"n_epochs": 2, "batch_size": 7, "validation": rows_of(30, seed=4)}
    settings |= {"monitor_rows": 11}
    first = minimize(system(), rng=6, **settings)
    torch.manual_seed(12)
    state = torch.get_rng_state()
    second = minimize(system(), rng=6, **settings)
    assert torch.equal(state, torch.get_rng_state())
    assert [repr(r) for r in first.history] == [repr(r) for r in second.history]
    np.testing.assert_array_equal(first.theta, second.theta)
    assert not np.array_equal(minimize(system(), rng=7, **settings).theta, first.theta)
    shared = np.random.default_rng(6)
    np.testing.assert_array_equal(minimize(system(), rng=shared, **settings).theta, first.theta)
    assert not np.array_equal(minimize(system(), rng=shared, **settings).theta, first.theta)


def test_records_are_made_of_some_rows():
    """A subset of both sides, the same at every record."""
    action, held_out = system(), rows_of(30, seed=4)
    few = minimize(action, n_epochs=2, lr=0.0, validation=held_out, monitor_rows=5, rng=1)
    every = minimize(action, n_epochs=2, lr=0.0, validation=held_out, rng=1)
    for name in ("training_action", "validation_action"):
        assert len(set(few.curve(name))) == 1
        assert few.curve(name)[0] != every.curve(name)[0]
    assert 5 * few.history[0].training_accuracy == pytest.approx(
        round(5 * few.history[0].training_accuracy)
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_names_the_step_and_the_learning_rate():
    action = system(activation="formal_relu")
    theta = initial_parameters(action, 1)
    with pytest.raises(DivergenceError, match=r"step \d+, with learning rate 1e\+60") as caught:
        minimize(action, theta, optimizer="sgd", lr=1e60, n_epochs=30)
    assert 1 < caught.value.update < 10
    assert caught.value.parameter in "UcWb"
    assert np.isfinite(caught.value.model).all()

    relative = {"optimizer": lambda net: RelativeNaturalGradient(net, 1e200, damping=0.0)}
    with pytest.raises(DivergenceError, match=r"step \d+, with learning rate 1e\+200"):
        minimize(system(), n_epochs=30, rng=1, **relative)

    def late(step):
        return math.inf if step == 3 else 0.1

    with pytest.raises(ModelError, match=r"lr must be a finite number .* inf at step 3"):
        minimize(action, theta, optimizer="sgd", lr=late, n_epochs=30)


def test_a_bad_update_is_seen_at_once():
    """A NaN that the loss has not met yet."""

    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            self.n = getattr(self, "n", 0) + 1
            if self.n == 3:
                with torch.no_grad():
                    self.param_groups[0]["params"][0][1, 1] = math.nan

    with pytest.raises(DivergenceError, match=r"step 3, with learning rate 0\.25: W is not fin"):
        minimize(
            system(), optimizer=lambda net: Broken(net.parameters(), lr=0.25), n_epochs=9, rng=1
        )


def test_lbfgs_goes_to_the_minimum():
    action = system(prior_precision=0.05)
    result = minimize(action, optimizer="lbfgs", n_epochs=60, rng=1)
    assert abs(action.state_gradient(result.theta)).max() < 1e-5


def test_relative_natural_gradient_learns_with_several_blocks(monkeypatch):
    """Full batches in blocks of rows: the same path as in one block."""
    from ebm.networks.action import _energy as action_module

    settings = {"optimizer": lambda net: RelativeNaturalGradient(net, 0.2, period=2), "rng": 2}
    action = system(activation="tanh")
    whole = minimize(action, n_epochs=6, **settings)
    monkeypatch.setattr(action_module, "BLOCK_BYTES", 8 * 4 * 5)
    parts = minimize(action, n_epochs=6, **settings)
    np.testing.assert_allclose(parts.theta, whole.theta, rtol=1e-9)
    for name in ("training_action", "training_accuracy", "batch_action"):
        np.testing.assert_allclose(parts.curve(name), whole.curve(name), rtol=1e-9)
    assert whole.history[-1].training_action < whole.history[0].training_action


def test_streamed_rows(tmp_path):
    """A memory map is shuffled like rows in memory; a DataLoader keeps its order."""
    z, labels = rows_of()
    np.save(tmp_path / "z.npy", z)
    stored = np.load(tmp_path / "z.npy", mmap_mode="r")
    settings = {"n_epochs": 2, "batch_size": 5, "rng": 4, "validation": rows_of(9, seed=1)}
    settings |= {"monitor_rows": 8}
    plain = minimize(system(), **settings)
    mapped = minimize(ebm.networks.SoftmaxMLPAction(stored, labels, 4), **settings)
    np.testing.assert_array_equal(mapped.theta, plain.theta)
    data = torch.utils.data.TensorDataset(torch.from_numpy(z), torch.from_numpy(labels))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    action = ebm.networks.SoftmaxMLPAction(loader, None, 4)
    theta = initial_parameters(action, 1)
    result = minimize(action, theta, optimizer="sgd", lr=0.3, **settings)
    order = [np.arange(*ends) for ends in [(0, 5), (5, 8), (8, 13), (13, 16), (16, 21), (21, 23)]]
    wanted = by_hand(action, rows_of(), theta, lambda x: torch.optim.SGD(x, lr=0.3), order + order)
    np.testing.assert_allclose(result.last_theta, wanted, rtol=1e-10, atol=1e-13)
    settings |= {"checkpoint": tmp_path / "run.pt"}
    dying = MAKERS["adam"][1](killing(torch.optim.Adam, 5))
    with pytest.raises(Killed):
        minimize(action, theta, optimizer=dying, **settings)
    resumed = minimize(action, theta, optimizer=MAKERS["adam"][1](torch.optim.Adam), **settings)
    settings |= {"checkpoint": None}
    fresh = minimize(action, theta, optimizer=MAKERS["adam"][1](torch.optim.Adam), **settings)
    np.testing.assert_array_equal(resumed.last_theta, fresh.last_theta)
    assert result.history[0].training_action == pytest.approx(
        minimize(system(), theta, **settings).history[0].training_action, rel=1e-12
    )


def test_tensors_come_back_as_tensors_of_the_dtype():
    action = system(dtype="float32")
    theta = torch.from_numpy(initial_parameters(action, 3)).float()
    kept = theta.clone()
    result = minimize(action, theta, n_epochs=3, rng=1)
    assert result.theta.dtype == torch.float32
    assert not result.theta.requires_grad
    assert torch.equal(theta, kept)
    double = minimize(system(), theta.numpy(), n_epochs=3, rng=1)
    assert isinstance(double.theta, np.ndarray)
    np.testing.assert_allclose(result.theta.numpy(), double.theta, atol=1e-5)
    rough = minimize(action, theta, n_epochs=3, rng=1, mixed_precision=True)
    difference = (rough.theta - result.theta).abs().max()
    assert 0 < difference < 0.05
    with torch.no_grad():
        np.testing.assert_array_equal(
            minimize(action, theta, n_epochs=3, rng=1).theta, result.theta
        )


def test_steps_of_lbfgs_never_go_up():
    """Its line search is the one with the strong Wolfe conditions."""
    action = system(n_hidden=12)
    settings = {"n_epochs": 20, "rng": 2, "lr": 1.0}
    result = minimize(action, optimizer="lbfgs", **settings)
    assert (np.diff(result.curve("training_action")) <= 0).all()
    wanted = minimize(
        action,
        optimizer=lambda net: torch.optim.LBFGS(net.parameters(), line_search_fn="strong_wolfe"),
        **settings,
    )
    np.testing.assert_array_equal(result.theta, wanted.theta)


def test_an_interrupt_leaves_a_result():
    class Interrupted(torch.optim.SGD):
        def step(self, closure=None):
            self.n = getattr(self, "n", 0) + 1
            if self.n == 4:
                raise KeyboardInterrupt
            return super().step(closure)

    result = minimize(
        system(), optimizer=lambda net: Interrupted(net.parameters(), lr=0.1), n_epochs=9, rng=1
    )
    assert result.message.startswith("interrupted after 3 steps")
    assert result.n_steps == 3
    assert np.isfinite(result.theta).all()


def test_an_interrupted_line_search_leaves_the_parameters_before_it():
    class Interrupted(torch.optim.LBFGS):
        def step(self, closure):
            self.n = getattr(self, "n", 0) + 1
            if self.n == 3:
                with torch.no_grad():
                    self.param_groups[0]["params"][0].fill_(1e9)
                raise KeyboardInterrupt
            return super().step(closure)

    settings = {"n_epochs": 2, "rng": 1}
    wanted = minimize(
        system(), optimizer=lambda net: torch.optim.LBFGS(net.parameters()), **settings
    )
    result = minimize(
        system(),
        optimizer=lambda net: Interrupted(net.parameters()),
        **{**settings, "n_epochs": 9},
    )
    assert result.n_steps == 2
    np.testing.assert_array_equal(result.theta, wanted.theta)


def test_a_bar_is_shown_when_asked_for(capsys):
    pytest.importorskip("tqdm")
    minimize(system(), n_epochs=2, rng=1, progress=True, validation=rows_of(9, seed=1))
    shown = capsys.readouterr().err
    assert "2/2" in shown
    assert "S_E=" in shown
    minimize(system(), n_epochs=2, rng=1)
    assert capsys.readouterr().err == ""


def of_another_network(network):
    """An optimizer that would change nothing here."""
    return torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"theta": np.zeros(4)}, ShapeError, "theta must have shape"),
        ({"theta": np.zeros((2, 31))}, ShapeError, "theta must be one vector"),
        ({"optimizer": "adm"}, ModelError, "optimizer must be one of adam"),
        ({"optimizer": lambda network: network}, ModelError, "it gave Sequential"),
        ({"optimizer": 3}, ModelError, "got int"),
        ({"optimizer": torch.optim.SGD}, ModelError, "got the class SGD"),
        (
            {"optimizer": of_another_network},
            ModelError,
            "parameters that are not those of the network",
        ),
        ({"lr": -0.1}, ModelError, "lr must be a finite number"),
        ({"lr": "0.1"}, ModelError, "lr must hold numbers, got text"),
        ({"lr": [0.1, 0.2]}, ShapeError, "lr must be one number"),
        ({"n_epochs": -1}, ShapeError, "n_epochs must be"),
        ({"batch_size": 0}, ShapeError, "batch_size must be"),
        ({"monitor_every": -1}, ShapeError, "every must be"),
        ({"monitor_rows": 0}, ShapeError, "n_rows must be"),
        ({"patience": 1}, ModelError, "patience needs validation"),
        ({"mixed_precision": True}, ModelError, "mixed_precision needs"),
        ({"validation": 3}, ModelError, "validation must be a pair"),
        ({"validation": rows_of(e=2)}, ShapeError, "validation inputs must have 3 columns, got 2"),
        ({"validation": rows_of(m=4)}, CodingError, "validation labels must be integers"),
    ],
)
def test_bad_settings_are_named(settings, error, match):
    with pytest.raises(error, match=match):
        minimize(**{"action": system(), **settings})


def test_a_compiled_network_takes_the_same_steps(monkeypatch):
    """What ``torch.compile`` gives back is what runs, on the parameters that are trained."""
    seen = []

    def compile_(network):
        def run(inputs):
            seen.append(len(inputs))
            return network(inputs)

        return run

    monkeypatch.setattr(torch, "compile", compile_)
    action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], 2)
    settings = {"n_epochs": 3, "batch_size": 2, "monitor_every": 0, "rng": 1}
    plain, compiled = (minimize(action, compiled=c, **settings) for c in (False, True))
    assert seen == [2, 1] * 3
    np.testing.assert_array_equal(plain.theta, compiled.theta)


MUON = getattr(torch.optim, "Muon", None)
TORCH_OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.02),
    "lbfgs": lambda p: torch.optim.LBFGS(p, max_iter=3, line_search_fn="strong_wolfe"),
}
if MUON is not None:
    TORCH_OPTIMIZERS["muon"] = lambda p: MUON([q for q in p if q.ndim == 2], lr=0.02)


@pytest.mark.parametrize("name", TORCH_OPTIMIZERS)
def test_any_optimizer_goes_on_from_any_step_to_the_same_bits(tmp_path, name):
    """torch's tensors change in place, and are copied on the way in and out."""
    make = TORCH_OPTIMIZERS[name]
    settings = {"optimizer": lambda network: make(list(network.parameters())), "rng": 3}
    settings |= {"validation": rows_of(9, seed=1), "monitor_every": 1}
    whole = minimize(system(), n_epochs=7, **settings)
    for step in range(7):
        path = tmp_path / f"{step}.npz"
        assert minimize(system(), n_epochs=step, checkpoint=path, **settings).n_steps == step
        rest = minimize(system(), n_epochs=7, checkpoint=path, **settings)
        np.testing.assert_array_equal(rest.last_theta, whole.last_theta)
        np.testing.assert_array_equal(rest.theta, whole.theta)
        assert [repr(x) for x in rest.history] == [repr(x) for x in whole.history]


def test_ctrl_c_waits_for_an_update_to_be_whole():
    """Other than a line search, which is taken back, an update is made to its end."""

    class Interrupted(torch.optim.SGD):
        def step(self, closure=None):
            os.kill(os.getpid(), signal.SIGINT)
            return super().step(closure)

    def make(network):
        return Interrupted(network.parameters(), lr=0.1)

    result = minimize(system(), optimizer=make, n_epochs=9, rng=1)
    assert result.n_steps == 1
    wanted = minimize(system(), optimizer="sgd", lr=0.1, n_epochs=1, rng=1)
    np.testing.assert_array_equal(result.last_theta, wanted.last_theta)


@pytest.mark.parametrize("validation", [(math.nan, math.nan), (2.0, 1.5)])
def test_a_training_draws_the_actions_that_were_measured(validation):
    history = tuple(
        TrainingRecord(step, training_action=1.0 - step / 10, validation_action=action)
        for step, action in zip((0, 5), validation, strict=True)
    )
    result = TrainingResult(None, None, "", False, 5, 5, history)
    ax = result.plot()
    drawn = {line.get_label(): list(line.get_ydata()) for line in ax.lines}
    expected = {"training rows": [1.0, 0.5]}
    if not math.isnan(validation[0]):
        expected["validation rows"] = list(validation)
    assert drawn == expected
    assert list(ax.lines[0].get_xdata()) == [0, 5]
    assert ax.get_xlabel() == "step"
    assert (ax.get_legend() is None) == (len(expected) == 1)
    with pytest.raises(EbmError, match="quantity must be one of epoch, learning_rate"):
        result.plot("series")
    with pytest.raises(EbmError, match=r"history of result is empty.*Records\(every=0\)"):
        TrainingResult(None, None, "", False, 5, 5).plot()
