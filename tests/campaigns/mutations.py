"""Damaged files: no exception but the library's own, no hang, no code run, no traceback.

    python -m tests.campaigns.mutations [--times 10000] [--through-command 300]

Models and tables of every format that is read have bytes flipped, deleted, inserted and cut off,
lines shuffled, invalid UTF-8 put in; pickles that would make a file and archives that unpack to far
more than they are stand among them. What is read nevertheless must be finite.
"""

from __future__ import annotations

import argparse
import collections
import io
import os
import pickle
import random
import signal
import tempfile
import traceback
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import ebm
from ebm.cli import main as command
from ebm.errors import EbmError
from tests.campaigns.small_runs import machine, write_data

#: Seconds from which on a reader hangs.
PATIENCE = 10
#: Text that is no UTF-8, or no number that a table has.
ODD = (b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"nan", b"1e400", b'"')
#: Bytes of zeros in an archive that unpacks to more than it is.
BOMB = 2**33


class Hang(BaseException):
    """A reader has not come back."""


class Pickled:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def originals(folder: Path) -> list[Path]:
    """Whole files of every kind."""
    write_data(folder)
    rows = ebm.read_table(folder / "small.csv")
    states, names = rows.states[:60], rows.names
    for suffix in (".tsv", ".npz", ".npy"):
        ebm.tables.write_table(folder / f"table{suffix}", states, names)
    ebm.tables.write_table(folder / "table.csv", states, names)
    models = {
        "spins": machine(6).to_spins(),
        "restricted": ebm.RestrictedBoltzmannMachine.for_data(rows, 3, rng=0),
        "terms": ebm.InteractionModel({(0, 1): 1.0, (0, 1, 2): 2.0}, ebm.Spins(3)),
        "potts": ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.ones((2, 3))),
        "table_of_states": ebm.TabularModel([0.0, 1.0, 2.0, 3.0], ebm.Binary(2)),
    }
    for name, model in models.items():
        ebm.save(model, folder / f"model_{name}.npz")
    (folder / "model.npz").rename(folder / "model_pairs.npz")
    return sorted(folder.glob("model_*.npz")) + sorted(folder.glob("table.*"))


def mutated(content: bytes, random_numbers: random.Random) -> bytes:
    """The content with one to four changes."""
    data = bytearray(content)
    for _ in range(random_numbers.randint(1, 4)):
        place = random_numbers.randrange(len(data) + 1) if data else 0
        length = random_numbers.choice([1, 1, 2, 8, 64])
        kind = random_numbers.randrange(7)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << random_numbers.randrange(8)
        elif kind == 1:
            del data[place : place + length]
        elif kind == 2:
            data[place:place] = random_numbers.randbytes(length)
        elif kind == 3:
            del data[place:]
        elif kind == 4:
            data[place : place + length] = random_numbers.choice(
                [
                    b"\xff\xfe",
                    b"\xc3\x28",
                    b"\x00" * length,
                    b"\xed\xa0\x80",
                    b"nan",
                    b"1e400",
                    b'"',
                ]
            )
        elif kind == 5:
            lines = bytes(data).split(b"\n")
            random_numbers.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        else:
            data += data[place : place + 512]
    return bytes(data)


def traps(folder: Path, mark: str) -> list[Path]:
    """Files that would run code, or fill memory."""
    pickled = np.empty(1, dtype=object)
    pickled[0] = Pickled(mark)
    np.save(folder / "trap.npy", pickled, allow_pickle=True)
    np.savez(folder / "model_trap.npz", states=pickled, ebm_model=pickled)
    for name in ("trap.npz", "model_trap2.npz", "trap.csv", "model_trap3.json"):
        (folder / name).write_bytes(pickle.dumps(Pickled(mark)))
    for name in ("bomb.npz", "model_bomb.npz"):
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "|i1", "fortran_order": False, "shape": (BOMB // 8, 8)}
        )
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry in ("states.npy", "weights.npy", "ebm_model.npy"):
                with archive.open(entry, "w", force_zip64=True) as part:
                    part.write(head.getvalue())
                    part.write(bytes(2**24))
    return sorted(folder.glob("*trap*")) + sorted(folder.glob("*bomb*"))


def read(path: Path) -> None:
    """Read a model, and use it, or a table."""
    if not path.name.startswith("model_"):
        table = ebm.read_table(path)
        if np.isinf(table.states).any():
            raise AssertionError("read as infinite")
        return
    model = ebm.load(path)
    energy = model.energy(model.space.random(2, 0))
    if np.isnan(energy).any():
        raise AssertionError("read as NaN")


def through_command(path: Path) -> None:
    """Give a file to the command line."""
    is_model = path.name.startswith("model_")
    words = ["sample", str(path), "-n", "3"] if is_model else ["fit", str(path), "--l2", "0.1"]
    silent, errors = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with redirect_stdout(silent), redirect_stderr(errors):
        code = command(words)
    if code not in (0, 1, 2) or "Traceback" in errors.getvalue():
        raise AssertionError(f"code {code}: {errors.getvalue()}")


def tried(use: Any, path: Path) -> str:
    """What came of a file: read, refused, or what should not be."""

    def hang(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, hang)
    signal.alarm(PATIENCE)
    try:
        use(path)
    except Hang:
        return "HANG"
    except (EbmError, OSError):
        return "refused"
    except MemoryError:
        return "MEMORY"
    except Exception as error:
        home = [x for x in traceback.extract_tb(error.__traceback__) if "/ebm/" in x.filename]
        place = f"{Path(home[-1].filename).name}:{home[-1].lineno}" if home else "?"
        return f"{type(error).__name__} at {place}: {str(error)[:80]}"
    finally:
        signal.alarm(0)
    return "read"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=10_000)
    parser.add_argument("--through-command", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    settings = parser.parse_args()
    random_numbers = random.Random(settings.seed)
    with tempfile.TemporaryDirectory() as name:
        mark = str(Path(name) / "code_was_run")
        for use, n_times in ((read, settings.times), (through_command, settings.through_command)):
            ends: collections.Counter[str] = collections.Counter()
            folder = Path(name) / use.__name__
            folder.mkdir()
            files = [(path.name, path.read_bytes()) for path in originals(folder)]
            for path in traps(folder, mark):
                end = tried(use, path)
                ends[end if end == "refused" else f"{path.name} {end}"] += 1
            for k in range(n_times):
                kind, content = files[k % len(files)]
                path = folder / f"{kind.split('.')[0]}_{os.getpid()}.{kind.split('.')[1]}"
                path.write_bytes(mutated(content, random_numbers))
                end = tried(use, path)
                if end not in ("read", "refused"):
                    end = f"{kind}: {end}"
                ends[end] += 1
            print(f"{use.__name__}: {dict(ends.most_common())}", flush=True)
            print(f"code was run: {Path(mark).exists()}", flush=True)


if __name__ == "__main__":
    main()
