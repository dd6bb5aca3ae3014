"""Every number of a report against its definition, and what a report says in hard cases."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import ebm
from ebm import datasets, inversion
from ebm._jobs import run_jobs
from ebm.ensembles import Ensemble
from ebm.enumeration import exact
from ebm.errors import CodingError, ConstantUnitError, EnumerationLimitError
from ebm.learning import fit
from ebm.models import BoltzmannMachine
from ebm.report import MAX_UNITS_EXACT, _printed, _sections, analysis, analyze
from ebm.report._sections import (
    compare_inversion,
    couplings_of,
    effective_parameters,
    entropies,
    expected_divergence,
    goodness,
    minima,
    misfits,
    sampling_errors,
)
from ebm.spaces import Binary, Levels, Spins
from ebm.tables import Table
from tests.statistical import FALSE_FAIL_RATE

NAMES = ["a", "b", "c", "d", "e"]


def machine(n: int = 5, scale: float = 1.0) -> BoltzmannMachine:
    rng = np.random.default_rng(11)
    weights = scale * rng.normal(size=(n, n))
    return BoltzmannMachine(weights, rng.normal(size=n) - 0.5).canonical()


def drawn(n_rows: int = 3000, seed: int = 1, model: Any = None) -> np.ndarray:
    return exact(machine() if model is None else model).sample(n_rows, rng=seed).astype(np.int8)


def parity_rows(n_rows: int = 2000) -> np.ndarray:
    """Three units of which every two are independent and the third is their parity, mostly."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 2, size=(n_rows, 3))
    rows[:, 2] = np.where(rng.random(n_rows) < 0.9, rows[:, 0] ^ rows[:, 1], rows[:, 2])
    return rows


# Reference


def test_bundled_spikes_reproduce_the_reference_fit() -> None:
    data = datasets.spikes()
    report = analyze(data.states, names=data.names)
    assert report.fit is not None
    assert report.fit.log_likelihood == pytest.approx(-3.453698, abs=5e-7)
    assert report.entropies.independent == pytest.approx(5.0446, abs=5e-5)
    assert report.entropies.pairwise == pytest.approx(4.9826, abs=5e-5)
    assert report.entropies.plug_in == pytest.approx(4.9703, abs=5e-5)
    assert report.minima is not None
    assert [m.state for m in report.minima.deepest] == [(0,) * 10]
    assert report.summary.names == data.names
    assert report.fit.converged


# Sections by definition


def test_entropies_by_definition() -> None:
    rows = drawn(200)
    data = Ensemble.from_data(rows)
    s = entropies(data, 3.0)
    p = rows.mean(axis=0)
    _, counts = np.unique(rows, axis=0, return_counts=True)
    q = counts / 200
    assert s.independent == pytest.approx(-(p * np.log2(p) + (1 - p) * np.log2(1 - p)).sum())
    assert s.plug_in == pytest.approx(-(q * np.log2(q)).sum())
    assert s.bias == pytest.approx((len(q) - 1) / (400 * math.log(2)))
    assert s.corrected == s.plug_in + s.bias
    assert s.captured == pytest.approx((s.independent - 3.0) / (s.independent - s.plug_in))
    assert s.captured_corrected is not None
    assert s.captured_corrected > s.captured


def test_bias_note_has_the_right_sign_and_size() -> None:
    # Data from uniform bits: the true entropy is 5 bits.
    plug_in, corrected = [], []
    for seed in range(40):
        s = entropies(Ensemble.from_data(np.random.default_rng(seed).integers(0, 2, (500, 5))))
        plug_in.append(s.plug_in)
        corrected.append(s.corrected)
    assert np.mean(plug_in) < 4.96
    assert np.mean(corrected) == pytest.approx(5.0, abs=0.005)


def test_a_model_without_the_moments_of_the_data_has_no_share() -> None:
    s = entropies(Ensemble.from_data(drawn(200)), 3.0, reproduces=False)
    assert s.model == 3.0
    assert s.pairwise is s.captured is s.captured_corrected is None


@pytest.mark.parametrize("rows", [[[0, 0], [0, 1], [1, 0], [1, 1]], [[1, 0], [1, 0]]])
def test_no_dependence_leaves_no_share_to_state(rows: list[list[int]]) -> None:
    s = entropies(Ensemble.from_data(rows), 0.5)
    assert s.captured is None


