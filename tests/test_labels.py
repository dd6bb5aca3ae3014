"""What comes in with labels is taken by them, or refused; never by position against them."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.errors import ModelError, NamesError
from ebm.spaces import _labels
from tests.strategies import generators

NAMES = ["a", "b", "c", "d"]


class Arrow:
    """A table like those of pyarrow: columns with names, rows without, no ``to_numpy``."""

    def __init__(self, frame):
        self.frame, self.shape = frame, frame.shape
        self.column_names = [str(name) for name in frame.columns]

    def column(self, k):
        return self.frame.iloc[:, k].to_numpy()

    def slice(self, start, length):
        return Arrow(self.frame.iloc[start : start + length])

    def __array__(self, dtype=None, copy=None):
        return self.frame.to_numpy(dtype=dtype)


class Polars:
    """A frame like those of polars: no index, and a ``to_numpy`` without settings."""

    def __init__(self, frame):
        self.frame, self.shape = frame, frame.shape
        self.columns = list(frame.columns)

    def to_numpy(self):
        return self.frame.to_numpy()

    def __getitem__(self, key):
        return Polars(self.frame.iloc[key]) if isinstance(key, slice) else self.frame[key]

    def __array__(self, dtype=None, copy=None):
        return self.frame.to_numpy(dtype=dtype)


class Coordinates:
    """An array like those of xarray: named dimensions, some of them with coordinates."""

    def __init__(self, frame, dims=("sample", "unit")):
        self.array, self.dims = frame.to_numpy(), dims
        self.coords = {dims[-1]: pd.Series(frame.columns if len(dims) == 2 else frame.index)}
        self.shape, self.ndim = self.array.shape, self.array.ndim

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype=dtype)


KINDS = {
    "pandas": lambda frame: frame,
    "nullable": lambda frame: frame.astype("Int8"),
    "mixed": lambda frame: frame.astype({frame.columns[0]: "Int8"}),
    "arrow": Arrow,
    "polars": Polars,
    "xarray": Coordinates,
}


def machine(rng, names=NAMES):
    """A machine away from every symmetric point."""
    weights = rng.normal(size=(4, 4))
    return ebm.BoltzmannMachine(
        weights, rng.normal(size=4), center=rng.uniform(-1, 2, 4), names=names
    )


def permuted(names):
    return st.permutations(names)


@given(generators(), permuted(NAMES), permuted(NAMES), permuted(NAMES), permuted(NAMES))
def test_a_model_of_frames_is_that_of_the_arrays_whatever_the_order(rng, rows, columns, h, c):
    """Couplings, biases and center, each in an order of its own; with and without names=."""
    wanted = machine(rng)
    weights = pd.DataFrame(wanted.weights, NAMES, NAMES).loc[rows, columns]
    biases, center = pd.Series(wanted.biases, NAMES)[h], pd.Series(wanted.center, NAMES)[c]
    named = ebm.BoltzmannMachine(weights, biases, center=center, names=NAMES)
    assert named.equals(wanted)
    states = pd.DataFrame(ebm.Binary(4).states_at(range(16)), columns=NAMES)
    own = ebm.BoltzmannMachine(weights, biases, center=center)
    assert own.names == tuple(columns)
    np.testing.assert_allclose(own.energy(states), wanted.energy(states), atol=1e-12)
    ising = ebm.IsingModel(weights, biases, names=NAMES)
    assert ising.equals(ebm.IsingModel(wanted.weights, wanted.biases, names=NAMES))


@given(generators(), permuted(NAMES), permuted([0, 1, 2]), permuted(["x", "y"]))
def test_potts_fields_and_layers_are_taken_by_label(rng, order, values, hidden):
    """Rows by the names of the units, columns by what they agree on among themselves."""
    fields = pd.DataFrame(rng.normal(size=(4, 3)), index=NAMES, columns=["A", "C", "G"])
    couplings = np.multiply.outer(np.ones((4, 4)) - np.eye(4), rng.normal(size=(3, 3)))
    wanted = ebm.PottsModel(couplings, fields.to_numpy(), names=NAMES)
    assert ebm.PottsModel(couplings, fields.loc[order], names=NAMES).equals(wanted)
    weights = pd.DataFrame(rng.normal(size=(4, 2)), index=NAMES, columns=["x", "y"])
    c, b = pd.Series(rng.normal(size=2), ["x", "y"]), pd.Series(rng.normal(size=4), NAMES)
    layers = ebm.RestrictedBoltzmannMachine(weights, b, c, names=NAMES)
    assert (
        ebm.RestrictedBoltzmannMachine(weights[hidden], b[order], c, names=NAMES)
        .transposed()
        .equals(
            ebm.RestrictedBoltzmannMachine(
                weights[hidden].to_numpy(), b, c[hidden].to_numpy(), names=NAMES
            ).transposed()
        )
    )
    assert ebm.RestrictedBoltzmannMachine(weights.loc[order], b, c[hidden], names=NAMES).equals(
        layers
    )


@given(generators(), permuted(NAMES), permuted(NAMES))
def test_moments_are_taken_by_label(rng, order, other):
    """A series of means and a frame of covariances; their labels name a space without names."""
    data = ebm.Ensemble.from_data(rng.integers(0, 2, (40, 4)), names=NAMES).moments()
    mean = pd.Series(data.mean, NAMES)[order]
    covariance = pd.DataFrame(data.covariance, NAMES, NAMES).loc[other, order]
    moments = ebm.Moments(data.space, mean, covariance)
    np.testing.assert_array_equal(moments.mean, data.mean)
    np.testing.assert_array_equal(moments.covariance, data.covariance)
    own = ebm.Moments(ebm.Binary(4), mean, covariance)
    assert own.space.names == tuple(order)
    np.testing.assert_array_equal(own.to(data.space).covariance, data.covariance)


def test_labels_of_features_that_are_no_units_are_refused():
    """One-hot features have no names, so an order of labels cannot be checked."""
    data = ebm.Ensemble.from_data([[0, 1], [2, 0], [1, 1]], space=ebm.Levels(2, 3)).moments()
    mean = pd.Series(data.mean)
    assert (ebm.Moments(data.space, mean, data.covariance).mean == data.mean).all()
    with pytest.raises(NamesError, match=r"mean has the labels .* give mean\.to_numpy\(\)"):
        ebm.Moments(data.space, mean.add_prefix("f"), data.covariance)


@pytest.mark.parametrize("kind", KINDS)
@given(rng=generators(), order=permuted(NAMES))
@settings(max_examples=25)
def test_states_are_taken_by_label_wherever_they_go_in(kind, rng, order):
    """Energies, probabilities, conditionals, gradients, chains, fits, scores."""
    model = machine(rng)
    rows = rng.integers(0, 2, (40, 4))
    frame = KINDS[kind](pd.DataFrame(rows, columns=NAMES)[order])
    exact = ebm.exact(model)
    for route in (
        model.energy,
        model.conditional,
        model.energy_gradient,
        model.space.index,
        exact.log_probability,
        lambda x: ebm.sample(model, n_draws=2, initial=x, rng=1).chains,
        lambda x: ebm.inversion.log_pseudolikelihood(model, x),
        lambda x: ebm.Ensemble.from_data(x, space=model.space).weights,
    ):
        np.testing.assert_allclose(route(frame), route(rows), rtol=1e-12)


@pytest.mark.parametrize("library", ["polars", "pyarrow", "xarray"])
def test_the_libraries_themselves_are_read_like_their_stand_ins(library):
    """Where one is installed: states in every order, couplings, missing values."""
    module = pytest.importorskip(library)
    make = {
        "polars": lambda frame: module.DataFrame(frame.to_numpy(), schema=list(frame.columns)),
        "pyarrow": lambda frame: module.table({name: frame[name].to_numpy() for name in frame}),
        "xarray": lambda frame: module.DataArray(
            frame.to_numpy(), dims=["row", "unit"], coords={"unit": list(frame.columns)}
        ),
    }[library]
    rng = np.random.default_rng(6)
    model, rows = machine(rng), rng.integers(0, 2, (10, 4))
    for order in itertools.permutations(NAMES):
        own = make(pd.DataFrame(rows, columns=NAMES)[list(order)])
        np.testing.assert_allclose(model.energy(own), model.energy(rows), rtol=1e-12)
        data = ebm.Ensemble.from_data(own, space=model.space)
        np.testing.assert_array_equal(data.states, ebm.Ensemble.from_data(rows).states)
        frame = pd.DataFrame(model.weights, NAMES, NAMES).loc[list(order), list(order)]
        again = ebm.BoltzmannMachine(
            make(frame), model.biases, center=model.center, names=model.names
        )
        assert again.equals(model)


@given(generators(), permuted(NAMES))
@settings(max_examples=25)
def test_one_sample_is_taken_by_label(rng, order):
    """A row of a frame, nullable too, and an array with coordinates."""
    model = machine(rng)
    rows = rng.integers(0, 2, (5, 4))
    frame = pd.DataFrame(rows, columns=NAMES)[order]
    for k, wanted in enumerate(model.energy(rows)):
        for row in (
            frame.iloc[k],
            frame.astype("Int8").iloc[k],
            Coordinates(frame.iloc[k], dims=("unit",)),
        ):
            assert model.energy(row) == pytest.approx(wanted, rel=1e-12)
            assert ebm.sample(model, n_draws=1, n_chains=2, initial=row, rng=0).chains.shape


def test_other_labels_are_refused():
    """In states, parameters and moments; a sentence names the argument and the labels."""
    model = machine(np.random.default_rng(0))
    row = pd.Series([0, 1, 1, 0], ["a", "b", "c", "z"])
    for route in (model.energy, model.conditional, ebm.exact(model).log_probability):
        with pytest.raises(NamesError, match=r"labels of states .* missing: 'd', unknown: 'z'"):
            route(row)
    with pytest.raises(NamesError, match=r"labels of biases .* missing: 'd', unknown: 'z'"):
        ebm.BoltzmannMachine(model.weights, row, names=NAMES)
    with pytest.raises(NamesError, match="'a' more than once"):
        ebm.BoltzmannMachine(model.weights, pd.Series(1.0, ["a", "a", "b", "c"]), names=NAMES)
    frame = pd.DataFrame(model.weights, NAMES, NAMES)
    with pytest.raises(NamesError, match="weights and biases must have the same labels"):
        ebm.BoltzmannMachine(frame, row)
    with pytest.raises(NamesError, match="labels of center"):
        model.recentered(row)
    with pytest.raises(NamesError, match="labels of mean"):
        ebm.Moments(model.space, row, np.eye(4))


def test_two_orders_beside_an_array_without_labels_are_refused():
    """It could be in either; with names= it is in theirs."""
    rng = np.random.default_rng(1)
    wanted = machine(rng)
    frame = pd.DataFrame(wanted.weights, NAMES, NAMES)
    with pytest.raises(NamesError, match=r"rows and columns of weights .* biases has none"):
        ebm.BoltzmannMachine(frame.loc[NAMES[::-1]], wanted.biases)
    named = ebm.BoltzmannMachine(
        frame.loc[NAMES[::-1]], wanted.biases, center=wanted.center, names=NAMES
    )
    assert named.equals(wanted)
    # In one order there is no doubt.
    assert ebm.BoltzmannMachine(frame, wanted.biases, center=wanted.center).equals(wanted)


@given(generators(), permuted(NAMES))
def test_labels_of_one_axis_are_those_of_both(rng, order):
    """A frame without an index, as polars has none, and one whose index only counts."""
    wanted = machine(rng)
    square = pd.DataFrame(wanted.weights, NAMES, NAMES).loc[order, order]
    for weights in (
        Polars(square),
        Arrow(square),
        square.reset_index(drop=True),
        square.set_axis(range(4), axis=1),
    ):
        for names in (None, NAMES):
            own = ebm.BoltzmannMachine(
                weights,
                pd.Series(wanted.biases, NAMES),
                center=pd.Series(wanted.center, NAMES),
                names=names,
            )
            np.testing.assert_allclose(
                own.energy(pd.Series(1, NAMES[:2]).reindex(NAMES, fill_value=0)),
                wanted.energy([1, 1, 0, 0]),
            )


def test_labels_that_only_count_say_nothing():
    """A frame made of an array is taken by position, by a model with names too; silently."""
    model = machine(np.random.default_rng(2))
    rows = ebm.Binary(4).states_at(range(16))
    for space in (model.space, model.space.named(None)):
        np.testing.assert_array_equal(space.check(pd.DataFrame(rows)), rows)
        np.testing.assert_array_equal(space.check(pd.Series(rows[5])), rows[5])
    frame = pd.DataFrame(model.weights)
    again = ebm.BoltzmannMachine(
        frame, pd.Series(model.biases), center=pd.Series(model.center), names=NAMES
    )
    assert again.equals(model)
    assert ebm.BoltzmannMachine(frame, pd.Series(model.biases)).names is None
    data = ebm.Ensemble.from_data(pd.DataFrame(rows), space=model.space)
    assert data.space == model.space
    assert ebm.Ensemble.from_data(pd.DataFrame(rows), names=NAMES).space == model.space


def test_numbers_of_units_in_another_order_are_refused():
    """Beside units without names they are either labels or numbers of units."""
    model = machine(np.random.default_rng(3), names=None)
    row = pd.Series([0.0, 1, 1, 0])
    assert model.energy(row) == model.energy(row.to_numpy())
    for route in (
        model.energy,
        lambda x: ebm.BoltzmannMachine(model.weights, x),
        lambda x: ebm.Ensemble.from_data(pd.DataFrame([x, x, x, x]), space=model.space),
    ):
        with pytest.raises(NamesError, match=r"'3', '2', '1', '0', numbers of units .*to_numpy"):
            route(row[::-1])
    # Names of a model without names say nothing about its order.
    assert model.energy(row.set_axis(NAMES)) == model.energy(row.to_numpy())


@given(generators(), st.permutations(range(9)))
def test_weights_of_samples_are_taken_by_the_labels_of_the_rows(rng, order):
    """Text, numbers that do not count, numbers that count: any index that both have."""
    rows, weights = rng.integers(0, 2, (9, 4)), rng.integers(1, 5, 9)
    wanted = ebm.Ensemble.from_data(rows, sample_weight=weights, names=NAMES)
    for index in ([f"row {k}" for k in range(9)], np.arange(9) + 5, np.arange(9)):
        frame = pd.DataFrame(rows, index=index, columns=NAMES)
        series = pd.Series(weights, index).iloc[list(order)]
        data = ebm.Ensemble.from_data(frame, sample_weight=series)
        np.testing.assert_array_equal(data.states, wanted.states)
        np.testing.assert_array_equal(data.weights, wanted.weights)
    metric = ebm.information.relative_fisher(machine(rng), frame, sample_weight=series)
    other = ebm.information.relative_fisher(machine(rng), rows, sample_weight=weights)
    assert metric.dense().shape == other.dense().shape


def test_the_metric_of_weighted_rows_is_that_of_the_rows_in_order():
    """relative_fisher pairs rows and weights by label too."""
    rng = np.random.default_rng(5)
    model, rows, weights = machine(rng), rng.integers(0, 2, (9, 4)), rng.random(9)
    frame = pd.DataFrame(rows, index=[f"row {k}" for k in range(9)], columns=NAMES)
    series = pd.Series(weights, frame.index).sample(frac=1, random_state=1)
    wanted = ebm.information.relative_fisher(model, rows, sample_weight=weights).dense()
    own = ebm.information.relative_fisher(model, frame, sample_weight=series).dense()
    np.testing.assert_allclose(own, wanted, rtol=1e-14)


def test_weights_of_other_rows_are_refused_and_those_without_labels_are_not():
    """A filtered frame beside weights that were not filtered with it."""
    rows = pd.DataFrame(ebm.Binary(4).states_at(range(16)), columns=NAMES)
    weights = pd.Series(np.arange(1.0, 17))
    kept = rows[rows.a == 1]
    wanted = ebm.Ensemble.from_data(kept, sample_weight=weights[kept.index]).weights
    with pytest.raises(NamesError, match="labels of sample_weight must be those of the rows"):
        ebm.Ensemble.from_data(kept, sample_weight=weights.iloc[1:9])
    for own in (weights[8:].to_numpy(), weights[8:].reset_index(drop=True)):
        np.testing.assert_array_equal(
            ebm.Ensemble.from_data(kept, sample_weight=own).weights, wanted
        )
    data = ebm.Ensemble.from_data(kept.to_numpy(), sample_weight=weights[8:])
    np.testing.assert_array_equal(data.weights, wanted)


@given(generators(), st.permutations(range(9)))
def test_weights_that_count_are_those_of_a_shuffled_frame_by_label(rng, order):
    """The frame is shuffled, its weights are not; rows drawn twice are refused."""
    frame = pd.DataFrame(rng.integers(0, 2, (9, 4)), columns=NAMES)
    weights = pd.Series(np.arange(1.0, 10))
    shuffled = frame.iloc[list(order)]
    data = ebm.Ensemble.from_data(shuffled, sample_weight=weights)
    wanted = ebm.Ensemble.from_data(shuffled, sample_weight=weights.loc[shuffled.index].to_numpy())
    np.testing.assert_array_equal(data.weights, wanted.weights)
    # The twin: without labels they are in the order of the rows.
    plain = ebm.Ensemble.from_data(shuffled, sample_weight=weights.to_numpy())
    wanted = ebm.Ensemble.from_data(
        shuffled.to_numpy(), sample_weight=np.arange(1.0, 10), names=NAMES
    )
    np.testing.assert_array_equal(plain.weights, wanted.weights)
    with pytest.raises(NamesError, match="labels of sample_weight must be those of the rows"):
        ebm.Ensemble.from_data(frame.iloc[[0, *range(8)]], sample_weight=weights)


@given(generators(), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_parameters_are_taken_by_their_names(rng, shuffler):
    """A column of ``to_frame`` in any order; other names are refused."""
    pairwise = machine(rng)
    spins = ebm.Spins(4, names=NAMES)
    layers = ebm.RestrictedBoltzmannMachine(
        rng.normal(size=(4, 2)), rng.normal(size=4), rng.normal(size=2), names=NAMES
    )
    triples = ebm.InteractionModel({(0,): 0.5, (1, 2, 3): -1.0, (0, 2): 2.0}, spins)
    potts = ebm.PottsModel(np.zeros((2, 2, 3, 3)), rng.normal(size=(2, 3)))
    for model in (pairwise, layers, triples, potts):
        theta = rng.normal(size=len(model.parameters))
        series = pd.Series(theta, model.parameter_names)
        order = list(series.index)
        shuffler.shuffle(order)
        np.testing.assert_allclose(
            model.with_parameters(series[order]).parameters, theta, rtol=1e-12
        )
        states = model.space.random(3, 0)
        np.testing.assert_array_equal(
            model.energy_derivative(states, series[order]),
            model.energy_derivative(states, theta),
        )
        with pytest.raises(NamesError, match="labels of theta must be"):
            model.with_parameters(series.add_prefix("other "))


def test_tables_of_states_with_labels_are_refused():
    """``value_counts`` orders states by their number, not as ``states_at`` does."""
    rows = pd.DataFrame([[1, 1], [1, 1], [0, 1], [0, 0], [1, 0]], columns=["a", "b"])
    shares = rows.value_counts(normalize=True)
    with pytest.raises(NamesError, match=r"p has the labels .* of space.states_at"):
        ebm.TabularModel.from_probabilities(shares, ebm.Binary(2))
    with pytest.raises(NamesError, match="energies has the labels"):
        ebm.TabularModel(-np.log(shares), ebm.Binary(2))
    ordered = ebm.TabularModel.from_probabilities(shares.sort_index().to_numpy(), ebm.Binary(2))
    assert ordered.energy([1, 1]) == pytest.approx(-np.log(0.4))


@given(generators(), permuted(NAMES))
def test_other_vectors_over_units_are_taken_by_label(rng, order):
    """Centers of a gauge and of an expansion, means to start from, the diagonal of an inversion."""
    model = machine(rng)
    values = pd.Series(rng.uniform(0.2, 0.8, 4), NAMES)
    assert model.recentered(values[order]).equals(model.recentered(values.to_numpy()))
    expand = ebm.perturbation.expand
    by_label, by_position = (expand(model, 2, center=x) for x in (values[order], values.to_numpy()))
    assert by_label.machine.equals(by_position.machine)
    data = ebm.Ensemble.from_data(np.vstack([np.eye(4), 1 - np.eye(4)]), names=NAMES)
    inverted = (ebm.inversion.mean_field(data, diagonal=x) for x in (values[order], values.array))
    first, second = inverted
    assert first.equals(second)


def test_pictures_of_two_models_are_by_name():
    """The triangle below is another model's, whose units may be in another order."""
    first, names = machine(np.random.default_rng(4)), NAMES[::-1]
    order = [NAMES.index(name) for name in names]
    turned = ebm.BoltzmannMachine(
        first.weights[np.ix_(order, order)],
        first.biases[order],
        center=first.center[order],
        names=names,
    )
    drawn = [
        np.asarray(ebm.plotting.couplings(first, other).images[0].get_array().filled(np.nan))
        for other in (first, turned)
    ]
    np.testing.assert_array_equal(*drawn)
    data = ebm.Ensemble.from_data(ebm.exact(first).sample(200, rng=1), names=NAMES)
    bars = [ebm.plotting.rates(data, model).lines[0].get_ydata() for model in (first, turned)]
    np.testing.assert_allclose(*bars, rtol=1e-10)
    for draw in (ebm.plotting.pattern_probabilities, ebm.plotting.moments_comparison):
        draw(data, first)
        with pytest.raises(NamesError, match="in this order"):
            draw(data, turned)


