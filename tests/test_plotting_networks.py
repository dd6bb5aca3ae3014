"""Figures of paths and networks show each coupling with its sign, and say what they cannot draw."""

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError, ShapeError
from ebm.plotting.networks import NEGATIVE, POSITIVE, UNSIGNED


def model(names=None):
    couplings = np.zeros((5, 5))
    couplings[0, 1] = couplings[1, 0] = 0.8
    couplings[1, 2] = couplings[2, 1] = -0.4
    couplings[2, 3] = couplings[3, 2] = 0.1
    return ebm.IsingModel(couplings, np.zeros(5), names=names)


def potts():
    couplings = np.zeros((3, 3, 3, 3))
    for size, (i, j) in ((1.0, (0, 1)), (0.5, (1, 2))):
        couplings[i, j] = couplings[j, i] = size * np.eye(3)
    return ebm.PottsModel(couplings, np.zeros((3, 3)))


def lines(ax):
    return [line for line in ax.lines if len(line.get_xdata()) == 2]


def test_a_network_has_a_line_for_each_coupling_and_a_circle_for_each_unit():
    ax = ebm.plotting.network(model())
    drawn = lines(ax)
    assert [line.get_color() for line in drawn] == [POSITIVE, NEGATIVE, POSITIVE]
    widths = [line.get_linewidth() for line in drawn]
    assert widths == sorted(widths)
    assert np.ptp(np.subtract(widths, 0.5) / [0.1, 0.4, 0.8]) < 1e-12
    assert drawn[1].is_dashed()
    assert not drawn[0].is_dashed()
    assert len(ax.collections[0].get_offsets()) == 5
    assert [text.get_text() for text in ax.texts] == list("01234")


def test_pairs_with_several_couplings_are_as_wide_as_their_length():
    """Frobenius norms of the zero-sum gauge: those of 1 − 1/3 and −1/3 are √2."""
    ax = ebm.plotting.network(potts())
    widths = [line.get_linewidth() for line in lines(ax)]
    np.testing.assert_allclose(np.subtract(widths, 0.5), [2.75, 5.5])
    assert {line.get_color() for line in lines(ax)} == {UNSIGNED}
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["1.4", "0.71"]
    rows = ebm.Ensemble.from_data(ebm.exact(potts()).sample(300, 1), space=potts().space)
    path = ebm.inversion.regularization_path(potts(), rows, strengths=5)
    ax = ebm.plotting.path(path, ebm.inversion.extended_bic(path))
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 5]
    assert len(drawn) == 3
    np.testing.assert_array_equal(drawn[0].get_ydata(), path.lengths[:, 0])


def test_names_are_drawn_and_positions_kept():
    places = {unit: (unit, unit**2) for unit in range(5)}
    ax = ebm.plotting.network(model(["sleep $", "b", "c", "d", "e"]), positions=places)
    assert "sleep $" in [text.get_text() for text in ax.texts]
    np.testing.assert_array_equal(ax.collections[0].get_offsets()[3], [3, 9])
    one, other = (ebm.plotting.network(model()) for _ in range(2))
    np.testing.assert_array_equal(
        one.collections[0].get_offsets(), other.collections[0].get_offsets()
    )


def test_errors_are_shown_and_doubtful_couplings_paler():
    ax = ebm.plotting.network(model(), errors=np.full(15, 0.2))
    texts = [text.get_text() for text in ax.texts]
    assert "0.80 ± 0.20" in texts
    assert "−0.40 ± 0.20" in texts
    assert [line.get_alpha() < 0.5 for line in lines(ax)] == [True, True, False]


def test_a_network_without_couplings_has_its_units():
    flat = ebm.IsingModel(np.zeros((3, 3)), np.zeros(3))
    ax = ebm.plotting.network(flat)
    assert len(ax.collections[0].get_offsets()) == 3
    assert ax.get_legend() is None


def test_what_cannot_be_drawn_is_said():
    with pytest.raises(ModelError, match="does not say which pairs"):
        ebm.plotting.network(ebm.InteractionModel({(0, 1): 1.0}, ebm.Spins(2)))
    with pytest.raises(EbmError, match="lines show the length of several"):
        ebm.plotting.network(potts(), errors=np.ones(18))
    with pytest.raises(ShapeError, match=r"one for each of 15 parameters, got \(3,\)"):
        ebm.plotting.network(model(), errors=[1, 2, 3])
    with pytest.raises(EbmError, match="for each unit, by its number from 0 to 4"):
        ebm.plotting.network(model(), positions={0: (0, 0)})
    with pytest.raises(EbmError, match=r"result of ebm\.inversion\.regularization_path"):
        ebm.plotting.path(model())


def test_a_path_has_a_line_for_each_coupling_that_is_ever_there():
    rows = ebm.exact(model()).sample(300, 1)
    flat = ebm.IsingModel(np.zeros((5, 5)), np.zeros(5))
    path = ebm.inversion.regularization_path(flat, rows, strengths=10)
    ax = ebm.plotting.path(path)
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 10]
    assert len(drawn) == path.supports.any(axis=0).sum()
    assert ax.xaxis_inverted()
    chosen = ebm.inversion.extended_bic(path)
    ax = ebm.plotting.path(path, chosen)
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 10]
    colored = [line for line in drawn if line.get_color() in (POSITIVE, NEGATIVE)]
    assert len(colored) == chosen.support.sum()
    other = ebm.inversion.regularization_path(flat, rows, strengths=3)
    with pytest.raises(EbmError, match="choice along this path"):
        ebm.plotting.path(other, chosen)


def test_a_choice_in_place_of_its_model_is_said() -> None:
    truth = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, 0], [0, 0, 0]], [0, 0, 0])
    path = ebm.inversion.regularization_path(truth, ebm.exact(truth).sample(500, 1), strengths=3)
    with pytest.raises(ModelError, match="Selection is no model"):
        ebm.plotting.network(ebm.inversion.extended_bic(path))


def test_labels_of_lines_that_cross_at_their_middles_stand_apart():
    weights = 0.1 + 0.02 * np.arange(36).reshape(6, 6) / 36
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    places = [(100 * np.cos(x), 100 * np.sin(x)) for x in np.arange(6) * np.pi / 3]
    full = ebm.IsingModel(weights, np.zeros(6))
    ax = ebm.plotting.network(full, errors=np.full(21, 0.03), positions=dict(enumerate(places)))
    spots = np.array([text.get_position() for text in ax.texts if "±" in text.get_text()])
    assert spots.shape == (15, 2)
    distances = np.hypot(*(spots[:, None] - spots).T) + 1e3 * np.eye(15)
    assert distances.min() > 15  # three middles are the same point