def test_weights_count_as_rows() -> None:
    rows = drawn(300)
    doubled = Ensemble.from_data(np.repeat(rows, 2, axis=0))
    weighted = Ensemble.from_data(rows, sample_weight=np.full(300, 2.0))
    assert entropies(weighted) == entropies(doubled)
    first, second = analyze(weighted).to_dict(), analyze(doubled).to_dict()
    assert first["fit"] == second["fit"]
    assert first["goodness"] == second["goodness"]


def test_couplings_come_by_falling_modulus_with_their_errors() -> None:
    data = Ensemble.from_data(drawn(), names=NAMES)
    report = analyze(data)
    result = fit(BoltzmannMachine(np.zeros((5, 5)), np.zeros(5)), data)
    assert report.couplings is not None
    listed = report.couplings.strongest
    sizes = [abs(c.value) for c in listed]
    assert sizes == sorted(sizes, reverse=True)
    assert report.couplings.n_couplings == len(listed) == 10
    wanted = {
        (NAMES[i], NAMES[j]): (result.model.weights[i, j], result.standard_errors[5 + k])
        for k, (i, j) in enumerate(combinations(range(5), 2))
    }
    for c in listed:
        assert (c.value, c.standard_error) == pytest.approx(wanted[c.units], rel=1e-6)


def test_couplings_lie_within_their_errors_of_the_truth() -> None:
    report = analyze(drawn(20_000))
    assert report.couplings is not None
    truth = machine().weights
    z = [
        (c.value - truth[int(c.units[0]), int(c.units[1])]) / (c.standard_error or 0)
        for c in report.couplings.strongest
    ]
    assert max(map(abs, z)) < norm.isf(FALSE_FAIL_RATE / 2 / len(z))


@pytest.mark.parametrize("space", [Binary, Spins])
def test_comparison_by_definition(space: Any) -> None:
    rows = drawn(4000)
    data = Ensemble.from_data(rows if space is Binary else 2 * rows - 1, space=space)
    approximate = inversion.mean_field(data.moments())
    fitted: Any = machine() if space is Binary else machine().to_spins()
    s = compare_inversion(approximate, fitted, data)
    i, j = np.triu_indices(5, 1)
    w = approximate.quadratic_form().matrix[i, j]
    v = fitted.quadratic_form().matrix[i, j]
    assert s.rms_difference == pytest.approx(math.sqrt(np.mean((w - v) ** 2)))
    assert s.gamma == pytest.approx(math.sqrt(((w - v) ** 2).sum() / (v**2).sum()))
    assert s.correlation == pytest.approx(np.corrcoef(w, v)[0, 1])
    worst = int(np.argmax(np.abs(w - v)))
    assert s.worst == (str(i[worst]), str(j[worst]))
    assert (s.worst_exact, s.worst_mean_field) == (v[worst], w[worst])
    ensemble = exact(approximate)
    x, p = (ensemble.states > 0).astype(float), ensemble.weights
    mean, observed = p @ x, rows.mean(axis=0)
    cov = (x * p[:, None]).T @ x - np.outer(mean, mean)
    assert s.rate_error == pytest.approx(math.sqrt(np.mean((mean - observed) ** 2)))
    wanted = (cov - np.cov(rows.T, ddof=0))[i, j]
    assert s.covariance_error == pytest.approx(math.sqrt(np.mean(wanted**2)))
    error = np.sqrt(observed * (1 - observed) / 4000)
    assert s.rate_z == pytest.approx(math.sqrt(np.mean(((mean - observed) / error) ** 2)))
    assert s.log_likelihood == pytest.approx(
        float(data.weights @ ensemble.log_probability(data.states))
    )


def test_couplings_without_bound_are_not_compared() -> None:
    data = Ensemble.from_data(drawn())
    other = machine().with_parameters(machine().parameters + np.arange(15) / 10)
    bounded = np.arange(10) != 9
    some, every = (compare_inversion(machine(), other, data, b) for b in (bounded, True))
    d, w = np.arange(5, 14) / 10, other.parameters[5:14]
    assert (some.n_couplings, some.n_compared) == (10, 9)
    assert some.rms_difference == pytest.approx(math.sqrt(np.mean(d**2)))
    assert some.gamma == pytest.approx(math.sqrt((d**2).sum() / (w**2).sum()))
    assert some.worst == ("2", "4")
    assert every.worst == ("3", "4")
    assert some.log_likelihood == every.log_likelihood
    none = compare_inversion(machine(), other, data, False)
    assert none.rms_difference is none.gamma is none.correlation is none.worst_exact is None
    assert none.worst == ()


def test_comparison_of_equal_models_is_zero() -> None:
    data = Ensemble.from_data(drawn())
    s = compare_inversion(machine(), machine(), data)
    assert (s.rms_difference, s.gamma, s.correlation) == (0, 0, pytest.approx(1))


