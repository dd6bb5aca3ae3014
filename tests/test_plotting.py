"""Figures show the numbers they claim to show, with the right errors and names."""

from __future__ import annotations

import sys
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import pyplot
from matplotlib.colors import to_hex

from ebm import plotting
from ebm.comparison import compare
from ebm.ensembles import Ensemble
from ebm.enumeration import exact
from ebm.errors import MissingExtraError, ModelError, ShapeError
from ebm.inversion import mean_field
from ebm.models import BoltzmannMachine, TabularModel
from ebm.plotting import _unit_names
from ebm.plotting.style import DATA, MODEL
from ebm.spaces import Binary, Spins

mpl.use("agg")

N_ROWS = 400
NAMES = ["left", "right", "up", "down"]


def states(n: int = 4) -> np.ndarray:
    """Correlated rows with different rates."""
    rng = np.random.default_rng(5)
    common = rng.random((N_ROWS, 1)) < 0.4
    return ((rng.random((N_ROWS, n)) < np.linspace(0.2, 0.5, n)) | common).astype(np.int8)


def data(n: int = 4, space: Any = Binary) -> Any:
    rows = states(n) if space is Binary else 2 * states(n) - 1
    return Ensemble.from_data(rows, space=space, names=NAMES[:n])


def machine(n: int = 4) -> BoltzmannMachine:
    weights = np.linspace(-1, 2, n * n).reshape(n, n)
    return BoltzmannMachine(weights + weights.T, np.linspace(-1, 0, n), names=NAMES[:n])


def bars(ax: Any, axis: int) -> list[tuple[float, float]]:
    """Ends of the error bars along one axis."""
    segments = [s for c in ax.collections if hasattr(c, "get_segments") for s in c.get_segments()]
    return [(float(s[0][axis]), float(s[-1][axis])) for s in segments]


def line(ax: Any, color: str, marker: str) -> np.ndarray:
    """Points of the one line drawn in a color with a marker, (m, 2)."""
    found = [
        item
        for item in ax.lines
        if to_hex(item.get_color()).lower() == color.lower() and item.get_marker() == marker
    ]
    assert len(found) == 1
    return np.column_stack([np.asarray(values, dtype=float) for values in found[0].get_data()])


@pytest.mark.parametrize("space", [Binary, Spins])
def test_rates_show_frequencies_with_binomial_errors(space: Any) -> None:
    ax = plotting.rates(data(space=space), machine())
    p = states().mean(axis=0)
    error = np.sqrt(p * (1 - p) / N_ROWS)
    assert np.allclose(line(ax, DATA, "o")[:, 1], p)
    assert np.allclose(bars(ax, 1), np.column_stack([p - error, p + error]))
    assert np.allclose(line(ax, MODEL, "_")[:, 1], exact(machine()).moments().mean)
    assert [text.get_text() for text in ax.get_xticklabels()] == NAMES


def test_rates_far_apart_are_drawn_on_a_logarithmic_axis() -> None:
    rows = np.zeros((1000, 2))
    rows[:500, 0] = rows[:10, 1] = 1
    assert plotting.rates(Ensemble.from_data(rows)).get_yscale() == "log"
    assert plotting.rates(data()).get_yscale() == "linear"


def test_rates_of_silent_units_are_drawn() -> None:
    assert plotting.rates(Ensemble.from_data(np.zeros((5, 3)))).get_ylim() == (0, 1)


def test_many_units_are_numbered_instead_of_named() -> None:
    ax = plotting.rates(Ensemble.from_data(np.eye(40)))
    assert len(ax.get_xticks()) < 15


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("space", [Binary, Spins])
def test_connected_moments_of_model_against_data(order: Any, space: Any) -> None:
    ax = plotting.moments_comparison(data(space=space), machine(), order=order)
    d = states() - states().mean(axis=0)
    products = np.array([d[:, list(k)].prod(axis=1) for k in combinations(range(4), order)])
    ensemble = exact(machine())
    e = ensemble.states - ensemble.moments().mean
    predicted = [
        ensemble.weights @ e[:, list(k)].prod(axis=1) for k in combinations(range(4), order)
    ]
    power = int(ax.get_xlabel().split("{")[-1].split("}")[0]) if "10^" in ax.get_xlabel() else 0
    points = line(ax, MODEL, "o") * 10.0**power
    assert np.allclose(points, np.column_stack([products.mean(axis=1), predicted]))
    half = np.diff(bars(ax, 0), axis=1)[:, 0] / 2 * 10.0**power
    assert np.allclose(half, products.std(axis=1) / np.sqrt(N_ROWS))


