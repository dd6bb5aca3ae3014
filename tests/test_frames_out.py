"""Every result with a natural table gives it as a frame: the numbers, and back to what they are."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.errors import EbmError, MemoryLimitError, MissingExtraError, ModelError
from tests import strategies

NAMES = ["a", "b", "c"]
TRUTH = ebm.IsingModel([[0, 0.5, 0], [0.5, 0, -0.3], [0, -0.3, 0]], [0.1, -0.2, 0.3], names=NAMES)
ROWS = ebm.Ensemble.from_data(ebm.exact(TRUTH).sample(600, rng=1), space=TRUTH.space)
START = ebm.IsingModel(np.zeros((3, 3)), np.zeros(3), names=NAMES)
FIT = ebm.fit(START, ROWS)


def path():
    return ebm.inversion.regularization_path(START, ROWS, strengths=4)


def columns(frame, *names):
    return [frame[name].to_numpy() for name in names]


class TestModels:
    @given(strategies.pairwise_models(min_units=2), st.booleans())
    def test_the_edges_of_a_model_make_its_graph(self, model, named):
        import networkx

        if named:
            model = type(model)(
                model.coupling_matrix,
                model.parameters[: model.n],
                names=[f"unit {k}" for k in range(model.n)],
            )
        edges = model.to_frame()
        graph = networkx.from_pandas_edgelist(edges, edge_attr="coupling")
        place = {label: k for k, label in enumerate(model.space.labels)}
        couplings = np.zeros((model.n, model.n))
        for a, b, coupling in graph.edges(data="coupling"):
            couplings[place[a], place[b]] = couplings[place[b], place[a]] = coupling
        np.testing.assert_array_equal(
            couplings[np.triu_indices(model.n, 1)],
            np.triu(model.coupling_matrix, 1)[np.triu_indices(model.n, 1)],
        )
        np.testing.assert_array_equal(edges["coupling"], model.parameters[model.n :])

    @given(strategies.sparse_patterns(), strategies.generators())
    def test_a_sparse_model_has_an_edge_for_each_stored_pair(self, pattern, rng):
        model = ebm.IsingModel(pattern[0], rng.normal(size=pattern[0].shape[0]))
        edges = model.to_frame()
        pairs = np.array([edges[end].astype(int) for end in ("source", "target")])
        np.testing.assert_array_equal(pairs.reshape(2, -1), model.pairs)

    def test_items_have_edges_of_scores(self):
        items = ebm.OrdinalModel([[0, 0.4], [0.4, 0]], [[0, 1, 2], [0, 1]], names=["mood", "sleep"])
        assert items.to_frame().to_dict("list") == {
            "source": ["mood"], "target": ["sleep"], "coupling": [0.4]
        }  # fmt: skip


class TestFits:
    def test_parameters_by_name(self):
        frame = FIT.to_frame()
        assert list(frame.index) == list(FIT.model.parameter_names)
        value, error = columns(frame, "value", "standard_error")
        np.testing.assert_array_equal(value, FIT.model.parameters)
        np.testing.assert_array_equal(error, FIT.standard_errors)

    def test_couplings_as_edges_with_errors_and_intervals(self):
        frame = FIT.to_frame("couplings")
        assert list(zip(frame["source"], frame["target"], strict=True)) == [
            ("a", "b"), ("a", "c"), ("b", "c")
        ]  # fmt: skip
        value, error, low, high = columns(frame, "coupling", "standard_error", "low", "high")
        np.testing.assert_array_equal(value, FIT.model.parameters[3:])
        np.testing.assert_array_equal(error, FIT.standard_errors[3:])
        np.testing.assert_allclose((low + high) / 2, value, rtol=1e-12)
        np.testing.assert_allclose(high - low, 2 * 1.959964 * error, rtol=1e-6)

    @pytest.mark.parametrize("solver", [None, ebm.GradientSteps(n_epochs=3)])
    def test_the_history_has_all_members_of_its_entries(self, solver):
        result = ebm.fit(START, ROWS, solver=solver)
        frame = result.to_frame("history").reset_index()
        rows = frame.to_dict("records")
        assert rows
        assert len(rows) == len(result.history)
        pd.testing.assert_frame_equal(
            frame, pd.DataFrame([dataclasses.asdict(entry) for entry in result.history])
        )

    def test_other_words_and_pairs_of_several_couplings_are_refused(self):
        with pytest.raises(EbmError, match="of must be 'parameters', 'couplings' or 'history'"):
            FIT.to_frame("edges")
        potts = ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))
        rows = ebm.Ensemble.from_data(ebm.exact(potts).sample(50, rng=0), space=ebm.Levels(2, 3))
        result = ebm.fit(potts, rows)
        assert len(result.to_frame()) == result.n_parameters
        with pytest.raises(ModelError, match="edges are pairs of units with one coupling each"):
            result.to_frame("couplings")


class TestEnsembles:
    def test_means_have_their_errors(self):
        frame = ROWS.moments().to_frame()
        moments = ROWS.moments()
        assert list(frame.index) == NAMES
        np.testing.assert_array_equal(frame["mean"], moments.mean)
        errors = [ROWS.estimate(lambda s, k=k: s[:, k]).standard_error for k in range(3)]
        np.testing.assert_allclose(frame["standard_error"], errors, rtol=1e-12)
        assert not ebm.exact(TRUTH).moments().to_frame()["standard_error"].any()

    def test_features_of_levels_are_numbered(self):
        moments = ebm.exact(
            ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.arange(6.0).reshape(2, 3), names=["x", "y"])
        ).moments()
        frame = moments.to_frame()
        units = np.repeat(["x", "y"], moments.space.widths)
        assert list(frame.index.get_level_values("unit")) == list(units)
        assert frame.loc[("y", 0), "mean"] == moments.mean[moments.space.columns([1])[0]]

    @pytest.mark.filterwarnings("ignore::ebm.errors.FewSamplesWarning")
    @given(strategies.weighted_states())
    def test_states_and_weights_make_the_same_ensemble(self, drawn):
        space, rows, weights = drawn
        data = ebm.Ensemble.from_data(rows, space=space, sample_weight=weights)
        frame = data.to_frame()
        states = frame.drop(columns="weight")
        assert list(states.columns) == list(space.labels)
        again = ebm.Ensemble.from_data(
            states, space=space, sample_weight=frame["weight"] * data.sample_size
        )
        np.testing.assert_array_equal(again.states, data.states)
        np.testing.assert_allclose(again.weights, data.weights, rtol=1e-13)

    def test_an_exact_ensemble_lists_its_states(self, monkeypatch):
        exact = ebm.exact(TRUTH)
        frame = exact.to_frame()
        assert len(frame) == 8
        expected = np.exp(-TRUTH.energy(frame[NAMES]) - exact.log_partition)
        np.testing.assert_allclose(frame["weight"], expected, rtol=1e-12)
        monkeypatch.setattr("ebm.errors.MEMORY_LIMIT", 100.0)
        with pytest.raises(MemoryLimitError, match="a table of 8 states or more would take"):
            exact.to_frame()

    @settings(max_examples=10)
    @given(strategies.ising_models(max_units=4), st.integers(1, 3), st.integers(5, 9))
    def test_draws_have_their_chain_and_place(self, model, n_chains, n_draws):
        samples = ebm.sample(model, n_draws=n_draws, n_chains=n_chains, rng=3, burn_in=0)
        frame = samples.to_frame()
        assert frame.index.names == ["chain", "draw"]
        for chain in range(n_chains):
            np.testing.assert_array_equal(frame.loc[chain], samples.chains[chain])
        assert frame.to_numpy().dtype == samples.chains.dtype

    @pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
    def test_values_over_real_states_have_their_places(self, shape):
        normal = ebm.PairwiseModel(ebm.Reals(2), -np.eye(2), np.zeros(2))

        def observed(states):
            sums = states.sum(axis=-1)
            return sums.reshape(-1, *[1] * len(shape)) * np.ones(shape)

        run = ebm.sampling.SamplingRun(observe=observed)
        walk = ebm.HamiltonianMonteCarlo(0.3, 5)
        samples = ebm.sample(normal, walk, n_draws=6, n_chains=2, rng=0, run=run)
        frame = samples.to_frame()
        assert frame.shape == (12, int(np.prod(shape)))
        last = "_".join(["value", *(str(k - 1) for k in shape)])
        for chain in range(2):
            values = samples.values[(chain, slice(None), *(k - 1 for k in shape))]
            np.testing.assert_array_equal(frame.loc[chain, last], values)

    def test_units_may_have_the_names_of_other_columns(self):
        data = ebm.Ensemble.from_data([[0, 1], [1, 1], [0, 0]], names=["weight", "chain"])
        assert list(data.to_frame().columns) == ["weight", "weight", "chain"]

    def test_a_table_is_a_frame(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text("b,a\n0,2\n1,3\n")
        frame = ebm.read_table(path).to_frame()
        assert frame.to_dict("list") == {"b": [0, 1], "a": [2, 3]}


class TestInversion:
    def test_a_bootstrap_has_intervals(self):
        result = ebm.inversion.bootstrap(ebm.inversion.tap, ROWS, n_resamples=20, rng=0)
        frame = result.to_frame(level=0.5)
        low, high, error = columns(frame, "low", "high", "standard_error")
        np.testing.assert_array_equal([low, high], result.interval(0.5))
        np.testing.assert_array_equal(error, result.standard_errors)
        assert list(frame.index) == list(result.model.parameter_names)

    def test_a_path_has_a_row_for_each_strength(self):
        found = path()
        frame = found.to_frame()
        np.testing.assert_array_equal(frame.index, found.l1)
        np.testing.assert_array_equal(frame["n_pairs"], found.supports.sum(axis=1))
        lengths = frame[["a, b", "a, c", "b, c"]]
        np.testing.assert_array_equal(lengths, found.lengths)
        np.testing.assert_array_equal(lengths > 0, found.supports)

    def test_choices_have_a_row_for_each_pair(self):
        chosen = ebm.inversion.extended_bic(path())
        frame = chosen.to_frame()
        kept = frame[frame["is_chosen"]]
        assert tuple(zip(kept["source"], kept["target"], strict=True)) == chosen.pairs
        np.testing.assert_array_equal(frame["length"] > 0, frame["is_chosen"])
        stable = ebm.inversion.stability_selection(path(), n_halves=10, rng=0)
        frequencies = stable.to_frame()
        np.testing.assert_array_equal(frequencies["frequency"], stable.frequencies.max(axis=0))
        kept = frequencies[frequencies["is_stable"]]
        assert tuple(zip(kept["source"], kept["target"], strict=True)) == stable.pairs

    def test_dependence_and_dropped_cases(self):
        rows = ebm.sample(TRUTH, n_draws=400, n_chains=1, rng=0).chains[0]
        found = ebm.inversion.dependence(FIT.model, rows)
        frame = found.to_frame()
        np.testing.assert_array_equal(frame["factor"], found.factors)
        assert list(frame.index) == list(FIT.model.parameter_names)
        agreement = np.array([[0.9] * 99 + [0.1], [0.5] * 100])
        dropping = ebm.inversion.CaseDropping(np.array([0.25, 0.5]), agreement).to_frame()
        np.testing.assert_allclose(dropping["mean"], [0.892, 0.5])
        np.testing.assert_allclose(dropping[["low", "high"]], [[0.9, 0.9], [0.5, 0.5]])


class TestLandscapes:
    PAIR = ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a", "b"])

    def test_minima(self):
        minima = ebm.local_minima(self.PAIR)
        frame = minima.to_frame()
        assert frame.to_dict("list") == {
            "energy": [-1.5, -0.5], "a": [1.0, -1.0], "b": [1.0, -1.0]
        }  # fmt: skip
        np.testing.assert_array_equal(self.PAIR.energy(frame[["b", "a"]]), frame["energy"])

    def test_transitions_overlap_and_changes(self):
        pair = ebm.landscape(self.PAIR)
        seen = pair.transitions(ebm.sample(self.PAIR, n_draws=1000, rng=0))
        frame = seen.to_frame()
        for row in frame.itertuples():
            assert row.transitions == seen.counts[row.source, row.target] > 0
            assert row.rate == seen.rates.value[row.source, row.target]
        assert frame["transitions"].sum() == seen.counts.sum()
        overlap = pair.overlap(0)
        np.testing.assert_array_equal(overlap.to_frame()["probability"], overlap.probabilities)
        assert list(overlap.to_frame().index) == [0, 1, 2]
        changes = pair.compare(ebm.landscape(self.PAIR.scaled(0.5)))
        np.testing.assert_array_equal(changes.to_frame()["energy_change"], changes.energy_changes)


def test_differences_of_all_groups_are_one_table():
    rows = ebm.exact(TRUTH).sample(900, rng=2)
    comparison = ebm.compare_groups(rows, by=np.arange(900) % 3, space=ebm.Spins)
    frame = comparison.to_frame()
    assert frame.index.names == ["group", "coupling"]
    for part in comparison.differences:
        pd.testing.assert_frame_equal(frame.loc[part.group], part.to_frame())


@pytest.mark.parametrize(
    "make",
    [
        FIT.to_frame,
        lambda: FIT.to_frame("couplings"),
        TRUTH.to_frame,
        ROWS.to_frame,
        ROWS.moments().to_frame,
        ebm.sample(TRUTH, n_draws=10, rng=0).to_frame,
        ebm.local_minima(TRUTH).to_frame,
    ],
)
def test_without_pandas_the_extra_is_named(make, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"ebm-framework\[data\]"):
        make()