@pytest.mark.parametrize("space", [Binary, Spins])
def test_sampling_errors_are_those_of_the_linearized_inversion(space: Any) -> None:
    rows = drawn(500)
    data = Ensemble.from_data(rows if space is Binary else 2 * rows - 1, space=space)
    m = rows.mean(axis=0)
    d, v = rows - m, m * (1 - m)
    wanted = []
    for i, j in combinations(range(5), 2):
        c = np.mean(d[:, i] * d[:, j])
        w = c / (v[i] * v[j])
        drift = (1 - 2 * m[i]) * d[:, i] / v[i] + (1 - 2 * m[j]) * d[:, j] / v[j]
        influence = (d[:, i] * d[:, j] - c) / (v[i] * v[j]) - w * drift
        wanted.append(influence.std() / math.sqrt(500) / (1 if space is Binary else 4))
    assert np.allclose(sampling_errors(data), wanted, rtol=1e-10)


def test_goodness_by_definition() -> None:
    rows = drawn(2000)
    data, ensemble = Ensemble.from_data(rows, names=NAMES), exact(machine())
    s = goodness(data, ensemble, 15)
    states, counts = np.unique(rows, axis=0, return_counts=True)
    q = counts / 2000
    assert s.kl_bits == pytest.approx(
        q @ (np.log2(q) - ensemble.log_probability(states) / math.log(2))
    )
    x, p = ensemble.states, ensemble.weights
    d, e = rows - rows.mean(axis=0), x - p @ x
    z = []
    for k in combinations(range(5), 3):
        f, g = d[:, list(k)].prod(axis=1), e[:, list(k)].prod(axis=1)
        z.append((f.mean() - p @ g) / math.sqrt((p @ g**2 - (p @ g) ** 2) / 2000))
    assert s.triple_rms_z == pytest.approx(math.sqrt(np.mean(np.square(z))))
    worst = int(np.argmax(np.abs(z)))
    assert s.worst_triple_z == pytest.approx(z[worst])
    assert s.worst_triple == tuple(NAMES[k] for k in list(combinations(range(5), 3))[worst])


def test_yardstick_accepts_a_pairwise_world_and_rejects_another() -> None:
    for seed in range(3):
        good = analyze(drawn(2000, seed)).goodness
        assert good is not None
        assert good.kl_expected_bits is not None
        assert good.kl_expected_deviation is not None
        assert abs(good.kl_bits - good.kl_expected_bits) < 5 * good.kl_expected_deviation
        assert good.triple_rms_z is not None
        assert good.triple_rms_z < 2
    bad = analyze(parity_rows()).goodness
    assert bad is not None
    assert bad.kl_expected_deviation is not None
    assert bad.kl_bits > (bad.kl_expected_bits or 0) + 20 * bad.kl_expected_deviation
    assert bad.triple_rms_z is not None
    assert bad.triple_rms_z > 20


def test_yardstick_is_reproducible_and_left_out_where_too_long() -> None:
    ensemble = exact(machine())
    assert expected_divergence(500, ensemble, 15, 7) == expected_divergence(500, ensemble, 15, 7)
    assert expected_divergence(500, ensemble, 15, 7) != expected_divergence(500, ensemble, 15, 8)
    assert expected_divergence(2e6, ensemble, 15, 7) == (None, None)
    larger = SimpleNamespace(space=Binary(30), sample=None)
    assert expected_divergence(2e5, larger, 465, 7) == (None, None)  # type: ignore[arg-type]


def test_yardstick_does_not_depend_on_how_many_sets_are_drawn_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ensemble = exact(machine())
    together = expected_divergence(5000, ensemble, 15, 7)
    monkeypatch.setattr(_sections, "_ROWS_AT_ONCE", 15_000)
    apart = expected_divergence(5000, ensemble, 15, 7)
    assert None not in (*together, *apart)
    assert apart[0] == pytest.approx(together[0], abs=6 * (together[1] or 0) / math.sqrt(20))


def test_a_yardstick_below_resolution_is_no_zero() -> None:
    report = analyze(drawn(12, seed=2), names=NAMES, penalty=0.01)
    assert report.goodness is not None
    mean, deviation = expected_divergence(12, exact(machine()), 60, 0)
    assert mean is None
    assert deviation is not None
    below = replace(report.goodness, kl_expected_bits=None, kl_expected_deviation=0.25)
    assert "below resolution, 0.25000 bits" in str(replace(report, goodness=below))


