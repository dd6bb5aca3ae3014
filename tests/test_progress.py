"""Progress on a terminal, with tqdm and without it, and silence elsewhere."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest

import ebm
from ebm import _progress
from ebm._progress import ProgressLine, progress_bar
from ebm.cli import main


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def screen(self) -> str:
        """What is left to see on the last line."""
        line = ""
        for part in self.getvalue().split("\r"):
            line = part + line[len(part) :]
        return line.rstrip()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(_progress.time, "perf_counter", lambda: now[0])
    return now


def test_a_line_says_how_far_and_how_long_and_goes(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    line = ProgressLine(100, "epoch")
    line.set_postfix({"moment error": "0.02"})
    seen = []
    for _ in range(100):
        clock[0] += 0.25
        line.update()
        seen.append(screen.screen())
    assert seen[0] == ""  # what is over at once shows nothing
    assert seen[39] == "40 of 100 epochs, 10 s of about 25 s, moment error 0.02"
    line.close()
    assert screen.screen() == ""


def test_work_that_goes_on_counts_what_was_done_before(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    line = ProgressLine(100, "step", 50)
    clock[0] += 10.0
    line.update(25)
    assert screen.screen() == "75 of 100 steps, 10 s of about 20 s"


def test_nothing_is_written_where_there_is_no_terminal(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    line = ProgressLine(3, "draw")
    for _ in range(3):
        clock[0] += 10.0
        line.update()
    line.close()
    assert stream.getvalue() == ""


def test_the_bar_of_tqdm_is_taken_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    tqdm = pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = progress_bar(5, "draw", 2)
    assert isinstance(bar, tqdm.tqdm)
    assert (bar.n, bar.total) == (2, 5)
    bar.close()
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert isinstance(progress_bar(5, "draw"), ProgressLine)


MACHINE = ebm.BoltzmannMachine(np.zeros((3, 3)), [0.1, 0.2, 0.3])
QUADRATIC = ebm.Langevin(step=0.1)
ROWS = [[0, 1, 1], [1, 0, 1], [0, 0, 0], [1, 1, 0]]
STEPS = ebm.GradientSteps(n_epochs=3)


class Well(ebm.EnergyModel):
    """E(x) = |x|²/2."""

    space = ebm.Reals(2)

    def energy(self, states: Any) -> Any:
        return (np.asarray(states) ** 2).sum(axis=-1) / 2

    def state_gradient(self, states: Any) -> Any:
        return np.asarray(states)


@pytest.mark.parametrize(
    "work",
    [
        lambda: ebm.sample(MACHINE, n_draws=5, rng=0, run=ebm.sampling.SamplingRun(progress=True)),
        lambda: ebm.log_partition(MACHINE, rng=0, progress=True, method=ebm.Annealing(n_steps=5)),
        lambda: ebm.fit(MACHINE, ROWS, solver=STEPS, rng=0, progress=True),
        lambda: ebm.sample(Well(), QUADRATIC, n_draws=5, rng=0,
                           run=ebm.sampling.SamplingRun(progress=True)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::ebm.errors.EbmWarning")
def test_long_work_shows_its_progress_without_tqdm(work: Any, monkeypatch: Any) -> None:
    screen, now = Terminal(), [0.0]

    def later() -> float:
        now[0] += 5.0
        return now[0]

    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(_progress.time, "perf_counter", later)
    work()
    assert " of " in screen.getvalue()
    assert screen.screen() == ""


def test_a_message_takes_the_place_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(["fit", "no_such_file.csv"]) == 2
    assert screen.getvalue().startswith("\r\x1b[Kebm: no_such_file.csv")


def test_a_stage_without_steps_is_named_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with _progress.stage(True, "summing over pairs"):
        assert screen.screen() == "summing over pairs …"
    assert screen.screen() == ""
    with _progress.stage(False, "summing over pairs"):
        assert screen.screen() == ""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with _progress.stage(True, "summing over pairs"):
        assert sys.stderr.getvalue() == ""
