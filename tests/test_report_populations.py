"""The k-pairwise fit in reports and on the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest

import ebm
from ebm._text import with_error
from ebm.cli.command import main
from ebm.errors import CodingError, EbmError, LimitError, ModelError
from ebm.observables import population_count, word_entropy
from ebm.report import sampled
from tests.learning.test_counts import draws

ROWS = draws(7, 2500)[1].astype(int)


def write(path, rows):
    names = ",".join(f"c{k}" for k in range(rows.shape[1]))
    np.savetxt(path, rows, fmt="%d", delimiter=",", header=names, comments="")
    return str(path)


def test_a_report_shows_both_models_beside_the_data():
    report = ebm.analyze(ROWS, k_pairwise=True)
    section = report.populations
    data = ebm.Ensemble.from_data(ROWS)
    exact = population_count(ebm.exact(report.model))
    pairs = population_count(report.ensemble)
    for share in section.shares:
        assert share.data == pytest.approx(population_count(data)[share.count])
        assert share.k_pairwise == pytest.approx(exact[share.count], abs=1e-9)
        assert share.pairwise == pytest.approx(pairs[share.count], abs=1e-9)
    assert isinstance(report.model, ebm.KPairwiseModel)
    assert section.converged
    assert section.gain_bits > 0
    text = str(report)
    assert "Numbers of active units" in text
    assert "gain over pairs alone" in text
    assert max(map(len, text.splitlines())) <= 80
    assert report.to_dict()["populations"]["shares"][0]["count"] == 0
    assert ebm.analyze(ROWS).to_dict()["populations"] is None


def test_reports_by_chains_have_errors(monkeypatch):
    monkeypatch.setattr("ebm.report.analysis.MAX_UNITS_EXACT", 4)
    monkeypatch.setattr(sampled, "N_CHAINS", 500)
    report = ebm.analyze(ROWS, k_pairwise=True, rng=1)
    first = report.populations.shares[0]
    assert first.k_pairwise_error > 0
    assert first.pairwise_error > 0
    assert abs(first.k_pairwise - first.data) < 4 * (first.data_error + first.k_pairwise_error)


def test_tempered_chains_go_on_where_others_miss_a_population(monkeypatch):
    from ebm.report import _populations

    monkeypatch.setattr("ebm.report.analysis.MAX_UNITS_EXACT", 4)
    for name, value in (("N_CHAINS", 200), ("N_TEMPERED", 50), ("N_EPOCHS", 300)):
        monkeypatch.setattr(_populations, name, value)
        if name in vars(sampled):
            monkeypatch.setattr(sampled, name, value)
    monkeypatch.setattr(_populations, "MOST_BEYOND", -1.0)
    averages, fit = [], _populations.fit
    monkeypatch.setattr(
        _populations,
        "fit",
        lambda *a, **how: averages.append(how["loss"].average) or fit(*a, **how),
    )
    report = ebm.analyze(ROWS, k_pairwise=True, rng=1)
    assert [average.sampler is None for average in averages] == [True, False]
    first = report.populations.shares[0]
    assert abs(first.k_pairwise - first.data) < 0.03


def test_rare_counts_are_held_by_the_penalty_that_the_refusal_advises(tmp_path, capsys):
    """V(K) of every K is a parameter then, and the fit is that of such a model."""
    rows = np.random.default_rng(0).random((300, 6)) < 0.15
    rows = rows[rows.sum(axis=1) <= 2].astype(int)
    path = write(tmp_path / "rare.csv", rows)
    assert main(["fit", path, "--k-pairwise"]) == 2
    said = capsys.readouterr().err
    assert "0 rows have three or more active units of 6" in said
    advice = said.split("such as ")[1].split()
    assert advice[0] == "--l2"
    assert main(["fit", path, "--k-pairwise", *advice]) == 0
    assert "A penalized model" in capsys.readouterr().out
    l2 = float(advice[1])
    report = ebm.analyze(rows, penalty=l2, k_pairwise=True)
    assert report.model.starts == (3, 4, 5, 6)
    zero = ebm.KPairwiseModel(np.zeros((6, 6)), np.zeros(6), np.zeros(7))
    whole = ebm.fit(zero, rows, penalty=l2)
    np.testing.assert_allclose(report.model.potential, whole.model.potential, atol=1e-8)
    with pytest.raises(ModelError, match=r"such as penalty=ebm.Penalty\(l2="):
        ebm.analyze(rows, penalty=ebm.Penalty(l2_biases=0.1), k_pairwise=True)
    with pytest.raises(ModelError, match="three units at least"):
        ebm.analyze(rows[:, :2], penalty=l2, k_pairwise=True)


def test_what_has_no_counts_is_refused():
    with pytest.raises(CodingError, match="recode as"):
        ebm.analyze(2 * ROWS - 1, space=ebm.Spins, k_pairwise=True)
    with pytest.raises(EbmError, match="no center"):
        ebm.analyze(ROWS, center="mean", k_pairwise=True)


def test_the_command_line_fits_prints_and_writes(tmp_path, capsys):
    source = write(tmp_path / "data.csv", ROWS)
    outputs = [str(tmp_path / name) for name in ("model.npz", "report.json", "draws.csv")]
    options = ["--out", outputs[0], "--json", outputs[1], "--samples-out", outputs[2]]
    assert main(["fit", source, "--k-pairwise", *options]) == 0
    assert "k-pairwise fit of rates, pairs and P(K)" in capsys.readouterr().out
    assert isinstance(ebm.load(outputs[0]), ebm.KPairwiseModel)
    with open(outputs[1], encoding="utf-8") as file:
        assert json.load(file)["populations"]["converged"]


def test_counts_that_are_too_few_are_a_sentence(tmp_path, capsys):
    rows = ROWS[ROWS.sum(axis=1) < 4]
    assert main(["fit", write(tmp_path / "few.csv", rows), "--k-pairwise"]) == 2
    assert "too few or too much alike" in capsys.readouterr().err


def test_the_entropy_of_words_is_printed_by_three_estimators():
    section = ebm.analyze(ROWS, k_pairwise=True).populations
    data = ebm.Ensemble.from_data(ROWS)
    assert [words.estimator for words in section.words] == ["plug-in", "grassberger", "nsb"]
    for words in section.words:
        estimate = word_entropy(data, words.estimator, base=2)
        assert words.value == pytest.approx(float(estimate.value))
        assert words.error == pytest.approx(float(estimate.standard_error))
    text = str(ebm.analyze(ROWS, k_pairwise=True))
    assert "entropy of words, NSB" in text
    assert max(map(len, text.splitlines())) <= 80


def test_weights_that_are_no_frequencies_have_no_entropy_of_words():
    shares = np.random.default_rng(0).uniform(0.5, 1.5, len(ROWS))
    data = ebm.Ensemble.from_data(ROWS, sample_weight=shares)
    assert ebm.analyze(data, k_pairwise=True).populations.words == ()


def test_what_has_no_counts_is_refused_before_pairs_are_fitted(monkeypatch):
    monkeypatch.setattr("ebm.report.analysis._fitted", None)
    with pytest.raises(ModelError, match="too few or too much alike"):
        ebm.analyze(ROWS[ROWS.sum(axis=1) < 4], k_pairwise=True)
    with pytest.raises(LimitError, match="up to 500 units"):
        ebm.analyze(np.random.default_rng(0).integers(0, 2, (900, 501)), k_pairwise=True)


def test_an_interrupted_fit_of_counts_has_its_exit_code(tmp_path, monkeypatch):
    from ebm.report import _populations

    fit = _populations.fit

    def stopped(*data, **how):
        return replace(fit(*data, **how), converged=False, message="interrupted after 1 iteration")

    monkeypatch.setattr(_populations, "fit", stopped)
    assert main(["fit", write(tmp_path / "data.csv", ROWS), "--k-pairwise"]) == 130


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--k-pairwise", "--missing-at-random"], "complete rows: give --drop-missing"),
        (["--k-pairwise", "--spins"], "give --threshold 0"),
        (["--k-pairwise", "--center", "mean"], "no center"),
        (["--ordinal", "0-1", "--k-pairwise"], "leave it out beside --ordinal"),
    ],
)
def test_options_that_contradict_each_other_are_a_sentence(tmp_path, capsys, options, sentence):
    assert main(["fit", write(tmp_path / "data.csv", ROWS), *options]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", [["--k-pairwise"], ["--edge-posterior"], ["--ordinal", "0-1"], []]
)
def test_advice_on_missing_cells_names_what_the_other_options_allow(tmp_path, capsys, option):
    source = tmp_path / "gaps.csv"
    source.write_text("a,b,c\n0,1,1\n1,,0\n1,1,1\n0,0,1\n")
    assert main(["fit", str(source), *option]) == 2
    said = capsys.readouterr().err
    assert "--drop-missing" in said
    assert ("--missing-at-random" in said) == (option in ([], ["--ordinal", "0-1"]))


def test_a_fit_of_pairs_that_was_interrupted_is_not_followed_by_another(monkeypatch):
    from ebm.report import analysis

    fit = analysis.fit

    def stopped(*data, **how):
        return replace(fit(*data, **how), converged=False, message="interrupted after 1 iteration")

    monkeypatch.setattr(analysis, "fit", stopped)
    report = ebm.analyze(ROWS, k_pairwise=True)
    assert report.populations is None
    assert isinstance(report.model, ebm.BoltzmannMachine)
    assert any("before the k-pairwise fit" in note for note in report.warnings)


def test_counts_too_rare_for_an_error_are_marked():
    """Where fewer than five effective draws have a count, and where none has it."""
    from ebm.report import _populations, _printed

    draws = (np.random.default_rng(0).random((4, 1000, 6)) < 0.12).astype(np.int8)
    shares, errors = _populations._shares_among(draws)
    seen = np.bincount(draws.sum(axis=2).ravel(), minlength=7)
    np.testing.assert_allclose(shares, seen / 4000)
    assert (np.isnan(errors) == (seen < 5)).all()
    assert np.isnan(errors).any()
    assert _printed._with_noise(0.25, float("nan")) == "0.25000 ± ?"
    assert with_error(0.25, float("nan"), 2) == "0.25, its error is not to be trusted"
