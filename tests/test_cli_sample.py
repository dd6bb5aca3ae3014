"""``ebm sample``: rows of a saved model, how they were drawn, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebm
from ebm.cli import drawing, fitting, main
from ebm.report import analysis
from ebm.tables import read_table, write_table
from tests.sampling.test_interrupts import Interrupted
from tests.statistical import check_distribution

NAMES = ["Ann", "Bob", "Cid"]
WEIGHTS = [[0, 1, -1], [1, 0, 0.5], [-1, 0.5, 0]]
MACHINE = ebm.BoltzmannMachine(WEIGHTS, [-0.5, 0.2, 0.4], names=NAMES)


def saved(model: Any, folder: Path) -> Path:
    ebm.save(model, folder / "model.npz")
    return folder / "model.npz"


def sampled(*argv: Any) -> int:
    return main(["sample", *map(str, argv)])


def failure(capsys: pytest.CaptureFixture[str], *argv: Any) -> str:
    """The one sentence of a command that fails, without draws."""
    assert sampled(*argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ebm: ")
    assert err.count("\n") == 1
    return str(err)


# Draws


def test_csv_to_the_standard_output(tmp_path: Path, capsysbinary: Any) -> None:
    assert sampled(saved(MACHINE, tmp_path), "-n", 5, "--seed", 3) == 0
    out, err = capsysbinary.readouterr()
    lines = out.decode().splitlines()
    assert lines[0] == "Ann,Bob,Cid"
    assert len(lines) == 6
    assert set("".join(lines[1:])) <= set("01,")
    assert err == b"ebm: 5 independent draws by exact enumeration (seed 3)\n"
    wanted = ebm.exact(MACHINE).sample(5, rng=3).astype(int)
    assert [list(map(int, line.split(","))) for line in lines[1:]] == wanted.tolist()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".npz"])
@pytest.mark.parametrize("model", [MACHINE, MACHINE.to_spins()])
def test_files_are_read_back_with_names_in_the_coding_of_the_model(
    tmp_path: Path, model: Any, suffix: str
) -> None:
    path = tmp_path / f"draws{suffix}"
    assert sampled(saved(model, tmp_path), "-n", 4000, "--seed", 1, "-o", path) == 0
    table = read_table(path)
    assert table.names == tuple(NAMES)
    check_distribution(table.states, ebm.exact(model).weights, model.space)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_units_without_names_are_columns(tmp_path: Path, n: int) -> None:
    model = ebm.IsingModel(np.zeros((n, n)), np.zeros(n))
    path = tmp_path / "draws.csv"
    assert sampled(saved(model, tmp_path), "-o", path) == 0
    table = read_table(path)
    assert table.names == tuple(f"column {k}" for k in range(n))
    assert table.states.shape == (1000, n)


def test_other_models_are_drawn_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    potts = ebm.PottsModel(np.zeros((2, 2, 130, 130)), np.zeros((2, 130)))
    path = tmp_path / "draws.npy"
    assert sampled(saved(potts, tmp_path), "-o", path) == 0
    assert np.load(path).max() > 100
    restricted = ebm.RestrictedBoltzmannMachine(np.ones((3, 2)), np.zeros(3), np.zeros(2))
    ebm.save(restricted, tmp_path / "rbm.npz")
    assert sampled(tmp_path / "rbm.npz", "-n", 3) == 0
    assert "exact enumeration" in capsys.readouterr().err


def test_chains_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(MACHINE, tmp_path)
    path = tmp_path / "draws.npy"
    options = ("--n-chains", 3, "--burn-in", 20, "--thin", 2, "--seed", 5)
    assert sampled(model, "-n", 1000, *options, "-o", path) == 0
    samples = ebm.sample(
        MACHINE, n_draws=334, n_chains=3, burn_in=20, run=ebm.sampling.SamplingRun(thin=2), rng=5
    )
    np.testing.assert_array_equal(np.load(path), samples.chains.reshape(-1, 3)[:1000])
    err = capsys.readouterr().err
    assert "1000 draws of 3 Gibbs chains, 20 sweeps before the first draw and 2 from" in err
    assert f"R-hat at most {samples.r_hat.max():.3f} (" in err
    assert f"worth at least {samples.ess.min():.0f} independent ones (" in err


def test_chains_where_an_enumeration_takes_too_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n = 60
    couplings = np.triu(np.random.default_rng(0).normal(0, 0.01, (n, n)), 1)
    model = ebm.BoltzmannMachine(couplings + couplings.T, np.linspace(-1, 1, n))
    assert sampled(saved(model, tmp_path), "-n", 400, "-o", tmp_path / "x.csv") == 0
    assert "400 draws of 4 Gibbs chains, 100 sweeps" in capsys.readouterr().err
    assert read_table(tmp_path / "x.csv").states.shape == (400, n)


def test_chains_that_disagree_end_with_1_and_their_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two valleys that single-unit flips do not leave."""
    model = ebm.IsingModel(3 * (np.ones((8, 8)) - np.eye(8)), np.zeros(8))
    argv = (saved(model, tmp_path), "-n", 80, "--n-chains", 8, "--seed", 1)
    assert sampled(*argv, "-o", tmp_path / "x.csv") == 1
    err = capsys.readouterr().err
    assert "R-hat above 1.05: the chains do not agree, raise --burn-in and --thin" in err
    assert "Warning" not in err
    assert len(read_table(tmp_path / "x.csv").states) == 80


