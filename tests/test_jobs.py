"""Jobs that do not depend on each other: in order, anywhere, once each, stopped as a whole."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from ebm._iterate import iterate
from ebm._jobs import is_inner, loop, run_jobs
from ebm.errors import EbmError, FileFormatError


def draws(seed):
    """An answer that its input alone decides."""
    rng = np.random.default_rng(seed)
    return {"values": rng.normal(size=3), "seed": np.array(seed)}


def check(answers, seeds):
    assert len(answers) == len(seeds)
    for answer, seed in zip(answers, seeds, strict=True):
        assert answer["seed"] == seed
        np.testing.assert_array_equal(answer["values"], draws(seed)["values"])


class Counted:
    """The same, counting its calls, that stops at one of them."""

    def __init__(self, stop=None, error=KeyboardInterrupt):
        self.seen, self.stop, self.error = [], stop, error

    def __call__(self, seed):
        if len(self.seen) == self.stop:
            raise self.error
        self.seen.append(seed)
        return draws(seed)


SEEDS = [5, 3, 9, 3, 0, 7]


@pytest.mark.parametrize("kind", [None, ThreadPoolExecutor, ProcessPoolExecutor])
def test_answers_come_in_the_order_of_the_inputs_wherever_they_are_made(kind, tmp_path):
    path = tmp_path / "jobs.npz"
    if kind is None:
        check(run_jobs(draws, SEEDS, checkpoint=path), SEEDS)
    else:
        with kind(2) as executor:
            check(run_jobs(draws, SEEDS, executor=executor, checkpoint=path), SEEDS)
    # All of them are stored.
    check(run_jobs(Counted(stop=0), SEEDS, checkpoint=path), SEEDS)


def test_no_inputs_have_no_answers(tmp_path):
    assert run_jobs(draws, [], checkpoint=tmp_path / "jobs.npz") == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("stop", range(len(SEEDS)))
def test_stopped_anywhere_only_the_missing_answers_are_asked_for(stop, error, tmp_path):
    path = tmp_path / "jobs.npz"
    first = Counted(stop, error)
    with pytest.raises(error):
        run_jobs(first, SEEDS, checkpoint=path)
    assert first.seen == SEEDS[:stop]
    second = Counted()
    check(run_jobs(second, SEEDS, checkpoint=path), SEEDS)
    assert second.seen == SEEDS[stop:]


def test_more_inputs_go_on_from_fewer(tmp_path):
    path = tmp_path / "jobs.npz"
    run_jobs(draws, SEEDS[:2], checkpoint=path)
    more = Counted()
    check(run_jobs(more, SEEDS, checkpoint=path), SEEDS)
    assert more.seen == SEEDS[2:]
    # And fewer are read.
    check(run_jobs(Counted(stop=0), SEEDS[:4], checkpoint=path), SEEDS[:4])


def test_more_than_ten_answers_keep_their_places(tmp_path):
    path, seeds = tmp_path / "jobs.npz", list(range(30, 7, -1))
    run_jobs(draws, seeds, checkpoint=path)
    check(run_jobs(Counted(stop=0), seeds, checkpoint=path), seeds)


def test_answers_of_other_settings_are_refused_by_name(tmp_path):
    path = tmp_path / "jobs.npz"
    run_jobs(draws, SEEDS, checkpoint=path, settings={"data": "these", "method": "one"})
    before = path.read_bytes()
    with pytest.raises(EbmError, match="another method: one there, another here"):
        run_jobs(draws, SEEDS, checkpoint=path, settings={"data": "these", "method": "another"})
    assert path.read_bytes() == before


def test_a_file_that_is_none_of_its_own_is_refused(tmp_path):
    path = tmp_path / "jobs.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="is no checkpoint"):
        run_jobs(draws, SEEDS, checkpoint=path)


def test_progress_is_told_the_number_of_answers(tmp_path):
    path, told = tmp_path / "jobs.npz", []
    run_jobs(draws, SEEDS[:2], checkpoint=path, progress=told.append)
    assert told == [1, 2]
    run_jobs(draws, SEEDS, checkpoint=path, progress=told.append)
    assert told == [1, 2, 3, 4, 5, 6]


class Halving:
    """A solver that halves θ, and is interrupted at a step."""

    record_type = type(None)

    def __init__(self, stop=None):
        self.stop = stop

    def start(self, loss, theta, rng):
        return {"theta": theta, "n": 0}

    def step(self, loss, state):
        if state["n"] == self.stop:
            raise KeyboardInterrupt
        return {"theta": state["theta"] / 2, "n": state["n"] + 1}

    def record(self, loss, state):
        return None

    def verdict(self, loss, state, history):
        return "converged" if state["n"] >= 5 else ""


def test_an_interrupt_within_a_job_ends_all_of_them():
    """Outside of jobs Ctrl-C ends an iteration with what it has; inside it ends the whole."""
    run = iterate(Halving(stop=2), None, np.ones(1))
    assert (run.reason, run.state["theta"][0]) == ("interrupted", 0.25)
    done = []

    def job(stop):
        assert is_inner() is False
        run = iterate(Halving(stop), None, np.ones(1))
        done.append(run.reason)
        return {"theta": run.state["theta"]}

    with pytest.raises(KeyboardInterrupt):
        run_jobs(job, [None, None, 2, None])
    assert done == ["converged", "converged"]
    # And the next one outside is its own again.
    assert iterate(Halving(stop=2), None, np.ones(1)).reason == "interrupted"


def test_loops_within_loops_are_counted():
    assert not is_inner()
    with loop():
        assert not is_inner()
        with loop():
            assert is_inner()
        assert not is_inner()
    assert not is_inner()
