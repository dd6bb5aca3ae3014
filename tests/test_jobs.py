"""Jobs that do not depend on each other: in order, anywhere, once each, stopped as a whole."""

import errno
import multiprocessing
import os
import pickle
import platform
import shutil
import signal
import zipfile
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from ebm import _jobs
from ebm._iterate import iterate
from ebm._jobs import is_inner, loop, run_jobs
from ebm._parallel import number_of_jobs
from ebm._processor import processor
from ebm.errors import EbmError, EbmWarning, FileFormatError


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
    path = tmp_path / "jobs"
    if kind is None:
        check(run_jobs(draws, SEEDS, checkpoint=path), SEEDS)
    else:
        with kind(2) as executor:
            check(run_jobs(draws, SEEDS, executor=executor, checkpoint=path), SEEDS)
    # All of them are stored.
    check(run_jobs(Counted(stop=0), SEEDS, checkpoint=path), SEEDS)


def test_no_inputs_have_no_answers(tmp_path):
    assert run_jobs(draws, [], checkpoint=tmp_path / "jobs") == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("stop", range(len(SEEDS)))
def test_stopped_anywhere_only_the_missing_answers_are_asked_for(stop, error, tmp_path):
    path = tmp_path / "jobs"
    first = Counted(stop, error)
    with pytest.raises(error):
        run_jobs(first, SEEDS, checkpoint=path)
    assert first.seen == SEEDS[:stop]
    second = Counted()
    check(run_jobs(second, SEEDS, checkpoint=path), SEEDS)
    assert second.seen == SEEDS[stop:]


def test_more_inputs_go_on_from_fewer(tmp_path):
    path = tmp_path / "jobs"
    run_jobs(draws, SEEDS[:2], checkpoint=path)
    more = Counted()
    check(run_jobs(more, SEEDS, checkpoint=path), SEEDS)
    assert more.seen == SEEDS[2:]
    # And fewer are read.
    check(run_jobs(Counted(stop=0), SEEDS[:4], checkpoint=path), SEEDS[:4])


def test_more_than_ten_answers_keep_their_places(tmp_path):
    path, seeds = tmp_path / "jobs", list(range(30, 7, -1))
    run_jobs(draws, seeds, checkpoint=path)
    check(run_jobs(Counted(stop=0), seeds, checkpoint=path), seeds)


def test_answers_of_other_settings_are_refused_by_name(tmp_path):
    path = tmp_path / "jobs"
    run_jobs(draws, SEEDS, checkpoint=path, settings={"data": "these", "method": "one"})
    before = {file: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(EbmError, match="another method: one there, another here"):
        run_jobs(draws, SEEDS, checkpoint=path, settings={"data": "these", "method": "another"})
    assert {file: file.read_bytes() for file in path.iterdir()} == before


def test_a_file_in_place_of_a_folder_or_of_an_answer_is_refused(tmp_path):
    path = tmp_path / "jobs"
    path.write_bytes(b"nothing")
    with pytest.raises(EbmError, match="is a file"):
        run_jobs(draws, SEEDS, checkpoint=path)
    run_jobs(draws, SEEDS, checkpoint=tmp_path / "answers")
    answer = tmp_path / "answers" / "000002.npz"
    answer.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"000002\.npz is no checkpoint"):
        run_jobs(draws, SEEDS, checkpoint=tmp_path / "answers")


def totals(table, scale, seed):
    """An answer from what all jobs share."""
    rng = np.random.default_rng(seed)
    return {"values": scale * (table @ rng.normal(size=len(table)))[:3], "seed": np.array(seed)}


class Bare:
    """An engine that has nothing but submit, and weighs what it is given."""

    def __init__(self, executor):
        self.executor, self.lengths = executor, []

    def submit(self, function, *parts):
        self.lengths.append(len(pickle.dumps((function, *parts))))
        return self.executor.submit(function, *parts)


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_what_is_shared_travels_once(kind):
    table = np.random.default_rng(0).normal(size=(300, 300))
    shared, seeds = (table, 2.0), list(range(100))
    here = run_jobs(totals, seeds, shared=shared)
    with kind(2) as executor:
        engine = Bare(executor)
        there = run_jobs(totals, seeds, shared=shared, executor=engine)
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one["values"], other["values"])
    assert max(engine.lengths) < 1000 < table.nbytes


