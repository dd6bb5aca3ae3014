"""The command line: what it writes, what it refuses, and how it says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebm
from ebm._processor import processor
from ebm.cli import fitting, main
from ebm.cli.command import _Interrupts
from ebm.enumeration import exact
from ebm.models import BoltzmannMachine, IsingModel
from ebm.report import _sections, analysis

HEADER = "Ann,Bob,Cid"


@pytest.fixture
def rows() -> np.ndarray:
    machine = BoltzmannMachine([[0, 1, -1], [1, 0, 0.5], [-1, 0.5, 0]], [-0.5, 0.2, 0.4])
    return exact(machine).sample(400, rng=4).astype(int)


@pytest.fixture
def table(tmp_path: Path, rows: np.ndarray) -> Path:
    path = tmp_path / "votes.csv"
    np.savetxt(path, rows, fmt="%d", delimiter=",", header=HEADER, comments="")
    return path


def failure(capsys: pytest.CaptureFixture[str], *argv: Any) -> str:
    """The one sentence of a command that fails, without a report."""
    assert main([str(argument) for argument in argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ebm: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


# The main job


def test_fit_prints_a_report_and_writes_model_numbers_and_figure(
    table: Path, rows: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, figure, numbers = (tmp_path / name for name in ("m.npz", "r.png", "r.json"))
    argv = ["fit", str(table), "--out", str(out), "--figure", str(figure), "--json", str(numbers)]
    assert main(argv) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert "400 x 3" in text
    model = ebm.load(out)
    assert model.names == ("Ann", "Bob", "Cid")
    assert np.allclose(exact(model).moments().mean, rows.mean(axis=0), atol=1e-8)
    record = json.loads(numbers.read_text(encoding="utf-8"))
    assert record["fit"]["converged"] is True
    assert f"{record['fit']['log_likelihood_nats_per_row']:.6f}" in text
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_fit_equals_five_lines_of_python(
    table: Path, rows: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(table), "--out", str(tmp_path / "m"), "--l2", "0.01"]) == 0
    result = ebm.fit(
        BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)), rows, penalty=ebm.Penalty(l2=0.01)
    )
    assert np.allclose(ebm.load(tmp_path / "m").parameters, result.model.parameters, atol=1e-9)
    assert "--l2 0.01" in capsys.readouterr().out


def test_center_of_the_written_model(table: Path, rows: np.ndarray, tmp_path: Path) -> None:
    for center in ("none", "mean"):
        assert main(["fit", str(table), "--out", str(tmp_path / center), "--center", center]) == 0
    plain, centered = ebm.load(tmp_path / "none"), ebm.load(tmp_path / "mean")
    assert not plain.center.any()
    assert np.allclose(centered.center, rows.mean(axis=0))
    states = plain.space.states_at(range(8))
    assert np.allclose(plain.energy(states), centered.energy(states))


def test_spins(rows: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", 2 * rows - 1)
    assert main(["fit", str(tmp_path / "s.npy"), "--spins", "--out", str(tmp_path / "m.npz")]) == 0
    model = ebm.load(tmp_path / "m.npz")
    assert isinstance(model, IsingModel)
    assert np.allclose(exact(model).moments().mean, 2 * rows.mean(axis=0) - 1, atol=1e-8)


def test_columns_threshold_and_missing_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,"b, c",party\n1,5,x\n3,2,y\nNA,5,y\n3,5,z\n1,2,z\n', encoding="utf-8")
    argv = ["fit", str(path), "--columns", 'a,"b, c"', "--drop-missing", "--threshold", "2"]
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "4 x 2" in text
    assert "a    0.5000   b, c 0.5000" in text
    assert "1 of 5 rows have a missing value" in text
    assert "greater than 2 were set to 1" in text


def test_many_more_columns_write_the_inversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (analysis, fitting):
        monkeypatch.setattr(module, "MAX_UNITS_SAMPLED", 39)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 2, (200, 40)))
    argv = ["fit", str(tmp_path / "x.npy"), "--out", str(tmp_path / "m.npz"), "--l2", "0.1"]
    assert main([*argv, "--figure", str(tmp_path / "r.pdf")]) == 0
    out, err = capsys.readouterr()
    assert "no fit" in out
    assert "--l2 0.1 has no effect" in " ".join(out.split())
    assert err == ""
    assert ebm.load(tmp_path / "m.npz").n == 40
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")


def test_more_than_32_columns_are_fitted_by_chains(
    table: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (analysis, fitting):
        monkeypatch.setattr(module, "MAX_UNITS_EXACT", 2)
    assert main(["fit", str(table), "--out", str(tmp_path / "m.npz")]) == 0
    out, err = capsys.readouterr()
    assert "1000 persistent Markov chains (3 units, more than 2)" in " ".join(out.split())
    assert "3 columns are too many for an exact fit; Markov chains take their place" in err
    assert ebm.load(tmp_path / "m.npz").n == 3


def test_many_columns_are_said_to_take_minutes(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fitting, "_VERY_SLOW_UNITS", 3)
    assert main(["fit", str(table)]) == 0
    assert "2^3 states many times and may take minutes" in capsys.readouterr().err
    monkeypatch.setattr(fitting, "_VERY_SLOW_UNITS", 4)
    assert main(["fit", str(table)]) == 0
    assert capsys.readouterr().err == ""


def test_penalties_on_couplings_and_biases(
    table: Path, rows: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["fit", str(table), "--l2", "0.02", "--l2-biases", "0.1", "--out", str(tmp_path / "m")]
    assert main(argv) == 0
    start = BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
    result = ebm.fit(start, rows, penalty=ebm.Penalty(l2=0.02, l2_biases=0.1))
    assert np.allclose(ebm.load(tmp_path / "m").parameters, result.model.parameters, atol=1e-9)
    assert "--l2 0.02, --l2-biases 0.1" in capsys.readouterr().out


def test_excluded_columns(table: Path, tmp_path: Path) -> None:
    for option, value in (("--exclude", "Bob"), ("--columns", "0,2"), ("--columns", "Ann,Cid")):
        assert (
            main(["fit", str(table), option, value, "--out", str(tmp_path / "m"), "--force"]) == 0
        )
        assert ebm.load(tmp_path / "m").names == ("Ann", "Cid")
    argv = ["--columns", "1-2", "--exclude", "Cid", "--out", str(tmp_path / "m"), "--force"]
    assert main(["fit", str(table), *argv]) == 0
    assert ebm.load(tmp_path / "m").names == ("Bob",)


def test_demo_reproduces_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", str(tmp_path / "r.json")]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    for number in ("-3.453698 nats", "5.0446", "4.9826", "4.9703", "1 local minimum"):
        assert number in text
    assert "maxent_toolbox" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_seed_moves_only_the_yardstick(table: Path, tmp_path: Path) -> None:
    records = []
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert main(["fit", str(table), "--seed", seed, "--json", str(tmp_path / name)]) == 0
        records.append(json.loads((tmp_path / name).read_text(encoding="utf-8")))
    assert records[0] == records[1]
    assert records[0]["goodness"] != records[2]["goodness"]
    assert records[0]["fit"] == records[2]["fit"]


def test_large_fits_show_their_iterations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, table: Path
) -> None:
    monkeypatch.setattr(fitting, "_SLOW_UNITS", 3)
    assert main(["fit", str(table)]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["fit", str(table)]) == 0
    assert "iteration 0" in capsys.readouterr().err


# Files that are there


@pytest.mark.parametrize("option", ["--out", "--json", "--figure", "--samples-out"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_directory_is_refused_as_one_before_any_work(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, force: list[str]
) -> None:
    folder = tmp_path / "results.csv"
    folder.mkdir()
    message = failure(capsys, "fit", table, option, folder, *force)
    assert message == f"ebm: {folder}: a directory, name a file in it\n"
    with pytest.raises(IsADirectoryError, match="name a file in it"):
        ebm.save(ebm.BoltzmannMachine([[0.0]], [0.0]), folder)


@pytest.mark.parametrize("option", ["--out", "--json", "--figure"])
def test_existing_files_are_refused_before_any_work(
    table: Path,
    tmp_path: Path,
    option: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "r.png"
    path.write_text("precious", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "read_table", None)
        message = failure(capsys, "fit", table, option, path)
    assert "r.png" in message
    assert "--force" in message
    assert path.read_text(encoding="utf-8") == "precious"
    assert main(["fit", str(table), option, str(path), "--force"]) == 0
    assert path.read_bytes() != b"precious"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "a", "--json", "a"], "a is named twice"),
        (["--out", "absent/m.npz"], "absent: no such folder"),
        (["--figure", "report.doc"], "no suffix of a figure"),
        (["--figure", "report"], "no suffix of a figure"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_first(
    table: Path,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fitting, "read_table", None)
    assert message in failure(capsys, "fit", table, *options)


def test_the_data_file_is_never_overwritten(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = table.read_bytes()
    assert "named twice" in failure(capsys, "fit", table, "--out", table, "--force")
    assert table.read_bytes() == before


def test_a_failing_command_leaves_an_old_output_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n0,7\n1,1\n", encoding="utf-8")
    (tmp_path / "m.npz").write_text("old", encoding="utf-8")
    failure(capsys, "fit", tmp_path / "bad.csv", "--out", tmp_path / "m.npz", "--force")
    assert (tmp_path / "m.npz").read_text(encoding="utf-8") == "old"


# Bad input


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("a,b\n0,1\n1,2\n", [], ["'b'", "1, 2", "0 or 1", "--threshold", "--columns"]),
        ("a,b\n-1,1\n1,1\n", [], ["'a'", "-1, 1", "--spins"]),
        ("a,b\n0,1\n1,1\n0,0\n", ["--spins"], ["'a'", "0, 1 ", "0 and 1 leave out --spins\n"]),
        ("a,b\n0,3\n1,2\n", [], ["'b'", "2, 3", "--threshold", "--exclude"]),
        ("a,b\n1,2\n2,1\n", [], ["'a'", "--threshold 1 turns 1 into 0 and 2 into 1"]),
        ("a,b\n1,3\n3,1\n", ["--spins"], ["'a'", "1, 3", "--threshold 1", "leave out --spins"]),
        ("a,b\ny,1\nn,0\n", [], ["'a'", "'y'", "'n'", "--exclude a\n"]),
        ("#2020\na,b\n0,1\n", [], ["comments are not read"]),
        ("a,b c,d\n0,1,1\n1,1,1\n", [], ["'b c', 'd'", "never change", "--exclude 'b c,d'"]),
        ("a,b\n0,1\nNA,1\n", [], ["'a'", "1 of 2 rows", "--drop-missing"]),
        ("a,b\n0,1\n0,0\n", [], ["'a'", "never changes", "l2"]),
        ("a,b\n0,1\n1,1,1\n", [], ["data row 2"]),
        ("", [], ["empty"]),
        ("a,b\n0,1\n1,0\n", ["--columns", "a,c"], ["'c'", "'a', 'b'"]),
        ("a,b\n0,1\n1,0\n", ["--columns", ""], ["columns is empty"]),
        ("a,b\n0,1\n1,0\n", ["--threshold", "nan"], ["must be a finite number, got nan\n"]),
        ("a,b\n0,1\n1,0\n", ["--threshold", "a=inf"], ["must be a finite number, got inf\n"]),
    ],
)
def test_bad_data_end_in_one_sentence(
    tmp_path: Path,
    text: str,
    options: list[str],
    parts: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    message = failure(capsys, "fit", path, *options)
    for part in parts:
        assert part in message


@pytest.mark.parametrize("name", ["absent.csv", "folder.csv"])
def test_files_that_cannot_be_opened(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.csv").mkdir()
    assert name in failure(capsys, "fit", tmp_path / name)


@pytest.mark.parametrize("shape", [(15, 400), (40, 60)])
def test_a_transposed_table_is_pointed_out_once_before_any_work(
    tmp_path: Path,
    shape: tuple[int, int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.random.default_rng(0).integers(0, 2, shape)
    np.save(tmp_path / "x.npy", rows)

    def checked(*arguments: Any, **options: Any) -> Any:
        assert capsys.readouterr().err.count("transposed") == 1
        return analysis.analyze(*arguments, **options)

    monkeypatch.setattr(fitting, "analyze", checked)
    assert main(["fit", str(tmp_path / "x.npy")]) == 0
    out, err = capsys.readouterr()
    assert "transposed" not in out + err
    assert f"{shape[0]} rows for {shape[1]} units" in out


def test_a_large_transposed_table_is_refused_with_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.ones((15, 40000), dtype=np.int8))
    assert main(["fit", str(tmp_path / "x.npy")]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "15 rows of 40000 columns: is this table transposed?" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fit"],
        ["fit", "x.csv", "--l2", "-1"],
        ["fit", "x.csv", "--l2", "nan"],
        ["fit", "x.csv", "--l2", "abc"],
        ["fit", "x.csv", "--l2-biases", "inf"],
        ["fit", "x.csv", "--seed", "-1"],
        ["fit", "x.csv", "--seed", "1.5"],
        ["fit", "x.csv", "--threshold", "abc"],
        ["fit", "x.csv", "--center", "median"],
        ["demo", "x.csv"],
    ],
)
def test_wrong_usage_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(argv)
    assert error.value.code == 2
    message = capsys.readouterr().err
    assert "usage: ebm" in message
    assert " _" not in message  # no name of a private function


def test_help_says_what_numbers_and_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(["fit", "--help"])
    assert error.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "positions counted from 0" in said
    assert "1 it did not converge; 2 an error; 130 interrupted" in said


@pytest.mark.parametrize("option", ["--figure", "--edge-figure"])
def test_figures_are_files(table: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "name a file" in failure(capsys, "fit", table, option, "-")


def test_no_model_to_write_is_an_error_after_all_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (analysis, fitting):
        monkeypatch.setattr(module, "MAX_UNITS_SAMPLED", 39)
    rows = np.random.default_rng(0).integers(0, 2, (200, 40))
    rows[:, 3] = 0
    np.save(tmp_path / "x.npy", rows)
    outputs = [f"--{kind}={tmp_path / name}" for kind, name in
               (("out", "m.npz"), ("json", "r.json"), ("figure", "r.png"))]  # fmt: skip
    assert main(["fit", str(tmp_path / "x.npy"), *outputs]) == 2
    out, err = capsys.readouterr()
    assert "never changes" in out
    assert "--exclude 'column 3'" in out
    assert err.startswith("ebm: there is no model")
    assert not (tmp_path / "m.npz").exists()
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["couplings"] is None
    assert (tmp_path / "r.png").exists()


def test_a_fit_without_a_maximum_is_written_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "0,1\n1,0\n0,0\n" * 9, encoding="utf-8")
    argv = ["fit", str(tmp_path / "x.csv"), "--out", str(tmp_path / "m.npz")]
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert out.startswith("NOT CONVERGED")
    assert err == ""
    assert ebm.load(tmp_path / "m.npz").n == 2
    assert main([*argv, "--l2", "0.04", "--force"]) == 0


# Surroundings


def test_only_the_figure_needs_matplotlib(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["fit", str(table)]) == 0
    capsys.readouterr()
    message = failure(capsys, "fit", table, "--figure", table.with_suffix(".png"))
    assert "pip install 'ebm-framework[plot]'" in message


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "ebm: interrupted"),
        (MemoryError(), 2, "ebm: not enough memory"),
        (PermissionError(13, "Permission denied", "x.csv"), 2, "ebm: x.csv: permission denied"),
    ],
)
def test_interruptions_have_their_own_codes(
    table: Path,
    raised: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise raised

    monkeypatch.setattr(fitting, "analyze", stop)
    assert main(["fit", str(table)]) == code
    assert capsys.readouterr().err == message + "\n"


def test_an_interrupted_fit_is_reported_but_is_no_success(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = analysis.fit

    def interrupted(model: Any, data: Any, **options: Any) -> Any:
        calls = []

        def average(model: Any) -> Any:
            calls.append(model)
            if len(calls) == 4:
                raise KeyboardInterrupt
            return exact(model)

        return fit(model, data, loss=ebm.Likelihood(average), **options)

    monkeypatch.setattr(analysis, "fit", interrupted)
    assert main(["fit", str(table)]) == 130
    assert "NOT CONVERGED: interrupted" in capsys.readouterr().out


def test_an_interrupt_beside_the_fit_is_no_success(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(_sections, "goodness", stop)
    assert main(["fit", str(table), "--out", str(table.with_suffix(".npz"))]) == 130
    assert "Interrupted: sections" in capsys.readouterr().out
    assert ebm.load(table.with_suffix(".npz")).space.n == 3


def command(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-m", "ebm", *argv],
        capture_output=True, text=True, encoding="utf-8", env=environment, check=False, **options,
    )  # fmt: skip


def test_the_module_is_a_command(table: Path) -> None:
    done = command("fit", str(table))
    assert done.returncode == 0
    assert "400 x 3" in done.stdout
    assert done.stderr == ""
    folder = Path(ebm.__file__).parent
    wanted = f"ebm-framework {ebm.__version__} (import ebm), from {folder}\n{processor()}\n"
    assert command("--version").stdout == wanted


def test_the_module_fails_like_a_command(tmp_path: Path) -> None:
    done = command("fit", str(tmp_path / "absent.csv"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"ebm: {tmp_path / 'absent.csv'}: no such file or directory\n"


def test_a_closed_pipe_is_no_traceback(table: Path) -> None:
    line = f"{sys.executable} -m ebm fit {table} --out {table}.npz | true"
    environment = os.environ | {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    done = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stderr == ""
    assert ebm.load(f"{table}.npz").n == 3


def test_ctrl_c_in_the_middle_of_an_import_is_an_interrupt() -> None:
    """Half a module raises its own errors; nothing else is taken for an interrupt."""

    def half_imported() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise AttributeError("module has no attribute 'core'") from None

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), _Interrupts():
        half_imported()
    with pytest.raises(AttributeError), _Interrupts():
        raise AttributeError("no interrupt")
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_modules_are_loaded_is_a_sentence() -> None:
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ebm.cli.command':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from ebm.cli import main\n"
        "sys.exit(main([]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "ebm: interrupted\n")


def test_incomplete_rows_are_kept_when_asked(tmp_path: Path, capsys: Any) -> None:
    """The likelihood sums over missing cells; the report counts them, and says the assumption."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2, (60, 3)).astype(str)
    cells[rng.random(cells.shape) < 0.2] = "NA"
    path = tmp_path / "survey.csv"
    path.write_text("a,b,c\n" + "\n".join(",".join(row) for row in cells) + "\n")
    model, numbers = tmp_path / "model.npz", tmp_path / "report.json"
    argv = ["fit", str(path), "--missing-at-random", "--out", str(model), "--json", str(numbers)]
    assert main(argv) == 0
    text = capsys.readouterr().out
    n_missing = int((cells == "NA").sum())
    assert f"{n_missing} of 180" in text
    assert "missing at random" in text
    table = ebm.read_table(path, drop_missing="never")
    start = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), names=["a", "b", "c"])
    result = ebm.fit(start, ebm.IncompleteEnsemble.from_data(table))
    np.testing.assert_allclose(ebm.load(model).parameters, result.model.parameters, atol=1e-9)
    summary = json.loads(numbers.read_text())["summary"]
    assert sum(summary["n_missing"]) == n_missing
    assert summary["n_complete"] == (cells != "NA").all(axis=1).sum()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--missing-at-random", "--drop-missing"], "not allowed with"),
        (["--missing-at-random", "--figure", "x.png"], "--figure draws statistics of complete"),
        ([], "--missing-at-random, or leave columns out"),
    ],
)
def test_what_missing_cells_exclude_is_said(
    tmp_path: Path, capsys: Any, argv: list[str], words: str
) -> None:
    """One choice, and no figure of complete rows."""
    path = tmp_path / "survey.csv"
    path.write_text("a,b\n0,1\nNA,1\n1,0\n1,1\n0,0\n")
    argv = [str(tmp_path / word) if word == "x.png" else word for word in argv]
    try:
        code = main(["fit", str(path), *argv])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert words in " ".join(capsys.readouterr().err.split())
