"""Minima, basins and passes against a spanning tree of all states, and what is made of them."""

import itertools
from functools import cache

import numpy as np
import pytest

import ebm
from ebm._landscape import _complete, _quenches
from ebm.errors import EbmError, EnumerationLimitError, LimitError, ModelError, ShapeError
from tests import reference
from tests.user_models import CoupledLevels, HardCore, TwoMembers


@cache
def neighbors(space):
    """Numbers of the states that differ in one unit, by comparing all pairs of states."""
    states = space.states_at(np.arange(int(space.size)))
    return [np.flatnonzero((states != x).sum(axis=1) == 1).tolist() for x in states]


def find(above, x):
    while above[x] != x:
        above[x] = above[above[x]]
        x = above[x]
    return x


def brute(model):
    """Plateaus without a way down, the basin of every state, and heights by a spanning tree."""
    near = neighbors(model.space)
    energies = np.concatenate([model.energy(x) for x in model.space.enumerate()]).round(9).tolist()
    size = len(energies)
    target = {}
    for x in range(size):
        lowest = min((energies[y], y) for y in near[x])
        if lowest[0] < energies[x]:
            target[x] = lowest[1]
    while True:
        level = {
            x: min((y for y in near[x] if energies[y] == energies[x] and y in target), default=None)
            for x in range(size)
            if x not in target
        }
        level = {x: y for x, y in level.items() if y is not None}
        if not level:
            break
        target |= level
    closed = [x for x in range(size) if x not in target]
    above = list(range(size))
    for x in closed:
        for y in near[x]:
            if energies[y] == energies[x]:
                one, other = sorted((find(above, x), find(above, y)))
                above[other] = one
    minima = sorted({find(above, x) for x in closed}, key=lambda x: (energies[x], x))

    def end(x):
        while x in target:
            x = target[x]
        return minima.index(find(above, x))

    basins = np.array([end(x) for x in range(size)])
    heights = np.full((len(minima),) * 2, np.inf)
    above, members = list(range(size)), {x: [] for x in range(size)}
    for k, x in enumerate(minima):
        members[x] = [k]
    edges = sorted((max(energies[x], energies[y]), x, y) for x in range(size) for y in near[x])
    for height, x, y in edges:
        one, other = find(above, x), find(above, y)
        if one != other and height < np.inf:
            heights[np.ix_(members[one], members[other])] = height
            heights[np.ix_(members[other], members[one])] = height
            above[other] = one
            members[one] += members[other]
    for k, x in enumerate(minima):
        heights[k, k] = energies[x]
    return minima, basins, heights


def spins(rng, n, *, ties=False):
    """A random model; with ties, of couplings and fields −1, 0 and 1."""
    couplings, fields = rng.normal(size=(n, n)), rng.normal(size=n)
    if ties:
        couplings, fields = rng.integers(-1, 2, (n, n)), rng.integers(-1, 2, n) * rng.integers(2)
    couplings = np.triu(couplings, 1)
    return ebm.IsingModel(couplings + couplings.T, fields)


def check(model):
    minima, basins, heights = brute(model)
    landscape = ebm.landscape(model, method="complete")
    np.testing.assert_array_equal(landscape.states, model.space.states_at(minima))
    np.testing.assert_array_equal(
        landscape.valley_of(model.space.states_at(np.arange(len(basins)))), basins
    )
    np.testing.assert_array_equal(landscape.sizes, np.bincount(basins))
    np.testing.assert_allclose(landscape.heights, heights, atol=1e-8)
    is_joined = landscape.parents >= 0
    np.testing.assert_allclose(
        model.energy(landscape.pass_states[is_joined]), landscape.passes[is_joined], atol=1e-9
    )
    return landscape


@pytest.mark.parametrize("ties", [False, True])
def test_minima_basins_and_passes_of_random_models_are_those_of_a_spanning_tree(ties):
    rng = np.random.default_rng(int(ties))
    n_plateaus = 0
    for _ in range(100):
        landscape = check(spins(rng, 10, ties=ties))
        assert landscape.sizes.sum() == 2**10
        n_plateaus += (landscape.degeneracies > 1).any()
    assert n_plateaus > 20 if ties else n_plateaus == 0


def test_lowest_direct_edges_are_no_passes():
    """A wrong formula is seen by the test above: passes lead through third valleys."""
    rng = np.random.default_rng(5)
    landscape = ebm.landscape(spins(rng, 10))
    edges = landscape._basins.edges()
    direct = {
        tuple(sorted(ends)): h for ends, h in zip(edges.ends.tolist(), edges.heights, strict=True)
    }
    assert any(height > landscape.heights[pair] + 1e-9 for pair, height in direct.items())


