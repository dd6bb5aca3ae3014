"""What users give to landscapes: rows with labels in another order, bad rows, limits, Ctrl-C."""

import pickle

import numpy as np
import pytest

import ebm
from ebm._landscape import _quenches
from ebm._landscape._descent import Neighbors
from ebm._landscape.transitions import Transitions
from ebm.cli import main
from ebm.errors import EbmError, EnumerationLimitError, ShapeError
from tests.landscape_rates import deviations
from tests.test_valleys import spins


def named(order):
    """Five spins that are all told apart, with their names in some order."""
    rng = np.random.default_rng(3)
    couplings, fields = np.triu(rng.normal(size=(5, 5)), 1) / 2, 0.1 * rng.normal(size=5)
    couplings = (couplings + couplings.T)[np.ix_(order, order)]
    return ebm.IsingModel(couplings, fields[order], names=np.array(list("abcde"))[order].tolist())


MODEL, TURNED = named(np.arange(5)), named(np.array([3, 0, 4, 1, 2]))
PAIR = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a", "b"]))


@pytest.mark.parametrize("kind", ["samples", "data", "frame"])
def test_rows_of_units_in_another_order_are_taken_by_their_names(kind):
    landscape = ebm.landscape(MODEL)
    samples = ebm.sample(TURNED, n_draws=300, n_chains=4, rng=1)
    plain = samples.chains[..., MODEL.space.order_of(TURNED.names)]
    held = samples
    if kind != "samples":
        plain, rows = plain[0], samples.chains[0]
        held = ebm.Ensemble.from_data(rows, space=TURNED.space)
        if kind == "frame":
            held = pytest.importorskip("pandas").DataFrame(rows, columns=TURNED.names)
    valleys = landscape.valley_of(plain)
    assert len(np.unique(valleys)) > 1
    np.testing.assert_array_equal(landscape.valley_of(held), valleys)
    wanted = landscape.overlap(0, plain)
    np.testing.assert_array_equal(landscape.overlap(0, held).n_states, wanted.n_states)
    series = plain if kind != "samples" else type(samples)(MODEL.space, plain, samples.final)
    seen, other = landscape.transitions(held), landscape.transitions(series)
    np.testing.assert_array_equal(seen.counts, other.counts)
    # The mutant: labels that are ignored.
    assert (landscape.valley_of(plain[..., ::-1]) != valleys).any()
    options = {"method": "quenches", "n_quenches": 50, "rng": 1}
    one = ebm.landscape(MODEL, samples=held, **options)
    two = ebm.landscape(MODEL, samples=series, **options)
    np.testing.assert_array_equal(one.weights.value, two.weights.value)


def test_rows_that_do_not_serve_are_refused_by_a_sentence():
    incomplete = ebm.IncompleteEnsemble.from_data([[1, None], [-1, 1]], space=ebm.Spins)
    weighted = ebm.Ensemble.from_data([[1, 1], [-1, 1]], space=ebm.Spins, sample_weight=[1, 2])
    for rows in (incomplete, weighted):
        for taking in (PAIR.transitions, PAIR.valley_of, lambda rows: PAIR.overlap(0, rows)):
            with pytest.raises(ShapeError, match="as they were measured"):
                taking(rows)
    with pytest.raises(ShapeError, match="one or more, got none"):
        PAIR.overlap(0, np.zeros((0, 2)))
    for breaks in ([0.5], ["a"], [True, False], [[1]], [2]):
        with pytest.raises(ShapeError, match="breaks must be numbers of rows"):
            PAIR.transitions([[1, 1], [1, 1]], breaks=breaks)
    one_chain = ebm.sample(PAIR.model, n_draws=10, n_chains=1, rng=0)
    with pytest.raises(ShapeError, match="one chain does not tell what it missed"):
        ebm.landscape(PAIR.model, method="quenches", samples=one_chain)
    with pytest.raises(ShapeError, match="n_quenches"):
        ebm.landscape(PAIR.model, n_quenches=0)
    with pytest.raises(EbmError, match="units of other must be 'a', 'b'; missing: 'b'"):
        PAIR.compare(ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a", "c"])))


def test_names_of_figures_are_one_state_each():
    pytest.importorskip("matplotlib")
    with pytest.raises(EbmError, match=r"names\['up'\] must be one state"):
        PAIR.plot({"up": [[1, 1], [1, 1]]})
    with pytest.raises(EbmError, match="a name for each minimum, or states by name, got 3"):
        PAIR.plot(3)


def test_prints_tell_one_from_many_and_show_errors():
    assert str(ebm.landscape(ebm.IsingModel([[0]], [1.0]))).startswith("1 minimum; complete")
    assert "no two rows" in str(PAIR.transitions([[1, 1]]))
    found = ebm.landscape(MODEL, method="quenches", n_quenches=50, rng=1)
    assert "±" in str(ebm.landscape(MODEL).compare(found))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(found)).valley_of(found.states), range(len(found))
    )