def test_units_that_never_change_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ebm.BoltzmannMachine(np.zeros((2, 2)), [0.1, 60.0], names=["free", "stuck"])
    assert sampled(saved(model, tmp_path), "-n", 200, "--n-chains", 2) == 0
    assert capsys.readouterr().err.count("unit 'stuck' never changes") == 1
    model = ebm.BoltzmannMachine(np.zeros((1, 1)), [60.0])
    ebm.save(model, tmp_path / "all.npz")
    assert sampled(tmp_path / "all.npz", "-n", 200, "--n-chains", 2) == 1


def test_few_draws_say_nothing_of_the_chains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(MACHINE, tmp_path)
    assert sampled(model, "-n", 3, "--n-chains", 10) == 0
    out, err = capsys.readouterr()
    assert "3 draws of 3 Gibbs chains" in err
    assert "cannot be said" in err
    assert out.count("\n") == 4


def test_the_seed_is_fresh_and_said_or_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(MACHINE, tmp_path)
    assert sampled(model, "-n", 50) == 0
    first, said = capsys.readouterr()
    assert sampled(model, "-n", 50) == 0
    assert capsys.readouterr().out != first
    seed = said.rsplit("seed ", 1)[1].strip(")\n")
    assert sampled(model, "-n", 50, "--seed", seed) == 0
    assert capsys.readouterr().out == first


# Refusals


def test_what_is_no_model_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.csv").write_text("a,b\n0,1\n", encoding="utf-8")
    assert "not a model file" in failure(capsys, tmp_path / "x.csv")
    assert "no such file" in failure(capsys, tmp_path / "absent.npz")
    assert "directory" in failure(capsys, tmp_path)


