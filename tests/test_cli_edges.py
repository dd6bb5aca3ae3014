"""Probabilities of edges on the command line and as a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebm
from ebm import plotting
from ebm.cli import main
from ebm.errors import EbmError, LimitError
from ebm.inversion import EdgePosterior, EdgePrior
from ebm.inversion.edge_posterior import require_affordable
from tests.test_cli import failure

NAMES = ("sleep", "mood", "worry", "energy")


def posterior_of(probabilities: Any, n: int, prior: float = 0.5, **names: Any) -> EdgePosterior:
    p = np.asarray(probabilities, dtype=float)
    return EdgePosterior(
        ebm.Spins(n, **names), p, np.full(len(p), 0.01), EdgePrior(edge_probability=prior), 100.0,
        np.zeros((1, len(p)), dtype=bool), np.zeros(1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    couplings = np.diag([0.6, 0.1, -0.5], 1)
    truth = ebm.IsingModel(couplings + couplings.T, [0.1, 0.2, 0.0, -0.1])
    return ((1 + ebm.exact(truth).sample(300, rng=1)) / 2).astype(int)


@pytest.fixture
def table(rows: np.ndarray, tmp_path: Path) -> Path:
    np.savetxt(tmp_path / "t.csv", rows, "%d", ",", header=",".join(NAMES), comments="")
    return tmp_path / "t.csv"


def test_the_report_has_cost_prior_and_probabilities_of_edges(
    table: Path, rows: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure, numbers = tmp_path / "e.png", tmp_path / "e.json"
    prior = ["--edge-probability", "0.3", "--coupling-width", "0.8"]
    argv = ["fit", str(table), "--edge-posterior", "--json", str(numbers), *prior]
    assert main([*argv, "--edge-figure", str(figure)]) == 0
    out, err = capsys.readouterr()
    assert "probabilities of 6 edges take up to 64 exact fits, about 1 s" in err
    assert "an edge is there with probability 0.3 and then has a\n" in out
    wanted = ebm.inversion.edge_posterior(rows, EdgePrior(1.0, 0.8, 0.3))
    section = json.loads(numbers.read_text())["edges"]
    assert [edge["units"] for edge in section["edges"][:2]] == [
        ["sleep", "mood"],
        ["worry", "energy"],
    ]
    found = [edge["probability"] for edge in section["edges"]]
    assert found == pytest.approx(sorted(wanted.probabilities, reverse=True), rel=1e-9)
    assert section["n_expected"] == pytest.approx(wanted.probabilities.sum())
    assert f"sleep -- mood    {wanted.probability(0, 1):.3f} ± 0.000" in out
    assert figure.read_bytes().startswith(b"\x89PNG")
    # A figure or a prior asks for it as well.
    assert main(["fit", str(table), "--edge-probability", "0.3"]) == 0
    assert "Probabilities of edges" in capsys.readouterr().out
    assert main(["fit", str(table)]) == 0
    assert "Probabilities of edges" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ordinal", "0-1"), "--edge-posterior is for two-valued data"),
        (("--edge-figure", "e.xyz"), "e.xyz has no suffix of a figure"),
    ],
)
def test_refusals_name_options(
    table: Path, options: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in failure(capsys, "fit", table, "--edge-posterior", *options)


def test_what_is_too_much_is_refused_before_the_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ebm.cli.fitting.analyze", None)
    rows = np.random.default_rng(0).integers(0, 2, (400, 25))
    for n, options, said in (
        (25, (), "the limit is 24 units"),
        (16, ("--max-seconds", "1"), "raise --max-seconds, or choose fewer units"),
    ):
        path = tmp_path / f"{n}.npy"
        np.save(path, rows[:, :n])
        assert said in failure(capsys, "fit", path, "--edge-posterior", *options)
    with pytest.raises(LimitError, match="raise max_seconds"):
        require_affordable(16, 1.0)


def test_missing_cells_are_refused(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table.write_text(table.read_text() + "1,,0,1\n")
    said = failure(capsys, "fit", table, "--missing-at-random", "--edge-posterior")
    assert "--edge-posterior needs statistics of complete rows" in said
    assert main(["fit", str(table), "--drop-missing", "--edge-posterior"]) == 0


def test_an_interrupt_of_the_walk_keeps_the_fit(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("ebm.report._edges.edge_posterior", stop)
    out = table.with_suffix(".npz")
    argv = ["fit", str(table), "--out", str(out), "--edge-figure", str(table.with_suffix(".png"))]
    assert main(argv) == 130
    assert "Interrupted before the probabilities of edges were known" in capsys.readouterr().out
    assert ebm.load(out).space.names == NAMES
    assert not table.with_suffix(".png").exists()


def test_the_figure_sorts_edges_and_says_which_the_data_decide() -> None:
    """Decided are Bayes factors of ten, whatever the prior: 10/11 of even odds, .8 of .29."""
    p = [0.97, 0.2, 0.08, 0.6, 0.91, 0.9]
    figure = plotting.edge_posterior(posterior_of(p, 4, names=NAMES))
    network, sorted_edges = figure.axes
    labels = [text.get_text() for text in sorted_edges.get_yticklabels()]
    assert labels[:2] == ["sleep – mood", "mood – energy"]
    assert labels[-1] == "sleep – energy"
    texts = [text.get_text() for text in sorted_edges.get_legend().get_texts()]
    assert texts == ["present (2)", "undecided (3)", "absent (1)"]
    # Dashed: undecided and above the prior; as wide as they are probable.
    widths = sorted(line.get_linewidth() for line in network.lines)
    assert widths == pytest.approx([2 * 0.6, 2 * 0.9, 4 * 0.91, 4 * 0.97])
    other = plotting.edge_probabilities(posterior_of([0.81, 0.79, 0.3], 3, prior=0.29))
    texts = [text.get_text() for text in other.get_legend().get_texts()]
    assert texts == ["present (1)", "undecided (2)", "absent (0)"]


def test_many_edges_are_drawn_without_names() -> None:
    n = 24
    posterior = posterior_of(np.linspace(0, 1, n * (n - 1) // 2), n)
    ax = plotting.edge_posterior(posterior).axes[1]
    assert ax.get_ylabel() == "edges, the most probable first"
    assert sum(len(line.get_xdata()) for line in ax.lines[1:]) == n * (n - 1) // 2
    places = {unit: (unit, 0) for unit in range(n)}
    ax = plotting.edge_network(posterior, positions=places)
    assert ax.collections[0].get_offsets()[5].tolist() == [5, 0]
    with pytest.raises(EbmError, match="positions must hold"):
        plotting.edge_network(posterior, positions={})
    with pytest.raises(EbmError, match="must be a result of"):
        plotting.edge_network(posterior.space)