def test_workers_that_see_no_files_are_given_what_is_shared():
    table, seeds = np.random.default_rng(0).normal(size=(300, 300)), list(range(40))
    here = run_jobs(totals, seeds, shared=(table, 1.0))

    class Elsewhere(Bare):
        def submit(self, function, job, package, *others):
            if package.path:
                package = package._replace(path="/no/such/file")
            self.lengths.append(len(pickle.dumps(package)))
            return self.executor.submit(function, job, package, *others)

    with ProcessPoolExecutor(2) as executor:
        engine = Elsewhere(executor)
        there = run_jobs(totals, seeds, shared=(table, 1.0), executor=engine)
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one["values"], other["values"])
    assert max(engine.lengths) > table.nbytes


def test_what_other_processes_cannot_be_given_is_said_and_threads_take_it():
    shared = (np.ones(3), lambda: None)
    with ProcessPoolExecutor(1) as executor, pytest.raises(EbmError, match="what it works on"):
        run_jobs(totals, [1], shared=shared, executor=executor)
    with ThreadPoolExecutor(1) as executor:
        run_jobs(first_of, [1], shared=shared, executor=executor)


def first_of(table, function, seed):
    return {"values": table, "seed": np.array(seed)}


def test_workers_take_one_thread_unless_told_otherwise():
    assert run_jobs(threads, [0])[0]["n"] == number_of_jobs()
    for kind in (ThreadPoolExecutor, ProcessPoolExecutor):
        with kind(1) as executor:
            answers = run_jobs(threads, [0, 3], executor=executor)
        assert [int(answer["n"]) for answer in answers] == [1, 3]


def threads(n):
    return {"n": np.array(number_of_jobs(n or None))}


class FailsOnce:
    """A job that fails the first time each of some inputs is asked for."""

    def __init__(self, inputs, error=None, most=1):
        self.left = dict.fromkeys(inputs, most)
        self.error = error or OSError("no route to host")

    def __call__(self, seed):
        if self.left.get(seed, 0):
            self.left[seed] -= 1
            raise self.error
        return draws(seed)


def test_a_job_that_fails_elsewhere_is_tried_once_more_and_then_named():
    seeds = [5, 3, 9]
    with ThreadPoolExecutor(2) as executor:
        check(run_jobs(FailsOnce([5, 9]), seeds, executor=executor), seeds)
        with pytest.raises(OSError, match="no route") as caught:
            run_jobs(FailsOnce([3], most=2), seeds, executor=executor)
        assert caught.value.__notes__ == ["job 2 of 3 failed twice"]
        # What the library refuses it refuses again.
        refusal = FailsOnce([3], EbmError("no rows"))
        with pytest.raises(EbmError, match="no rows") as caught:
            run_jobs(refusal, seeds, executor=executor)
        assert caught.value.__notes__ == ["job 2 of 3 failed"]


def dies(seed):
    if seed == 9 and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return draws(seed)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal on Windows")
def test_a_run_whose_worker_was_killed_goes_on_from_its_folder(tmp_path):
    with (
        ProcessPoolExecutor(1) as executor,
        pytest.raises(EbmError, match=r"a worker ended before job \d of 6 was done"),
    ):
        run_jobs(dies, SEEDS, executor=executor, checkpoint=tmp_path / "jobs")
    n_stored = len(list((tmp_path / "jobs").iterdir()))
    again = Counted()
    check(run_jobs(again, SEEDS, checkpoint=tmp_path / "jobs"), SEEDS)
    assert len(again.seen) == len(SEEDS) - n_stored < len(SEEDS)


class Answering:
    """An engine that gives back one thing for every job."""

    def __init__(self, future):
        self.future = future

    def submit(self, *parts):
        return self.future()


def future_of(answer):
    future = Future()
    future.set_result(answer)
    return future


def cancelled():
    future = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future


