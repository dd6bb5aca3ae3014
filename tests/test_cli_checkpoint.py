"""``ebm fit --checkpoint``, and Ctrl-C of the program: what was done is kept, the rest is told."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import ebm
from ebm import _iterate
from ebm.cli import fitting, main
from ebm.report import analysis, items, sampled
from ebm.tables import write_table


class Killed(BaseException):
    """Stands for a process that ends here."""


@pytest.fixture
def data(tmp_path):
    rows = np.random.default_rng(0).integers(0, 2, (60, 4))
    rows[:, 1] |= rows[:, 0]
    write_table(tmp_path / "rows.csv", rows, list("abcd"))
    return tmp_path / "rows.csv"


def die_after(monkeypatch, n_writes):
    """End the process when so many checkpoints are written."""
    write, left = _iterate.write_checkpoint, [n_writes]

    def mortal(*parts):
        write(*parts)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    monkeypatch.setattr(_iterate, "write_checkpoint", mortal)


def by_chains(monkeypatch):
    for module, name, value in (
        (analysis, "MAX_UNITS_EXACT", 2),
        (sampled, "N_EPOCHS", 40),
        (sampled, "N_CHAINS", 20),
        (sampled, "N_DRAWS", 50),
        (sampled, "ANNEALING_STEPS", 20),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("n_writes", [1, 2, 3])
@pytest.mark.parametrize(
    "kind", [[], ["--missing-at-random"], ["--ordinal", "0-1"], ["pseudo"], ["chains"]]
)
def test_a_fit_that_died_goes_on_to_the_same_bits(tmp_path, data, monkeypatch, kind, n_writes):
    if kind == ["chains"]:
        by_chains(monkeypatch)
        kind = []
    elif kind == ["pseudo"]:
        monkeypatch.setattr(items, "MOST_STATES", 1)
        kind = ["--ordinal", "0-1"]
    elif kind == ["--missing-at-random"]:
        data.write_text(data.read_text() + "1,,0,1\n0,1,,\n")
    once, twice, kept = (tmp_path / name for name in ("once.npz", "twice.npz", "fit.npz"))
    asked = ["fit", str(data), *kind, "--l2", "0.01", "-o"]
    main([*asked, str(once)])
    with monkeypatch.context() as patch:
        die_after(patch, n_writes)
        with pytest.raises(Killed):
            main([*asked, str(twice), "--checkpoint", str(kept)])
    assert not twice.exists()
    main([*asked, str(twice), "--checkpoint", str(kept)])
    assert twice.read_bytes() == once.read_bytes()


def test_what_was_finished_is_told(data, tmp_path, capsys):
    asked = ["fit", str(data), "--l2", "0.01", "--checkpoint", str(tmp_path / "fit.npz")]
    assert main(asked) == 0
    assert "goes on" not in capsys.readouterr().err
    assert main(asked) == 0
    said = capsys.readouterr().err
    assert "the fit goes on from" in said
    assert "the fit had been finished in" in said


def test_a_checkpoint_of_another_fit_is_refused(data, tmp_path, capsys):
    kept = tmp_path / "fit.npz"
    assert main(["fit", str(data), "--l2", "0.01", "--checkpoint", str(kept)]) == 0
    before = kept.read_bytes()
    capsys.readouterr()
    assert main(["fit", str(data), "--l2", "0.1", "--checkpoint", str(kept)]) == 2
    assert "belongs to a run with another l2" in capsys.readouterr().err
    assert kept.read_bytes() == before


@pytest.mark.parametrize("option", ["--out", "--figure", "--json", "--checkpoint"])
def test_places_that_cannot_be_written_are_found_before_the_fit(option, data, monkeypatch, capsys):
    def never(*_, **__):
        raise AssertionError("the fit has begun")

    monkeypatch.setattr(analysis, "fit", never)
    for path in ("/proc/fit.png", str(data.parent / "missing" / "fit.png"), str(data.parent)):
        assert main(["fit", str(data), option, path, "--force"]) == 2
        assert capsys.readouterr().err.startswith("ebm: ")
    assert main(["fit", str(data), option, str(data), "--force"]) == 2
    assert "named twice" in capsys.readouterr().err


def test_a_checkpoint_is_no_stream(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["fit", str(data), "--checkpoint", "-"]) == 2
    assert "a checkpoint must be a file" in capsys.readouterr().err
    assert not (tmp_path / "-").exists()


def test_a_report_without_a_fit_takes_no_checkpoint(tmp_path):
    rows = np.random.default_rng(0).integers(0, 2, (10, 40))
    with pytest.raises(ebm.EbmError, match="checkpoint=… has no effect"):
        ebm.analyze(rows, checkpoint=tmp_path / "fit.npz")


INTERRUPTED = """
import signal, sys
sys.argv = [{name!r}]

class Interrupt:
    def find_spec(name, *_):
        if name == "numpy":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt)
import ebm
"""


@pytest.mark.parametrize(("name", "code"), [("/usr/bin/ebm", 130), ("ebm.exe", 130), ("ebm.py", 1)])
def test_the_program_ends_in_a_sentence_while_it_is_imported(name, code):
    lines = INTERRUPTED.format(name=name)
    done = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, preexec_fn=heard, check=False
    )
    if code == 130:
        assert (done.returncode, done.stderr) == (130, "ebm: interrupted\n")
    else:
        # A session of a user hears KeyboardInterrupt as ever.
        assert "KeyboardInterrupt" in done.stderr


def heard():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_that_a_command_made_something_of_is_no_success(data, monkeypatch, capsys):
    def quick(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return 0

    monkeypatch.setattr(fitting, "_fit", quick)
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["fit", str(data)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "ebm: interrupted\n"
