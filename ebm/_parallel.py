"""Threads: one pool outside, BLAS on one thread inside.

Two thread pools on the same cores slow each other down many times over, so matrix products are made
by single-threaded BLAS calls on the threads of :func:`map_blocks`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

from ebm._arrays import as_integer
from ebm.errors import warning_at_this_call

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.Lock()
_holders = 0
_limiter: Any = None
#: What belongs to each thread: the pool that it shares, the process that made it, whether it is one
#: of several workers, and the event that says that nobody awaits its work.
_here = threading.local()


def number_of_jobs(n_jobs: int | None = None) -> int:
    """The number of threads: ``n_jobs``, else the cores of this process or ``OMP_NUM_THREADS``.

    A worker of an executor takes one, as there are others beside it.
    """
    if n_jobs is not None:
        return as_integer(n_jobs, "n_jobs")
    if getattr(_here, "is_worker", False):
        return 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) > 0 else cores


def _blas_controller() -> Any:
    # A library that brings its own BLAS may be loaded later: scipy.linalg is the one that does.
    return _controller_with("scipy.linalg" in sys.modules)


@cache
def _controller_with(scipy_loaded: bool) -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def blas_libraries() -> list[dict[str, Any]]:
    """What is known of each BLAS in this process."""
    return [library for library in _blas_controller().info() if library["user_api"] == "blas"]


def _change_limit(change: Callable[[], Any]) -> Any:
    """The result of a change of BLAS limits, from any thread."""
    # threadpoolctl 3.8 lets only the thread that limited OpenBLAS first change it again, unless
    # its hold is cleared.
    clears = [
        getattr(c, "clear_controlling_thread", None) for c in _blas_controller().lib_controllers
    ]
    try:
        for clear in filter(None, clears):
            clear(force=True)
        return change()
    finally:
        for clear in filter(None, clears):
            clear(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread; nested and concurrent uses are counted, the last one restores it."""
    global _holders, _limiter
    with _lock:
        if _holders == 0:
            _limiter = _change_limit(lambda: _blas_controller().limit(limits=1, user_api="blas"))
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _change_limit(_limiter.restore_original_limits)
                _limiter = None


@contextmanager
def one_thread() -> Iterator[None]:
    """What runs inside is one of several workers: it starts no threads unless told how many."""
    before = getattr(_here, "is_worker", False)
    _here.is_worker = True
    try:
        yield
    finally:
        _here.is_worker = before


@contextmanager
def shared_threads() -> Iterator[None]:
    """Threads that all calls of :func:`map_blocks` share, beside the one that calls them.

    Starting threads costs as much as a sweep of a few hundred chains.
    """
    from concurrent.futures import ThreadPoolExecutor

    if number_of_jobs() == 1 or _shared_pool() is not None:
        yield
        return
    with ThreadPoolExecutor(number_of_jobs() - 1) as pool:
        _here.pool, _here.process = pool, os.getpid()
        try:
            yield
        finally:
            _here.pool = None


def _shared_pool() -> Any:
    """The pool that this thread shares; a forked child has none, as threads do not survive."""
    return getattr(_here, "pool", None) if getattr(_here, "process", 0) == os.getpid() else None


def heed_interrupt() -> None:
    """End the work of a thread whose caller was interrupted, or failed; long work calls it often.

    Ctrl-C is raised in the main thread alone, which waits for the others.
    """
    abandoned = getattr(_here, "abandoned", None)
    if abandoned is not None and abandoned.is_set():
        raise KeyboardInterrupt


def awaited(items: Iterable[Item]) -> Iterator[Item]:
    """The items one by one, as long as the caller waits for what is made of them."""
    for item in items:
        heed_interrupt()
        yield item


def map_blocks(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int
) -> Iterator[Result]:
    """Results of ``function`` over ``items``, in the order of the items, on ``n_jobs`` threads.

    One of these is the caller's: it makes what no other has begun while it waits for a result.
    Items are taken at most ``2 n_jobs`` ahead, so that memory stays flat. The order of the results,
    and so of any sum over them, does not depend on ``n_jobs``; with one job no thread is started.
    """
    if n_jobs == 1:
        yield from map(function, items)
        return
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor, wait

    warning, shared, abandoned = warning_at_this_call(function), _shared_pool(), threading.Event()
    # A pool of its own lives for one call; of a shared one only so many threads are kept busy.
    ahead = 2 * n_jobs if shared is None else n_jobs
    pending: deque[tuple[Future[Result], Item]] = deque()

    def elsewhere(item: Item) -> Result:
        _here.abandoned = abandoned
        return warning(item)

    def oldest() -> Result:
        for place, (future, item) in enumerate(pending):
            if pending[0][0].done():
                break
            if future.cancel():
                pending[place] = made(item), item
        return pending.popleft()[0].result()

    def made(item: Item) -> Future[Result]:
        future: Future[Result] = Future()
        try:
            future.set_result(function(item))
        except Exception as error:
            future.set_exception(error)
        return future

    with ThreadPoolExecutor(n_jobs - 1) if shared is None else nullcontext(shared) as pool:
        try:
            for item in items:
                pending.append((pool.submit(elsewhere, item), item))
                if len(pending) >= ahead:
                    yield oldest()
            while pending:
                yield oldest()
        finally:
            abandoned.set()
            wait([future for future, _ in pending])