@pytest.mark.parametrize("seed", range(4))
def test_units_of_several_values_change_to_any_other(seed):
    rng = np.random.default_rng(seed)
    levels = ebm.Product(ebm.Levels(3, 3), ebm.Spins(2), ebm.Levels(1, 4))
    energies = rng.normal(size=int(levels.size))
    check(ebm.TabularModel(energies if seed % 2 else energies.round(0), levels))
    check(CoupledLevels(rng.normal(size=(12, 12)), rng.normal(size=12), q=3))


def test_forbidden_states_are_in_basins_and_shut_valleys_off():
    landscape = check(HardCore([1.0, 1.2, 1.0, 1.1]))
    assert landscape.sizes.sum() == 16
    apart = ebm.TabularModel([0.0, np.inf, np.inf, 1.0], ebm.Binary(2))
    landscape = ebm.landscape(apart)
    np.testing.assert_array_equal(landscape.passes, [np.inf, np.inf])
    np.testing.assert_array_equal(landscape.parents, [-1, -1])
    assert np.isnan(landscape.pass_states).all()
    assert landscape.graph().number_of_edges() == 0
    assert landscape.weights_at(0).tolist() == [0.5, 0.5]

    class Nowhere(HardCore):
        def energy(self, states):
            return np.full(np.shape(states)[:-1], np.inf)

    with pytest.raises(ModelError, match="infinite at every state"):
        ebm.landscape(Nowhere([1.0]))


def test_very_many_valleys_are_joined_by_rounds(monkeypatch):
    model = ebm.TabularModel(np.random.default_rng(2).normal(size=2**10), ebm.Spins(10))
    landscape = check(model)
    monkeypatch.setattr(_complete, "MOST_LABELS", 5)
    other = check(model)
    np.testing.assert_array_equal(landscape.passes, other.passes)
    assert len(landscape) > 50


def test_flat_energies_are_one_plateau():
    landscape = ebm.landscape(ebm.IsingModel(np.zeros((4, 4)), np.zeros(4)))
    assert len(landscape) == 1
    assert landscape.degeneracies.tolist() == [16]
    assert "plateaus of states of equal energy" in str(landscape)
    assert "equal states" not in str(ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0])))


def reference_model(name):
    data = reference.load(name)
    n = len(data["names"])
    couplings = np.zeros((n, n))
    couplings[np.triu_indices(n, 1)] = data["fit"]["couplings"]
    return ebm.IsingModel(couplings + couplings.T, data["fit"]["fields"], names=data["names"])


REHNQUIST = (
    ("010001011", -6.34301, 174, 0.57593, None),
    ("111011011", -5.30486, 62, 0.12286, -5.17152),
    ("010000000", -5.21353, 131, 0.19941, -4.19413),
    ("111111111", -3.60985, 76, 0.05971, -3.47225),
    ("000100100", -3.42977, 34, 0.02607, -3.01759),
    ("101110100", -2.65563, 35, 0.01602, -2.53417),
)


def test_valleys_of_the_supreme_court():
    """An independent program's minima, basins, weights and passes; all end in the deepest."""
    landscape = ebm.landscape(reference_model("rehnquist"))
    assert landscape.patterns == tuple(row[0] for row in REHNQUIST)
    for k, (_, energy, size, weight, height) in enumerate(REHNQUIST):
        assert landscape.energies[k] == pytest.approx(energy, abs=6e-6)
        assert landscape.sizes[k] == size
        assert landscape.weights.value[k] == pytest.approx(weight, abs=6e-6)
        if height is not None:
            assert landscape.passes[k] == pytest.approx(height, abs=6e-6)
            assert landscape.parents[k] == 0


def test_valleys_of_the_house():
    landscape = ebm.landscape(reference_model("housevotes84"))
    assert len(landscape) == 8
    assert landscape.sizes.sum() == 2**16
    np.testing.assert_allclose(landscape.energies[[0, 2]], [-12.42590, -12.28813], atol=6e-6)
    assert landscape.sizes[[0, 2]].tolist() == [19924, 24530]
    np.testing.assert_allclose(landscape.weights.value[[0, 2]], [0.35229, 0.37491], atol=6e-6)
    assert landscape.heights[0, 2] == pytest.approx(-7.69481, abs=6e-6)