def test_both_axes_of_a_comparison_have_the_same_limits() -> None:
    ax = plotting.moments_comparison(data(), machine(), order=3)
    assert ax.get_xlim() == ax.get_ylim()
    points = line(ax, MODEL, "o")
    assert ax.get_xlim()[0] < points.min()
    assert points.max() < ax.get_xlim()[1]


@pytest.mark.parametrize(("order", "n"), [(1, 4), (4, 4), (3, 2)])
def test_orders_that_cannot_be_drawn(order: Any, n: int) -> None:
    with pytest.raises(ShapeError, match="order"):
        plotting.moments_comparison(data(n), machine(n), order=order)


def test_population_count_of_data_model_and_independent_units() -> None:
    ax = plotting.population_count(data(), machine())
    p = np.bincount(states().sum(axis=1), minlength=5) / N_ROWS
    points = line(ax, DATA, "o")
    assert np.allclose(points, np.column_stack([np.arange(5), p])[p > 0])
    ensemble = exact(machine())
    count = ensemble.states.sum(axis=1).astype(int)
    assert np.allclose(line(ax, MODEL, "None")[:, 1], np.bincount(count, ensemble.weights))
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["independent units", "pairwise model", "data"]


def test_axis_of_the_count_ends_at_the_number_of_units() -> None:
    rows = np.zeros((100, 3))
    assert plotting.population_count(Ensemble.from_data(rows)).get_xlim() == (-0.5, 1.5)
    rows[0] = 1
    assert plotting.population_count(Ensemble.from_data(rows)).get_xlim() == (-0.5, 3.5)


def test_error_bar_of_a_count_seen_once_stays_on_the_logarithmic_axis() -> None:
    rows = np.zeros((100, 3))
    rows[0] = 1
    ax = plotting.population_count(Ensemble.from_data(rows))
    low, high = bars(ax, 1)[-1]
    assert 0 < low < 0.01 < high


def test_couplings_are_white_at_zero_and_gray_on_the_diagonal() -> None:
    model = machine()
    ax = plotting.couplings(model)
    image = ax.images[0]
    shown = np.ma.filled(image.get_array(), np.nan)
    off = ~np.eye(4, dtype=bool)
    assert np.isnan(shown.diagonal()).all()
    assert np.array_equal(shown[off], model.weights[off])
    low, high = image.get_clim()
    assert -low == high == np.abs(model.weights[off]).max()
    assert [text.get_text() for text in ax.get_yticklabels()] == NAMES


def test_couplings_of_a_second_model_go_below_the_diagonal() -> None:
    first, second = machine(), machine().scaled(3.0)
    image = plotting.couplings(first, second).images[0]
    shown = np.ma.filled(image.get_array(), np.nan)
    upper, lower = np.triu_indices(4, 1), np.tril_indices(4, -1)
    assert np.array_equal(shown[upper], first.weights[upper])
    assert np.array_equal(shown[lower], second.weights[lower])
    assert image.get_clim()[1] == np.abs(second.weights[lower]).max()
    assert image.colorbar is not None
    assert image.colorbar.extend == "neither"


def test_couplings_of_a_second_model_do_not_make_the_first_pale() -> None:
    """Colors reach three times as far as the first asks for, and arrows tell of the rest."""
    first = machine()
    image = plotting.couplings(first, first.scaled(50.0)).images[0]
    own = np.abs(first.weights[np.triu_indices(4, 1)]).max()
    assert image.get_clim()[1] == pytest.approx(3 * own)
    assert image.colorbar is not None
    assert image.colorbar.extend == "both"