def test_labels_are_read_from_anything_and_from_nothing_that_has_none():
    """Lists have a method ``index``, tensors and arrays no labels at all."""
    frame = pd.DataFrame([[0, 1]], columns=["a", "b"])
    assert _labels.axis_labels(frame, 1) == _labels.axis_labels(frame, -1) == ("a", "b")
    assert _labels.axis_labels(frame, 0) is None
    assert _labels.axis_labels(frame.iloc[0], 0) == ("a", "b")
    for kind in (Arrow, Polars, Coordinates):
        assert _labels.axis_labels(kind(frame), -1) == ("a", "b")
        assert _labels.axis_labels(kind(frame), 0) is None
    for plain in ([0, 1], (0, 1), np.eye(2), 1.0, None, "ab", {"a": 1}, pd.Index([1, 2])):
        for axis in (-1, 0, 1):
            assert _labels.axis_labels(plain, axis) is None
    with pytest.raises(NamesError, match=r"must be text, got (nan|None)"):
        _labels.axis_labels(frame.set_axis([None, "b"], axis=1), 1)


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_positions_bring_any_order_into_any_other(first, second):
    """values[positions] are in the order wanted."""
    found = _labels.positions(first, second, "the labels must be")
    np.testing.assert_array_equal(np.array(first)[found], second)


