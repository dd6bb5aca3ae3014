"""What a report says, section by section; as text at most 80 columns wide as names allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import compress
from statistics import median

from ebm._text import WIDTH, number, short, with_error
from ebm.observables import MAX_UNITS
from ebm.report._blocks import (
    Active,
    Blocks,
    Cell,
    Names,
    Rates,
    Rows,
    Section,
    Sentence,
    State,
    Value,
    bound,
    known_sections,
    trouble,
)
from ebm.report._sections import MAX_UNITS_MINIMA
from ebm.report.parts import Coupling, FitSummary, Sections

_MAX_COUPLINGS = 10
_MAX_MINIMA = 10
#: Counts of active units that are listed.
_MAX_COUNTS = 16
#: Edges that are listed with their probabilities.
_MAX_EDGES = 20
#: Misfits below this, in standard errors, are rounding.
_SMALL = 0.001


def sections_in_words(report: Sections) -> Iterator[Section]:
    """The sections that are known."""
    parts = {
        "trouble": trouble,
        "data": _data,
        "fit": _fit,
        "entropy": _entropies,
        "couplings": _couplings,
        "inversion": _comparison,
        "misfit": _goodness,
        "minima": _minima,
        "valleys": _valleys,
        "populations": _populations,
        "edges": _edges,
        "warnings": _warnings,
    }
    return known_sections(report, parts)


def _data(report: Sections) -> Blocks:
    s = report.summary
    low, middle, high = min(s.rates), median(s.rates), max(s.rates)
    yield "Data"
    yield Value("rows x units", f"{s.n_rows} x {s.n_units}, coded {s.coding}")
    if s.sample_size != s.n_rows:
        yield Value("sum of weights", f"{s.sample_size:g}")
    yield Value("distinct patterns", f"{s.n_patterns}")
    if s.n_missing:
        n_cells = s.sample_size * s.n_units
        yield Value("missing cells", f"{sum(s.n_missing):g} of {n_cells:g}")
        yield Value("complete rows", f"{s.n_complete:g}")
    yield Value("rate (probability active)", f"min {low:.4g}, median {middle:.4g}, max {high:.4g}")
    yield Rates(s.names, s.rates)


def _fit(report: Sections) -> Blocks:
    s = report.fit
    yield "Fit"
    yield Sentence(report.route)
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
    yield Value("log-likelihood per row", f"{likelihood} nats = {bits} bits")
    yield Value("parameters", f"{s.n_parameters}{free}")
    if s.aic is not None:
        yield Value("AIC, BIC", f"{s.aic:.2f}, {s.bic:.2f}")
    yield Value("iterations", f"{s.n_iterations}")
    yield Sentence(s.message if s.converged else f"not converged: {s.message}")
    if s.penalized or not s.converged or error is not None:
        yield from _misfits(s)


def _misfits(s: FitSummary) -> Blocks:
    """Misfits of a model that is not the exact maximum of the likelihood."""
    if s.penalized:
        yield Sentence(
            "A penalized model does not reproduce all rates and pairs of the data, so it is not "
            "the model of maximum entropy. Largest misfits, data minus model:"
        )
    for label, misfit in (("rates", s.rate_misfit), ("pairs", s.pair_misfit)):
        if misfit is not None:
            size = f"{misfit.z:+.3f}" if abs(misfit.z) >= _SMALL else f"below {_SMALL}"
            text = f"{size} standard errors ({_pair(misfit.units)})"
            yield Value(f"largest misfit of {label}", text)


def _no_fit(report: Sections) -> Blocks:
    """Limitations of an inversion in place of a fit."""
    if report.couplings is None:
        return
    yield Sentence(
        f"The couplings {_letter(report)} below are first-order estimates, often about twice too "
        "large where units are strongly coupled or rare. Their ± is the error of sampling alone, "
        "without that of first order."
    )
    yield Sentence(
        "The model of this report is this inversion and not a fit: it does not reproduce the rates "
        "and pairs of the data. ebm.sample can draw from it."
    )
    yield Sentence(
        "Left out, because they require an enumeration: likelihood, entropy, moments and local "
        "minima of the model."
    )


def _entropies(report: Sections) -> Blocks:
    s = report.entropies
    yield "Entropy (bits per row)"
    yield Value("S1, independent units", f"{s.independent:.4f}")
    if s.plug_in is None or s.bias is None:
        yield Value("S, fitted model", f"{s.model:.4f}")
        yield Sentence(
            "Left out, because they require complete rows: entropy of the data, mean-field "
            "inversion, KL(data||model), triples."
        )
        return
    if s.pairwise is not None:
        yield Value("S2, pairwise model", with_error(s.pairwise, s.model_error))
    elif s.model is not None:
        kind = "penalized model" if _is_penalized(report) else "model before convergence"
        yield Value(f"S, {kind}", f"{s.model:.4f}")
    yield Value("S, plug-in of the data", f"{s.plug_in:.4f}")
    yield Value("S, bias-corrected (Miller-Madow)", f"{s.corrected:.4f}")
    yield from _share(report)
    n_patterns, n_rows = report.summary.n_patterns, report.summary.sample_size
    rare = "; K is not small against N, where the correction underestimates the bias"
    sparse = rare if 10 * n_patterns > n_rows else ""
    yield Sentence(
        f"The plug-in entropy is biased low, by about (K-1)/(2N ln 2) = {s.bias:.4f} bits for "
        f"K = {n_patterns} patterns in N = {n_rows:g} rows{sparse}."
    )


def _share(report: Sections) -> Blocks:
    """(S₁ − S₂)/(S₁ − S), or the reason why it is left out or outside of 0 to 1."""
    s = report.entropies
    if s.model is None:
        return
    if s.pairwise is None:
        yield Sentence(
            "The entropy of this model is not S2, which is the largest one among distributions "
            "with the rates and pairs of the data: I2/I_N is left out."
        )
        return
    if s.captured is None:
        n_patterns, n_rows = report.summary.n_patterns, report.summary.sample_size
        if 2 * n_patterns > n_rows:
            yield Sentence(
                f"I2/I_N is left out: with {n_patterns} patterns in {n_rows:g} rows the entropy of "
                "the data reflects the number of rows, not the correlations."
            )
        return
    share = s.captured_corrected
    corrected = "none, corrected S is not below S1" if share is None else _fraction(share)
    yield Value("I2/I_N = (S1-S2)/(S1-S)", _fraction(s.captured))
    yield Value("  with the corrected S", corrected)
    if share is None or not (0 <= s.captured <= 1 and 0 <= share <= 1):
        above = share is not None and share > 1
        yield Sentence(
            f"The true S is at most {'S2' if above else 'S1'}. Here the sampling error of S is "
            "larger than that difference: too few rows to "
            f"{'distinguish the fraction from 1' if above else 'determine the fraction'}."
        )


def _fraction(value: float) -> str:
    beyond = ", below 0" if value < 0 else ", above 1" if value > 1 else ""
    return f"{value:.3f}{beyond}"


def _couplings(report: Sections) -> Blocks:
    if report.couplings is None or not report.couplings.strongest:
        return
    n_couplings, shown = report.couplings.n_couplings, report.couplings.strongest
    kind = "first-order inversion" if report.fit is None else _kind(report)
    letter = _letter(report)
    yield f"Strongest couplings {letter} in units of k_B T ({kind}; {n_couplings} in all)"
    yield Rows(
        ("units", letter, "standard error"),
        tuple(map(_row, shown)),
        "<><",
        has_head=False,
        shown=_MAX_COUPLINGS,
        total=n_couplings,
    )


def _row(coupling: Coupling) -> tuple[Names, str, str]:
    return Names(coupling.units), f"{coupling.value:+.4f}", bound(coupling.standard_error)


def _comparison(report: Sections) -> Blocks:
    s = report.comparison
    if s is None:
        return
    yield f"{s.kind[0].upper()}{s.kind[1:]} against the {_kind(report)}"
    if s.n_compared < s.n_couplings:
        yield Sentence(
            f"{s.n_couplings - s.n_compared} of {s.n_couplings} couplings left out: the data do "
            "not bound them, so that their values depend on where the search ended."
        )
    if s.rms_difference is not None:
        yield Value("couplings, rms difference", f"{s.rms_difference:.4f}")
        if s.gamma is not None:
            yield Value("  relative, (sum D^2/sum W^2)^1/2", f"{s.gamma:.3f}")
        if s.correlation is not None:
            yield Value("  correlation", f"{s.correlation:.4f}")
        yield Value("  worst pair", _pair(s.worst))
        yield Value("    fit, quick answer", f"{s.worst_exact:+.4f}, {s.worst_mean_field:+.4f}")
    if s.log_likelihood is not None:
        # The model of the inversion was enumerated.
        yield Value("log-likelihood per row", f"{s.log_likelihood:.6f} nats")
        yield Value("rates of its model, rms error", _in_errors(s.rate_error, s.rate_z))
        yield Value("covariances, rms error", _in_errors(s.covariance_error, s.covariance_z))


def _in_errors(value: float | None, z: float | None) -> str:
    return number(value) + ("" if z is None else f" ({number(z)} standard errors)")


def _goodness(report: Sections) -> Blocks:
    s = report.goodness
    if s is None:
        return
    yield f"What the {'penalized' if _is_penalized(report) else 'pairwise'} model leaves out"
    yield Value("KL(data||model)", f"{s.kl_bits:.5f} bits")
    if s.kl_expected_deviation is not None:
        deviation = f"below resolution, {s.kl_expected_deviation:.5f}"
        if s.kl_expected_bits is not None:
            deviation = with_error(s.kl_expected_bits, s.kl_expected_deviation, 5)
        yield Value("  expected by chance", f"{deviation} bits")
    if s.triple_rms_z is not None:
        rms = f"rms {s.triple_rms_z:.2f} standard errors ({s.n_triples} triples)"
        yield Value("connected triples, not fitted", rms)
        yield Sentence(f"worst: {', '.join(s.worst_triple)}: {s.worst_triple_z:+.1f}", "    ")
    elif report.summary.n_units > MAX_UNITS:
        yield Sentence(
            f"Left out above {MAX_UNITS} units, where they take too long: connected triples, "
            "and P(K) of the model in the figure."
        )


def _minima(report: Sections) -> Blocks:
    if report.minima is None:
        if report.fit is not None:
            yield f"Local minima of the energy: left out above {MAX_UNITS_MINIMA} units"
        return
    n_minima = report.minima.n_minima
    plural = "um" if n_minima == 1 else "a"
    rows = []
    for minimum in report.minima.deepest:
        is_active = [x == 1 for x in minimum.state]
        names = tuple(compress(report.summary.names, is_active))
        active = Active(names, max(20, WIDTH - len(is_active) - 30))
        pattern = State("".join("01"[is_on] for is_on in is_active))
        rows.append((pattern, f"{minimum.energy:.4f}", number(minimum.probability), active))
    yield f"{n_minima} local minim{plural} of the energy (changes of one unit)"
    yield _lowest(("state", "energy", "probability", "active"), rows, "<>><", n_minima)


def _lowest(
    head: tuple[str, ...], rows: Sequence[tuple[Cell, ...]], alignment: str, total: int
) -> Rows:
    """A table of minima or valleys, and how many text does not list."""
    rest = f"… and {total - _MAX_MINIMA} more"
    return Rows(head, tuple(rows), alignment, shown=_MAX_MINIMA, total=total, rest=rest)


def _valleys(report: Sections) -> Blocks:
    """Basins and passes, where there is more than one valley."""
    s = report.valleys
    if s is None or s.n_valleys == 1:
        return
    rows = []
    for k, valley in enumerate(s.deepest):
        pattern = State("".join("01"[x == 1] for x in valley.state))
        joins = ("", "", "")
        if valley.joins is not None and valley.pass_energy is not None:
            barrier = valley.pass_energy - valley.energy
            joins = (f"{valley.joins}", f"{valley.pass_energy:.4f}", f"{barrier:.4f}")
        rows.append(
            (f"{k}", pattern, f"{valley.basin_states}", number(valley.basin_weight), *joins)
        )
    yield f"{s.n_valleys} valleys: basins of steepest descent, lowest passes to deeper ones"
    head = ("", "state", "basin", "weight", "joins", "pass", "barrier")
    yield _lowest(head, rows, "><>>>>>", s.n_valleys)


#: How names of estimators of entropy are printed.
_ESTIMATORS = {"grassberger": "Grassberger", "nsb": "NSB"}


def _populations(report: Sections) -> Blocks:
    """P(K) of the data and of both models."""
    s = report.populations
    if s is None:
        return
    yield "Numbers of active units"
    how = s.message if s.converged else f"not converged: {s.message}"
    yield Sentence(f"k-pairwise fit of rates, pairs and P(K): {how}")
    decimals = 6 if s.log_likelihood_error is None else 4
    if s.log_likelihood is not None:
        likelihood = with_error(s.log_likelihood, s.log_likelihood_error, decimals)
        yield Value("log-likelihood per row", f"{likelihood} nats")
    if s.gain_bits is not None:
        yield Value("gain over pairs alone", f"{s.gain_bits:.4f} bits")
    yield Value("parameters", f"{s.n_parameters}")
    if s.pools and s.pools[-1] < len(s.shares) - 1:
        yield Value("one value of V from K =", f"{s.pools[-1]}")
    rows = tuple(
        (
            f"{share.count}",
            f"{share.data:.5f} ± {share.data_error:.5f}",
            _with_noise(share.pairwise, share.pairwise_error),
            _with_noise(share.k_pairwise, share.k_pairwise_error),
        )
        for share in s.shares
    )
    doubt = "Errors ? are not to be trusted: too few draws of a model have this K."
    head = ("K", "P(K) of data", "pairwise", "k-pairwise")
    yield Rows(head, rows, ">>>>", shown=_MAX_COUNTS, doubt=doubt)
    for words in s.words:
        name = f"entropy of words, {_ESTIMATORS.get(words.estimator, words.estimator)}"
        yield Value(name, f"{with_error(words.value, words.error)} bits")
    values = [words.value for words in s.words]
    if values and max(values) - min(values) > max(words.error or 0.0 for words in s.words):
        yield Sentence(
            "The estimates differ by more than their errors: too few rows hold a word twice."
        )


def _edges(report: Sections) -> Blocks:
    """The prior, and the most probable edges."""
    s = report.edges
    if s is None:
        return
    yield "Probabilities of edges, given the data and this prior"
    yield Sentence(
        f"In units of -1 and 1, an edge is there with probability {s.edge_probability:g} and then "
        f"has a normal coupling of deviation {s.coupling_width:g}; fields are normal of deviation "
        f"{s.field_width:g}."
    )
    yield Value("edges expected", f"{s.n_expected:.1f} of {len(s.edges)}")
    rows = tuple(
        (Names(edge.units), with_error(edge.probability, edge.error, 3)) for edge in s.edges
    )
    rest = ""
    if len(rows) > _MAX_EDGES:
        below = s.edges[_MAX_EDGES].probability
        rest = f"{len(rows) - _MAX_EDGES} more edges have at most {below:.3f}."
    head = ("units", "probability")
    yield Rows(head, rows, "<>", has_head=False, shown=_MAX_EDGES, rest=rest)


def _with_noise(value: float, error: float) -> str:
    """A probability, with its error if it has one; NaN is one that is refused."""
    if math.isnan(error):
        return f"{value:.5f} ± ?"
    return f"{value:.5f} ± {error:.5f}" if error else f"{value:.5f}"


def _warnings(report: Sections) -> Blocks:
    if report.warnings:
        yield "Warnings"
    for text in report.warnings:
        yield Sentence(text, "  - ")


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
