"""Text of comparisons of groups, and of their tests by draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._text import (
    WIDTH,
    labelled,
    number,
    short,
    short_coupling,
    table,
    with_error,
    wrapped,
)
from ebm.ensembles import IncompleteEnsemble

#: Couplings that a table shows, those of the largest differences.
MOST_COUPLINGS = 10
#: Characters of the name of a unit: as many as fit.
LONGEST = (20, 15, 10)
#: Probability of a false alarm that most readers ask for.
LEVEL = 0.05


def printed(comparison: Any) -> str:
    """Groups, tests of equality, and the largest differences from the first group."""
    n, groups = comparison.data[0].space.n, comparison.groups
    kind = "exact likelihood" if comparison.fits[0].log_likelihood is not None else None
    title = f"{len(groups)} groups over {n} units, by {kind or 'pseudo-likelihood'}"
    n_missing = [_n_missing(rows) for rows in comparison.data]
    if any(n_missing):
        title += ", cells taken as missing at random"
    lines = [*wrapped(title, ""), ""]
    for label, rows, missing, (size, error) in zip(
        groups, comparison.data, n_missing, comparison.strengths, strict=True
    ):
        lacking = f", {missing:g} cells missing" if any(n_missing) else ""
        value = f"{rows.sample_size:g} rows{lacking}, sum of |W| {with_error(size, error, 2)}"
        lines.append(labelled(short(label), value))
    lines += ["", *_equalities(comparison)]
    for differences in comparison.differences:
        lines += ["", *_differences(comparison, differences)]
    return "\n".join(lines)


def _n_missing(rows: Any) -> float:
    """Number of missing cells in rows that show something."""
    incomplete = isinstance(rows, IncompleteEnsemble)
    return float((rows.counts @ rows.is_missing).sum()) if incomplete else 0.0


def _equalities(comparison: Any) -> list[str]:
    rows = [["equal in all groups", "test", "chi-square", "df", "p"]]
    for test in comparison.equalities:
        rows.append(
            [
                short(test.equal),
                test.method,
                number(test.statistic, 5),
                str(test.degrees_of_freedom),
                number(test.p_value),
            ]
        )
    lines = table(rows, "<<>>>")
    if any(test.statistic is None for test in comparison.equalities):
        is_held = comparison.penalty.l2 or comparison.penalty.l2_biases
        why = "A penalty leaves no chi-square"
        if not is_held:
            why = "Wald's test needs more rows in each group than there are equalities"
        lines += wrapped(f"{why}: take tests by permutations or by draws from a fit.")
    return lines


def _differences(comparison: Any, differences: Any) -> list[str]:
    order = np.argsort(-np.abs(differences.z), kind="stable")[:MOST_COUPLINGS]
    first, other = (
        comparison[label].model.parameters[np.asarray(comparison.model.is_coupling, dtype=bool)]
        for label in (differences.reference, differences.group)
    )
    reference, group = short(differences.reference), short(differences.group)
    rows = [["coupling", reference, group, "difference", "z", "p", "p (Holm)"]]
    holm, single = differences.p_holm, differences.p_values
    for k in order:
        value = with_error(differences.values[k], differences.standard_errors[k], 3)
        cells = [number(x) for x in (differences.z[k], single[k], holm[k])]
        rows.append([differences.names[k], f"{first[k]:.3f}", f"{other[k]:.3f}", value, *cells])
    count = len(differences.names)
    which = f"largest {len(order)} of {count}" if count > len(order) else f"all {count}"
    title = f"{group} minus {reference}, {which} differences of couplings:"
    return [*wrapped(title), *_of_couplings(rows)]


def _of_couplings(rows: list[list[str]]) -> list[str]:
    """A table of named couplings, their names as long as a line allows, within bounds."""
    for longest in LONGEST:
        named = [[short_coupling(name, longest), *cells] for name, *cells in rows]
        lines = table(named, "<" + ">" * (len(rows[0]) - 1))
        if max(map(len, lines)) <= WIDTH:
            break
    return lines


def printed_tests(tests: Any) -> str:
    """Both global tests, and the couplings with the largest statistics."""
    of = {
        "permutations": "permutations of rows between groups",
        "equal couplings": "draws from the fit with equal couplings",
    }[tests.null]
    lines = [*wrapped(f"Tests of equal couplings by {tests.n_draws} {of}", ""), ""]
    rows = [["all couplings", "statistic", "p"]]
    for name in ("structure", "strength"):
        test = getattr(tests, name)
        rows.append([name, number(test.statistic), number(test.p_value)])
    lines += [*table(rows, "<>>"), ""]
    order = np.argsort(-tests.statistics, kind="stable")[:MOST_COUPLINGS]
    head = ["coupling", "statistic", "p", "p (max)", "p (Holm)", "p (Benjamini-Hochberg)"]
    columns = (
        tests.statistics,
        tests.p_values,
        tests.p_max,
        tests.p_holm,
        tests.p_benjamini_hochberg,
    )
    cells = [[tests.names[k], *(number(float(x[k])) for x in columns)] for k in order]
    lines += _of_couplings([head, *cells])
    count, needed = len(tests.names), round(len(tests.names) / LEVEL) - 1
    if count > 1 and tests.n_draws < needed:
        least = 1 / (1 + tests.n_draws)
        lines += wrapped(
            f"The smallest p of {tests.n_draws} draws is {number(least)}, so that p (Holm) of "
            f"{count} couplings is at least {number(min(1.0, count * least))}, whatever the data: "
            f"judge by p (max), or take {needed} draws."
        )
    if tests.n_sweeps:
        lines += wrapped(
            f"Each row of a draw is the end of a chain of its own of {tests.n_sweeps} Gibbs "
            "sweeps, 20 autocorrelation times or more."
        )
    if tests.n_failed:
        lines += wrapped(
            f"{tests.n_failed} draws had no estimate at finite parameters and count as at least as "
            "extreme as the data: a penalty on couplings, and on biases where a unit never changes "
            "in a draw, gives them one."
        )
    return "\n".join(lines)