def test_engines_that_run_nothing_are_named():
    shut_down = ThreadPoolExecutor(1)
    shut_down.shutdown()
    for engine, message in (
        (shut_down, "executor takes no jobs .*shutdown"),
        (Answering(lambda: 3), "int has no result"),
        (Answering(lambda: future_of(7)), "Answering returned 7"),
        (Answering(lambda: future_of({"values": 1})), "must run function"),
        (Answering(cancelled), "cancelled job 1 of 1 twice"),
    ):
        with pytest.raises(EbmError, match=message):
            run_jobs(draws, [1], executor=engine)


def test_a_file_under_the_name_of_another_job_is_refused(tmp_path):
    run_jobs(draws, SEEDS, checkpoint=tmp_path)
    shutil.copy(tmp_path / "000000.npz", tmp_path / "000001.npz")
    with pytest.raises(EbmError, match=r"000001\.npz belongs to a run with another job"):
        run_jobs(draws, SEEDS, checkpoint=tmp_path)


def test_a_header_that_is_no_python_is_damage(tmp_path):
    """numpy hands it to the tokenizer, whose errors are of no usual kind."""
    path = tmp_path / "000000.npz"
    run_jobs(draws, [1], checkpoint=tmp_path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content.replace(b"(3,)", b"(3, "))
    with pytest.raises(FileFormatError, match="no checkpoint of ebm"):
        run_jobs(draws, [1], checkpoint=tmp_path)


def test_a_folder_that_takes_no_files_is_refused_before_any_job(tmp_path, monkeypatch):
    run_jobs(draws, SEEDS[:2], checkpoint=tmp_path)
    seen, opened = Counted(), Path.open

    def refused(path, mode="r", *rest):
        if "x" in mode:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return opened(path, mode, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refused)
        with pytest.raises(OSError, match="cannot be written"):
            run_jobs(seen, SEEDS, checkpoint=tmp_path)
        # What is complete needs no place.
        check(run_jobs(seen, SEEDS[:2], checkpoint=tmp_path), SEEDS[:2])
    assert not seen.seen


def test_progress_is_told_the_number_of_answers(tmp_path):
    path, told = tmp_path / "jobs", []
    run_jobs(draws, SEEDS[:2], checkpoint=path, progress=told.append)
    assert told == [1, 2]
    run_jobs(draws, SEEDS, checkpoint=path, progress=told.append)
    assert told == [1, 2, 3, 4, 5, 6]


def test_answers_of_another_kind_of_processor_are_told_of(tmp_path, monkeypatch):
    """Stored ones and those of workers; what a caller gets says nothing of it."""
    path, here = tmp_path / "jobs", processor()
    with monkeypatch.context() as patch:
        patch.setattr(_jobs, "processor", lambda: "ENIAC, by hand")
        run_jobs(draws, SEEDS[:2], checkpoint=path)
    with pytest.warns(EbmWarning, match="2 of 6 jobs were done by another kind") as caught:
        answers = run_jobs(draws, SEEDS, checkpoint=path)
    check(answers, SEEDS)
    assert "(ENIAC, by hand)" in str(caught[0].message)
    assert here in str(caught[0].message)
    assert str(path) in str(caught[0].message)
    assert {name for answer in answers for name in answer} == {"values", "seed"}

    class Foreign(Bare):
        def submit(self, function, *parts):
            future = self.executor.submit(function, *parts)
            future.result()["made_by"] = np.array("ABACUS")
            return future

    with ThreadPoolExecutor(1) as executor, pytest.warns(EbmWarning, match="6 of 6 .*ABACUS"):
        check(run_jobs(draws, SEEDS, executor=Foreign(executor)), SEEDS)


def test_processors_are_told_by_instructions_and_by_blas():
    """As threadpoolctl sees the library that numpy has, if it knows that."""
    instructions, blas = processor().split(", ")
    assert instructions.split()[0] == platform.machine()
    libraries = [x for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
    described = {f"{x['internal_api']} {x['version']} {x['architecture']}" for x in libraries}
    assert blas in described or not libraries


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