def test_every_order_of_three_labels_gives_one_model():
    """All 36 pairs of orders, of rows and of columns."""
    names = ["x", "y", "z"]
    weights = pd.DataFrame([[0, 1.0, 0], [1.0, 0, -0.5], [0, -0.5, 0]], names, names)
    wanted = ebm.IsingModel(weights.to_numpy(), [0.1, -0.4, 0.9], names=names)
    orders = list(itertools.permutations(names))
    for rows, columns in itertools.product(orders, orders):
        frame = weights.loc[list(rows), list(columns)]
        assert ebm.IsingModel(frame, [0.1, -0.4, 0.9], names=names).equals(wanted)


def test_masses_with_labels_are_refused():
    """Settings of a sampler do not know the coordinates of the model."""
    assert ebm.HamiltonianMonteCarlo(0.1, 5, mass=pd.Series([1.0, 2.0])).mass.tolist() == [1, 2]
    with pytest.raises(NamesError, match="mass has the labels 'p', 'q'"):
        ebm.HamiltonianMonteCarlo(0.1, 5, mass=pd.Series([1.0, 2.0], ["p", "q"]))
    with pytest.raises(ModelError, match="mass must be a positive number"):
        ebm.HamiltonianMonteCarlo(0.1, 5, mass=[-1.0])
