"""What does not depend on each other: resamples, folds, permutations, starts, blocks of states.

Jobs run here or in whatever has ``submit``. A job depends on its input alone, its seed included,
and computes on one thread where it runs elsewhere, so that answers are the same to the last bit for
any engine and number of workers on one kind of processor. Answers say which kind made them.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ebm._checkpoints import checkpoint_folder, digest, read_checkpoint, write_checkpoint
from ebm._files import require_place
from ebm._names import PACKAGE
from ebm._parallel import one_thread, single_threaded_blas
from ebm._processor import processor
from ebm.errors import EbmError, EbmWarning, warn

Answer = Mapping[str, NDArray[Any]]

_depth: ContextVar[int] = ContextVar("depth of loops within each other", default=0)

#: The name under which an answer has the kind of processor that made it.
MADE_BY = "made_by"
#: What jobs have in common travels with each of them up to so many bytes, and beyond in a file.
MOST_BYTES = 2**18
#: Errors of what cannot be pickled, and of much else.
_NOT_PICKLED = (AttributeError, TypeError, pickle.PicklingError)
#: What is asked of a future.
_OF_FUTURES = ("result", "add_done_callback", "cancel")
#: So many jobs are handed over before the first answer; later twice as many as there are answers.
FIRST_JOBS = 64


class Engine(Protocol):
    """An executor as in :mod:`concurrent.futures`: all that is asked of it is ``submit``."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """A future, with ``result``, ``add_done_callback`` and ``cancel``."""


def run_jobs(
    function: Callable[..., Answer],
    inputs: Sequence[Any],
    *,
    shared: tuple[Any, ...] = (),
    executor: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Answer]:
    """The answers ``function(*shared, input)``, mappings of arrays, in the order of the inputs.

    What is ``shared``, such as the data, travels once to each worker. A ``checkpoint`` is a folder
    with a file for each answer, written as it comes; what is stored is not asked for again, and
    ``settings`` name what both runs must have in common. A warning says if another kind of
    processor than this one made some of them. ``progress`` is called with the number of
    answers so far. A job that fails elsewhere is tried once more. Ctrl-C ends the whole, not one
    job.
    """
    require_engine(executor)
    folder = None if checkpoint is None else checkpoint_folder(checkpoint)
    settings = settings or {}
    answers: dict[int, Answer] = {}
    if folder is not None:
        answers = _stored(folder, settings, len(inputs))
    missing = [k for k in range(len(inputs)) if k not in answers]
    if folder is not None and missing:
        require_place(folder / _name(missing[0]), overwrite=True)
    with loop():
        if executor is None:
            new = _made_here(function, inputs, missing, shared)
        else:
            new = _made_elsewhere(function, inputs, missing, shared, executor)
        for k, answer in new:
            answers[k] = answer
            if folder is not None:
                write_checkpoint(folder / _name(k), _of_job(settings, k), _as_arrays(answer))
            if progress is not None:
                progress(len(answers))
    _warn_of_other_processors(answers.values(), folder)
    return [_without_maker(answers[k]) for k in range(len(inputs))]


def _warn_of_other_processors(answers: Collection[Answer], folder: Path | None) -> None:
    """Say that some answers have the last bits of another kind of processor."""
    here = processor()
    makers = Counter(str(answer[MADE_BY]) for answer in answers if MADE_BY in answer)
    others = sorted(set(makers) - {here})
    if others:
        stored = "" if folder is None else f", or remove those in {folder} that others made"
        warn(
            f"{sum(makers[other] for other in others)} of {len(answers)} jobs were done by another "
            f"kind of processor or BLAS ({'; '.join(others)}) than this one ({here}): the last "
            "bits of the result are not those of one kind alone; for these give all jobs to "
            f"workers of one kind{stored}",
            EbmWarning,
        )


def _without_maker(answer: Answer) -> Answer:
    return {name: part for name, part in answer.items() if name != MADE_BY}


def require_engine(executor: Any) -> None:
    """Refuse what jobs cannot be given to, before any work."""
    is_one = callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    if executor is not None and not is_one:
        raise EbmError(
            "executor must have submit, as one of concurrent.futures such as "
            f"ProcessPoolExecutor() has, got {executor!r}"
        )


def number_of_workers(executor: Engine | None) -> int:
    """How many jobs an executor runs at a time, as far as it tells; else 1."""
    return int(getattr(executor, "_max_workers", None) or 1)


def _made_here(
    function: Callable[..., Answer], inputs: Sequence[Any], missing: list[int], shared: Any
) -> Iterator[tuple[int, Answer]]:
    """Number and answer of each job, one after the other."""
    for k in missing:
        with single_threaded_blas():
            answer = function(*shared, inputs[k])
        yield k, {**answer, MADE_BY: np.array(processor())}


def _made_elsewhere(
    function: Callable[..., Answer],
    inputs: Sequence[Any],
    missing: list[int],
    shared: Any,
    executor: Engine,
) -> Iterator[tuple[int, Answer]]:
    """Number and answer of each job, as they come."""
    waiting = missing[::-1]
    running: dict[Any, int] = {}
    failed: set[int] = set()
    done: SimpleQueue[Any] = SimpleQueue()
    n_answers, most = 0, max(FIRST_JOBS, 2 * number_of_workers(executor))
    with _packed(shared, is_here=isinstance(executor, ThreadPoolExecutor)) as package:

        def submit(k: int, package: Package) -> None:
            future = _submitted(executor, _answer_of, function, package, inputs[k])
            running[future] = k
            future.add_done_callback(done.put)

        try:
            while waiting or running:
                while waiting and len(running) < max(most, 2 * n_answers):
                    submit(waiting.pop(), package)
                future = done.get()
                k = running.pop(future)
                try:
                    answer = future.result()
                except Exception as error:
                    _require_another_try(
                        error, k, len(inputs), (function, shared), executor, failed
                    )
                    waiting.append(k)
                    continue
                if answer is None:
                    submit(k, package.with_content())
                    continue
                n_answers += 1
                yield k, _checked(answer, executor)
        finally:
            for future in running:
                future.cancel()


def _submitted(executor: Any, *parts: Any) -> Any:
    """The future of a job; an executor that takes none, or gives no future, is named."""
    try:
        future = executor.submit(*parts)
    except BrokenExecutor:
        raise
    except RuntimeError as error:
        raise EbmError(
            f"executor takes no jobs ({error}): give one that has not been shut down"
        ) from error
    missing = [name for name in _OF_FUTURES if not hasattr(future, name)]
    if missing:
        raise EbmError(
            f"executor.submit must return a future, which has {', '.join(_OF_FUTURES)}; "
            f"{type(future).__name__} has no {missing[0]}: give one as in concurrent.futures"
        )
    return future


def _checked(answer: Any, executor: Any) -> Answer:
    """An answer, refused if it is not what the job returns."""
    if not isinstance(answer, Mapping) or MADE_BY not in answer:
        raise EbmError(
            f"executor.submit(function, *arguments) must run function(*arguments); "
            f"{type(executor).__name__} returned {answer!r} in its place"
        )
    return answer


def _require_another_try(
    error: Exception, k: int, n: int, sent: Any, executor: Any, failed: set[int]
) -> None:
    """Raise what went wrong with job k of n, unless it may go right in a second run."""
    if isinstance(error, BrokenExecutor):
        raise EbmError(
            f"a worker ended before job {k + 1} of {n} was done, killed or for lack of memory, and "
            "its executor takes no more jobs: call again with a new one, with checkpoint= to go on "
            "from the answers so far"
        ) from error
    if isinstance(error, _NOT_PICKLED):
        _require_picklable(error, sent, executor)
    if isinstance(error, CancelledError) and k in failed:
        raise EbmError(
            f"the executor cancelled job {k + 1} of {n} twice: give one that runs what it takes"
        ) from error
    if isinstance(error, EbmError) or k in failed:
        error.add_note(f"job {k + 1} of {n} failed{' twice' * (k in failed)}")
        raise error
    failed.add(k)


def _require_picklable(error: Exception, sent: Any, executor: Any) -> None:
    """Say of what other processes cannot be given why they cannot."""
    if isinstance(executor, ProcessPoolExecutor):
        try:
            pickle.dumps(sent)
        except _NOT_PICKLED:
            raise EbmError(
                f"other processes cannot be given this function, or what it works on ({error}): "
                "define it with def or class in a module, or take a ThreadPoolExecutor"
            ) from error


class Package(NamedTuple):
    """What jobs have in common: itself if small, else a digest, and a file or the bytes of it."""

    content: Any
    key: str = ""
    path: str = ""

    def with_content(self) -> Package:
        """The same for a worker that cannot read the file."""
        return Package(Path(self.path).read_bytes(), self.key)

    def opened(self) -> tuple[Any, ...] | None:
        """The content; None where this process has not got it and cannot read the file."""
        if not self.key:
            return tuple(self.content)
        content = _unpacked.get(self.key)
        if content is None:
            packed = self.content
            try:
                packed = packed or Path(self.path).read_bytes()
            except OSError:
                return None
            if digest(packed) != self.key:
                return None
            content = pickle.loads(packed)
            # Workers serve one call after the other: what earlier ones had is given up.
            _unpacked.clear()
            _unpacked[self.key] = content
        return content


#: What this process was given for all jobs of a call, by its digest.
_unpacked: dict[str, tuple[Any, ...]] = {}


@contextmanager
def _packed(shared: tuple[Any, ...], *, is_here: bool) -> Iterator[Package]:
    """The package of what is shared, its file there as long as jobs run; threads need none."""
    try:
        packed = b"" if is_here else pickle.dumps(shared)
    except _NOT_PICKLED:
        # Engines may have other ways to send it; those that have none fail at the first job.
        packed = b""
    if len(packed) <= MOST_BYTES:
        yield Package(shared)
        return
    number, path = tempfile.mkstemp(prefix=f"{PACKAGE}-", suffix=".jobs")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(packed)
        yield Package(b"", digest(packed), path)
    finally:
        Path(path).unlink()


def _answer_of(function: Callable[..., Answer], package: Package, job: Any) -> Answer | None:
    """One answer, made by a worker on one thread; None where it lacks the package's content."""
    shared = package.opened()
    if shared is None:
        return None
    with loop(), one_thread(), single_threaded_blas():
        return {**function(*shared, job), MADE_BY: np.array(processor())}