def far(*values: float, n: int = 5) -> BoltzmannMachine:
    """Couplings between 0.1 and 1, but for the first few."""
    pairs = np.linspace(0.1, 1, n * (n - 1) // 2)
    pairs[: len(values)] = values
    weights = np.zeros((n, n))
    weights[np.triu_indices(n, 1)] = pairs
    return BoltzmannMachine(weights + weights.T, np.zeros(n))


@pytest.mark.parametrize(
    ("model", "largest", "label"),
    [
        (far(-18.0), 1.0, "±1"),
        (far(-18.0, 25.0), 1.0, "±1"),
        (far(-18.0).to_spins(), 0.25, "±0.25"),
        (far(3.0, n=20), 1.0, "±1"),
        (far(3.0), 3.0, ""),
        (far().scaled(20.0), 20.0, ""),
        (far(-18.0, n=2), 18.0, ""),
    ],
)
def test_colors_of_couplings_are_not_set_by_one_that_diverges(
    model: Any, largest: float, label: str
) -> None:
    image = plotting.couplings(model).images[0]
    assert image.get_clim() == pytest.approx((-largest, largest))
    assert image.colorbar is not None
    assert (image.colorbar.extend == "both") == bool(label)
    assert ("arrows: beyond " + label in image.colorbar.ax.get_ylabel()) == bool(label)


def test_couplings_of_uncoupled_units_are_drawn() -> None:
    ax = plotting.couplings(BoltzmannMachine(np.zeros((1, 1)), [0.5]))
    assert ax.images[0].get_clim() == (-1, 1)


def test_couplings_of_a_model_without_any_are_refused() -> None:
    with pytest.raises(ModelError, match="pairwise"):
        plotting.couplings(TabularModel([0, 1], Binary(1)))


@pytest.mark.parametrize("space", [Binary, Spins])
def test_pattern_probabilities_against_frequencies(space: Any) -> None:
    rows = data(space=space)
    model: Any = machine() if space is Binary else machine().to_spins()
    ax = plotting.pattern_probabilities(rows, model)
    points = line(ax, MODEL, "o")
    assert np.allclose(points[:, 0], np.exp(exact(model).log_probability(rows.states)))
    assert np.array_equal(points[:, 1], rows.weights)
    p = states().mean(axis=0)
    x = (rows.states > 0).astype(float)
    alone = (x * p + (1 - x) * (1 - p)).prod(axis=1)
    assert np.allclose(line(ax, "#8C8C8C", "o")[:, 0], alone)


def test_band_of_pattern_probabilities_is_two_standard_errors() -> None:
    ax = plotting.pattern_probabilities(data(), machine())
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    at_one_percent = vertices[np.abs(np.log(vertices[:, 0] / 0.01)) < 0.02]
    expected = at_one_percent[:, 0] + 2 * np.sqrt(at_one_percent[:, 0] * 0.99 / N_ROWS)
    assert np.any(np.isclose(at_one_percent[:, 1], expected, rtol=1e-3))


def test_patterns_that_are_hardly_possible_are_at_the_edge() -> None:
    """They do not stretch the axis over twenty decades."""
    rare = BoltzmannMachine(np.zeros((4, 4)), [-30.0, -30.0, 0.0, 0.0], names=NAMES)
    ax = plotting.pattern_probabilities(data(), rare)
    low, _ = ax.get_xlim()
    rarest = data().weights.min()
    assert low == pytest.approx(0.5e-4 * rarest)
    inside, edge = line(ax, MODEL, "o"), line(ax, MODEL, "<")
    predicted = np.exp(exact(rare).log_probability(data().states))
    assert (inside[:, 0] >= low).all()
    assert len(inside) == (predicted >= low).sum() < len(predicted)
    assert set(edge[:, 1]) == set(data().weights[predicted < low])


def report(n: int = 4, *, fitted: bool = True, inverted: bool = True) -> Any:
    rows = data(n)
    return SimpleNamespace(
        data=rows,
        ensemble=exact(machine(n)) if fitted else None,
        inversion=mean_field(rows.moments()) if inverted else None,
    )


@pytest.mark.parametrize(
    ("made_from", "n_panels"),
    [
        (report(), 6),
        (report(inverted=False), 6),
        (report(fitted=False), 3),
        (report(fitted=False, inverted=False), 2),
        (report(2), 5),
        (report(1), 3),
    ],
)
def test_report_figure_has_the_panels_that_can_be_known(made_from: Any, n_panels: int) -> None:
    figure = plotting.report_figure(made_from)
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert [ax.get_title(loc="left") for ax in panels] == list("abcdef"[:n_panels])
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in panels)
    figure.draw_without_rendering()


@pytest.mark.parametrize("made_from", [report(), report(2), report(fitted=False)])
def test_couplings_end_the_first_row(made_from: Any) -> None:
    """Beside its color bar is the edge of the figure, so that panels are evenly apart."""
    figure = plotting.report_figure(made_from)
    assert figure.axes[2].images
    figure.canvas.draw()
    left, middle, right = (ax.get_tightbbox() for ax in figure.axes[:3])
    # A fifth of a panel is no hole in the row, a color bar with its label is.
    assert max(middle.x0 - left.x1, right.x0 - middle.x1) < 0.2 * middle.width


def coupling_panel(made_from: Any) -> Any:
    return next(ax for ax in plotting.report_figure(made_from).axes if ax.images)