def test_weights_are_those_of_the_exact_ensemble():
    model = spins(np.random.default_rng(3), 9)
    landscape = ebm.landscape(model)
    states = model.space.states_at(np.arange(512))
    for beta in (0.0, 0.5, 1.0, 3.0):
        p = ebm.exact(model.scaled(beta)).weights if beta else np.full(512, 1 / 512)
        wanted = np.bincount(landscape.valley_of(states), p)
        np.testing.assert_allclose(landscape.weights_at(beta), wanted, atol=1e-12)
    np.testing.assert_allclose(landscape.weights.value, landscape.weights_at(1), atol=1e-15)


def test_hidden_units_are_summed_over():
    rng = np.random.default_rng(1)
    machine = ebm.RestrictedBoltzmannMachine(
        3 * rng.normal(size=(7, 4)), rng.normal(size=7), rng.normal(size=4)
    )
    visible = machine.space
    table = ebm.TabularModel(machine.energy(visible.states_at(np.arange(128))), visible)
    landscape, wanted = ebm.landscape(machine), ebm.landscape(table)
    marginal = ebm.landscape(ebm.marginalize(machine.joint(), keep=range(7)))
    for each in (landscape, marginal):
        np.testing.assert_array_equal(each.states, wanted.states)
        np.testing.assert_allclose(each.heights, wanted.heights, atol=1e-9)


def test_overlap_profiles_count_all_states():
    model = spins(np.random.default_rng(4), 8)
    landscape = ebm.landscape(model)
    states = model.space.states_at(np.arange(256))
    profile = landscape.overlap(1)
    np.testing.assert_allclose(profile.overlaps, (8 - 2 * np.arange(9)) / 8)
    overlaps = states @ landscape.states[1] / 8
    p, energies = ebm.exact(model).weights, model.energy(states)
    for d, q in enumerate(profile.overlaps):
        here = np.isclose(overlaps, q)
        assert profile.n_states[d] == here.sum()
        assert profile.lowest[d] == pytest.approx(energies[here].min())
        assert profile.probabilities[d] == pytest.approx(p[here].sum())
        assert profile.mean[d] == pytest.approx(p[here] @ energies[here] / p[here].sum())
    drawn = landscape.overlap(1, states)
    np.testing.assert_array_equal(drawn.n_states, profile.n_states)
    np.testing.assert_allclose(drawn.lowest, profile.lowest)


