"""A report as text, at most 80 columns wide as far as unit names allow."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import compress
from statistics import median

from ebm._text import WIDTH, columns, labelled, number, short, table, with_error, wrapped
from ebm.observables import MAX_UNITS
from ebm.report._sections import MAX_UNITS_MINIMA
from ebm.report.parts import Coupling, FitSummary, Sections

_MAX_COUPLINGS = 10
_MAX_MINIMA = 10
_MAX_NAMED_RATES = 30
#: Counts of active units that are listed.
_MAX_COUNTS = 16
#: Edges that are listed with their probabilities.
_MAX_EDGES = 20
#: Misfits below this, in standard errors, are rounding.
_SMALL = 0.001

Lines = Iterator[str]


def render(report: Sections) -> str:
    """The sections that are known, separated by empty lines."""
    parts = (
        _trouble, _data, _fit, _entropies, _couplings, _comparison, _goodness, _minima,
        _valleys, _populations, _edges, _warnings,
    )  # fmt: skip
    texts = ("\n".join(part(report)) for part in parts)
    return "\n\n".join(text for text in texts if text)


def _trouble(report: Sections) -> Lines:
    """Failure to converge, before everything else."""
    if report.fit is not None and not report.fit.converged:
        yield from wrapped(
            f"NOT CONVERGED: {report.fit.message}. All results on the model refer to the point "
            "where the search stopped" + (", see the warnings below." if report.warnings else "."),
            "",
        )


def _data(report: Sections) -> Lines:
    s = report.summary
    low, middle, high = min(s.rates), median(s.rates), max(s.rates)
    yield "Data"
    yield labelled("rows x units", f"{s.n_rows} x {s.n_units}, coded {s.coding}")
    if s.sample_size != s.n_rows:
        yield labelled("sum of weights", f"{s.sample_size:g}")
    yield labelled("distinct patterns", f"{s.n_patterns}")
    if s.n_missing:
        n_cells = s.sample_size * s.n_units
        yield labelled("missing cells", f"{sum(s.n_missing):g} of {n_cells:g}")
        yield labelled("complete rows", f"{s.n_complete:g}")
    yield labelled(
        "rate (probability active)", f"min {low:.4g}, median {middle:.4g}, max {high:.4g}"
    )
    if s.n_units <= _MAX_NAMED_RATES:
        names = [short(name) for name in s.names]
        width = max(map(len, names))
        rates = zip(names, s.rates, strict=True)
        yield from columns([f"{name:<{width}} {rate:.4f}" for name, rate in rates])


def _fit(report: Sections) -> Lines:
    s = report.fit
    yield "Fit"
    yield from wrapped(report.route)
    if s is None:
        yield from _no_fit(report)
        return
    free = ""
    if s.penalized and s.effective_parameters is not None:
        free = f", effectively {s.effective_parameters:.1f}"
    error = s.log_likelihood_error
    decimals = 6 if error is None else 4
    likelihood = with_error(s.log_likelihood, error, decimals)
    bits = f"{s.log_likelihood_bits:.{decimals}f}"
    yield labelled("log-likelihood per row", f"{likelihood} nats = {bits} bits")
    yield labelled("parameters", f"{s.n_parameters}{free}")
    if s.aic is not None:
        yield labelled("AIC, BIC", f"{s.aic:.2f}, {s.bic:.2f}")
    yield labelled("iterations", f"{s.n_iterations}")
    yield from wrapped(s.message if s.converged else f"not converged: {s.message}")
    if s.penalized or not s.converged or error is not None:
        yield from _misfits(s)


def _misfits(s: FitSummary) -> Lines:
    """Misfits of a model that is not the exact maximum of the likelihood."""
    if s.penalized:
        yield from wrapped(
            "A penalized model does not reproduce all rates and pairs of the data, so it is not "
            "the model of maximum entropy. Largest misfits, data minus model:"
        )
    for label, misfit in (("rates", s.rate_misfit), ("pairs", s.pair_misfit)):
        if misfit is not None:
            size = f"{misfit.z:+.3f}" if abs(misfit.z) >= _SMALL else f"below {_SMALL}"
            text = f"{size} standard errors ({_pair(misfit.units)})"
            yield labelled(f"largest misfit of {label}", text)


def _no_fit(report: Sections) -> Lines:
    """Limitations of an inversion in place of a fit."""
    if report.couplings is None:
        return
    yield from wrapped(
        f"The couplings {_letter(report)} below are first-order estimates, often about twice too "
        "large where units are strongly coupled or rare. Their ± is the error of sampling alone, "
        "without that of first order."
    )
    yield from wrapped(
        "The model of this report is this inversion and not a fit: it does not reproduce the rates "
        "and pairs of the data. ebm.sample can draw from it."
    )
    yield from wrapped(
        "Left out, because they require an enumeration: likelihood, entropy, moments and local "
        "minima of the model."
    )


def _entropies(report: Sections) -> Lines:
    s = report.entropies
    yield "Entropy (bits per row)"
    yield labelled("S1, independent units", f"{s.independent:.4f}")
    if s.plug_in is None or s.bias is None:
        yield labelled("S, fitted model", f"{s.model:.4f}")
        yield from wrapped(
            "Left out, because they require complete rows: entropy of the data, mean-field "
            "inversion, KL(data||model), triples."
        )
        return
    if s.pairwise is not None:
        yield labelled("S2, pairwise model", with_error(s.pairwise, s.model_error))
    elif s.model is not None:
        kind = "penalized model" if _is_penalized(report) else "model before convergence"
        yield labelled(f"S, {kind}", f"{s.model:.4f}")
    yield labelled("S, plug-in of the data", f"{s.plug_in:.4f}")
    yield labelled("S, bias-corrected (Miller-Madow)", f"{s.corrected:.4f}")
    yield from _share(report)
    n_patterns, n_rows = report.summary.n_patterns, report.summary.sample_size
    rare = "; K is not small against N, where the correction underestimates the bias"
    sparse = rare if 10 * n_patterns > n_rows else ""
    yield from wrapped(
        f"The plug-in entropy is biased low, by about (K-1)/(2N ln 2) = {s.bias:.4f} bits for "
        f"K = {n_patterns} patterns in N = {n_rows:g} rows{sparse}."
    )


def _share(report: Sections) -> Lines:
    """(S₁ − S₂)/(S₁ − S), or the reason why it is left out or outside of 0 to 1."""
    s = report.entropies
    if s.model is None:
        return
    if s.pairwise is None:
        yield from wrapped(
            "The entropy of this model is not S2, which is the largest one among distributions "
            "with the rates and pairs of the data: I2/I_N is left out."
        )
        return
    if s.captured is None:
        n_patterns, n_rows = report.summary.n_patterns, report.summary.sample_size
        if 2 * n_patterns > n_rows:
            yield from wrapped(
                f"I2/I_N is left out: with {n_patterns} patterns in {n_rows:g} rows the entropy of "
                "the data reflects the number of rows, not the correlations."
            )
        return
    share = s.captured_corrected
    corrected = "none, corrected S is not below S1" if share is None else _fraction(share)
    yield labelled("I2/I_N = (S1-S2)/(S1-S)", _fraction(s.captured))
    yield labelled("  with the corrected S", corrected)
    if share is None or not (0 <= s.captured <= 1 and 0 <= share <= 1):
        above = share is not None and share > 1
        yield from wrapped(
            f"The true S is at most {'S2' if above else 'S1'}. Here the sampling error of S is "
            "larger than that difference: too few rows to "
            f"{'distinguish the fraction from 1' if above else 'determine the fraction'}."
        )


def _fraction(value: float) -> str:
    beyond = ", below 0" if value < 0 else ", above 1" if value > 1 else ""
    return f"{value:.3f}{beyond}"


def _couplings(report: Sections) -> Lines:
    if report.couplings is None or not report.couplings.strongest:
        return
    n_couplings, shown = report.couplings.n_couplings, report.couplings.strongest
    kind = "first-order inversion" if report.fit is None else _kind(report)
    letter = _letter(report)
    yield f"Strongest couplings {letter} in units of k_B T ({kind}; {n_couplings} in all)"
    yield from table([_row(coupling) for coupling in shown[:_MAX_COUPLINGS]], "<><")


def _row(coupling: Coupling) -> list[str]:
    error = coupling.standard_error
    bound = "" if error is None else f"± {error:.4f}"
    if error is not None and not math.isfinite(error):
        bound = "± inf, no bound"
    return [_pair(coupling.units), f"{coupling.value:+.4f}", bound]


def _comparison(report: Sections) -> Lines:
    s = report.comparison
    if s is None:
        return
    yield f"{s.kind[0].upper()}{s.kind[1:]} against the {_kind(report)}"
    if s.n_compared < s.n_couplings:
        yield from wrapped(
            f"{s.n_couplings - s.n_compared} of {s.n_couplings} couplings left out: the data do "
            "not bound them, so that their values depend on where the search ended."
        )
    if s.rms_difference is not None:
        yield labelled("couplings, rms difference", f"{s.rms_difference:.4f}")
        if s.gamma is not None:
            yield labelled("  relative, (sum D^2/sum W^2)^1/2", f"{s.gamma:.3f}")
        if s.correlation is not None:
            yield labelled("  correlation", f"{s.correlation:.4f}")
        yield labelled("  worst pair", _pair(s.worst))
        yield labelled("    fit, quick answer", f"{s.worst_exact:+.4f}, {s.worst_mean_field:+.4f}")
    if s.log_likelihood is not None:
        # The model of the inversion was enumerated.
        yield labelled("log-likelihood per row", f"{s.log_likelihood:.6f} nats")
        yield labelled("rates of its model, rms error", _in_errors(s.rate_error, s.rate_z))
        yield labelled("covariances, rms error", _in_errors(s.covariance_error, s.covariance_z))


def _in_errors(value: float | None, z: float | None) -> str:
    return number(value) + ("" if z is None else f" ({number(z)} standard errors)")


def _goodness(report: Sections) -> Lines:
    s = report.goodness
    if s is None:
        return
    yield f"What the {'penalized' if _is_penalized(report) else 'pairwise'} model leaves out"
    yield labelled("KL(data||model)", f"{s.kl_bits:.5f} bits")
    if s.kl_expected_deviation is not None:
        deviation = f"below resolution, {s.kl_expected_deviation:.5f}"
        if s.kl_expected_bits is not None:
            deviation = with_error(s.kl_expected_bits, s.kl_expected_deviation, 5)
        yield labelled("  expected by chance", f"{deviation} bits")
    if s.triple_rms_z is not None:
        rms = f"rms {s.triple_rms_z:.2f} standard errors ({s.n_triples} triples)"
        yield labelled("connected triples, not fitted", rms)
        yield from wrapped(f"worst: {', '.join(s.worst_triple)}: {s.worst_triple_z:+.1f}", "    ")
    elif report.summary.n_units > MAX_UNITS:
        yield from wrapped(
            f"Left out above {MAX_UNITS} units, where they take too long: connected triples, "
            "and P(K) of the model in the figure."
        )


def _minima(report: Sections) -> Lines:
    if report.minima is None:
        if report.fit is not None:
            yield f"Local minima of the energy: left out above {MAX_UNITS_MINIMA} units"
        return
    n_minima = report.minima.n_minima
    plural = "um" if n_minima == 1 else "a"
    rows = [["state", "energy", "probability", "active"]]
    for minimum in report.minima.deepest[:_MAX_MINIMA]:
        is_active = [x == 1 for x in minimum.state]
        active = ", ".join(compress(report.summary.names, is_active)) or "none"
        room = max(20, WIDTH - len(is_active) - 30)
        names = textwrap.shorten(active, room, placeholder=" …")
        pattern = "".join("01"[is_on] for is_on in is_active)
        rows.append([pattern, f"{minimum.energy:.4f}", number(minimum.probability), names])
    yield f"{n_minima} local minim{plural} of the energy (changes of one unit)"
    yield from table(rows, "<>><")
    yield from _more(n_minima)


def _more(n: int) -> Lines:
    """How many minima or valleys are not listed."""
    if n > _MAX_MINIMA:
        yield f"  … and {n - _MAX_MINIMA} more"


def _valleys(report: Sections) -> Lines:
    """Basins and passes, where there is more than one valley."""
    s = report.valleys
    if s is None or s.n_valleys == 1:
        return
    rows = [["", "state", "basin", "weight", "joins", "pass", "barrier"]]
    for k, valley in enumerate(s.deepest[:_MAX_MINIMA]):
        pattern = "".join("01"[x == 1] for x in valley.state)
        joins = ["", "", ""]
        if valley.joins is not None and valley.pass_energy is not None:
            barrier = valley.pass_energy - valley.energy
            joins = [f"{valley.joins}", f"{valley.pass_energy:.4f}", f"{barrier:.4f}"]
        rows.append(
            [f"{k}", pattern, f"{valley.basin_states}", number(valley.basin_weight), *joins]
        )
    yield f"{s.n_valleys} valleys: basins of steepest descent, lowest passes to deeper ones"
    yield from table(rows, "><>>>>>")
    yield from _more(s.n_valleys)


#: How names of estimators of entropy are printed.
_ESTIMATORS = {"grassberger": "Grassberger", "nsb": "NSB"}


def _populations(report: Sections) -> Lines:
    """P(K) of the data and of both models."""
    s = report.populations
    if s is None:
        return
    yield "Numbers of active units"
    how = s.message if s.converged else f"not converged: {s.message}"
    yield from wrapped(f"k-pairwise fit of rates, pairs and P(K): {how}")
    decimals = 6 if s.log_likelihood_error is None else 4
    if s.log_likelihood is not None:
        likelihood = with_error(s.log_likelihood, s.log_likelihood_error, decimals)
        yield labelled("log-likelihood per row", f"{likelihood} nats")
    if s.gain_bits is not None:
        yield labelled("gain over pairs alone", f"{s.gain_bits:.4f} bits")
    yield labelled("parameters", f"{s.n_parameters}")
    if s.pools and s.pools[-1] < len(s.shares) - 1:
        yield labelled("one value of V from K =", f"{s.pools[-1]}")
    rows = [
        (
            f"{share.count}",
            f"{share.data:.5f} ± {share.data_error:.5f}",
            _with_noise(share.pairwise, share.pairwise_error),
            _with_noise(share.k_pairwise, share.k_pairwise_error),
        )
        for share in s.shares[:_MAX_COUNTS]
    ]
    yield from table([("K", "P(K) of data", "pairwise", "k-pairwise"), *rows], ">>>>")
    if any(cell.endswith("?") for row in rows for cell in row):
        yield from wrapped("Errors ? are not to be trusted: too few draws of a model have this K.")
    for words in s.words:
        name = f"entropy of words, {_ESTIMATORS.get(words.estimator, words.estimator)}"
        yield labelled(name, f"{with_error(words.value, words.error)} bits")
    values = [words.value for words in s.words]
    if values and max(values) - min(values) > max(words.error or 0.0 for words in s.words):
        yield from wrapped(
            "The estimates differ by more than their errors: too few rows hold a word twice."
        )


def _edges(report: Sections) -> Lines:
    """The prior, and the most probable edges."""
    s = report.edges
    if s is None:
        return
    yield "Probabilities of edges, given the data and this prior"
    yield from wrapped(
        f"In units of -1 and 1, an edge is there with probability {s.edge_probability:g} and then "
        f"has a normal coupling of deviation {s.coupling_width:g}; fields are normal of deviation "
        f"{s.field_width:g}."
    )
    yield labelled("edges expected", f"{s.n_expected:.1f} of {len(s.edges)}")
    shown = s.edges[:_MAX_EDGES]
    rows = [[_pair(edge.units), with_error(edge.probability, edge.error, 3)] for edge in shown]
    yield from table(rows, "<>")
    if len(s.edges) > len(shown):
        below = s.edges[len(shown)].probability
        yield from wrapped(f"{len(s.edges) - len(shown)} more edges have at most {below:.3f}.")


def _with_noise(value: float, error: float) -> str:
    """A probability, with its error if it has one; NaN is one that is refused."""
    if math.isnan(error):
        return f"{value:.5f} ± ?"
    return f"{value:.5f} ± {error:.5f}" if error else f"{value:.5f}"


def _warnings(report: Sections) -> Lines:
    if report.warnings:
        yield "Warnings"
    for text in report.warnings:
        yield from wrapped(text, "  - ")


def _pair(units: Sequence[str]) -> str:
    return " -- ".join(map(short, units))


def _letter(report: Sections) -> str:
    return "W" if report.summary.coding == "{0, 1}" else "J"


def _is_penalized(report: Sections) -> bool:
    return report.fit is not None and report.fit.penalized


def _kind(report: Sections) -> str:
    """The kind of the fit."""
    if _is_penalized(report):
        return "penalized fit"
    is_estimate = report.fit is not None and report.fit.log_likelihood_error is not None
    return "fit by chains" if is_estimate else "exact fit"
