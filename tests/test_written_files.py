"""Files that are written whole or not at all, what killed writers leave, and changed bytes."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from ebm._checkpoints import read_checkpoint, write_checkpoint
from ebm._files import atomic_write
from ebm.errors import FileFormatError


def writes_for_long(path, ready):
    with atomic_write(path) as file:
        file.write(b"half")
        file.flush()
        ready.set()
        time.sleep(60)


def test_what_a_killed_writer_left_is_removed_by_the_next_and_a_live_one_is_not_disturbed(tmp_path):
    pytest.importorskip("fcntl", reason="locks of this kind are those of POSIX")
    context = multiprocessing.get_context("spawn")
    path = tmp_path / "model.npz"
    writers = []
    for _ in range(2):
        ready = context.Event()
        writers.append(context.Process(target=writes_for_long, args=(path, ready)))
        writers[-1].start()
        assert ready.wait(60)
    assert len(list(tmp_path.iterdir())) == 2
    os.kill(writers[0].pid, signal.SIGKILL)
    writers[0].join()
    # Both parts were written a minute ago.
    for part in tmp_path.iterdir():
        os.utime(part, (time.time() - 60,) * 2)
    try:
        with atomic_write(path) as file:
            file.write(b"whole")
        # The part of the second writer, who is at work, and the file.
        assert sorted(len(file.read_bytes()) for file in tmp_path.iterdir()) == [4, 5]
        # A name that begins alike has parts of its own.
        with atomic_write(tmp_path / "model"):
            pass
        assert len(list(tmp_path.iterdir())) == 3
    finally:
        writers[1].kill()
        writers[1].join()
    # What was written just now may be a writer's who is about to hold it.
    (tmp_path / ".model.npz.0123.part").write_bytes(b"")
    with atomic_write(path, overwrite=True) as file:
        file.write(b"again")
    names = [".model.npz.0123.part", "model", "model.npz"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_no_change_of_a_byte_gives_other_numbers_in_silence(tmp_path):
    """Every byte of a checkpoint in turn: refused, or one that carries no content."""
    path, settings = tmp_path / "run.npz", {"data": "these", "solver": "Newton"}
    state = {"theta": np.arange(3.0), "n": np.array(7), "said": np.array("searched")}
    write_checkpoint(path, settings, state)
    whole, n_refused = path.read_bytes(), 0
    random = np.random.default_rng(0)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= int(random.integers(1, 256))
        path.write_bytes(changed)
        try:
            read = read_checkpoint(path, settings, state)
        except FileFormatError:
            n_refused += 1
        else:
            for name, array in state.items():
                np.testing.assert_array_equal(read[name], array)
    assert n_refused > len(whole) / 2
