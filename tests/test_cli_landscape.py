"""``ebm landscape``: the printed map of a saved model, its files, and the section of a report."""

import csv

import numpy as np
import pytest

import ebm
from ebm.cli import main
from ebm.tables import write_table
from tests.test_valleys import reference_model


@pytest.fixture
def court(tmp_path):
    model = reference_model("rehnquist")
    ebm.save(model, tmp_path / "model.npz")
    return tmp_path, model


def test_minima_basins_and_passes_are_printed_and_written(court, capsys):
    folder, model = court
    outputs = {name: folder / name for name in ("tree.png", "map.png", "minima.csv")}
    options = ["--figure", outputs["tree.png"], "--map", outputs["map.png"]]
    options += ["--table", outputs["minima.csv"]]
    assert main(["landscape", str(folder / "model.npz"), *map(str, options)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("6 minima; complete: all 2^9 states\n  units in this order: Rehnquist,")
    assert "111011011  -5.3049     62   0.1229      0  -5.1715   0.1333" in out
    assert all(path.stat().st_size for path in outputs.values())
    text = outputs["minima.csv"].read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 6
    assert [float(rows[0][name]) for name in model.names] == [-1, 1, -1, -1, -1, 1, -1, 1, 1]


def test_rows_in_time_are_read_by_name_and_missing_cells_are_gaps(court, capsys):
    folder, model = court
    rows = ebm.sample(model, n_draws=400, n_chains=1, rng=1).chains[0]
    seen = ebm.landscape(model).transitions(rows)
    order = np.random.default_rng(1).permutation(model.n)
    write_table(folder / "rows.csv", rows[:, order], [model.names[i] for i in order])
    arguments = ["landscape", str(folder / "model.npz"), "--data", str(folder / "rows.csv")]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert str(seen) in out
    assert "incomplete" not in err
    lines = (folder / "rows.csv").read_text(encoding="utf-8").splitlines()
    lines[200] = "," + lines[200].split(",", 1)[1]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(arguments) == 0
    gap = rows.astype(float)
    gap[199, order[0]] = np.nan
    out, err = capsys.readouterr()
    assert str(ebm.landscape(model).transitions(gap)) in out
    assert "1 of 400 rows are incomplete: gaps in time" in err


def test_another_model_is_compared_and_quenches_are_told(court, capsys):
    folder, model = court
    ebm.save(model.scaled(0.5), folder / "other.npz")
    arguments = ["landscape", str(folder / "model.npz"), "--compare", str(folder / "other.npz")]
    assert main(arguments) == 0
    assert capsys.readouterr().out.count("same") == 6
    quick = [*arguments[:2], "--n-quenches", "50", "--seed", "3", "--max-seconds", "1e-6"]
    assert main(quick) == 2
    assert "lower --n-quenches" in capsys.readouterr().err
    assert main([*arguments[:2], "--table", str(folder / "t.npz")]) == 2
    assert "is text" in capsys.readouterr().err


def test_reports_list_valleys():
    data = np.repeat([[0, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], 30, axis=0)
    data = np.concatenate([data, np.eye(4, dtype=int), 1 - np.eye(4, dtype=int)])
    report = ebm.analyze(data, penalty=0.001)
    landscape = ebm.landscape(report.result.model)
    assert report.valleys.n_valleys == len(landscape) > 1
    assert sum(valley.basin_states for valley in report.valleys.deepest) == 16
    first, second = report.valleys.deepest[:2]
    assert first.joins is None
    assert second.pass_energy == pytest.approx(landscape.passes[1])
    assert f"{len(landscape)} valleys: basins of steepest descent" in str(report)
    assert report.to_dict()["valleys"]["n_valleys"] == len(landscape)