class TestTransitions:
    """Rates of visits with cores against the exact chain of states and current valleys."""

    def chain(self, model, *, sweeps=False):
        """(1/n) Σ of heat baths of single units, or all of them in turn."""
        n, space = model.space.n, model.space
        states = space.states_at(np.arange(int(space.size)))
        total = np.eye(len(states)) if sweeps else np.zeros((len(states),) * 2)
        energies = model.energy(states)
        for i in range(n):
            flipped = states.copy()
            flipped[:, i] *= -1
            other = space.index(flipped)
            p = 1 / (1 + np.exp(energies[other] - energies))
            step = np.zeros_like(total)
            step[np.arange(len(states)), other] = p
            step[np.arange(len(states)), np.arange(len(states))] = 1 - p
            total = total @ step if sweeps else total + step / n
        return total

    def oracle(self, model, landscape, matrix):
        """Rates from the stationary distribution of (state, valley of the last core)."""
        states = model.space.states_at(np.arange(len(matrix)))
        valleys = landscape.valley_of(states)
        k = len(landscape)
        exits = [min(landscape.heights[a][b] for b in range(k) if b != a) for a in range(k)]
        core = model.energy(states) < np.array(exits)[valleys]
        # Entry [x, a] goes to [y, b], b the valley of y in its core, a elsewhere.
        p = np.full((len(states), k), 1.0 / len(states) / k)

        def advance(p):
            moved = matrix.T @ p
            after = np.where(core[:, None], 0.0, moved)
            after[core, valleys[core]] += moved[core].sum(axis=1)
            return moved, after

        for _ in range(20000):
            before = p
            _, p = advance(p)
            if np.abs(p - before).max() < 1e-15:
                break
        flow = np.zeros((k, k))
        moved, _ = advance(p)
        for b in range(k):
            flow[:, b] = moved[core & (valleys == b)].sum(axis=0)
        np.fill_diagonal(flow, 0.0)
        return flow / p.sum(axis=0)[:, None], p.sum(axis=0)

    @pytest.mark.parametrize("sweeps", [False, True])
    def test_rates_equal_those_of_the_matrix(self, sweeps):
        rng = np.random.default_rng(7)
        model = spins(rng, 8).scaled(0.7)
        landscape = ebm.landscape(model)
        assert len(landscape) >= 3
        matrix = self.chain(model, sweeps=sweeps)
        wanted, share = self.oracle(model, landscape, matrix)
        if sweeps:
            samples = ebm.sample(model, ebm.Gibbs(), n_draws=20000, n_chains=40, rng=1)
        else:
            cumulative = matrix.cumsum(axis=1)
            x = rng.integers(len(matrix), size=200)
            path = []
            for u in rng.random((10000, 200)):
                x = np.minimum((cumulative[x] < u[:, None]).sum(axis=1), len(matrix) - 1)
                path.append(x)
            chains = model.space.states_at(np.array(path).T)
            samples = ebm.sample(model, n_draws=2, n_chains=2, rng=1)
            samples = type(samples)(model.space, chains, samples.final)
        seen = landscape.transitions(samples)
        rates = seen.rates
        is_known = np.isfinite(rates.standard_error)
        assert is_known.sum() >= 4
        z = ((rates.value - wanted) / rates.standard_error)[is_known]
        assert np.abs(z).max() < 4.5
        np.testing.assert_allclose(seen.time / seen.time.sum(), share, atol=0.02)
        dwell = seen.dwell
        lengths = 1 / wanted.sum(axis=1)
        known = np.isfinite(dwell.standard_error)
        assert (np.abs(dwell.value - lengths) < 4.5 * dwell.standard_error)[known].all()
        # Basins without cores count recrossings of the ridge, which are many more.
        naive = landscape.valley_of(samples.chains)
        assert (naive[:, 1:] != naive[:, :-1]).sum() > 1.3 * seen.counts.sum()

    def test_gaps_and_breaks_end_visits(self):
        landscape = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
        up, down = [1.0, 1.0], [-1.0, -1.0]
        rows = [up, up, down, down, up, down]
        whole = landscape.transitions(rows, interval=0.5)
        assert whole.time.tolist() == [1.5, 1.0]
        assert whole.counts.tolist() == [[0, 2], [1, 0]]
        # Of the first and the last visit one end is not known.
        assert [lengths.tolist() for lengths in whole.visits] == [[0.5], [1.0]]
        assert np.isnan(whole.rates.standard_error).all()
        gap = [*rows[:3], [np.nan, 1.0], *rows[3:]]
        for broken in (landscape.transitions(gap), landscape.transitions(rows, breaks=[3])):
            assert broken.counts.tolist() == [[0, 2], [1, 0]]
            assert broken.time.tolist() == [3, 1]
            assert [len(lengths) for lengths in broken.visits] == [1, 0]
        data = ebm.Ensemble.from_data(np.array(rows), space=ebm.Spins(2))
        assert landscape.transitions(data).counts.tolist() == [[0, 2], [1, 0]]
        assert "no end seen" in str(landscape.transitions([up, up, up]))

    def test_bad_rows_are_refused(self):
        landscape = ebm.landscape(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0]))
        with pytest.raises(ShapeError, match="interval"):
            landscape.transitions([[1, 1]], interval=0)
        with pytest.raises(ShapeError, match="breaks"):
            landscape.transitions([[1, 1]], breaks=[3])
        with pytest.raises(ShapeError, match="one after another"):
            landscape.transitions([1, 1])
        weighted = ebm.Ensemble.from_data(
            [[1, 1], [-1, -1]], space=ebm.Spins(2), sample_weight=[1, 2]
        )
        with pytest.raises(ShapeError, match="order of time"):
            landscape.transitions(weighted)


