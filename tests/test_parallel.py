"""Threads: order, laziness, failures, and BLAS held at one thread."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given
from hypothesis import strategies as st

from ebm._parallel import map_blocks, number_of_jobs, single_threaded_blas

#: Seconds after which a test that waits for another thread has failed.
PATIENCE = 20


def blas_threads():
    """Threads of every BLAS that is loaded."""
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if "blas" in str(pool)}


@pytest.fixture
def two_blas_threads():
    """BLAS on two threads, so that one is a change, on any machine."""
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        assert blas_threads() == {2}
        yield


@given(st.lists(st.integers(), max_size=30), st.integers(1, 4))
def test_results_come_in_the_order_of_the_items(items, n_jobs):
    """map_blocks is map, whatever the number of threads."""
    assert list(map_blocks(lambda k: 2 * k, items, n_jobs)) == [2 * k for k in items]


def test_order_does_not_depend_on_who_finishes_first():
    """The first item waits for the second, so two threads run, and still comes first."""
    second_done = threading.Event()

    def function(item):
        if item == 0:
            assert second_done.wait(PATIENCE)
        else:
            second_done.set()
        return item

    assert list(map_blocks(function, [0, 1], n_jobs=2)) == [0, 1]


def test_sums_do_not_depend_on_the_number_of_threads():
    """Floating-point sums over the results are equal to the last bit."""
    blocks = np.random.default_rng(0).normal(size=(50, 100))
    sums = [sum(map_blocks(np.sum, blocks, n_jobs)) for n_jobs in (1, 2, 4)]
    assert sums[0] == sums[1] == sums[2]


def test_one_job_starts_no_thread_and_takes_one_item_at_a_time():
    """With n_jobs=1 the caller's thread does the work, item by item."""
    taken = []
    threads = []

    def function(item):
        threads.append(threading.current_thread())
        return item

    results = map_blocks(function, (taken.append(k) or k for k in range(10)), n_jobs=1)
    assert taken == []
    assert next(results) == 0
    assert taken == [0]
    assert set(threads) == {threading.current_thread()}


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_items_are_taken_at_most_two_per_thread_ahead(n_jobs):
    """Memory stays flat: what is taken but not yet given out is bounded."""
    taken = []
    results = map_blocks(abs, (taken.append(k) or k for k in range(50)), n_jobs)
    for given_out, _ in enumerate(results):
        assert len(taken) - given_out <= 2 * n_jobs
    assert len(taken) == 50


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_in_a_block_reaches_the_caller(n_jobs):
    """The first failure is raised, after the results before it."""

    def function(item):
        if item == 3:
            raise RuntimeError("block 3")
        return item

    results = map_blocks(function, range(10), n_jobs)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="block 3"):
        next(results)


def test_no_thread_outlives_the_call():
    """Neither after the last result nor after the caller stops listening."""
    before = threading.active_count()
    assert len(list(map_blocks(abs, range(10), n_jobs=2))) == 10
    assert threading.active_count() == before
    results = map_blocks(abs, range(10), n_jobs=2)
    assert next(results) == 0
    assert threading.active_count() > before
    results.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("wanted", "jobs"), [("1", 1), ("3", 3), ("64", 4), ("", 4), ("0", 4), ("4,2", 4), ("many", 4)]
)
def test_jobs_are_the_cores_or_fewer(monkeypatch, wanted, jobs):
    """OMP_NUM_THREADS lowers the number of cores; what is no number is ignored."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    assert number_of_jobs() == jobs
    assert number_of_jobs(7) == 7


def test_jobs_where_the_system_has_no_affinity(monkeypatch):
    """The number of cores stands in; at least one."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for cores, jobs in ((3, 3), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert number_of_jobs() == jobs


def test_numpy_integers_count_jobs():
    """A number taken from an array."""
    assert number_of_jobs(np.int64(2)) == 2


@pytest.mark.parametrize("n_jobs", [0, -1, 1.0, True, "2"])
def test_jobs_must_be_a_positive_integer(n_jobs):
    """No −1 for all: None says that."""
    with pytest.raises(ValueError, match="n_jobs must be a positive integer, got"):
        number_of_jobs(n_jobs)


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_held_at_one_thread_and_let_go():
    """Nested uses are one; the last to leave restores, also after an error."""
    with single_threaded_blas():
        assert blas_threads() == {1}
        with single_threaded_blas():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with pytest.raises(RuntimeError, match="inside"), single_threaded_blas():
        raise RuntimeError("inside")
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_stays_held_while_another_thread_works():
    """A thread that leaves first does not set the others free; the last one does."""
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with single_threaded_blas():
            entered.set()
            leave.wait(PATIENCE)

    other = threading.Thread(target=hold)
    with single_threaded_blas():
        other.start()
        assert entered.wait(PATIENCE)
    assert blas_threads() == {1}
    leave.set()
    other.join(PATIENCE)
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_held_from_any_thread():
    """A thread that once held BLAS, and lives on, keeps no other thread from holding it."""
    released, leave = threading.Event(), threading.Event()

    def hold_and_stay():
        with single_threaded_blas():
            pass
        released.set()
        leave.wait(PATIENCE)

    other = threading.Thread(target=hold_and_stay)
    other.start()
    assert released.wait(PATIENCE)
    with single_threaded_blas():
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    leave.set()
    other.join(PATIENCE)


def test_a_forked_child_can_go_on():
    """After use in the parent, threads and BLAS limits work in a child; the parent's too."""
    script = """
import os, warnings
import numpy as np
from ebm._parallel import map_blocks, single_threaded_blas
def work():
    with single_threaded_blas():
        return sum(map_blocks(lambda a: (a @ a).trace(), [np.eye(300)] * 4, n_jobs=2))
warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside the threads of BLAS
first = work()
child = os.fork()
if child == 0:
    os._exit(0 if work() == first else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert work() == first
"""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_is_held_though_another_thread_has_limited_it():
    """The fixture's thread has set a limit of its own; a worker still gets one thread, and back."""
    seen = []

    def work():
        with single_threaded_blas():
            seen.append(blas_threads())

    other = threading.Thread(target=work)
    other.start()
    other.join(PATIENCE)
    assert seen == [{1}]
    assert blas_threads() == {2}
