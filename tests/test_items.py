"""Answers on ordered categories: codes, the report, the figure and the command line."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import ebm
from ebm.cli import main
from ebm.errors import (
    CodingError,
    EbmError,
    LimitError,
    MissingValueError,
    ModelError,
    NamesError,
    ShapeError,
    UnusedCategoryError,
)
from ebm.report import analyze_items, items
from ebm.tables import as_levels, read_table, write_table

NAMES = ("mood", "sleep", "ill")
CODES = {"*": (1, 4), "ill": (0, 1)}


def truth():
    weights = 0.4 * (np.eye(3, k=1) + np.eye(3, k=-1))
    thresholds = [[0, 0.5, 0.2, -1.0], [0, 0.1, -0.4, -1.5], [0, -0.8]]
    return ebm.OrdinalModel(weights, thresholds, names=NAMES)


@pytest.fixture(scope="module")
def answers():
    levels = ebm.exact(truth()).sample(600, rng=2).astype(int)
    return levels + np.array([1, 1, 0])


@pytest.fixture(scope="module")
def report(answers):
    return analyze_items(answers, CODES, names=NAMES)


class TestCodes:
    def test_they_count_from_the_first_one(self):
        levels, ranges = as_levels([[1, 0], [4, 1]], ("a", "ill"), CODES)
        np.testing.assert_array_equal(levels, [[0, 0], [3, 1]])
        np.testing.assert_array_equal(ranges, [[1, 4], [0, 1]])
        below, _ = as_levels([[-2], [2]], ("a",), (-2, 2))
        np.testing.assert_array_equal(below, [[0], [4]])

    @pytest.mark.parametrize(
        ("values", "codes", "error", "words"),
        [
            ([[5]], (1, 4), CodingError, "column 'a' has the values 5 where a code from 1 to 4"),
            ([[0]], (1, 4), CodingError, "the values 0"),
            ([[1.5]], (1, 4), CodingError, "the values 1.5"),
            ([[np.nan]], (1, 4), MissingValueError, "a value of column 'a' is missing"),
            ([[1]], {"b": (1, 4)}, NamesError, "codes are given for 'b', columns are 'a'"),
            ([[1]], {}, NamesError, "codes of column 'a' are missing"),
            ([[1]], (4, 4), ShapeError, "must be below the last one, got 4 and 4"),
            ([[1]], 4, ShapeError, "the first and the last one, got 4"),
            ([1], (1, 4), ShapeError, r"values must have shape \(n_rows, 1\)"),
            (np.empty((0, 1)), (1, 4), ShapeError, "with at least one row"),
            ([["x"]], (1, 4), ModelError, "values must hold numbers"),
        ],
    )
    def test_wrong_ones_are_refused(self, values, codes, error, words):
        with pytest.raises(error, match=words):
            as_levels(values, ("a",), codes)


class TestUnusedCategories:
    @pytest.mark.parametrize("loss", [None, ebm.inversion.Pseudolikelihood()])
    def test_they_are_a_sentence(self, answers, loss):
        start = truth().with_parameters(np.zeros(10))
        levels = answers - [1, 1, 0]
        levels[levels == 3] = 2
        with pytest.raises(
            UnusedCategoryError, match="category 3 of 'mood', category 3 of 'sleep' are never"
        ):
            ebm.fit(start, levels, loss=loss)
        penalty = ebm.Penalty(l2_biases=0.01)
        result = ebm.fit(start, levels, loss=loss, penalty=penalty)
        assert result.converged
        assert np.isfinite(result.standard_errors).all()

    def test_other_models_keep_their_warnings(self):
        rows = [[0, 0], [1, 1], [0, 1], [1, 0]] * 10
        flat = ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))
        with pytest.warns(ebm.errors.NoMaximumWarning):
            ebm.fit(flat, rows)

    def test_a_report_names_codes(self, answers):
        with pytest.raises(UnusedCategoryError, match="codes 5 of 'mood', 5 of 'sleep' are never"):
            analyze_items(answers, {"*": (1, 5), "ill": (0, 1)}, names=NAMES)

    def test_an_item_that_never_changes(self, answers):
        same = np.where(np.arange(3) == 2, 0, answers)
        with pytest.raises(UnusedCategoryError, match="code 1 of 'ill' is never chosen"):
            analyze_items(same, CODES, names=NAMES)


def test_missing_answers_of_items_are_averaged_over(answers):
    levels = (answers - [1, 1, 0]).astype(float)
    levels[np.random.default_rng(0).random(levels.shape) < 0.15] = np.nan
    data = ebm.IncompleteEnsemble.from_data(levels, space=truth().space)
    result = ebm.fit(truth().with_parameters(np.zeros(10)), data)
    gaps = (result.model.parameters - truth().parameters) / result.standard_errors
    assert result.converged
    assert (abs(gaps) < 4).all()


class TestReport:
    def test_it_is_the_exact_fit(self, answers, report):
        levels, _ = as_levels(answers, NAMES, CODES)
        fitted = ebm.fit(truth().with_parameters(np.zeros(10)), levels)
        np.testing.assert_allclose(report.model.parameters, fitted.model.parameters, atol=1e-10)
        values = [threshold.value for threshold in report.thresholds]
        np.testing.assert_allclose(values, fitted.model.parameters[:7], atol=1e-10)
        assert report.fit.bic == pytest.approx(fitted.bic)
        assert report.model_entropy == pytest.approx(fitted.ensemble.entropy(base=2))
        assert report.plug_in_entropy < report.model_entropy < report.independent_entropy

    def test_its_text_has_all_sections(self, report):
        text = str(report)
        for part in ("rows x items", "1 to 4", "exact maximum likelihood", "Thresholds", "± "):
            assert part in text
        assert max(map(len, text.splitlines())) <= 80

    def test_its_numbers_are_json(self, report):
        numbers = json.loads(json.dumps(report.to_dict(), allow_nan=False))
        assert numbers["summary"]["codes"] == [[1, 4], [1, 4], [0, 1]]
        assert len(numbers["thresholds"]) == 7

    def test_draws_are_those_of_the_model(self, report):
        shares = np.mean(report.draws == 0, axis=0)
        wanted = report.result.ensemble.moments().mean[[0, 4, 8]]
        assert (abs(shares - wanted) < 5 * np.sqrt(wanted / len(report.draws))).all()

    def test_beyond_the_limit_it_is_pseudolikelihood(self, answers, monkeypatch):
        monkeypatch.setattr(items, "MOST_STATES", 10)
        report = analyze_items(pd.DataFrame(answers, columns=NAMES), CODES, penalty=0.01)
        assert "maximum pseudo-likelihood (4^2 · 2^1 states, more than 10)" in report.route
        assert report.fit.log_likelihood is None
        assert report.model_entropy is None
        assert report.draws.shape == (items.N_DRAWS, 3)
        assert "log pseudo-likelihood" in str(report)

    def test_a_figure_has_three_panels(self, report):
        figure = ebm.plotting.items_figure(report)
        assert [ax.get_title(loc="left") for ax in figure.axes[:3]] == ["a", "b", "c"]

    def test_the_sum_of_independent_items_is_a_convolution(self, report):
        ax = ebm.plotting.sum_scores(report.data, report.draws)
        alone = ax.lines[0].get_ydata()
        assert alone.sum() == pytest.approx(1)
        assert alone[0] == pytest.approx(np.prod([s[0] for s in report.summary.shares]))


@pytest.fixture(scope="module")
def incomplete(answers):
    cells = answers.astype(float)
    cells[np.random.default_rng(0).random(cells.shape) < 0.15] = np.nan
    cells[3] = np.nan
    return cells


@pytest.fixture(scope="module")
def of_incomplete(incomplete):
    return analyze_items(incomplete, CODES, names=NAMES, missing_at_random=True)


class TestMissingAnswers:
    def test_the_report_is_the_likelihood_of_what_was_answered(self, incomplete, of_incomplete):
        levels = incomplete - [1, 1, 0]
        data = ebm.IncompleteEnsemble.from_data(levels, space=truth().space)
        fitted = ebm.fit(truth().with_parameters(np.zeros(10)), data)
        np.testing.assert_array_equal(of_incomplete.model.parameters, fitted.model.parameters)
        seen = incomplete[~np.isnan(incomplete[:, 0]), 0]
        shares = [np.mean(seen == code) for code in range(1, 5)]
        np.testing.assert_allclose(of_incomplete.summary.shares[0], shares)
        assert of_incomplete.summary.n_missing == tuple(np.isnan(incomplete).sum(axis=0))
        assert of_incomplete.summary.n_complete == (~np.isnan(incomplete).any(axis=1)).sum()
        assert of_incomplete.summary.sample_size == 600

    def test_it_counts_and_says_what_is_assumed(self, incomplete, of_incomplete):
        text = str(of_incomplete)
        n_missing = np.isnan(incomplete).sum()
        assert re.search(rf"missing answers +{n_missing} of 1800\n", text)
        assert "missing answers summed over" in of_incomplete.route
        assert "taken as missing at random" in of_incomplete.warnings[0]
        assert "plug-in" not in text
        assert max(map(len, text.splitlines())) <= 80
        numbers = json.loads(json.dumps(of_incomplete.to_dict(), allow_nan=False))
        assert sum(numbers["summary"]["n_missing"]) == n_missing
        assert numbers["plug_in_entropy_bits"] is None

    def test_its_figure_leaves_out_the_sums(self, of_incomplete):
        figure = ebm.plotting.items_figure(of_incomplete)
        assert [ax.get_title(loc="left") for ax in figure.axes[:2]] == ["a", "b"]
        widths = [bar.get_width() for bar in figure.axes[0].patches]
        np.testing.assert_allclose(widths, np.concatenate(of_incomplete.summary.shares))

    def test_complete_rows_are_fitted_as_before(self, answers):
        kept = analyze_items(answers, CODES, names=NAMES, missing_at_random=True)
        assert kept.plug_in_entropy is not None
        assert kept.summary.n_missing == ()

    def test_items_that_no_row_shows_together_are_named(self):
        cells = np.array([[1, 1, np.nan], [2, 2, np.nan], [np.nan, 1, 1], [np.nan, 2, 2]] * 9)
        cells[:9, 1] = 3 - cells[:9, 1]
        said = " ".join(analyze_items(cells, (1, 2), missing_at_random=True, penalty=0.1).warnings)
        assert "no row shows both units of 'column 0' and 'column 2'" in said

    def test_what_cannot_be_said_is_a_sentence(self, incomplete, monkeypatch):
        with pytest.raises(MissingValueError, match="missing_at_random=True"):
            analyze_items(incomplete, CODES, names=NAMES)
        never = np.where(incomplete == 4, np.nan, incomplete)
        with pytest.raises(UnusedCategoryError, match="codes 4 of 'mood', 4 of 'sleep' are never"):
            analyze_items(never, CODES, names=NAMES, missing_at_random=True)
        start = truth().with_parameters(np.zeros(10))
        data = ebm.IncompleteEnsemble.from_data(never - [1, 1, 0], space=start.space)
        with pytest.raises(UnusedCategoryError, match="category 3 of 'mood'"):
            ebm.fit(start, data)
        empty = incomplete.copy()
        empty[:, 1] = np.nan
        with pytest.raises(MissingValueError, match="no row has a value of 'sleep'"):
            analyze_items(empty, CODES, names=NAMES, missing_at_random=True)
        monkeypatch.setattr(items, "MOST_STATES", 10)
        with pytest.raises(LimitError, match=r"exact fits \(4\^2 .*fewer items, or complete rows"):
            analyze_items(incomplete, CODES, names=NAMES, missing_at_random=True)

    def test_the_command_keeps_incomplete_rows(self, incomplete, of_incomplete, tmp_path, capsys):
        path, model = tmp_path / "answers.csv", tmp_path / "m.npz"
        pd.DataFrame(incomplete, columns=NAMES).to_csv(path, index=False)
        argv = ["fit", str(path), "--ordinal", "1-4,ill=0-1"]
        assert main(argv) == 2
        assert "--missing-at-random" in capsys.readouterr().err
        figure = str(tmp_path / "r.png")
        assert main([*argv, "--missing-at-random", "-o", str(model), "--figure", figure]) == 0
        out = capsys.readouterr().out
        assert "taken as missing at random" in " ".join(out.split())
        np.testing.assert_array_equal(ebm.load(model).parameters, of_incomplete.model.parameters)
        assert main([*argv, "--drop-missing"]) == 0


class TestCommand:
    @pytest.fixture
    def path(self, answers, tmp_path):
        write_table(tmp_path / "answers.csv", answers, NAMES)
        return tmp_path / "answers.csv"

    def test_it_fits_reports_and_writes(self, path, answers, report, tmp_path, capsys):
        outputs = {name: tmp_path / name for name in ("m.npz", "r.json", "r.png", "d.csv")}
        code = main(
            [
                "fit", str(path), "--ordinal", "1-4,ill=0-1", "-o", str(outputs["m.npz"]),
                "--json", str(outputs["r.json"]), "--figure", str(outputs["r.png"]),
                "--samples", "50", "--samples-out", str(outputs["d.csv"]),
            ]
        )  # fmt: skip
        assert code == 0
        assert "Strongest couplings W of levels" in capsys.readouterr().out
        assert ebm.load(outputs["m.npz"]).equals(report.model)
        assert all(output.stat().st_size for output in outputs.values())
        drawn = read_table(outputs["d.csv"])
        assert drawn.names == NAMES
        assert len(drawn.states) == 50
        # In the codes of the data.
        assert drawn.states[:, :2].min() >= 1
        as_levels(drawn.states, NAMES, CODES)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--ordinal", "1-3,ill=0-1"], "has the values 4 where a code from 1 to 3 is wanted"),
            (["--ordinal", "0-4,ill=0-1"], "codes 0 of 'mood', 0 of 'sleep' are never chosen"),
            (["--ordinal", "1-4,ill=0-1", "--threshold", "2"], "--threshold is for two-valued"),
            (["--ordinal", "1-4,ill=0-1", "--center", "mean"], "--center is for two-valued"),
            (["--ordinal", "1-4,no=0-1"], "codes are given for 'no'"),
            ([], "--ordinal 1-5 for ordered categories from 1 to 5"),
        ],
    )
    def test_mistakes_are_sentences(self, path, options, words, capsys):
        assert main(["fit", str(path), *options]) == 2
        assert words in capsys.readouterr().err

    @pytest.mark.parametrize("text", ["5", "1-", "a", "1-5,1-4", ""])
    def test_codes_that_are_no_range_are_refused(self, path, text, capsys):
        with pytest.raises(SystemExit):
            main(["fit", str(path), "--ordinal", text])
        assert "the first and the last code" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "names", "sentence"),
    [
        ([1, 2, 3], None, r"rows of codes.*got \(3,\)"),
        (ebm.Ensemble.from_data([[0, 1], [1, 2]], space=ebm.Levels(2, 3)), None, "got Weighted"),
        ([[1, 2], [3, 1]], ["mood"], "names must be 2"),
    ],
)
def test_what_is_no_table_of_codes_is_a_sentence(data, names, sentence):
    with pytest.raises(EbmError, match=sentence):
        ebm.report.analyze_items(data, (1, 3), names=names)