class TestQuenches:
    """Quenches beside the complete landscape."""

    @pytest.mark.parametrize("ties", [False, True])
    def test_all_minima_are_found_and_passes_are_bounds(self, ties):
        rng = np.random.default_rng(11)
        n_equal = n_all = 0
        for n in (6, 9, 12):
            model = spins(rng, n, ties=ties)
            complete = ebm.landscape(model)
            found = ebm.landscape(model, method="quenches", rng=rng)
            np.testing.assert_array_equal(found.states, complete.states)
            np.testing.assert_array_equal(found.degeneracies, complete.degeneracies)
            assert (found.heights >= complete.heights - 1e-9).all()
            n_equal += np.isclose(found.heights, complete.heights).sum()
            n_all += complete.heights.size
            states = model.space.random(200, rng)
            if not ties:
                np.testing.assert_array_equal(found.valley_of(states), complete.valley_of(states))
                z = (found.shares.value - complete.shares.value) / found.shares.standard_error
                assert np.nanmax(np.abs(z), initial=0) < 5
                z = (found.weights.value - complete.weights.value) / found.weights.standard_error
                assert np.nanmax(np.abs(z), initial=0) < 5
        assert n_equal > 0.7 * n_all

    def test_other_energies_and_levels_are_quenched_alike(self):
        rng = np.random.default_rng(12)
        model = spins(rng, 9)
        by_form = ebm.landscape(model, method="quenches", rng=1)
        by_energy = ebm.landscape(
            TwoMembers(model), method="quenches", samples=model.space.random(500, 2), rng=1
        )
        np.testing.assert_array_equal(by_form.states, by_energy.states)
        levels = CoupledLevels(rng.normal(size=(15, 15)), rng.normal(size=15), q=3)
        complete = ebm.landscape(levels)
        found = ebm.landscape(levels, method="quenches", samples=levels.space.random(500, 2), rng=1)
        np.testing.assert_array_equal(found.states, complete.states)

    def test_what_was_missed_covers_the_truth(self):
        """Few quenches of models with many minima; the long version is tests/landscapes.py."""
        rng = np.random.default_rng(13)
        n_within, n_trials, values = 0, 60, []
        for _ in range(n_trials):
            model = spins(rng, 12)
            complete = ebm.landscape(model)
            draws = ebm.exact(model).sample(40, rng=rng)
            found = ebm.landscape(model, method="quenches", samples=draws, n_quenches=30, rng=rng)
            unseen = np.ones(len(complete), dtype=bool)
            unseen[complete.valley_of(found.states)] = False
            # Uniform starts have found some of the minima that draws have not.
            low, high = found.missed_share.interval(0.95)
            truth = complete.shares.value[unseen].sum()
            n_within += low <= truth <= high
            values.append((found.missed_share.value, truth))
        assert n_within >= 0.9 * n_trials
        assert np.mean(values, axis=0)[0] > 0.5 * np.mean(values, axis=0)[1]

    def test_good_and_turing_count_valleys_met_once(self):
        """f₁/N and √(f₁ + 2 f₂)/N of Esty, for groups of one."""
        labels = np.array([0, 0, 0, 1, 1, 2, 3, 4, 0, 0])[:, None]
        estimate = _quenches.missed(labels)
        assert estimate.value == pytest.approx(3 / 10)
        assert estimate.standard_error == pytest.approx(np.sqrt(3 + 2 * 1) / 10)
        # Repeats within a chain are no evidence: each of two chains is in its own valley.
        assert _quenches.missed(np.array([[0] * 50, [1] * 50])).value == 1

    def test_plateaus_too_large_are_refused(self):
        model = ebm.IsingModel(np.zeros((40, 40)), np.zeros(40))
        with pytest.raises(LimitError, match="plateaus"):
            ebm.landscape(model, n_quenches=10, rng=0)


def test_what_changed_between_two_models_is_told_by_pairs():
    names = [f"u{i}" for i in range(6)]
    rng = np.random.default_rng(2)
    patterns = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, -1, -1, -1]])
    couplings = patterns.T @ patterns / 2
    np.fill_diagonal(couplings, 0)
    fields = 0.05 * rng.normal(size=6)
    first = ebm.landscape(ebm.IsingModel(couplings, fields, names=names))
    order = rng.permutation(6)
    again = ebm.landscape(
        ebm.IsingModel(
            couplings[np.ix_(order, order)], fields[order], names=[names[i] for i in order]
        )
    )
    same = first.compare(again)
    assert len(same.pairs) == len(first)
    assert not same.distances.any()
    np.testing.assert_allclose(same.energy_changes, 0, atol=1e-12)
    np.testing.assert_allclose(same.weight_changes, 0, atol=1e-12)
    assert same.patterns[0] == same.patterns[1]
    tilted = ebm.landscape(ebm.IsingModel(couplings, fields + 3 * patterns[0], names=names))
    changes = first.compare(tilted)
    assert len(tilted) == 1
    assert len(changes.lost) == len(first) - 1
    assert len(changes.gained) == 0
    assert "lost" in str(changes)
    assert tilted.compare(first).gained.tolist() == changes.lost.tolist()
    binary = ebm.landscape(ebm.IsingModel(couplings, fields, names=names).to_binary())
    assert len(first.compare(binary).pairs) == len(first)
    with pytest.raises(EbmError, match="units as"):
        first.compare(ebm.landscape(ebm.IsingModel(np.zeros((2, 2)), [1, 1])))
    with pytest.raises(EbmError, match=r"ebm\.landscape"):
        first.compare(3)