@contextmanager
def loop() -> Iterator[None]:
    """Marks what runs inside of a loop: an interrupt there ends the loop around it, too."""
    token = _depth.set(_depth.get() + 1)
    try:
        yield
    finally:
        _depth.reset(token)


@contextmanager
def interruptible() -> Iterator[None]:
    """Work that Ctrl-C cuts short, while what was done before it stays, unless a loop is around."""
    try:
        yield
    except KeyboardInterrupt:
        if _depth.get():
            raise


def is_inner() -> bool:
    """Whether a loop runs inside of another one."""
    return _depth.get() > 1


def _name(k: int) -> str:
    return f"{k:06d}.npz"


def _as_arrays(answer: Answer) -> Answer:
    return {name: np.asarray(x) for name, x in answer.items()}


def _stored(folder: Path, settings: Mapping[str, str], n_jobs: int) -> dict[int, Answer]:
    """The answers in a folder, by the numbers of their jobs."""
    paths = [(k, folder / _name(k)) for k in range(n_jobs)]
    return {
        k: read_checkpoint(path, _of_job(settings, k), {}) for k, path in paths if path.exists()
    }


def _of_job(settings: Mapping[str, str], k: int) -> dict[str, str]:
    """Settings by which a file that lies under the name of another one is known."""
    return {**settings, "job": str(k + 1)}
