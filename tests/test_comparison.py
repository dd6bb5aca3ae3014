"""Routes side by side: the numbers of the table, its units, names and refusals."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import ebm
from ebm.comparison import compare
from ebm.comparison.differences import correlation_deviation
from ebm.errors import (
    CodingError,
    EbmError,
    MissingExtraError,
    ModelError,
    NamesError,
    ShapeError,
)
from tests.statistical import check_z_scores

mpl.use("agg")

NAMES = ["a", "b", "c", "d"]


def machine(seed: int = 0, n: int = 4, names: Any = NAMES) -> ebm.BoltzmannMachine:
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 1.2, (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(-0.5, 1, n), names=names)


def two(space: Any = ebm.Binary) -> tuple[ebm.Moments, ebm.Moments]:
    return ebm.exact(machine(1)).moments().to(space), ebm.exact(machine(2)).moments().to(space)


# Numbers


@pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins])
def test_differences_are_those_of_the_arrays(space: Any) -> None:
    reference, other = two(space)
    route = compare(reference, other, names=["first", "second"])["second"]
    i, j = np.triu_indices(4, 1)
    for found, one, two_ in (
        (route.means, other.mean, reference.mean),
        (route.covariances, other.covariance[i, j], reference.covariance[i, j]),
        (route.correlations, other.correlation[i, j], reference.correlation[i, j]),
    ):
        assert found is not None
        assert found.largest == pytest.approx(np.abs(one - two_).max(), rel=1e-12)
        assert found.rms == pytest.approx(np.sqrt(((one - two_) ** 2).mean()), rel=1e-12)
        assert (found.largest_z, found.rms_z) == (None, None)
    ratio = np.linalg.norm(other.covariance - reference.covariance)
    ratio /= np.linalg.norm(reference.covariance)
    assert route.relative_covariance_error == pytest.approx(ratio, rel=1e-12)
    assert route.log_partition_difference == pytest.approx(
        other.log_partition - reference.log_partition, rel=1e-12
    )


def test_the_largest_difference_names_its_units() -> None:
    reference = ebm.exact(machine(1)).moments()
    mean, covariance = reference.mean.copy(), reference.covariance.copy()
    mean[2] += 0.1
    covariance[1, 3] = covariance[3, 1] = covariance[1, 3] - 0.05
    route = compare(reference, ebm.Moments(reference.space, mean, covariance)).routes[1]
    assert route.means.where == ("c",)
    assert route.covariances is not None
    assert route.covariances.where == ("b", "d")
    assert route.covariances.largest == pytest.approx(0.05)


def test_errors_of_both_routes_are_combined() -> None:
    reference, other = two()
    for sizes in ((math.inf, 50.0), (200.0, math.inf), (200.0, 50.0)):
        moments = [
            ebm.Moments(m.space, m.mean, m.covariance, sample_size=size)
            for m, size in zip((reference, other), sizes, strict=True)
        ]
        one = np.maximum(*(m.mean * (1 - m.mean) for m in moments))
        variance = sum(one / size for size in sizes)
        z = (other.mean - reference.mean) / np.sqrt(variance)
        means = compare(*moments).routes[1].means
        assert means.largest_z == pytest.approx(np.abs(z).max(), rel=1e-12)
        assert means.rms_z == pytest.approx(np.sqrt((z**2).mean()), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_deviation_of_a_correlation_is_that_of_its_influence(seed: int) -> None:
    """r changes by φ(x)/N with each sample: σ² = E[φ²], here over all states."""
    ensemble = ebm.exact(machine(seed))
    moments = ensemble.moments()
    z = (ensemble.states - moments.mean) / np.sqrt(np.diag(moments.covariance))
    r = moments.correlation
    products = z[:, :, None] * z[:, None, :]
    influence = products - r / 2 * (z[:, :, None] ** 2 + z[:, None, :] ** 2)
    expected = np.sqrt(np.einsum("s,sij->ij", ensemble.weights, influence**2))
    i, j = np.triu_indices(4, 1)
    np.testing.assert_allclose(correlation_deviation(moments)[i, j], expected[i, j], rtol=1e-10)
    spins = correlation_deviation(moments.to(ebm.Spins))
    np.testing.assert_allclose(spins[i, j], expected[i, j], rtol=1e-10)


@pytest.mark.parametrize("kind", ["covariances", "correlations"])
def test_data_are_as_far_from_their_model_as_their_errors_say(kind: str) -> None:
    """Of two units, so that there is one pair; false-fail rate in tests.statistical."""
    ensemble = ebm.exact(machine(3, n=2, names=None))
    data = (ebm.Ensemble.from_data(ensemble.sample(2000, rng=seed)) for seed in range(40))
    found = [getattr(compare(ensemble, rows).routes[1], kind).rms_z for rows in data]
    check_z_scores(np.array(found), 0.0, np.ones(len(found)))


def test_a_unit_that_never_changed_has_the_error_the_other_route_gives_it() -> None:
    ensemble = ebm.exact(ebm.BoltzmannMachine(np.zeros((2, 2)), [0.0, -4.0]))
    data = ebm.Ensemble.from_data([[0, 0], [1, 0], [1, 0], [0, 0]])
    route = compare(ensemble, data)["data"]
    p = 1 / (1 + math.exp(4))
    assert route.means.largest_z == pytest.approx(p / math.sqrt(p * (1 - p) / 4), rel=1e-9)
    assert route.correlations is None
    assert route.covariances is not None
    assert (route.covariances.n_rare, route.covariances.largest_z) == (1, None)


def test_what_is_certain_and_differs_is_infinitely_far() -> None:
    one, zero = (ebm.Ensemble.from_data([[x], [x]]) for x in (1, 0))
    route = compare(one, zero).routes[1]
    assert route.means.largest_z == math.inf
    assert route.covariances is None
    assert route.relative_covariance_error is None
    assert "inf" in str(compare(one, zero))


def test_unknown_ln_z_stays_unknown() -> None:
    reference, other = two()
    nan = ebm.Moments(other.space, other.mean, other.covariance, math.nan)
    found = compare(reference, nan, ebm.Moments(other.space, other.mean, other.covariance))
    assert [route.log_partition for route in found.routes[1:]] == [None, None]
    assert [route.log_partition_difference for route in found.routes] == [0.0, None, None]
    assert str(found).count("unknown") == 4


# Codings and names


def test_codings_are_mixed_and_units_realigned() -> None:
    model = machine(4)
    order = [2, 0, 3, 1]
    shuffled = ebm.BoltzmannMachine(
        model.weights[np.ix_(order, order)], model.biases[order], names=[NAMES[k] for k in order]
    )
    found = compare(ebm.exact(model), ebm.exact(model.to_spins()), ebm.exact(shuffled.to_spins()))
    assert found.space == model.space
    for route in found.routes:
        assert route.means.largest < 1e-12
        assert route.covariances is not None
        assert route.covariances.largest < 1e-12
        assert route.log_partition_difference == pytest.approx(0, abs=1e-12)
    in_spins = compare(ebm.exact(model.to_spins()), ebm.exact(machine(5))).routes[1]
    in_bits = compare(ebm.exact(model), ebm.exact(machine(5))).routes[1]
    assert in_spins.means.largest == pytest.approx(2 * in_bits.means.largest)
    assert in_spins.relative_covariance_error == pytest.approx(in_bits.relative_covariance_error)


def test_errors_do_not_depend_on_the_coding() -> None:
    data = ebm.Ensemble.from_data(ebm.exact(machine(6)).sample(500, rng=1), names=NAMES).moments()
    exact = ebm.exact(machine(6)).moments()
    bits, spins = (compare(exact.to(space), data).routes[1] for space in (ebm.Binary, ebm.Spins))
    for kind in ("means", "covariances", "correlations"):
        one, other = getattr(bits, kind), getattr(spins, kind)
        assert one.largest_z == pytest.approx(other.largest_z, rel=1e-9)
        assert one.rms_z == pytest.approx(other.rms_z, rel=1e-9)


def test_routes_are_called_what_they_are() -> None:
    ensemble = ebm.exact(machine())
    samples = ebm.sample(machine(), n_draws=50, rng=1)
    data = ebm.Ensemble.from_data(ensemble.sample(50, rng=1), names=NAMES)

    class Expansion:
        def moments(self) -> ebm.Moments:
            return ensemble.moments()

    found = compare(ensemble, samples, data, data.moments(), Expansion(), samples)
    wanted = ("exact", "samples 1", "data", "moments", "Expansion", "samples 2")
    assert found.names == wanted
    assert repr(found).startswith("Comparison(exact, samples 1, data")
    with pytest.raises(KeyError, match="no route is called 'x', the routes are exact"):
        found["x"]


@pytest.mark.parametrize(
    ("routes", "names", "error", "match"),
    [
        ([], None, ShapeError, "two routes or more, got 0"),
        ([machine()], None, ShapeError, "got 1"),
        ([ebm.exact(machine()), machine()], None, ModelError, r"no moments.*ebm\.exact"),
        ([ebm.exact(machine()), np.eye(3)], None, ModelError, "'ndarray' has no moments"),
        ([ebm.exact(machine())] * 2, ["a"], NamesError, "2 different names"),
        ([ebm.exact(machine())] * 2, ["a", "a"], NamesError, "2 different names"),
        ([ebm.exact(machine())] * 2, "ab", NamesError, "the string 'ab'"),
        (
            [ebm.exact(machine()), ebm.exact(machine(names=list("abcx")))],
            None, NamesError, "route 'exact 2'.*'x'",
        ),
        (
            [ebm.exact(machine()), ebm.exact(machine(n=3, names=None))],
            None, CodingError, "route 'exact 2' does not fit the first one",
        ),
        (
            [ebm.Ensemble.from_data([[0, 2], [1, 1], [0, 0]], space=ebm.Levels(2, 3))] * 2,
            None, CodingError, "two-valued units, got Levels",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_named(
    routes: list[Any], names: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        compare(*routes, names=names)


# Tables and figures


def test_the_table_is_aligned_and_narrow() -> None:
    routes = [two()[k % 2] for k in range(9)]
    text = str(compare(*routes, names=[f"quite a long name of route number {k}" for k in range(9)]))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    blocks = text.split("\n\n")
    assert len(blocks) > 2
    for block in blocks:
        assert len({len(line) for line in block.splitlines()[-3:]}) == 1
    assert text.count("ln Z ") == len(blocks)


def test_one_unit_has_a_table_too() -> None:
    moments = ebm.Moments(ebm.Binary(1), [0.5], [[0.25]])
    found = compare(moments, moments)
    assert "1 unit in {0, 1}" in str(found)
    assert len(found.plot().axes) == 4


def test_the_frame_has_a_row_for_each_route() -> None:
    data = ebm.Ensemble.from_data(ebm.exact(machine()).sample(50, rng=1), names=NAMES)
    found = compare(ebm.exact(machine()), data)
    frame = found.to_frame()
    assert list(frame.index) == ["exact", "data"]
    route = found["data"]
    assert frame.loc["data", "means_rms_z"] == route.means.rms_z
    assert frame.loc["data", "covariances_where"] == " - ".join(route.covariances.where)
    assert math.isnan(frame.loc["data", "log_partition"])
    assert frame.loc["exact", "log_partition_difference"] == 0
    constant = ebm.Ensemble.from_data([[0, 0], [0, 0]])
    assert compare(constant, constant).to_frame()["correlations_rms"].isna().all()


def test_frames_and_figures_name_the_extra_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare(*two())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"ebm-framework\[data\]"):
        found.to_frame()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"ebm-framework\[plot\]"):
        found.plot()


@pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins])
def test_the_figure_shows_the_numbers(space: Any) -> None:
    reference, other = two(space)
    data = ebm.Moments(space(4, names=NAMES), other.mean, other.covariance, sample_size=100)
    found = compare(reference, data, names=["exact", "data"])
    means, covariances, correlations, distances = found.plot().axes
    i, j = np.triu_indices(4, 1)
    for ax, x, y in (
        (means, reference.mean, other.mean),
        (covariances, reference.covariance[i, j], other.covariance[i, j]),
        (correlations, reference.correlation[i, j], other.correlation[i, j]),
    ):
        points = next(line for line in ax.lines if line.get_marker() == "o")
        np.testing.assert_allclose(points.get_xdata(), x)
        np.testing.assert_allclose(points.get_ydata(), y)
    bars = [s for c in means.collections for s in c.get_segments()]
    errors = np.sqrt(np.diag(other.covariance) / 100)
    np.testing.assert_allclose([s[1, 1] - s[0, 1] for s in bars], 2 * errors)
    assert [text.get_text() for text in means.get_legend().get_texts()] == ["data"]
    route = found["data"]
    wanted = [route.means.rms, route.covariances.rms, route.correlations.rms]
    np.testing.assert_allclose(distances.lines[0].get_ydata(), wanted)
    assert distances.get_yscale() == "log"


def test_routes_that_agree_have_a_figure() -> None:
    """Distances of zero have no place on a logarithmic axis, and must not make it infinite."""
    found = compare(two()[0], two()[0])
    figure = found.plot()
    figure.canvas.draw()
    assert all(np.isfinite(ax.axis()).all() for ax in figure.axes)


def rare_machine() -> ebm.RestrictedBoltzmannMachine:
    """Half of the units are on once in some thousand states."""
    rng = np.random.default_rng(0)
    rates = np.repeat([3e-4, 0.1], 30) * np.exp(rng.normal(0, 0.5, 60))
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 0.5, (60, 4)), np.log(rates / (1 - rates)), np.full(4, -1.0)
    )


@pytest.mark.parametrize("space", [ebm.Binary, ebm.Spins])
def test_pairs_of_rare_units_do_not_alarm(space: Any) -> None:
    """Two sets of independent draws; 4.4 and 8.8 standard errors with such pairs."""
    ensemble = ebm.exact(rare_machine())
    one, other = (
        ebm.Ensemble.from_data(ensemble.sample(size, rng=seed)).moments().to(space)
        for size, seed in ((20_000, 1), (4000, 2))
    )
    route = compare(one, other).routes[1]
    for found in (route.covariances, route.correlations):
        assert found is not None
        assert found.largest_z is not None
        assert found.rms_z is not None
        assert found.n_rare > 30 * 29 / 2
        assert found.largest_z < 5
        assert 0.7 < found.rms_z < 1.2
    text = str(compare(one, other))
    assert text.count("left out as too rare") == 2
    assert str(route.covariances.n_rare) in text
    i, j = np.triu_indices(60, 1)
    assert route.covariances.largest == np.abs(other.covariance - one.covariance)[i, j].max()


def test_what_is_rare_is_counted_in_the_smaller_route() -> None:
    """A pair never on together counts by its rates, one that always is by its covariance."""
    rate = 0.01
    apart, equal = -(rate**2), rate * (1 - rate)
    for covariance, size, n_rare in (
        (apart, 40_000, 1),
        (apart, 60_000, 0),
        (equal, 400, 1),
        (equal, 600, 0),
    ):
        matrix = np.full((2, 2), covariance)
        np.fill_diagonal(matrix, rate * (1 - rate))
        flipped = matrix * np.array([[1, -1], [-1, 1]])
        for mean, given in ((rate, matrix), (1 - rate, matrix), ([rate, 1 - rate], flipped)):
            full = np.broadcast_to(mean, (2,))
            exact = ebm.Moments(ebm.Binary(2), full, given)
            data = ebm.Moments(ebm.Binary(2), full, given, sample_size=size)
            found = compare(exact, data).routes[1].covariances
            assert found is not None
            assert found.n_rare == n_rare
            assert (found.largest_z is None) == bool(n_rare)
            assert ("left out" in str(compare(exact, data))) == bool(n_rare)


def test_exact_routes_leave_nothing_out() -> None:
    route = compare(*two()).routes[1]
    assert route.covariances is not None
    assert route.covariances.n_rare == 0


def test_a_fit_stands_for_the_model_it_found() -> None:
    data = ebm.Ensemble.from_data(ebm.exact(machine()).sample(400, rng=1), names=NAMES)
    result = ebm.fit(machine(2), data)
    route = compare(data, result).routes[1]
    assert route.name == "FitResult"
    assert route.means.largest < 1e-8
    assert route.log_partition == result.ensemble.log_partition


@pytest.mark.parametrize("value", [None, 3, "fit"])
def test_figures_name_what_they_are_made_from(value: Any) -> None:
    with pytest.raises(EbmError, match=r"result must be a result of ebm\.fit"):
        ebm.plotting.learning_curve(value)
    with pytest.raises(EbmError, match=r"comparison must be a result of ebm\.compare"):
        ebm.plotting.comparison_figure(value)


def test_labels_below_the_distances_are_apart() -> None:
    figure = compare(*two()).plot()
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    boxes = [label.get_window_extent(renderer) for label in figure.axes[3].get_xticklabels()]
    assert all(left.x1 + 4 < right.x0 for left, right in itertools.pairwise(boxes))