def test_graph_and_frame_carry_names_and_passes():
    landscape = ebm.landscape(reference_model("rehnquist"))
    graph, frame = landscape.graph(), landscape.to_frame()
    assert graph.graph["names"] == landscape.space.labels
    for a, b in itertools.combinations(range(6), 2):
        import networkx

        path = networkx.shortest_path(graph, a, b)
        highest = max(graph.edges[e]["energy"] for e in itertools.pairwise(path))
        assert highest == pytest.approx(landscape.heights[a, b])
    assert list(frame.columns[-9:]) == list(landscape.space.labels)
    np.testing.assert_array_equal(frame["pass"], landscape.passes)
    shown = str(landscape)
    assert "010001011" in shown
    assert "complete: all 2^9 states" in repr(landscape)


def test_figures_name_patterns():
    pytest.importorskip("matplotlib")
    landscape = ebm.landscape(reference_model("rehnquist"))
    ax = landscape.plot({"left": landscape.states[3], "also left": landscape.states[3]})
    labels = [text.get_text() for text in ax.get_xticklabels()]
    assert sorted(labels)[-1] == "left, also left"
    assert len(labels) == 6
    with pytest.raises(EbmError, match="one for each of 6"):
        ebm.plotting.valley_map(landscape, ["a"])
    with pytest.raises(EbmError, match=r"ebm\.landscape"):
        ebm.plotting.landscape(3)
    many = ebm.TabularModel(np.random.default_rng(0).normal(size=2**9), ebm.Binary(9))
    assert len(ebm.landscape(many)) > 24
    assert "of" in ebm.landscape(many).plot().get_title()
    assert ebm.plotting.valley_map(ebm.landscape(many)) is not None
    one = ebm.landscape(ebm.IsingModel([[0, 0], [0, 0]], [1, 1]))
    assert one.plot() is not None
    assert ebm.plotting.valley_map(one) is not None


def test_a_marginal_is_quenched_from_draws_of_its_joint_model():
    rng = np.random.default_rng(6)
    weights = 2 * rng.normal(size=(30, 4))
    machine = ebm.RestrictedBoltzmannMachine(weights, -weights.sum(axis=1) / 2, np.zeros(4))
    marginal = ebm.marginalize(machine.joint(), keep=range(30))
    with pytest.raises(EnumerationLimitError, match="draws, such as those of a joint model"):
        ebm.landscape(marginal, rng=1)
    draws = ebm.exact(machine).sample(100, rng=1)
    options = {"method": "quenches", "samples": draws, "n_quenches": 100, "rng": 1}
    found, other = (ebm.landscape(each, **options) for each in (marginal, machine))
    np.testing.assert_array_equal(found.states, other.states)
    assert len(found) > 1


def test_limits_and_arguments():
    model = ebm.BoltzmannMachine(np.zeros((20, 20)), np.ones(20))
    with pytest.raises(EnumerationLimitError, match='method="quenches"'):
        ebm.landscape(model, method="complete", max_seconds=1e-3)
    with pytest.raises(EnumerationLimitError, match="lower n_quenches"):
        ebm.landscape(model, method="quenches", max_seconds=1e-3)
    with pytest.raises(EbmError, match="method must be"):
        ebm.landscape(model, method="flood")
    with pytest.raises(EbmError, match="samples"):
        ebm.landscape(model, samples=np.ones((3, 20)))
    with pytest.raises(ModelError, match="finite space"):
        ebm.landscape(ebm.PairwiseModel(ebm.Reals(1), [[-1.0]], [0.0]))
    with pytest.raises(ShapeError, match=r"got shape \(4, 5, 20\)"):
        ebm.landscape(model, method="quenches", samples=np.ones((4, 5, 20)))
    for max_seconds in (60.0, np.inf):
        found = ebm.landscape(
            model, method="quenches", n_quenches=50, rng=0, max_seconds=max_seconds
        )
        assert len(found) == 1
    with pytest.raises(ModelError, match="scaled"):
        found.weights_at(2)
    with pytest.raises(EbmError, match="rows"):
        found.overlap(0)
    with pytest.raises(EbmError, match="from 0 to 0"):
        found.overlap(1)