def test_outputs_are_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(MACHINE, tmp_path)
    old = tmp_path / "old.csv"
    old.write_text("precious", encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(drawing, "load", None)
        assert "--force" in failure(capsys, model, "-o", old)
        assert "named twice" in failure(capsys, model, "-o", model, "--force")
        assert "no such folder" in failure(capsys, model, "-o", tmp_path / "absent" / "x.csv")
        assert "suffix .txt, wanted .csv" in failure(capsys, model, "-o", tmp_path / "x.txt")
        assert "both go to the standard output" in failure(capsys, model, "--json", "-")
    assert old.read_text(encoding="utf-8") == "precious"
    assert sampled(model, "-o", old, "--force") == 0
    assert old.read_text(encoding="utf-8").startswith("Ann,Bob,Cid\n")


def test_too_many_draws_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = failure(capsys, saved(MACHINE, tmp_path), "-n", 10**13)
    assert "draw fewer" in message


@pytest.mark.parametrize(
    "options",
    [["-n", "0"], ["-n", "x"], ["--n-chains", "0"], ["--burn-in", "-1"], ["--thin", "1.5"],
     ["--seed", "-1"], []],
)  # fmt: skip
def test_wrong_usage_exits_with_2(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    model = ["model.npz"] if options else []
    with pytest.raises(SystemExit) as error:
        main(["sample", *model, *options])
    assert error.value.code == 2
    message = capsys.readouterr().err
    assert "usage: ebm sample" in message
    assert " _" not in message


@pytest.mark.parametrize(
    "names", [["0", "1"], ["1", "2", "3"], [" a", "b"], ["a", "b\rc"], ["#a", "b"], ["", "NA"]]
)
def test_names_that_text_would_not_keep_are_refused(
    tmp_path: Path, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    n = len(names)
    model = saved(ebm.IsingModel(np.zeros((n, n)), np.zeros(n), names=names), tmp_path)
    for options in ([], ["-o", tmp_path / "x.csv"]):
        assert sampled(model, *options) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "would not be read back as it is from a text file" in err
    assert not (tmp_path / "x.csv").exists()
    assert sampled(model, "-o", tmp_path / "x.npz") == 0
    if all(name.strip() == name and name for name in names):
        assert read_table(tmp_path / "x.npz").names == tuple(names)


def test_names_with_commas_and_quotes_are_kept(tmp_path: Path) -> None:
    names = ["a, b", 'the "c"', "Ünit; 3"]
    for suffix in (".csv", ".tsv"):
        write_table(tmp_path / f"x{suffix}", [[0, 1, 1], [1, 0, 0]], names)
        assert read_table(tmp_path / f"x{suffix}").names == tuple(names)


@pytest.mark.parametrize(
    ("states", "names", "match"),
    [
        ([0, 1], None, r"shape \(n_rows, n_columns\), got \(2,\)"),
        (np.zeros((0, 2)), None, "got \\(0, 2\\)"),
        ([[0.5, 1]], None, "must be integers"),
        ([[np.nan, 1]], None, "must be integers"),
        ([["a", "b"]], None, "must be integers"),
        ([[0, 1]], ["a"], "2 columns but 1 names"),
        ([[0, 1]], ["a", "a"], "'a' 2 times"),
    ],
)
def test_tables_that_cannot_be_written(tmp_path: Path, states: Any, names: Any, match: str) -> None:
    with pytest.raises(ebm.EbmError, match=match):
        write_table(tmp_path / "x.csv", states, names)
    assert not list(tmp_path.iterdir())


# After a fit


def test_a_fit_draws_from_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ebm.exact(MACHINE).sample(300, rng=4)
    write_table(tmp_path / "data.csv", rows, NAMES)
    argv = ["fit", str(tmp_path / "data.csv"), "-o", str(tmp_path / "m.npz")]
    argv += ["--samples-out", str(tmp_path / "draws.csv")]
    assert main([*argv, "--samples", "5000"]) == 0
    assert "5000 independent draws" in capsys.readouterr().err
    table = read_table(tmp_path / "draws.csv")
    assert table.names == tuple(NAMES)
    fitted = ebm.exact(ebm.load(tmp_path / "m.npz"))
    check_distribution(table.states, fitted.weights, fitted.space)
    assert main([*argv, "--force"]) == 0
    assert len(read_table(tmp_path / "draws.csv").states) == 300


def test_draws_of_a_fit_need_a_file_and_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (analysis, fitting):
        monkeypatch.setattr(module, "MAX_UNITS_SAMPLED", 39)
    rows = np.random.default_rng(0).integers(0, 2, (200, 40))
    rows[:, 3] = 0
    np.save(tmp_path / "x.npy", rows)
    assert main(["fit", str(tmp_path / "x.npy"), "--samples", "3"]) == 2
    assert "--samples-out draws.csv" in capsys.readouterr().err
    assert main(["demo", "--samples-out", str(tmp_path / "x.doc")]) == 2
    assert "suffix .doc" in capsys.readouterr().err
    draws = tmp_path / "draws.csv"
    assert main(["fit", str(tmp_path / "x.npy"), "--samples-out", str(draws)]) == 2
    assert "there is no model to write to" in capsys.readouterr().err
    assert not draws.exists()


# Surroundings


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("| head -n 1", 0, "Ann,Bob,Cid\n"),
        ("| true", 0, ""),
        (">&-", 2, ""),
        ("2>&- | tail -n 1 | tr -d 01", 0, ",,\n"),
        (">&- 2>&-", 2, ""),
        ("> /dev/full", 2, ""),
    ],
)
def test_streams_that_are_closed_or_full(
    tmp_path: Path, redirection: str, code: int, said: str
) -> None:
    model = saved(MACHINE, tmp_path)
    line = f"{{ {sys.executable} -m ebm sample {model} -n 40000; echo $? > {tmp_path}/code; }}"
    environment = os.environ | {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    done = subprocess.run(
        ["/bin/sh", "-c", f"{line} {redirection}"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.stdout == said
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert (tmp_path / "code").read_text().strip() == str(code)
    if code == 2 and "2>&-" not in redirection:
        assert done.stderr.splitlines()[-1].startswith("ebm: ")


@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
@pytest.mark.parametrize("named", ["--json -", "-o -"])
def test_a_result_that_does_not_arrive_is_no_success(
    tmp_path: Path, redirection: str, named: str
) -> None:
    """The code was 0, beside a closed standard output without a word."""
    model = saved(MACHINE, tmp_path)
    environment = os.environ | {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m ebm exact {model} -q {named} {redirection}"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert re.fullmatch("ebm: (the standard output: is closed|no space left).*\n", done.stderr)


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-"])
def test_a_fit_needs_no_standard_output(tmp_path: Path, redirection: str) -> None:
    write_table(tmp_path / "data.csv", ebm.exact(MACHINE).sample(300, rng=4), NAMES)
    line = f"{sys.executable} -m ebm fit {tmp_path}/data.csv -o {tmp_path}/m.npz {redirection}"
    environment = os.environ | {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    done = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ebm.load(tmp_path / "m.npz").names == tuple(NAMES)


def test_a_fit_that_would_leave_nothing_is_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "data.csv", ebm.exact(MACHINE).sample(300, rng=4), NAMES)
    environment = os.environ | {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m ebm fit {tmp_path}/data.csv >&-"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "the standard output: is closed, name a file with --out" in done.stderr


def test_an_interruption_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(drawing, "exact", stop)
    assert sampled(saved(MACHINE, tmp_path), "-o", tmp_path / "x.csv") == 130
    assert capsys.readouterr().err == "ebm: interrupted\n"
    assert not (tmp_path / "x.csv").exists()


def test_an_interrupt_leaves_the_draws_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def sample(model: Any, **settings: Any) -> Any:
        return ebm.sample(model, Interrupted(40), **settings)

    monkeypatch.setattr(drawing, "sample", sample)
    target = tmp_path / "draws.npy"
    assert sampled(saved(MACHINE, tmp_path), "-n", 4000, "--thin", 2, "-o", target) == 130
    assert np.load(target).shape == (64, 3)
    err = capsys.readouterr().err
    assert "interrupted after 16 of 1000 draws of each chain, which are returned" in err
    assert "64 draws of 4 Gibbs chains" in err
