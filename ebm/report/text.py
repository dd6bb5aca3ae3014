"""A report as text, at most 80 columns wide."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ebm.observables import MAX_UNITS
from ebm.report.fitted import MAX_UNITS_MINIMA
from ebm.report.parts import Comparison, Coupling

if TYPE_CHECKING:
    from ebm.report.analysis import Report

__all__ = ["render"]

WIDTH = 80
_LABEL = 34
_MAX_COUPLINGS = 10
_MAX_MINIMA = 10
_MAX_NAMED_RATES = 30
_MAX_NAME = 20
#: A misfit below so many standard errors is none.
_SMALL = 0.001


def render(report: Report) -> str:
    """The report as text.

    Parameters
    ----------
    report : Report
        From :func:`ebm.report.analyze`.

    Returns
    -------
    str
        Lines of at most 80 columns, as far as unit names allow.
    """
    parts: Sequence[Callable[[Report], list[str]]] = (
        _trouble, _data, _fit, _entropies, _couplings, _comparison, _goodness, _minima, _warnings,
    )  # fmt: skip
    sections = [part(report) for part in parts]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _trouble(report: Report) -> list[str]:
    """What must be read first."""
    if report.fit is None or report.fit.converged:
        return []
    return _wrapped(
        f"NOT CONVERGED: {report.fit.message}. What follows about the model is about the point "
        "where the search stopped" + (", see the warnings below." if report.warnings else "."),
        "",
    )


def _data(report: Report) -> list[str]:
    s = report.summary
    ordered = sorted(s.rates)
    middle = (ordered[(s.n_units - 1) // 2] + ordered[s.n_units // 2]) / 2
    weighted = s.sample_size != s.n_rows
    lines = [
        "Data",
        _line("rows x units", f"{s.n_rows} x {s.n_units}, coded {s.coding}"),
        *([_line("sum of weights", f"{s.sample_size:g}")] if weighted else []),
        _line("distinct patterns", f"{s.n_patterns}"),
        _line(
            "rate (probability active)",
            f"min {ordered[0]:.4g}, median {middle:.4g}, max {ordered[-1]:.4g}",
        ),
    ]
    if s.n_units <= _MAX_NAMED_RATES:
        width = max(len(_short(name)) for name in s.names)
        rates = zip(s.names, s.rates, strict=True)
        lines += _in_columns([f"{_short(name):<{width}} {rate:.4f}" for name, rate in rates])
    return lines


def _fit(report: Report) -> list[str]:
    s = report.fit
    if s is None:
        return ["Fit", *_wrapped(report.route), *_no_fit(report)]
    effective = s.effective_parameters
    free = f", effectively {effective:.1f}" if s.penalized and effective is not None else ""
    likelihood = f"{s.log_likelihood:.6f} nats = {s.log_likelihood_bits:.6f} bits"
    if s.log_likelihood_error is not None:
        nats = f"{s.log_likelihood:.4f} ± {s.log_likelihood_error:.4f} nats"
        likelihood = f"{nats} = {s.log_likelihood_bits:.4f} bits"
    lines = [
        "Fit",
        *_wrapped(report.route),
        _line("log-likelihood per row", likelihood),
        _line("parameters", f"{s.n_parameters}{free}"),
    ]
    if s.aic is not None and s.bic is not None:
        lines.append(_line("AIC, BIC", f"{s.aic:.2f}, {s.bic:.2f}"))
    lines += [
        _line("iterations", f"{s.n_iterations}"),
        *_wrapped(s.message if s.converged else f"not converged: {s.message}"),
    ]
    inexact = s.penalized or not s.converged or s.log_likelihood_error is not None
    return lines + (_misfits(report) if inexact else [])


def _misfits(report: Report) -> list[str]:
    """How far a model that is not the maximum of the likelihood is from the data."""
    s = report.fit
    if s is None:
        return []
    lines = []
    if s.penalized:
        lines = _wrapped(
            "A penalized model does not reproduce all rates and pairs of the data, so it is not "
            "the model of maximum entropy. Largest misfits, data minus model:"
        )
    for label, misfit in (("rates", s.rate_misfit), ("pairs", s.pair_misfit)):
        if misfit is not None:
            size = f"{misfit.z:+.3f}" if abs(misfit.z) >= _SMALL else f"below {_SMALL}"
            text = f"{size} standard errors ({_pair(misfit.units)})"
            lines.append(_line(f"largest misfit of {label}", text))
    return lines


def _no_fit(report: Report) -> list[str]:
    """What an inversion in place of a fit means."""
    if report.model is None:
        return []
    letter = _letter(report)
    return [
        *_wrapped(
            f"The couplings {letter} below are first-order estimates, often about twice too large "
            "where units are strongly coupled or rare. Their ± is the error of sampling alone, and "
            "does not say how far first order is from the truth."
        ),
        *_wrapped(
            "The model of this report is this inversion and not a fit: its rates and pairs are "
            "not those of the data. ebm.sample can draw from it."
        ),
        *_wrapped(
            "Left out, because they take an enumeration: likelihood, entropy, moments and local "
            "minima of the model."
        ),
    ]


def _entropies(report: Report) -> list[str]:
    s = report.entropies
    lines = ["Entropy (bits per row)", _line("S1, independent units", f"{s.independent:.4f}")]
    if s.pairwise is not None:
        error = "" if s.model_error is None else f" ± {s.model_error:.4f}"
        lines.append(_line("S2, pairwise model", f"{s.pairwise:.4f}{error}"))
    elif s.model is not None:
        penalized = report.fit is not None and report.fit.penalized
        kind = "penalized model" if penalized else "model before convergence"
        lines.append(_line(f"S, {kind}", f"{s.model:.4f}"))
    lines += [
        _line("S, plug-in of the data", f"{s.plug_in:.4f}"),
        _line("S, bias-corrected (Miller-Madow)", f"{s.corrected:.4f}"),
    ]
    n_patterns, n_rows = report.summary.n_patterns, report.summary.sample_size
    sparse = 10 * n_patterns > n_rows
    return [
        *lines,
        *_share(report),
        *_wrapped(
            f"The plug-in entropy is biased low, by about (K-1)/(2N ln 2) = {s.bias:.4f} bits for "
            f"K = {n_patterns} patterns in N = {n_rows:g} rows"
            + ("; K is not small against N, so this is less than the bias." if sparse else ".")
        ),
    ]


def _share(report: Report) -> list[str]:
    """The share of the structure that pairs hold, and why it is left out or impossible."""
    s = report.entropies
    if s.pairwise is None and s.model is not None:
        return _wrapped(
            "The entropy of this model is not S2, which is the largest one among distributions "
            "with the rates and pairs of the data: I2/I_N is left out."
        )
    if s.captured is None:
        n_patterns, n_rows = report.summary.n_patterns, report.summary.sample_size
        if s.pairwise is None or 2 * n_patterns <= n_rows:
            return []
        return _wrapped(
            f"I2/I_N is left out: with {n_patterns} patterns in {n_rows:g} rows the entropy of "
            "the data says how many rows there are, not how much structure."
        )
    share = s.captured_corrected
    lines = [
        _line("I2/I_N = (S1-S2)/(S1-S)", _fraction(s.captured)),
        _line(
            "  with the corrected S",
            "none, corrected S is not below S1" if share is None else _fraction(share),
        ),
    ]
    if share is not None and 0 <= min(s.captured, share) and max(s.captured, share) <= 1:
        return lines
    above = share is not None and share > 1
    return lines + _wrapped(
        f"The true S is at most {'S2' if above else 'S1'}. Here the sampling error of S is larger "
        f"than that difference: too few rows to tell the fraction{' from 1' if above else ''}."
    )


def _fraction(value: float) -> str:
    beyond = ", below 0" if value < 0 else ", above 1" if value > 1 else ""
    return f"{value:.3f}{beyond}"


def _couplings(report: Report) -> list[str]:
    if report.couplings is None or not report.couplings.strongest:
        return []
    n_couplings, shown = report.couplings.n_couplings, report.couplings.strongest
    kind = _kind(report) if report.result else "first-order inversion"
    return [
        f"Strongest couplings {_letter(report)} in units of k_B T ({kind}; {n_couplings} in all)",
        *_table([[_pair(c.units), *_value_and_error(c)] for c in shown[:_MAX_COUPLINGS]], "<><"),
    ]


def _comparison(report: Report) -> list[str]:
    s = report.comparison
    if s is None:
        return []
    return [
        f"{s.kind[0].upper()}{s.kind[1:]} against the {_kind(report)}",
        *_compared_couplings(s),
        *_compared_moments(s),
    ]


def _compared_moments(s: Comparison) -> list[str]:
    """Nothing where the quick model was not enumerated."""
    if s.log_likelihood is None or s.rate_error is None or s.covariance_error is None:
        return []
    return [
        _line("log-likelihood per row", f"{s.log_likelihood:.6f} nats"),
        _line("rates of its model, rms error", f"{s.rate_error:.3g}{_in_errors(s.rate_z)}"),
        _line("covariances, rms error", f"{s.covariance_error:.3g}{_in_errors(s.covariance_z)}"),
    ]


def _compared_couplings(s: Comparison) -> list[str]:
    left_out = _wrapped(
        f"{s.n_couplings - s.n_compared} of {s.n_couplings} couplings left out: the data do not "
        "bound them, and they would grow for as long as the search goes on."
    )
    if s.rms_difference is None or s.worst_exact is None or s.worst_mean_field is None:
        return left_out
    lines = [_line("couplings, rms difference", f"{s.rms_difference:.4f}")]
    if s.gamma is not None:
        lines.append(_line("  relative, (sum D^2/sum W^2)^1/2", f"{s.gamma:.3f}"))
    if s.correlation is not None:
        lines.append(_line("  correlation", f"{s.correlation:.4f}"))
    return [
        *(left_out if s.n_compared < s.n_couplings else []),
        *lines,
        _line("  worst pair", _pair(s.worst)),
        _line("    fit, quick answer", f"{s.worst_exact:+.4f}, {s.worst_mean_field:+.4f}"),
    ]


def _goodness(report: Report) -> list[str]:
    s = report.goodness
    if s is None:
        return []
    penalized = report.fit is not None and report.fit.penalized
    lines = [
        f"What the {'penalized' if penalized else 'pairwise'} model leaves out",
        _line("KL(data||model)", f"{s.kl_bits:.5f} bits"),
    ]
    if s.kl_expected_deviation is not None:
        expected = (
            f"below resolution, {s.kl_expected_deviation:.5f} bits"
            if s.kl_expected_bits is None
            else f"{s.kl_expected_bits:.5f} ± {s.kl_expected_deviation:.5f} bits"
        )
        lines.append(_line("  expected by chance", expected))
    if s.triple_rms_z is not None:
        return [
            *lines,
            _line(
                "connected triples, not fitted",
                f"rms {s.triple_rms_z:.2f} standard errors ({s.n_triples} triples)",
            ),
            *_wrapped(f"worst: {', '.join(s.worst_triple)}: {s.worst_triple_z:+.1f}", "    "),
        ]
    if report.summary.n_units > MAX_UNITS:
        lines += _wrapped(
            f"Left out above {MAX_UNITS} units, where they would take too long: connected triples, "
            "and in the figure P(K) of the model."
        )
    return lines


def _minima(report: Report) -> list[str]:
    if report.minima is None:
        left_out = f"Local minima of the energy: left out above {MAX_UNITS_MINIMA} units"
        return [] if report.fit is None else [left_out]
    names = report.summary.names
    rows = []
    for minimum in report.minima.deepest[:_MAX_MINIMA]:
        active = [name for name, x in zip(names, minimum.state, strict=True) if x == 1]
        pattern = "".join("1" if x == 1 else "0" for x in minimum.state)
        numbers = [pattern, f"{minimum.energy:.4f}", f"{minimum.probability:.3g}"]
        room = max(20, WIDTH - len(pattern) - 30)
        text = textwrap.shorten(", ".join(active) or "none", room, placeholder=" …")
        rows.append([*numbers, text])
    n_minima = report.minima.n_minima
    plural = "um" if n_minima == 1 else "a"
    return [
        f"{n_minima} local minim{plural} of the energy (changes of one unit)",
        *_table([["state", "energy", "probability", "active"], *rows], "<>><"),
    ]


def _warnings(report: Report) -> list[str]:
    if not report.warnings:
        return []
    return ["Warnings", *(line for text in report.warnings for line in _wrapped(text, "  - "))]


def _line(label: str, value: str) -> str:
    return f"  {label:<{_LABEL}}{value}"


def _wrapped(text: str, first: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))


def _pair(units: Sequence[str]) -> str:
    return " -- ".join(_short(unit) for unit in units)


def _short(name: str) -> str:
    """A name that leaves room for numbers beside two of its kind."""
    name = " ".join(name.split())
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def _value_and_error(coupling: Coupling) -> tuple[str, str]:
    error = coupling.standard_error
    if error is None:
        return f"{coupling.value:+.4f}", ""
    return f"{coupling.value:+.4f}", f"± {error:.4f}" if math.isfinite(error) else "± inf, no bound"


def _letter(report: Report) -> str:
    return "W" if report.summary.coding == "{0, 1}" else "J"


def _kind(report: Report) -> str:
    if report.fit is not None and report.fit.penalized:
        return "penalized fit"
    sampled = report.fit is not None and report.fit.log_likelihood_error is not None
    return "fit by chains" if sampled else "exact fit"


def _in_errors(z: float | None) -> str:
    return "" if z is None else f" ({z:.3g} standard errors)"


def _table(rows: Sequence[Sequence[str]], alignment: str) -> list[str]:
    """Rows with columns as wide as their widest cell, each aligned by ``<`` or ``>``."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(alignment))]
    formats = [f"{side}{width}" for side, width in zip(alignment, widths, strict=True)]
    lines = ("  ".join(map(format, row, formats)) for row in rows)
    return [f"  {line.rstrip()}" for line in lines]


def _in_columns(cells: Iterable[str]) -> list[str]:
    """Cells side by side, as many to a line as fit."""
    cells = list(cells)
    width = max(map(len, cells)) + 3
    per_line = max(1, (WIDTH - 4) // width)
    return [
        ("    " + "".join(f"{cell:<{width}}" for cell in cells[k : k + per_line])).rstrip()
        for k in range(0, len(cells), per_line)
    ]
