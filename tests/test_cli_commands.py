"""Commands on saved models and files: the numbers of the library, as text, JSON and tables."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebm
from ebm.cli import main
from ebm.cli.command import _WITH_PROGRESS, _parser
from ebm.cli.examples import EXAMPLES
from ebm.cli.heating import grid
from tests.test_cli import failure

NAMES = ("tax", "school", "road")
WEIGHTS = [[0, 1, -1], [1, 0, 0.5], [-1, 0.5, 0]]
MACHINE = ebm.BoltzmannMachine(WEIGHTS, [-0.5, 0.2, 0.4], offset=0.25, names=NAMES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a table of words, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    ebm.save(MACHINE, tmp_path / "model.npz")
    rows = ebm.exact(MACHINE).sample(300, rng=4).astype(int)
    lines = [",".join([*NAMES, "party"])]
    for k, row in enumerate(rows):
        lines.append(",".join([*(("no", "yes")[x] for x in row), ("left", "right")[k % 2]]))
    (tmp_path / "votes.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def parsers() -> dict[str, argparse.ArgumentParser]:
    actions = _parser()._actions
    return next(a.choices for a in actions if isinstance(a, argparse._SubParsersAction))


def recorded(capsys: pytest.CaptureFixture[str], *argv: Any, code: int = 0) -> Any:
    """What ``--json -`` prints alone on the standard output, with the text beside it."""
    assert main([*map(str, argv), "--json", "-"]) == code
    out, err = capsys.readouterr()
    record = json.loads(out)
    assert record["command"] == argv[0]
    assert "not known" not in record["why_null"].values()
    return record, err


# Help


def test_every_command_has_an_example_that_its_help_shows_and_that_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "model.npz").unlink()
    assert list(parsers()) == list(EXAMPLES)
    for name, example in EXAMPLES.items():
        text = " ".join(parsers()[name].format_help().split())
        assert f"Example: {example} Exit codes: 0" in text
        program, command, *argv = shlex.split(example)
        assert (program, command) == ("ebm", name)
        assert main([command, *argv]) == 0, example
    assert {"model.npz", "draws.csv", "curves.csv", "couplings.csv", "spikes.json"} <= {
        path.name for path in folder.iterdir()
    }
    assert "Traceback" not in capsys.readouterr().err


def test_every_command_is_quiet_and_records_its_numbers() -> None:
    for name, command in parsers().items():
        options = {o for action in command._actions for o in action.option_strings}
        assert {"--json", "--quiet", "-q", "--force"} <= options
        assert ("--progress" in options) == (name in _WITH_PROGRESS)


# Averages


def test_exact_prints_the_numbers_of_the_library(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, text = recorded(capsys, "exact", "model.npz", "-o", "states.csv")
    ensemble = ebm.exact(MACHINE)
    moments = ensemble.moments()
    assert record["log_partition_nats"] == ensemble.log_partition
    assert record["free_energy_kT"] == -ensemble.log_partition
    assert record["mean_energy_kT"] == ensemble.mean_energy()
    assert record["entropy_bits"] == ensemble.entropy(base=2)
    assert record["entropy_nats"] == ensemble.entropy()
    assert record["means"] == dict(zip(NAMES, moments.mean.tolist(), strict=True))
    pairs = record["strongest_covariances"]
    sizes = [abs(pair["covariance"]) for pair in pairs]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == record["n_covariances"] == 3
    for pair in pairs:
        i, j = map(NAMES.index, pair["units"])
        assert pair["covariance"] == moments.covariance[i, j]
        assert pair["correlation"] == pytest.approx(moments.correlation[i, j], rel=1e-14)
        assert f"{pair['covariance']:.4f}" in text
    for key in ("log_partition_nats", "mean_energy_kT", "entropy_bits"):
        assert f"{record[key]:.6f}" in text
    with (folder / "states.csv").open() as file:
        rows = list(csv.DictReader(file))
    states = [[float(row[name]) for name in NAMES] for row in rows]
    np.testing.assert_array_equal(states, ensemble.states)
    probabilities = np.array([float(row["probability"]) for row in rows])
    np.testing.assert_allclose(probabilities, ensemble.weights, rtol=1e-12)
    energies = [float(row["energy_kT"]) for row in rows]
    np.testing.assert_allclose(energies, MACHINE.energy(ensemble.states), rtol=1e-12)


def test_means_of_levels_are_those_of_each_level(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    potts = ebm.PottsModel(np.zeros((2, 2, 3, 3)), [[0, 1, 2], [0, 0, 0]], names=["a", "b"])
    ebm.save(potts, folder / "potts.npz")
    record, _ = recorded(capsys, "exact", "potts.npz")
    assert list(record["means"]) == ["a=0", "a=1", "a=2", "b=0", "b=1", "b=2"]
    assert record["means"]["a=2"] == pytest.approx(np.exp(2) / (1 + np.e + np.exp(2)))
    # Levels of one unit exclude each other, which is no coupling.
    pairs = record["strongest_covariances"]
    assert len(pairs) == record["n_covariances"] == 9
    assert all({u[0] for u in pair["units"]} == {"a", "b"} for pair in pairs)


def test_a_unit_that_never_changes_has_no_correlation_and_a_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ebm.save(ebm.BoltzmannMachine(np.zeros((2, 2)), [0, 800.0]), folder / "stuck.npz")
    record, _ = recorded(capsys, "exact", "stuck.npz")
    assert record["strongest_covariances"][0]["correlation"] is None
    (reason,) = record["why_null"].values()
    assert reason == "one of the two units never changes"
    assert list(record["why_null"]) == ["strongest_covariances[].correlation"]


def test_sums_that_take_too_long_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n = 60
    couplings = np.triu(np.random.default_rng(0).normal(0, 1, (n, n)), 1)
    ebm.save(ebm.IsingModel(couplings + couplings.T, np.zeros(n)), folder / "large.npz")
    assert "2^60" in failure(capsys, "exact", "large.npz", "--max-seconds", "1")
    real = ebm.PairwiseModel(ebm.Reals(2), [[-2.0, 0.5], [0.5, -2.0]], [0.1, 0.2])
    ebm.save(real, folder / "real.npz")
    assert "--out lists all states" in failure(capsys, "exact", "real.npz", "-o", "x.csv")
    record, _ = recorded(capsys, "exact", "real.npz")
    assert record["log_partition_nats"] == ebm.exact(real).log_partition


def test_a_table_lists_all_states(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["table", "model.npz", "--order", "energy", "-o", "t.csv", "--figure", "levels.png"]
    record, text = recorded(capsys, *argv)
    wanted = ebm.table(MACHINE, order="energy")
    assert text == f"{wanted}\n"
    assert record["log_partition_nats"] == wanted.log_partition
    assert [state["energy_kT"] for state in record["states"]] == wanted.energies.tolist()
    assert [list(state["state"].values()) for state in record["states"]] == wanted.states.tolist()
    with (folder / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["probability"]) for row in rows] == wanted.probabilities.tolist()
    assert (folder / "levels.png").stat().st_size
    forbidden = ebm.TabularModel([0.0, np.inf], space=ebm.Binary(1))
    ebm.save(forbidden, folder / "forbidden.npz")
    record, _ = recorded(capsys, "table", "forbidden.npz")
    assert record["states"][1]["energy_kT"] is None
    assert "forbidden" in record["why_null"]["states[].energy_kT"]


# Temperatures


@pytest.mark.parametrize("axis", [["--betas", "0.5,1,2"], ["--temperatures", "2,1,0.5"]])
def test_thermodynamics_prints_and_writes_the_numbers_of_the_library(
    folder: Path, axis: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["thermodynamics", "model.npz", *axis, "-o", "curves.csv", "--figure", "curves.png"]
    record, text = recorded(capsys, *argv)
    wanted = ebm.thermodynamics(MACHINE, [0.5, 1.0, 2.0])
    assert text == f"{wanted}\n"
    assert record["betas"] == [0.5, 1.0, 2.0]
    for name, key in (("energy", "energy_kT"), ("entropy", "entropy_nats"),
                      ("heat_capacity", "heat_capacity_k")):  # fmt: skip
        assert record[key] == wanted[name].value.tolist()
        assert record[f"{key}_standard_error"] == [0.0] * 3
    assert record["why_null"] == {"seed": "the sums are exact, nothing was drawn"}
    with (folder / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["binder_cumulant"]) for row in rows] == record["binder_cumulant"]
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_tempering_has_errors_and_a_seed_that_repeats_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["thermodynamics", "model.npz", "--betas", "1", "--method", "tempering", "--seed", "7"]
    argv += ["--n-draws", "200", "--n-chains", "4"]
    first, text = recorded(capsys, *argv)
    again, _ = recorded(capsys, *argv)
    assert first == again
    assert first["seed"] == 7
    assert "chains with seed 7" in text
    wanted = ebm.thermodynamics(MACHINE, [1.0], method="tempering", rng=7, n_draws=200, n_chains=4)
    assert first["energy_kT"] == wanted["energy"].value.tolist()
    assert first["energy_kT_standard_error"] == wanted["energy"].standard_error.tolist()
    assert first["energy_kT_standard_error"][0] > 0


def test_temperatures_are_numbers_or_equal_steps() -> None:
    assert grid("0.5,1,2") == [0.5, 1.0, 2.0]
    assert grid("1:2:5") == [1.0, 1.25, 1.5, 1.75, 2.0]
    for text in ("", "0,1", "1:2", "1:2:0", "-1", "x", "1:2:3:4", "inf", "nan", "0:1:3"):
        with pytest.raises(argparse.ArgumentTypeError, match="above 0"):
            grid(text)


# Estimators


def test_compare_is_the_comparison_of_the_library(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--yes", "yes", "--no", "no", "--exclude", "party"]
    argv = ["compare", "votes.csv", "model.npz", *words, "--estimators", "fit,tap"]
    record, text = recorded(capsys, *argv, "-o", "routes.csv", "--figure", "routes.png")
    table = ebm.read_table("votes.csv", yes="yes", no="no", exclude=["party"])
    data = ebm.Ensemble.from_data(table)
    result = ebm.fit(ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3), names=NAMES), data)
    models = [MACHINE, result.model, ebm.inversion.tap(data)]
    wanted = ebm.compare(data, *map(ebm.exact, models), names=["data", "model", "fit", "tap"])
    assert text == f"{wanted}\n"
    assert [route["name"] for route in record["routes"]] == list(wanted.names)
    for route, own in zip(record["routes"][1:], wanted.routes[1:], strict=True):
        assert route["log_partition_nats"] == own.log_partition
        assert route["covariances"]["rms"] == own.covariances.rms
        assert route["covariances"]["largest_z"] == own.covariances.largest_z
    # The text has a stroke there.
    assert record["routes"][0]["means"]["largest_z"] is None
    with (folder / "routes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["data", "model", "fit", "tap"]
    assert float(rows[2]["means_rms"]) == wanted["fit"].means.rms


def test_an_estimator_without_an_answer_is_left_out_with_its_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "same.csv").write_text("a,b\n" + "0,0\n1,1\n" * 20)
    record, text = recorded(capsys, "compare", "same.csv", "--l2", "0.01")
    assert "tap" in record["left_out"]
    assert "tap is left out: " in text
    assert [route["name"] for route in record["routes"]][:2] == ["data", "fit"]
    assert "always equal" in failure(capsys, "compare", "same.csv", "--estimators", "tap")
    assert "nothing to compare" in failure(capsys, "compare", "same.csv", "--estimators", "none")


def test_models_of_equal_names_are_told_apart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "sub").mkdir()
    ebm.save(MACHINE.scaled(2.0), folder / "sub" / "model.npz")
    ebm.save(MACHINE, folder / "fit.npz")
    assert main(["sample", "model.npz", "-n", "50", "-o", "d.csv", "-q"]) == 0
    argv = ["compare", "d.csv", "model.npz", "sub/model.npz", "fit.npz", "--estimators", "fit"]
    record, _ = recorded(capsys, *argv, "--l2", "0.01")
    names = [route["name"] for route in record["routes"]]
    assert names == ["data", "model", "sub/model.npz", "fit.npz", "fit"]
    first, second = (route["log_partition_nats"] for route in record["routes"][1:3])
    assert first != second
    argv = ["compare", "d.csv", "model.npz", "model.npz", "model.npz", "--estimators", "none"]
    assert "model.npz is named twice" in failure(capsys, *argv)


def test_an_interrupt_of_a_fit_ends_a_comparison(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ebm.fit

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        return replace(
            fit(*arguments, **settings), converged=False, message="interrupted by Ctrl-C"
        )

    monkeypatch.setattr("ebm.cli.estimating.fit", interrupted)
    (folder / "t.csv").write_text("a,b\n0,1\n1,0\n1,1\n0,0\n")
    assert main(["compare", "t.csv", "--json", "c.json"]) == 130
    assert capsys.readouterr() == ("", "ebm: interrupted\n")
    assert not (folder / "c.json").exists()


def test_too_many_columns_are_refused_before_any_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(folder / "x.npy", np.random.default_rng(0).integers(0, 2, (50, 33)))
    monkeypatch.setattr("ebm.cli.estimating.exact", None)
    assert "33 columns have 2^33 states" in failure(capsys, "compare", "x.npy")


# Files


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("seed", range(3))
def test_models_come_back_from_lists_of_their_couplings_bit_for_bit(
    folder: Path, suffix: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    couplings = np.triu(rng.normal(size=(5, 5)) * (rng.random((5, 5)) < 0.6), 1)
    names = [None, ["a", "b c", "d,e", 'f"g', "ü"]][seed > 0]
    for kind in (ebm.BoltzmannMachine, ebm.IsingModel):
        model = kind(couplings + couplings.T, rng.normal(size=5), offset=rng.normal(), names=names)
        ebm.save(model, folder / "m.npz", overwrite=True)
        assert main(["convert", "m.npz", f"list{suffix}", "--force", "-q"]) == 0
        assert main(["convert", f"list{suffix}", "back.npz", "--force", "-q"]) == 0
        assert ebm.load(folder / "back.npz").equals(model)


def test_codings_of_models_conserve_energies(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, _ = recorded(capsys, "convert", "model.npz", "spins.csv", "--to-spins")
    assert (record["kind"], record["class"], record["coding"]) == ("model", "IsingModel", "Spins")
    assert main(["convert", "spins.csv", "back.npz", "--to-binary"]) == 0
    back, states = ebm.load(folder / "back.npz"), ebm.exact(MACHINE).states
    np.testing.assert_allclose(back.energy(states), MACHINE.energy(states), atol=1e-14)
    first = (folder / "spins.csv").read_text().splitlines()[0]
    assert first == "parameter,unit,other_unit,value_kT"


def test_tables_change_their_files_and_codings(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--yes", "yes", "--no", "no", "--exclude", "party"]
    record, _ = recorded(capsys, "convert", "votes.csv", "rows.npz", "--to-spins", *words)
    assert (record["n_rows"], record["n_units"], record["coding"]) == (300, 3, "Spins")
    assert main(["convert", "rows.npz", "rows.tsv", "--to-binary"]) == 0
    spins, binary = ebm.read_table("rows.npz"), ebm.read_table("rows.tsv")
    np.testing.assert_array_equal(spins.states, 2 * binary.states - 1)
    np.testing.assert_array_equal(binary.states, ebm.exact(MACHINE).sample(300, rng=4))
    assert spins.names == binary.names == NAMES


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rows.csv", "x.npz", "--to-binary"], "'a'"),
        (["model.npz", "x.npy"], "a model is written as .npz"),
        (["model.npz", "x.csv", "--threshold", "1"], "--threshold is for tables"),
        (["model.npz", "x.csv", "--yes", "y"], "--yes is for tables"),
        (["potts.npz", "x.csv"], "no energy of pairs of two-valued units"),
        (["potts.npz", "x.npz", "--to-spins"], "has no other coding"),
        (["wrong.csv", "x.npz"], "wanted coupling and field"),
        (["lonely.csv", "x.npz"], "line 3 of lonely.csv couples 'a' and 'b'"),
        (["text.csv", "x.npz"], "the value 'one': no number"),
        (["twice.csv", "x.npz"], "lines 4 and 5 of twice.csv give the same coupling"),
        (["model.npz", "model.npz", "--force"], "named twice"),
    ],
)
def test_what_cannot_be_converted_is_said(
    folder: Path, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "parameter,unit,other_unit,value_kT\n"
    (folder / "rows.csv").write_text("a,b\n0,1\n1,0\n")
    (folder / "wrong.csv").write_text(head + "field,a,,1\nweight,a,b,2\n")
    (folder / "lonely.csv").write_text(head + "field,a,,1\ncoupling,a,b,2\n")
    (folder / "text.csv").write_text(head + "field,a,,one\n")
    pairs = "coupling,a,b,2\ncoupling,b,a,3\n"
    (folder / "twice.csv").write_text(f"{head}field,a,,1\nfield,b,,1\n{pairs}")
    ebm.save(ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3))), folder / "potts.npz")
    assert said in failure(capsys, "convert", *argv)
    assert not list(folder.glob("x.*"))


# Standard streams


def stdin_of(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_model_and_a_table_come_from_the_standard_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin_of(monkeypatch, (folder / "model.npz").read_bytes())
    record, _ = recorded(capsys, "exact", "-")
    assert record["log_partition_nats"] == ebm.exact(MACHINE).log_partition
    stdin_of(monkeypatch, b"a\tb\n0\t1\n1\t0\n1\t1\n0\t0\n")
    record, text = recorded(capsys, "fit", "-")
    assert record["summary"]["names"] == ["a", "b"]
    assert "4 x 2" in text
    stdin_of(monkeypatch, b"a,b\n0,7\n1,1\n")
    message = failure(capsys, "fit", "-")
    assert "'b'" in message
    stdin_of(monkeypatch, b"no model")
    assert "the standard input is not a model file" in failure(capsys, "exact", "-")


def test_a_model_goes_to_the_standard_output_and_text_beside_it(
    folder: Path, capfdbinary: Any
) -> None:
    (folder / "t.csv").write_text("a,b\n0,1\n1,0\n1,1\n0,0\n")
    assert main(["fit", "t.csv", "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    (folder / "piped.npz").write_bytes(out)
    assert ebm.load(folder / "piped.npz").names == ("a", "b")
    assert b"4 x 2" in err
    assert main(["sample", "piped.npz", "-n", "3", "--seed", "1", "-o", "-", "-q"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.count(b"\n") == 4
    assert err == b""
    assert main(["landscape", "model.npz", "--table", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"minimum,parent,energy,")
    assert b"complete: all 2^3 states" in err


def test_a_stream_is_named_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "standard output is named twice" in failure(
        capsys, "exact", "model.npz", "-o", "-", "--json", "-"
    )
    assert "standard input is named twice" in failure(capsys, "compare", "-", "-")


def test_quiet_leaves_the_result_and_errors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exact", "model.npz", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Exact averages of 3 units")
    assert err == ""
    assert main(["exact", "model.npz", "-q", "--json", "numbers.json"]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["sample", "model.npz", "-n", "2", "-q"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("tax,school,road\n")
    assert err == ""
    assert "numbers.json" in failure(capsys, "exact", "model.npz", "-q", "--json", "numbers.json")


def test_progress_is_shown_where_it_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "t.csv").write_text("a,b\n0,1\n1,0\n1,1\n0,0\n")
    assert main(["fit", "t.csv", "--progress"]) == 0
    out, err = capsys.readouterr()
    assert "iteration 0" in err
    assert "iteration 0" not in out
    with pytest.raises(SystemExit):
        main(["fit", "t.csv", "--progress", "--quiet"])


def test_draws_and_valleys_are_recorded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, _ = recorded(capsys, "sample", "model.npz", "-n", 400, "--seed", 3, "--n-chains", 2,
                         "-o", "d.csv")  # fmt: skip
    assert (record["n_draws"], record["seed"], record["n_chains"]) == (400, 3, 2)
    samples = ebm.sample(MACHINE, n_draws=200, n_chains=2, burn_in=100, rng=3)
    assert record["r_hat"] == dict(zip(NAMES, samples.r_hat.tolist(), strict=True))
    assert record["effective_sample_size"] == dict(zip(NAMES, samples.ess.tolist(), strict=True))
    ebm.save(MACHINE.scaled(2.0), folder / "other.npz")
    draws = ["--data", "d.csv", "--compare", "other.npz"]
    record, text = recorded(capsys, "landscape", "model.npz", *draws)
    wanted, other = ebm.landscape(MACHINE), ebm.landscape(MACHINE.scaled(2.0))
    assert record["n_minima"] == len(wanted) == len(record["minima"])
    for k, minimum in enumerate(record["minima"]):
        assert minimum["energy_kT"] == wanted.energies[k]
        assert list(minimum["state"].values()) == wanted.states[k].tolist()
        assert f"{minimum['probability']:.4g}" in text
        assert (minimum["pass_energy_kT"] is None) == np.isinf(wanted.passes[k])
    seen = wanted.transitions(ebm.read_table("d.csv").states)
    assert record["rows_in_time"]["time_rows"] == seen.time.tolist()
    changes = wanted.compare(other)
    first = record["changes"]["pairs"][0]
    assert first["energy_change_kT"] == changes.energy_changes[0]


def test_groups_are_recorded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--yes", "yes", "--no", "no"]
    argv = ["compare-groups", "votes.csv", "--by", "party", *words, "--permutations", "9"]
    record, _ = recorded(capsys, *argv)
    table, labels = ebm.tables.read_labelled_table("votes.csv", "party", yes="yes", no="no")
    wanted = ebm.compare_groups(table, by=labels)
    (differences,) = wanted.differences
    assert [d["difference_kT"] for d in record["differences"]] == differences.values.tolist()
    errors = [d["difference_kT_standard_error"] for d in record["differences"]]
    assert errors == differences.standard_errors.tolist()
    assert [test["p"] for test in record["equalities"]] == [t.p_value for t in wanted.equalities]
    assert record["groups"]["left"]["n_rows"] == 150
    (draws,) = record["tests_by_draws"]
    assert (draws["null"], draws["n_draws"]) == ("permutations", 9)


ROWS = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]] * 12)


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (ROWS, []),
        (ROWS, ["--l2", "0.1"]),
        (ROWS, ["--k-pairwise"]),
        (ROWS, ["--edge-posterior"]),
        (ROWS, ["--ordinal", "0-1"]),
        (2 * ROWS - 1, ["--spins"]),
        # One unit, and a pair without a maximum: no pairs, and no bounds.
        (ROWS[:, :1], []),
        ([[0, 1], [1, 0], [0, 0]] * 9, []),
        (np.where(np.arange(72)[:, None] % 9 > 0, ROWS, [[np.nan, 1, 0]]), ["--missing-at-random"]),
    ],
)
def test_reports_say_why_numbers_are_null_and_hold_those_of_the_text(
    folder: Path, rows: Any, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [",".join("" if np.isnan(x) else f"{x:g}" for x in row) for row in np.asarray(rows)]
    names = ",".join("abc"[: len(rows[0])])
    (folder / "t.csv").write_text("\n".join([names, *lines]) + "\n")
    argv = ["fit", "t.csv", *options, "--json", "r.json"]
    assert main(argv) in (0, 1)
    text = capsys.readouterr().out
    record = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    assert "not known" not in record["why_null"].values()
    fit = record["fit"]
    assert f"{fit['log_likelihood_nats_per_row']:.6f}" in text
    if "entropies" in record:
        assert f"{record['entropies']['independent_bits']:.4f}" in text
        bits = fit["log_likelihood_bits_per_row"] * np.log(2)
        assert bits == pytest.approx(fit["log_likelihood_nats_per_row"])
    for coupling in (record["couplings"] or {"strongest": []})["strongest"][:1]:
        is_bounded = coupling["value_kT_standard_error"] is not None
        shown = np.array([float(word) for word in re.findall(r"[+-]?\d+\.\d{3,}", text)])
        assert not is_bounded or np.abs(shown - coupling["value_kT"]).min() < 5.1e-4


def test_reasons_are_those_of_keys_that_are_there() -> None:
    """A key that was renamed leaves its reason behind."""
    from ebm.report import parts
    from ebm.report._json_keys import _KEYS, REASONS, json_key
    from ebm.report.items import ItemFit, ItemReport, ItemSummary, Threshold

    records = [getattr(parts, name) for name in dir(parts) if name[0].isupper()]
    records = [*filter(is_dataclass, records), ItemFit, ItemReport, ItemSummary, Threshold]
    keys = {json_key(record, field.name) for record in records for field in fields(record)}
    assert set(REASONS) <= keys
    names = {record.__name__: {field.name for field in fields(record)} for record in records}
    for record, renamed in _KEYS.items():
        assert set(renamed) <= names[record]
    # A value with an error has both, the error under the longer key.
    for key in keys:
        if key.endswith("_standard_error"):
            assert key.removesuffix("_standard_error") in keys


def test_a_reader_that_leaves_early_ends_every_command_quietly(folder: Path) -> None:
    ebm.save(ebm.IsingModel(np.zeros((14, 14)), np.zeros(14)), folder / "wide.npz")
    environment = os.environ | {"PYTHONPATH": str(Path(ebm.__file__).parents[1])}
    for argv in ("exact wide.npz -o - -q", "convert wide.npz - -q"):
        line = f"{sys.executable} -m ebm {argv} | head -n 1"
        done = subprocess.run(
            ["/bin/sh", "-c", line], capture_output=True, text=True, env=environment, check=False
        )
        assert done.stderr == ""
        assert done.stdout.count("\n") == 1


# The page of the documentation

PAGE = Path(ebm.__file__).parents[1] / "docs" / "command_line.md"


@pytest.fixture(scope="module")
def page() -> str:
    if not PAGE.exists():
        pytest.skip("the documentation is not here")
    return PAGE.read_text(encoding="utf-8")


def test_the_page_lists_the_examples_and_what_the_parser_says_of_commands(page: str) -> None:
    helps = {
        a.dest: a.help
        for group in _parser()._actions
        if isinstance(group, argparse._SubParsersAction)
        for a in group._choices_actions
    }
    listed = [f"| `{example}` | {helps[name]} |" for name, example in EXAMPLES.items()]
    assert [line for line in page.splitlines() if line.startswith("| `ebm ")] == listed


def test_the_page_names_the_keys_of_every_object(
    page: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--yes", "yes", "--no", "no"]
    runs = {
        "sample": ["model.npz", "-n", "40", "--n-chains", "2", "--seed", "1", "-o", "d.csv"],
        "fit": ["votes.csv", "--exclude", "party", *words],
        "exact": ["model.npz"],
        "table": ["model.npz"],
        "compare": ["d.csv", "model.npz", "--estimators", "none"],
        "compare-groups": ["votes.csv", "--by", "party", *words],
        "landscape": ["model.npz", "--data", "d.csv", "--compare", "model.npz"],
        "thermodynamics": ["model.npz", "--betas", "1"],
        "convert": ["model.npz", "m.csv"],
    }
    assert {*runs, "demo"} == set(EXAMPLES)
    for name, argv in runs.items():
        code = 1 if name == "sample" else 0
        assert main([name, *argv, "--json", f"{name}.json"]) in (0, code)
        record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}`")]
        keys = set(re.findall(r"`(\w+)`", line.partition("|")[2].partition("|")[2]))
        found = {key for key in record if not key.endswith("_standard_error") or key in keys}
        assert found == keys | {"command", "why_null"}, name
        assert "not known" not in record["why_null"].values()
        assert "NaN" not in json.dumps(record)