def test_forbidden_states_stay_forbidden_when_all_others_are_equal():
    model = ebm.TabularModel([0.0, np.inf, np.inf, 2.0], ebm.Binary(2))
    np.testing.assert_array_equal(model.scaled(0).energies, [0, np.inf, np.inf, 0])
    found = ebm.landscape(model, method="quenches", n_quenches=50, rng=0)
    assert found.patterns == ("00", "11")
    np.testing.assert_array_equal(found.passes, [np.inf, np.inf])


def glass(n):
    rng = np.random.default_rng(0)
    couplings = np.triu(rng.normal(size=(n, n)), 1) / np.sqrt(n)
    return ebm.IsingModel(couplings + couplings.T, 0.1 * rng.normal(size=n))


def test_paths_count_in_the_time_and_fewer_are_taken_where_it_is_short():
    model = glass(60)
    near = Neighbors(model, model.space)
    quenches = near.seconds(2000.0, 3 + 60 / 3)
    with pytest.raises(EnumerationLimitError, match="paths between their minima"):
        # Time for all quenches, but not for a path from each of their minima.
        ebm.landscape(model, n_quenches=1000, rng=0, max_seconds=1.1 * quenches)
    rounds, paths = _quenches.affordable(model, model.space, 2000, 1000, 60.0)
    assert (rounds, paths) == (_quenches.ROUNDS, _quenches.N_PATHS)
    all_of_it = quenches + near.seconds(4000.0, 60 / 2) + 2000**2 * 1.3e-7
    rounds, paths = _quenches.affordable(model, model.space, 2000, 1000, 1.1 * all_of_it)
    assert rounds <= 1
    assert 2000 <= paths < 4000


def test_heights_of_paths_are_energies_of_states_on_them():
    """Energies follow the changes along a path: the highest is that of a state, to rounding."""
    for model in (glass(14), ebm.PottsModel(np.zeros((3,) * 4), np.eye(3))):
        found = ebm.landscape(model, method="quenches", n_quenches=200, rng=2)
        is_joined = found.parents >= 0
        states = found.pass_states[is_joined]
        np.testing.assert_allclose(model.energy(states), found.passes[is_joined], rtol=1e-12)
        exact = ebm.landscape(model)
        among = exact.valley_of(found.states)
        assert (found.heights >= exact.heights[np.ix_(among, among)] - 1e-9).all()


def test_kernels_in_portions_are_those_of_all_states_at_once(monkeypatch):
    from ebm._landscape import _complete

    rng = np.random.default_rng(4)
    space = ebm.Product(ebm.Levels(3, 3), ebm.Spins(4), ebm.Levels(2, 4))
    energies = rng.normal(size=int(space.size)).round(1)
    for model in (ebm.TabularModel(energies, space), glass(10)):
        whole = ebm.landscape(model)
        monkeypatch.setattr(_complete, "PORTION", 37)
        parts = ebm.landscape(model)
        monkeypatch.undo()
        np.testing.assert_array_equal(whole._basins.labels, parts._basins.labels)
        np.testing.assert_array_equal(whole.passes, parts.passes)


def test_columns_of_the_data_that_are_no_units_are_left_out(tmp_path, capsys):
    ebm.save(PAIR.model, tmp_path / "model.npz")
    (tmp_path / "rows.csv").write_text(
        "year,b,a\n1994,1,1\n1994,-1,-1\n1995,,1\n1995,-1,-1\n1995,1,1\n", encoding="utf-8"
    )
    arguments = ["landscape", str(tmp_path / "model.npz"), "--data", str(tmp_path / "rows.csv")]
    assert main(arguments) == 0
    rows = [[1, 1], [-1, -1], [np.nan, 1], [-1, -1], [1, 1]]
    assert str(PAIR.transitions(rows)) in capsys.readouterr().out


def test_rates_of_ten_spins_are_those_of_brute_force():
    """Three models; the long version, 200 of them, is tests/landscape_rates.py."""
    rng = np.random.default_rng(8)
    for _ in range(3):
        z, dwell, with_recrossings = deviations(spins(rng, 10).scaled(0.6), rng)
        assert len(z) >= 2
        assert np.abs(z).max() < 4.5
        assert np.abs(dwell).max() < 4.5
        assert np.median(with_recrossings) > 1.3


def test_dwell_times_of_unequal_visits_have_the_error_of_their_scatter():
    """A valley left at once or after long: the error of exponential lengths is too small."""
    rng = np.random.default_rng(0)
    z, z_exponential = [], []
    for _ in range(300):
        lengths = np.where(rng.random(400) < 0.9, 1.0, 91.0)
        counts = np.array([[0, 400], [400, 0]])
        time = np.array([lengths.sum(), 400.0])
        seen = Transitions(time, counts, (lengths, np.ones(400)))
        z.append((seen.dwell.value[0] - 10) / seen.dwell.standard_error[0])
        z_exponential.append((seen.dwell.value[0] - 10) / (seen.dwell.value[0] / 20))
        # Visits of one length have at most the error of exponential ones.
        assert seen.dwell.standard_error[1] == 1 / 20
    assert np.mean(np.square(z)) == pytest.approx(1, abs=0.25)
    assert np.mean(np.square(z_exponential)) > 4
