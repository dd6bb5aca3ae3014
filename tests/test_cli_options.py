"""Messages on the command line name its options, whatever the library calls its arguments."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ebm
from ebm.cli import main
from ebm.cli.command import _parser
from ebm.cli.options import KEYWORDS, in_options
from ebm.comparison import GroupComparison
from ebm.inversion import EdgePrior, edge_posterior
from ebm.report import analysis, analyze, analyze_items
from ebm.sampling import SamplingRun
from ebm.tables import read_table

#: Arguments with values, as the library writes them.
ARGUMENT = re.compile(r"\b[a-z]\w*=(?![=])")


def options(command: str) -> set[str]:
    """All options of one command."""
    commands = next(a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {name for action in commands.choices[command]._actions for name in action.option_strings}


def test_every_argument_stands_for_an_option_that_is_there() -> None:
    known = options("fit") | options("sample")
    assert set(KEYWORDS.values()) <= known
    words = "drop_missing=True, header=True, header=False, layout='transposed', overwrite=True"
    others = f"{words}, layout=['a', 'b', 'c'], space=ebm.Spins"
    said = re.findall(r"--[a-z0-9-]+", in_options(others))
    assert len(said) == 7
    assert set(said) <= known


#: Functions whose arguments the options of a command stand for.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "fit": (read_table, analyze, analyze_items, ebm.Penalty, EdgePrior, edge_posterior),
    "demo": (analyze, ebm.Penalty, EdgePrior, edge_posterior),
    "compare-groups": (read_table, ebm.compare_groups, ebm.Penalty, analyze_items,
                       GroupComparison.permutation_tests),
    "compare": (read_table, ebm.Ensemble.from_data, ebm.fit, ebm.Penalty, ebm.exact),
    "sample": (ebm.sample, SamplingRun),
    "exact": (ebm.exact,),
    "table": (ebm.table,),
    "landscape": (ebm.landscape,),
    "thermodynamics": (ebm.thermodynamics,),
    "convert": (read_table,),
}  # fmt: skip
#: Options that are called otherwise on purpose, which the page on the command line lists.
OTHERWISE = {
    "seed": "rng", "force": "overwrite", "spins": "space", "ordinal": "codes",
    "transpose": "layout", "long": "layout", "permutations": "n_draws", "parametric": "n_draws",
}  # fmt: skip
#: Names of functions, methods and classes; files; and what only a shell has.
NAMES_OF_FUNCTIONS = {"edge-posterior", "pseudolikelihood", "to-spins", "to-binary", "compare"}
FILES = {
    "out",
    "figure",
    "json",
    "table",
    "map",
    "edge-figure",
    "samples-out",
    "data",
    "report",
    "checkpoint",
}
OF_SHELLS = {"help", "quiet", "progress", "no-header", "temperatures", "estimators", "samples"}


@pytest.mark.parametrize("command", FUNCTIONS)
def test_options_are_called_as_arguments_are(command: str) -> None:
    """Whoever adds an option finds here what it is called in Python."""
    arguments = {name for function in FUNCTIONS[command]
                 for name in inspect.signature(function).parameters}  # fmt: skip
    for option in sorted(name for name in options(command) if name.startswith("--")):
        name = option.removeprefix("--")
        known = NAMES_OF_FUNCTIONS | FILES | OF_SHELLS | set(OTHERWISE)
        assert name.replace("-", "_") in arguments or name in known, option
    # No function here writes files.
    called_otherwise = {n for n in OTHERWISE if f"--{n}" in options(command)} - {"force"}
    for name in called_otherwise:
        assert name not in arguments
        assert OTHERWISE[name] in arguments, name


def test_the_page_lists_options_that_are_called_otherwise() -> None:
    page = Path(ebm.__file__).parents[1] / "docs" / "command_line.md"
    if not page.exists():
        pytest.skip("the documentation is not here")
    text = page.read_text(encoding="utf-8")
    for name in OTHERWISE:
        assert f"`--{name}`" in text


def test_arguments_of_the_library_have_options() -> None:
    """Whoever adds an argument for tables or reports finds it missing here."""
    # A penalty has an option for each strength that a report takes.
    without = {"path", "data", "names", "progress", "penalty"}
    for function in (read_table, analyze):
        for name in {"l2", "l2_biases", *inspect.signature(function).parameters} - without:
            assert in_options(f"say {name}=…") != f"say {name}=…" or name == "space", name


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("use a penalty (ebm.Penalty(l2=…)) or fewer", "use a penalty (--l2) or fewer"),
        ("a penalty (penalty=ebm.Penalty(l2_biases=…))", "a penalty (--l2-biases)"),
        ("such as penalty=ebm.Penalty(l2=1e-03), keeps", "such as --l2 1e-03, keeps"),
        ("no fit without a penalty (l2), only", "no fit without a penalty (--l2), only"),
        ("a penalty makes it finite: l2=0.0025", "a penalty makes it finite: --l2 0.0025"),
        ("l2=1e-05, l2_biases=0.1", "--l2 1e-05, --l2-biases 0.1"),
        ("likelihood, l2 = 0.02, l2_biases = 0.1", "likelihood, --l2 0.02, --l2-biases 0.1"),
        ("exclude=['a', \"b's\", 'c, d]']", "--exclude 'a,b'\"'\"'s,\"c, d]\"'"),
        ("take columns=['u 3'].", "take --columns 'u 3'."),
        ("say missing=[-9, 99]", "say --missing=-9,99"),
        ("missing=[9]; or", "--missing 9; or"),
        ("header=False for data", "--no-header for data"),
        ("layout=['id', 'item', 'resp'] turns it", "--long id,item,resp turns it"),
        ("layout='transposed' turns it", "--transpose turns it"),
        ("drop_missing=True, or", "--drop-missing, or"),
        ("with drop_missing='never', or", "with --missing-at-random, or"),
        ("for data coded −1 and 1 use space=ebm.Spins", "for data coded −1 and 1 use --spins"),
        ("use space=ebm.Binary", "use space=ebm.Binary"),
        ("unit 'l2' never changes", "unit 'l2' never changes"),
        ("frame['l2=3'].map({0: 1})", "frame['l2=3'].map({0: 1})"),
        ("the threshold of a column", "the threshold of a column"),
    ],
)
def test_arguments_become_options(sentence: str, wanted: str) -> None:
    assert in_options(sentence) == wanted


RNG = np.random.default_rng(3)
SURVEY = "a,b,c\n" + "".join(f"{i},{j},{k}\n" for i, j, k in RNG.integers(0, 2, (40, 3)))
CONSTANT = SURVEY.replace(",0\n", ",1\n")
NEVER_TOGETHER = "a,b\n" + "0,1\n1,0\n0,0\n" * 9


@pytest.mark.parametrize(
    ("text", "argv", "options"),
    [
        (SURVEY + "9,0,1\n", [], ["--missing", "--threshold", "--columns", "--exclude"]),
        (SURVEY + "9,0,1\n9,1,1\n", [], ["--missing 9"]),
        (SURVEY + "99,0,1\n", ["--threshold", "0"], ["--missing 99"]),
        (SURVEY + "NA,0,1\n", [], ["--drop-missing", "--exclude"]),
        (SURVEY.replace(",1\n", ",NA\n").replace(",0\n", ",NA\n"), [], ["--exclude c"]),
        (CONSTANT, [], ["--l2-biases", "--exclude c"]),
        (CONSTANT, ["--l2", "0.1"], ["--l2-biases", "--exclude c"]),
        (NEVER_TOGETHER, [], ["--l2 "]),
        ("id,item,resp\n1,a,0\n1,b,1\n", [], ["--long id,item,resp"]),
        ("12,15,27\n0.5,1.5,2.5\n1.5,2.5,0.5\n0.1,0.2,0.3\n", [], ["--header", "--no-header"]),
        ("u,s1,s2\nA,0,1\nB,1,0\n", [], ["--exclude u"]),
        ("u,s1,s2,s3\nA,0,1,1\nB,1,0,1\n", [], ["--exclude u", "--transpose"]),
        ("a,b\n-1,1\n1,-1\n", [], ["--spins"]),
        ("a,b\nx,y\nz,w\nt,w\n", [], ["--missing"]),
        ("a,b\n0,1\n1,0\n", ["--threshold", "a=1"], []),
    ],
)
def test_no_message_names_an_argument(
    text: str, argv: list[str], options: list[str], tmp_path: Path, capsys: Any
) -> None:
    path, record = tmp_path / "x.csv", tmp_path / "r.json"
    path.write_text(text, encoding="utf-8")
    code = main(["fit", str(path), "--json", str(record), *argv])
    out, err = capsys.readouterr()
    said = " ".join((out + err).split())
    for option in options:
        assert option in said
    numbers = json.loads(record.read_text()) if record.exists() else {}
    told = [err, *numbers.get("warnings", []), numbers.get("route", ""), said]
    assert code == 2 or numbers
    for sentence in told:
        assert ARGUMENT.search(sentence.replace("a=1.5", "")) is None
        assert "l2_biases" not in sentence


# Options of the reader


def fitted(tmp_path: Path, text: str, *argv: str) -> tuple[Any, Any]:
    """Names and rates of the data that a fit was made of."""
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    record = tmp_path / "r.json"
    main(["fit", str(tmp_path / "x.csv"), "--json", str(record), "--l2", "0.1", "--force",
          "--l2-biases", "0.1", *argv])  # fmt: skip
    summary = json.loads(record.read_text())["summary"]
    return summary["names"], [round(rate, 3) for rate in summary["rates"]]


@pytest.mark.parametrize(
    ("text", "argv", "names", "rates"),
    [
        ("a,b\n0,9\n1,1\n1,0\n", ["--missing", "9,99", "--drop-missing"], ["a", "b"], [1, 0.5]),
        ("a,b\n0,-9\n1,1\n1,0\n", ["--missing=-9", "--drop-missing"], ["a", "b"], [1, 0.5]),
        ("a,b\n1,10\n2,30\n9,20\n", ["--threshold", "mean"], ["a", "b"], [0.333, 0.333]),
        ("a,b\n1,10\n2,30\n9,20\n", ["--threshold", "a=1,b=mean"], ["a", "b"], [0.667, 0.333]),
        ("a,b\n0,30\n1,40\n1,50\n", ["--threshold", "b=median"], ["a", "b"], [0.667, 0.333]),
        ("u,s,t\na,0,1\nb,1,1\n", ["--transpose"], ["a", "b"], [0.5, 1]),
        ("w,u,x\n1,a,0\n1,b,1\n2,a,1\n2,b,1\n", ["--long", "w,u,x"], ["a", "b"], [0.5, 1]),
        ("7,8\n0,1\n1,0\n0,1\n1,1\n", ["--header"], ["7", "8"], [0.5, 0.75]),
        ("0,1,2\n0,1,0\n", ["--no-header", "--threshold", "1"],
         ["column 0", "column 1", "column 2"], [0, 0, 0.5]),
    ],
)  # fmt: skip
def test_the_reader_has_options(
    tmp_path: Path, text: str, argv: list[str], names: list[str], rates: list[float]
) -> None:
    assert fitted(tmp_path, text, *argv) == (names, rates)


@pytest.mark.parametrize(
    "argv",
    [
        ["--threshold", "a=x"], ["--threshold", "a=1,a=2"], ["--threshold", "a=1,2"],
        ["--long", "id,item"], ["--long", "a,b,c", "--transpose"], ["--threshold", "=1"],
        ["--header", "--no-header"], ["--no-header", "--header"],
    ],
)  # fmt: skip
def test_wrong_options_of_the_reader_exit_with_2(argv: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as error:
        main(["fit", "x.csv", *argv])
    assert error.value.code == 2
    assert "usage: ebm fit" in capsys.readouterr().err


def test_the_demo_says_how_to_draw_until_it_draws(tmp_path: Path, capsys: Any) -> None:
    assert main(["demo"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("ebm demo --figure report.png")
    assert main(["demo", "--figure", str(tmp_path / "report.png")]) == 0
    assert "--figure" not in capsys.readouterr().out
    assert (tmp_path / "report.png").exists()


def test_a_fit_that_did_not_converge_is_no_success_whatever_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    fit = analysis.fit
    monkeypatch.setattr(
        analysis, "fit", lambda *a, **k: replace(fit(*a, **k), converged=False, message="odd")
    )
    (tmp_path / "x.csv").write_text(SURVEY, encoding="utf-8")
    assert main(["fit", str(tmp_path / "x.csv")]) == 1
    assert capsys.readouterr().out.startswith("NOT CONVERGED: odd")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--center=mean"], "=mean (--center is an option of ebm fit and ebm demo)"),
        (["--thin"], "--thin (--thin is an option of ebm sample)"),
        (["--zzz"], "arguments: --zzz\n"),
    ],
)
def test_an_option_of_another_command_is_said_to_be_one(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["compare-groups", "x.csv", "--by", "group", *options])
    assert left.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("n_constant", "is_listed"), [(40, True), (41, False)])
def test_columns_that_never_change_are_listed_or_counted(
    tmp_path: Path, n_constant: int, is_listed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A list that can be pasted, but no pages of names."""
    names = ["a", "b", *(f"c{k}" for k in range(n_constant))]
    rows = [",".join([*pair, *"0" * n_constant]) for pair in ("01", "10", "11", "00")]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(names), *rows]), encoding="utf-8")
    main(["fit", str(tmp_path / "rows.csv")])
    printed = " ".join("".join(capsys.readouterr()).split())
    assert (",".join(names[2:]) in printed.replace(" ", "")) == is_listed
    counted = "41 of 43 columns never change: 'c0', 'c1', 'c2', … ; leave them out with --exclude"
    assert (counted in printed) == (not is_listed)