def test_triples_are_left_out_where_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_sections, _printed):
        monkeypatch.setattr(module, "MAX_UNITS", 4)
    report = analyze(drawn(300), names=NAMES)
    assert report.goodness is not None
    assert report.goodness.n_triples == 10
    assert report.goodness.triple_rms_z is report.goodness.worst_triple_z is None
    assert report.goodness.worst_triple == ()
    said = " ".join(str(report).split())
    assert "Left out above 4 units" in said
    assert "standard errors (10 triples)" not in said


def test_local_minima_left_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_sections, _printed):
        monkeypatch.setattr(module, "MAX_UNITS_MINIMA", 4)
    report = analyze(drawn(300), names=NAMES)
    assert report.minima is None
    assert "Local minima of the energy: left out above 4 units" in str(report)


def test_minima_are_listed_with_their_probabilities() -> None:
    model = BoltzmannMachine(4 * (np.ones((4, 4)) - np.eye(4)), np.full(4, -5.8))
    found = minima(model, exact(model))
    assert found.n_minima == 2
    assert [m.state for m in found.deepest] == [(1, 1, 1, 1), (0, 0, 0, 0)]
    for m in found.deepest:
        assert m.energy == pytest.approx(float(model.energy(m.state)))
        assert m.probability == pytest.approx(
            math.exp(float(exact(model).log_probability(m.state)))
        )


def test_long_lists_are_cut_and_counted() -> None:
    flat = BoltzmannMachine(np.zeros((11, 11)), np.zeros(11))
    assert minima(flat, exact(flat)).n_minima == 2**11
    assert len(minima(flat, exact(flat)).deepest) == 1000
    large = BoltzmannMachine(np.zeros((60, 60)), np.zeros(60))
    assert couplings_of(large).n_couplings == 1770
    assert len(couplings_of(large).strongest) == 1000


# Codings and centers


def test_both_codings_tell_the_same_story() -> None:
    rows = drawn(2000)
    binary, spins = analyze(rows).to_dict(), analyze(2 * rows - 1, space=Spins).to_dict()
    assert binary["fit"]["log_likelihood_nats_per_row"] == pytest.approx(
        spins["fit"]["log_likelihood_nats_per_row"], abs=1e-10
    )
    assert binary["entropies"] == pytest.approx(spins["entropies"], abs=1e-8)
    assert binary["summary"]["rates"] == pytest.approx(spins["summary"]["rates"])
    assert binary["goodness"]["triple_rms_z"] == pytest.approx(
        spins["goodness"]["triple_rms_z"], rel=1e-6
    )
    for w, j in zip(binary["couplings"]["strongest"], spins["couplings"]["strongest"], strict=True):
        assert w["units"] == j["units"]
        assert w["value_kT"] == pytest.approx(4 * j["value_kT"], rel=1e-6)
        error, other = (c["value_kT_standard_error"] for c in (w, j))
        assert error == pytest.approx(4 * other, rel=1e-6)


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_the_center_changes_the_biases_and_nothing_else(l2: float) -> None:
    rows = drawn(500)
    plain, centered = analyze(rows, penalty=l2), analyze(rows, penalty=l2, center="mean")
    assert plain.to_dict() == centered.to_dict()
    assert np.allclose(centered.model.center, rows.mean(axis=0))
    assert not np.allclose(centered.model.biases, plain.model.biases)
    states = plain.data.space.states_at(range(32))
    assert np.allclose(plain.model.energy(states), centered.model.energy(states), atol=1e-12)


@pytest.mark.parametrize(
    ("space", "center", "message"),
    [
        (Spins, "mean", "spins have no center"),
        (Binary, "median", "numbers or 'mean'"),
        (Levels(5, 2), 0.0, "two-valued"),
    ],
)
def test_wrong_centers_and_spaces(space: Any, center: Any, message: str) -> None:
    rows = drawn(50)
    with pytest.raises(CodingError, match=message):
        analyze(2 * rows - 1 if space is Spins else rows, space=space, center=center)


# What cannot be known, and what must be said