def test_an_inversion_is_labeled_as_one() -> None:
    alone = coupling_panel(report(fitted=False))
    assert alone.get_title(loc="right") == "first-order inversion"
    both = coupling_panel(report())
    assert both.get_title(loc="right") == ""
    assert "below the diagonal: first-order inversion" in both.get_xlabel()


def test_panels_that_would_take_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotting.figures, "MAX_UNITS", 3)
    figure = plotting.report_figure(report())
    panels = {ax.get_title(loc="left"): ax for ax in figure.axes}
    assert set("abcde") == set(panels) - {""}
    labels = [text.get_text() for text in panels["d"].get_legend().get_texts()]
    assert labels == ["independent units", "data"]


def test_given_axes_are_drawn_on_and_returned() -> None:
    figure, axes = pyplot.subplots(1, 2)
    assert plotting.rates(data(), ax=axes[1]) is axes[1]
    assert not axes[0].has_data()
    assert pyplot.get_fignums() == [figure.number]


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtraError, match=r"ebm-framework\[plot\]"):
        plotting.rates(data())


# Names


ODD_NAMES = (
    "Ba$$in",
    "<$50k & >$20k",
    "_hidden",
    "first\nsecond",
    "中枢神経",
    "tab\there, bell\x07, half\udc80",
    r"$\frac{",
    "50% #1 ^_{}~&\\",
)


def named(names: Any) -> Any:
    """Random rows of as many units."""
    rows = np.random.default_rng(0).integers(0, 2, (50, len(names)))
    return Ensemble.from_data(rows, names=names)


def test_odd_names_are_drawn_as_they_are() -> None:
    """Without mathematics in them, and without a warning where no font has a character."""
    ax = plotting.rates(named(ODD_NAMES))
    ax.figure.draw_without_rendering()
    shown = [text.get_text() for text in ax.get_xticklabels()]
    assert [s for s, name in zip(shown, ODD_NAMES, strict=True) if s == name] == [
        name for name in ODD_NAMES if name.isascii() and "\t" not in name
    ]
    assert shown[5] == r"tab\there…alf\udc80"
    assert not any(text.get_parse_math() for text in ax.get_xticklabels())


def test_characters_that_no_font_has_are_written_as_python_does() -> None:
    """A font that has them is used, and the box of matplotlib's last resort is none."""
    nobody, stix = "\U000f0000", "\u20e5"
    labels, properties = _unit_names.as_drawn([f"a{nobody}", stix])
    assert labels == [r"a\U000f0000", stix]
    assert len(properties["fontfamily"]) == 2
    plain = _unit_names.as_drawn(["a", "b"])
    assert plain[0] == ["a", "b"]
    assert plain[1]["fontfamily"] == mpl.rcParams["font.family"]


@given(st.lists(st.text(max_size=40), unique=True, max_size=8))
def test_labels_are_short_and_differ(given_names: list[str]) -> None:
    """However long the names are, and wherever they differ."""
    long = [("x" * 150) + name + ("y" * 150) for name in given_names]
    for kind in (given_names, long, [*given_names, *long]):
        labels = _unit_names.as_drawn(kind)[0]
        assert len(set(labels)) == len(kind)
        assert all(_unit_names._columns(label) <= _unit_names.MOST_COLUMNS + 4 for label in labels)


def test_short_names_are_left_alone() -> None:
    ordinary = ["a", "b c", "Müller", "α → β", "x" * 20]
    assert _unit_names.as_drawn(ordinary)[0] == ordinary
    assert _unit_names.as_drawn(["x" * 21])[0] == ["x" * 9 + "…" + "x" * 9]


def test_routes_of_any_name_are_in_the_key() -> None:
    """Those with an underscore too, and no name is mathematics."""
    exact_route, samples = exact(machine()), exact(machine(4).scaled(0.5))
    comparison = compare(exact_route, samples, samples, names=["$b$$", "_a", "b\nc"])
    figure = plotting.comparison_figure(comparison)
    figure.draw_without_rendering()
    texts = figure.axes[0].get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["_a", "b\nc"]
    assert figure.axes[0].get_xlabel() == "$b$$: means"


def test_lines_of_a_name_make_all_names_smaller() -> None:
    one = plotting.rates(named([f"unit {k}" for k in range(12)]))
    two = plotting.rates(named([f"unit\n{k}" for k in range(12)]))
    sizes = [ax.get_xticklabels()[0].get_fontsize() for ax in (one, two)]
    assert sizes[1] == pytest.approx(135 / 24)
    assert sizes[0] == 8