@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_more_units_than_can_be_fitted(l2: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MAX_UNITS_SAMPLED", 32)
    rows = np.random.default_rng(2).integers(0, 2, size=(300, 33))
    report = analyze(rows, center="mean", penalty=l2)
    assert (
        report.result is report.fit is report.comparison is report.goodness is report.minima is None
    )
    assert report.entropies.model is report.entropies.pairwise is report.entropies.captured is None
    assert report.ensemble is None
    assert "33 units" in report.route
    alone = inversion.mean_field(report.data.moments())
    assert np.allclose(report.model.parameters, alone.parameters, rtol=1e-12)
    assert report.couplings is not None
    assert report.couplings.strongest[0].standard_error is not None
    said = " ".join(str(report).split())
    for words in (
        "no fit",
        "first-order estimates, often about twice too large",
        "the error of sampling alone",
        "The model of this report is this inversion and not a fit",
        "ebm.sample can draw from it",
        "(first-order inversion; 528 in all)",
    ):
        assert words in said
    assert ("the penalty l2 = 0.5 has no effect" in said) == (l2 > 0)
    for word in ("log-likelihood", "AIC", "S2", "I2/I_N", "KL(", "NOT CONVERGED"):
        assert word not in said
    assert max(map(len, str(report).splitlines())) <= 80


def test_few_rows_advise_no_penalty_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MAX_UNITS_SAMPLED", 32)
    rows = np.random.default_rng(2).integers(0, 2, size=(30, 40))
    report = analyze(rows)
    assert any("30 rows for 40 units" in warning for warning in report.warnings)
    assert "penalty" not in str(report)
    small = analyze(rows[:4, :5], penalty=ebm.Penalty(0.1, 0.1))
    assert any("penalty" in warning for warning in small.warnings)


def test_units_up_to_32_are_fitted() -> None:
    assert MAX_UNITS_EXACT == 32


def test_a_refused_enumeration_takes_the_other_route(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise EnumerationLimitError("would take 3 h")

    monkeypatch.setattr(analysis, "fit", refuse)
    report = analyze(drawn(50))
    assert report.fit is not None
    assert report.fit.log_likelihood_error is not None
    assert report.route == ("maximum likelihood by 1000 persistent Markov chains (would take 3 h)")


def test_a_constant_unit_is_refused_or_penalized() -> None:
    rows = drawn(50)
    rows[:, 2] = 1
    with pytest.raises(ConstantUnitError, match="'c'"):
        analyze(rows, names=NAMES)
    report = analyze(rows, names=NAMES, penalty=ebm.Penalty(0.01, 0.01))
    assert report.inversion is report.comparison is None
    assert any("No mean-field inversion" in text and "'c'" in text for text in report.warnings)
    assert report.fit is not None
    assert math.isfinite(report.fit.log_likelihood)


def test_more_units_than_can_be_fitted_with_a_constant_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data are reported still."""
    monkeypatch.setattr(analysis, "MAX_UNITS_SAMPLED", 32)
    rows = np.random.default_rng(2).integers(0, 2, size=(300, 33))
    rows[:, 4] = 0
    report = analyze(rows)
    assert report.model is report.couplings is None
    assert any("'4'" in text for text in report.warnings)
    assert "33" in str(report)
    assert "--out" not in str(report)


# Models that are no maximum of the likelihood


@pytest.mark.parametrize("space", [Binary, Spins])
@pytest.mark.parametrize("penalty", [{"l2": 0.02}, {"l2_biases": 0.3}])
def test_a_penalized_model_is_not_that_of_maximum_entropy(
    penalty: dict[str, float], space: Any
) -> None:
    rows = drawn(1000)
    coded = rows if space is Binary else 2 * rows - 1
    report = analyze(coded, names=NAMES, space=space, penalty=ebm.Penalty(**penalty))
    s, e = report.fit, report.entropies
    assert s is not None
    assert s.penalized
    assert (s.l2, s.l2_biases) == (penalty.get("l2", 0), penalty.get("l2_biases", 0))
    assert e.pairwise is e.captured is e.captured_corrected is s.aic is s.bic is None
    assert e.model == pytest.approx(report.result.ensemble.entropy(base=2))  # type: ignore[union-attr]
    said = " ".join(str(report).split())
    for words in ("penalized maximum likelihood", "S, penalized model", "I2/I_N is left out"):
        assert words in said
    for words in ("S2, pairwise", "AIC", "(S1-S2)/(S1-S)", "exact maximum", "exact fit"):
        assert words not in said
    assert f"effectively {s.effective_parameters:.1f}" in said


def test_misfits_by_definition() -> None:
    rows = drawn(500)
    ensemble = exact(machine())
    rates, pairs = misfits(Ensemble.from_data(rows, names=NAMES), ensemble)
    x, p = ensemble.states, ensemble.weights
    d, e = rows - rows.mean(axis=0), x - p @ x
    z = (rows.mean(axis=0) - p @ x) / np.sqrt((p @ e**2) / 500)
    assert rates is not None
    assert (rates.units, rates.z) == (
        (NAMES[np.argmax(np.abs(z))],),
        pytest.approx(z[np.argmax(np.abs(z))]),
    )
    found = {}
    for i, j in combinations(range(5), 2):
        f, g = d[:, i] * d[:, j], e[:, i] * e[:, j]
        found[NAMES[i], NAMES[j]] = (f.mean() - p @ g) / math.sqrt((p @ g**2 - (p @ g) ** 2) / 500)
    worst = max(found, key=lambda units: abs(found[units]))
    assert pairs is not None
    assert (pairs.units, pairs.z) == (worst, pytest.approx(found[worst]))


def test_misfits_are_none_at_the_maximum_and_grow_with_the_penalty() -> None:
    sizes = []
    for l2 in (0.0, 1e-3, 1e-2, 1e-1):
        s = analyze(drawn(1000), penalty=l2).fit
        assert s is not None
        assert s.pair_misfit is not None
        sizes.append(abs(s.pair_misfit.z))
    assert sizes[0] < 1e-5
    assert sizes == sorted(sizes)
    assert analyze([[0], [1]]).fit.pair_misfit is None  # type: ignore[union-attr]


def test_effective_parameters_fall_from_all_to_the_biases() -> None:
    data = Ensemble.from_data(drawn(1000))
    start = BoltzmannMachine(np.zeros((5, 5)), np.zeros(5))
    numbers = [
        effective_parameters(fit(start, data, penalty=ebm.Penalty(l2=l2)), l2, 0.0)
        for l2 in (0.0, 1e-6, 1e-2, 1e4)
    ]
    assert numbers[0] == 15
    assert numbers[1] == pytest.approx(15, abs=1e-3)
    assert 5 < (numbers[2] or 0) < 15
    assert numbers[3] == pytest.approx(5, abs=1e-2)


def never_both_on() -> np.ndarray:
    rows = drawn(600)
    return rows[~((rows[:, 0] == 1) & (rows[:, 3] == 1))]


def test_a_fit_that_did_not_converge_says_so_first() -> None:
    report = analyze(never_both_on(), names=NAMES)
    said = str(report)
    assert said.startswith("NOT CONVERGED: ")
    assert report.comparison is not None
    assert (report.comparison.n_couplings, report.comparison.n_compared) == (10, 9)
    assert (report.comparison.rms_difference or math.inf) < 3
    assert "1 of 10 couplings left out" in said
    assert not str(analyze(drawn(), names=NAMES)).startswith("NOT CONVERGED")


def test_an_unfinished_fit_claims_no_entropy_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any, **options: Any) -> Any:
        return fit(*arguments, solver=ebm.Newton(max_iterations=1), **options)

    monkeypatch.setattr(analysis, "fit", stopped)
    report = analyze(drawn(), names=NAMES)
    said = " ".join(str(report).split())
    assert said.startswith("NOT CONVERGED: stopped at max_iterations = 1")
    assert report.entropies.pairwise is report.entropies.captured is None
    assert "S, model before convergence" in said
    assert "largest misfit of pairs" in said


def test_couplings_of_unknown_error_are_not_compared_before_convergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_errors(*arguments: Any, **options: Any) -> Any:
        return replace(fit(*arguments, **options), errors=None, fisher=None)

    monkeypatch.setattr(analysis, "fit", without_errors)
    report = analyze(never_both_on(), names=NAMES)
    assert report.comparison is not None
    assert report.comparison.rms_difference is None
    assert "rms difference" not in str(report)
    assert "rms difference" in str(analyze(drawn(), names=NAMES))


def test_a_share_outside_of_0_and_1_comes_with_its_reason() -> None:
    report = analyze(drawn(3000), names=NAMES)
    for captured, corrected, words in (
        (0.8, 1.25, "1.250, above 1 The true S is at most S2."),
        (0.8, None, "none, corrected S is not below S1 The true S is at most S1."),
        (0.8, -0.5, "-0.500, below 0 The true S is at most S1."),
    ):
        e = replace(report.entropies, captured=captured, captured_corrected=corrected)
        said = " ".join(str(replace(report, entropies=e)).split())
        assert words in said
        assert "the sampling error of S is larger than that difference: too few rows" in said
    inside = replace(report.entropies, captured=0.8, captured_corrected=0.9)
    assert "sampling error of S" not in str(replace(report, entropies=inside))


def test_few_rows_show_a_share_beyond_1() -> None:
    beyond = [analyze(drawn(40, seed)).entropies.captured_corrected for seed in range(5)]
    assert any(share is None or not 0 <= share <= 1 for share in beyond)


@pytest.mark.parametrize("complement", [False, True])
def test_equal_and_opposite_columns_are_named_and_cured(complement: bool) -> None:
    rows = drawn(400)
    rows[:, 1] = 1 - rows[:, 0] if complement else rows[:, 0]
    report = analyze(rows, names=NAMES)
    assert any("'a'" in text and "'b'" in text for text in report.warnings)
    json.dumps(report.to_dict(), allow_nan=False)
    penalized = analyze(rows, names=NAMES, penalty=0.01)
    assert penalized.couplings is not None
    assert abs(penalized.couplings.strongest[0].value) < 100
    assert penalized.fit is not None
    assert penalized.fit.converged


def test_three_units_that_never_show_a_pattern_are_named() -> None:
    rows = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]] * 20)
    report = analyze(rows, names=NAMES[:3])
    assert any(all(repr(name) in text for name in NAMES[:3]) for text in report.warnings)
    unbounded = report.to_dict()["couplings"]["strongest"]
    assert any(c["value_kT_standard_error"] is None for c in unbounded)
    assert "no bound" in str(report)


def test_warnings_go_into_the_report_and_nowhere_else() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = Table(np.eye(6)[:4], tuple("abcdef"), 8, 4, ("Half of the rows are missing.",))
        report = analyze(table, penalty=ebm.Penalty(0.1, 0.1))
    assert report.warnings[0] == "Half of the rows are missing."
    assert any("rows for 6 units" in text for text in report.warnings)
    assert "Half of the rows are missing." in str(report)
    assert len(set(report.warnings)) == len(report.warnings)


def test_warnings_of_others_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy(*arguments: Any, **options: Any) -> Any:
        warnings.warn("not ours", RuntimeWarning, stacklevel=1)
        return fit(*arguments, **options)

    monkeypatch.setattr(analysis, "fit", noisy)
    with pytest.warns(RuntimeWarning, match="not ours"):
        report = analyze(drawn(50), penalty=0.1)
    assert not report.warnings


def test_a_table_brings_its_names_and_its_notes() -> None:
    table = Table(drawn(), tuple(NAMES), 3000, notes=("Half of the rows are missing.",))
    report = analyze(table)
    assert report.summary.names == tuple(NAMES)
    assert report.warnings == ("Half of the rows are missing.",)
    assert analyze(table, names=list("vwxyz")).summary.names == tuple("vwxyz")
    assert report.to_dict()["fit"] == analyze(drawn(), names=NAMES).to_dict()["fit"]


# Forms


HARD = [
    pytest.param([[1], [0], [1]], {}, id="one unit"),
    pytest.param([[1, 0], [0, 1], [0, 0]], {}, id="two units"),
    pytest.param([[1, 0, 1]], {"penalty": ebm.Penalty(0.1, 0.1)}, id="one row"),
    pytest.param([[1, 0], [1, 0]], {"penalty": ebm.Penalty(0.1, 0.1)}, id="constant columns"),
    pytest.param(
        np.eye(33, dtype=int)[:8], {"penalty": ebm.Penalty(0.1, 0.1)}, id="by chains, few rows"
    ),
    pytest.param(np.array([[True, False], [False, True]]), {"penalty": 1.0}, id="booleans"),
    pytest.param([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]], {"space": Spins}, id="spins"),
]


@pytest.mark.parametrize(("rows", "options"), HARD)
def test_hard_data_give_finite_text_and_json(rows: Any, options: dict[str, Any]) -> None:
    report = analyze(rows, **options)
    record = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert record["summary"]["n_rows"] == len(rows)
    assert "nan" not in str(report).lower()


def test_text_is_at_most_80_columns_with_long_names() -> None:
    names = [f"export_administration_act_of_south_africa_{k}" for k in range(5)]
    text = str(analyze(Table(drawn(), tuple(names), 3000, notes=("word " * 60,))))
    assert max(map(len, text.splitlines())) <= 80


def test_text_shows_the_numbers_of_the_record() -> None:
    report = analyze(drawn(), names=NAMES)
    text = str(report)
    assert report.fit is not None
    assert report.couplings is not None
    strongest = report.couplings.strongest[0]
    for number in (
        f"{report.fit.log_likelihood:.6f} nats",
        f"{report.entropies.pairwise:.4f}",
        f"{report.entropies.captured:.3f}",
        f"{strongest.units[0]} -- {strongest.units[1]}  {strongest.value:+.4f}",
        f"{report.fit.bic:.2f}",
    ):
        assert number in text
    assert "NOT CONVERGED" not in text


@pytest.mark.parametrize("section", ["compare_inversion", "goodness", "minima"])
def test_an_interrupt_beside_the_fit_keeps_the_fit(
    monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_sections, section, interrupt)
    monkeypatch.setattr(analysis, "populations", never)
    report = analyze(drawn(), k_pairwise=True)
    assert report.result is not None
    assert report.result.converged
    assert (report.comparison, report.goodness, report.minima) == (None, None, None)
    assert report.interrupted
    assert report.to_dict()["interrupted"]
    assert (
        "Interrupted before the k-pairwise fit was done: the model is the pairwise one"
        in report.warnings
    )
    assert "Interrupted: sections that the fit does not need are left out" in report.warnings
    assert "Interrupted" in str(report)


def never(*arguments: Any) -> None:
    raise AssertionError("work goes on after Ctrl-C")


def test_after_an_interrupt_within_the_fit_no_section_is_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        note = "no standard errors: interrupted"
        return replace(fit(*arguments, **options), errors=None, warnings=(note,))

    monkeypatch.setattr(analysis, "fit", interrupted)
    for section in ("compare_inversion", "goodness", "minima"):
        monkeypatch.setattr(_sections, section, never)
    assert analyze(drawn()).interrupted


def test_an_interrupt_in_a_loop_around_reports_ends_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_sections, "goodness", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_jobs(lambda seed: {"": np.array(analyze(drawn()).interrupted)}, [0, 1])


def test_a_table_is_fitted_as_its_states_with_its_names() -> None:
    table = Table(drawn(), tuple(NAMES), 3000, 0, (), "")
    by_table, by_rows = fit(machine(), table).model, fit(machine(), drawn()).model
    assert by_table.names == tuple(NAMES)
    assert np.array_equal(by_table.parameters, by_rows.parameters)


# Rows with missing cells


def incomplete(n_rows: int = 400) -> ebm.IncompleteEnsemble:
    rows = drawn(n_rows).astype(float)
    rows[np.random.default_rng(5).random(rows.shape) < 0.2] = np.nan
    rows[0] = np.nan
    return ebm.IncompleteEnsemble.from_data(rows, names=NAMES)


def test_incomplete_rows_are_counted_and_fitted_as_they_are() -> None:
    data = incomplete()
    report = analyze(data, penalty=0.01)
    start = BoltzmannMachine(np.zeros((5, 5)), np.zeros(5), names=NAMES)
    alone = fit(start, data, penalty=0.01)
    assert report.fit is not None
    assert report.fit.log_likelihood == pytest.approx(alone.log_likelihood, rel=1e-12)
    summary = report.summary
    assert (summary.n_rows, summary.sample_size, summary.n_patterns) == (
        400,
        400,
        len(data.levels),
    )
    np.testing.assert_allclose(summary.n_missing, data.n_missing)
    np.testing.assert_allclose(summary.rates, data.seen_mean)
    assert summary.n_complete == data.n_complete
    text = str(report)
    assert f"missing cells                     {data.n_missing.sum():g} of 2000" in text
    words = " ".join(text.split())
    assert "missing cells summed over" in words
    assert "missing at random" in words
    assert report.comparison is None
    assert report.goodness is None
    assert report.couplings is not None
    assert report.couplings.strongest[0].standard_error is not None
    json.dumps(report.to_dict(), allow_nan=False)
    assert max(map(len, text.splitlines())) <= 80


def test_a_report_on_incomplete_rows_takes_a_center_and_spins() -> None:
    data = incomplete()
    report = analyze(data, penalty=0.01, center="mean")
    np.testing.assert_allclose(report.model.center, data.seen_mean)
    values = np.where(data.levels < 0, np.nan, 2.0 * data.levels - 1)
    counts = data.weights * data.sample_size
    spins = ebm.IncompleteEnsemble.from_data(values, space=Spins, sample_weight=counts)
    of_spins = analyze(spins, penalty=0.16)
    assert of_spins.fit is not None
    assert report.fit is not None
    assert of_spins.fit.log_likelihood == pytest.approx(report.fit.log_likelihood, abs=1e-7)
    np.testing.assert_allclose(of_spins.summary.rates, report.summary.rates)


def test_too_many_units_with_missing_cells_are_refused() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 40)).astype(float)
    rows[0, 0] = np.nan
    with pytest.raises(ebm.errors.LimitError, match="at most 32 units, not of 40"):
        analyze(ebm.IncompleteEnsemble.from_data(rows))
