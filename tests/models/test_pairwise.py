"""What both pairwise families share: energies, parameters, gradients, gauge, storage."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ebm
from ebm.errors import CodingError, ModelError, NamesError, ShapeError
from tests.oracles import all_states, conditional, distribution, finite_difference, pair_energy
from tests.strategies import boltzmann_machines, generators, pairwise_models, sparse_patterns

FAMILIES = [ebm.BoltzmannMachine, ebm.IsingModel]


def matrix_of(model):
    """The couplings, dense."""
    matrix = model.weights if isinstance(model, ebm.BoltzmannMachine) else model.couplings
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def vector_of(model):
    """The linear parameters."""
    return model.biases if isinstance(model, ebm.BoltzmannMachine) else model.fields


def size_of_terms(model):
    """Sum of the magnitudes of the terms of an energy, the scale of its rounding."""
    reach = 1 + np.abs(model.feature_center)
    return float(
        reach @ np.abs(matrix_of(model)) @ reach + np.abs(vector_of(model)).sum() + 1
    ) + abs(model.offset)


def close(model, energies, wanted):
    """Energies equal to 1e-12 of their terms."""
    np.testing.assert_allclose(energies, wanted, rtol=0, atol=1e-12 * size_of_terms(model))


@given(pairwise_models())
def test_energy_is_the_sum_of_its_terms(model):
    """[EBM] eq 12, term by term; for spins the same with center 0."""
    wanted = [
        pair_energy(x, matrix_of(model), vector_of(model), model.feature_center, model.offset)
        for x in all_states(model.space)
    ]
    close(model, model.energy(all_states(model.space)), wanted)


@pytest.mark.parametrize("family", FAMILIES)
@given(rng=generators())
def test_only_the_symmetric_part_matters(family, rng):
    """The energy of an asymmetric matrix is its own sum, and equals that of (A + Aᵀ)/2."""
    matrix, vector = rng.normal(size=(4, 4)), rng.normal(size=4)
    model = family(matrix, vector)
    wanted = [pair_energy(x, matrix, vector, np.zeros(4), 0.0) for x in all_states(model.space)]
    close(model, model.energy(all_states(model.space)), wanted)
    assert model.equals(family((matrix + matrix.T) / 2, vector))
    np.testing.assert_array_equal(matrix_of(model), matrix_of(model).T)


@given(pairwise_models())
def test_quadratic_form_is_the_energy(model):
    """E = −½ fAf − v·f + k over the features, A symmetric."""
    form = model.quadratic_form().at_origin().dense()
    f = model.space.features(all_states(model.space))
    energies = -0.5 * np.einsum("mi,ij,mj->m", f, form.matrix, f) - f @ form.vector + form.constant
    np.testing.assert_array_equal(form.matrix, form.matrix.T)
    close(model, energies, model.energy(all_states(model.space)))


@given(pairwise_models())
def test_states_of_any_stack_and_type(model):
    """(..., n) -> (...), one state and none included; small integers do not wrap."""
    states = all_states(model.space)[:2].reshape(1, -1, model.n)
    energies = model.energy(states)
    assert energies.shape == states.shape[:-1]
    assert model.energy(states[0, 0]).shape == ()
    assert model.energy(states[0, 0]) == pytest.approx(float(energies[0, 0]))
    assert model.energy(states[:, :0]).shape == (1, 0)
    for method in (model.energy, model.energy_gradient, model.input, model.conditional):
        np.testing.assert_array_equal(method(states.astype(np.int8)), method(states))
        np.testing.assert_array_equal(method(states.tolist()), method(states))


@pytest.mark.parametrize("family", FAMILIES)
def test_states_of_another_coding_are_refused(family):
    """In every method that reads states."""
    model = family(np.zeros((2, 2)), [0, 0], names=["a", "b"])
    wrong = [[1, 1], [1, 0 if family is ebm.IsingModel else -1]]
    for method in (model.energy, model.energy_gradient, model.input, model.conditional):
        with pytest.raises(CodingError, match="unit 'b' has the values"):
            method(wrong)
        with pytest.raises(ShapeError, match=r"\(\.\.\., 2\), got \(3,\)"):
            method([1, 1, 1])


@given(pairwise_models())
def test_parameters_are_the_vector_and_the_upper_triangle(model):
    """One number for each unit and each pair i < j, row by row, named alike."""
    i, j = model.pairs
    assert list(zip(i, j, strict=True)) == list(itertools.combinations(range(model.n), 2))
    wanted = [*vector_of(model), *(matrix_of(model)[a, b] for a, b in zip(i, j, strict=True))]
    np.testing.assert_array_equal(model.parameters, wanted)
    linear, coupling = ("b", "W") if isinstance(model, ebm.BoltzmannMachine) else ("h", "J")
    names = [f"{linear}[{a}]" for a in range(model.n)]
    names += [f"{coupling}[{a}, {b}]" for a, b in zip(i, j, strict=True)]
    assert list(model.parameter_names) == names


@given(pairwise_models(), generators())
def test_parameters_round_trip(model, rng):
    """with_parameters keeps all that is no parameter, and takes any vector as it is."""
    assert model.with_parameters(model.parameters).equals(model)
    theta = rng.normal(size=len(model.parameters))
    changed = model.with_parameters(list(theta))
    np.testing.assert_array_equal(changed.parameters, theta)
    np.testing.assert_array_equal(np.diag(matrix_of(changed)), np.diag(matrix_of(model)))
    np.testing.assert_array_equal(changed.feature_center, model.feature_center)
    assert (changed.offset, changed.space) == (model.offset, model.space)
    assert changed.with_parameters(model.parameters).equals(model)
    with pytest.raises(ShapeError, match=rf"theta must have shape \({len(theta)},\), got"):
        model.with_parameters(theta[:-1])


@given(pairwise_models(max_units=4))
def test_energy_gradient_is_the_slope_of_the_energy(model):
    """∂E/∂θ by finite differences; a pair counts once, without the ½."""
    for x in all_states(model.space):
        slopes = finite_difference(
            lambda t, x=x: float(model.with_parameters(t).energy(x)), model.parameters
        )
        np.testing.assert_allclose(model.energy_gradient(x), slopes, rtol=1e-7, atol=1e-7)
    stack = model.energy_gradient(all_states(model.space)[None])
    assert stack.shape == (1, int(model.space.size), len(model.parameters))


@given(pairwise_models(), generators())
def test_energy_is_affine_in_the_parameters(model, rng):
    """E(θ + δ) − E(θ) = δ · ∂E/∂θ exactly, and energy_derivative is that product."""
    delta = rng.normal(size=len(model.parameters))
    states = all_states(model.space)
    moved = model.with_parameters(model.parameters + delta)
    change = moved.energy(states) - model.energy(states)
    close(moved, change, model.energy_gradient(states) @ delta)
    close(moved, change, model.energy_derivative(states, delta))


@given(pairwise_models(), generators())
def test_mean_gradient_from_moments_is_the_average(model, rng):
    """E[∂E/∂θ] over states equals the formula in means and covariances, in either coding."""
    exact = ebm.exact(model)
    data = ebm.Ensemble.from_data(model.space.random(30, rng), space=model.space)
    for average in (exact, data):
        wanted = average.expectation(model.energy_gradient)
        atol = 1e-12 * (1 + np.abs(model.feature_center).max()) ** 2
        moments = average.moments()
        for form in (average, moments, moments.to(ebm.Spins), moments.to(ebm.Binary)):
            gradient = model.mean_energy_gradient(form)
            np.testing.assert_allclose(gradient, wanted, rtol=0, atol=atol)


@pytest.mark.parametrize("family", FAMILIES)
def test_mean_gradient_realigns_units_by_name(family):
    """Moments of the same units in another order; other units are refused."""
    rng = np.random.default_rng(0)
    model = family(rng.normal(size=(3, 3)), rng.normal(size=3), names=["a", "b", "c"])
    rows = rng.integers(0, 2, (40, 3))
    wanted = model.mean_energy_gradient(ebm.Ensemble.from_data(rows))
    permuted = ebm.Ensemble.from_data(rows[:, [2, 0, 1]], names=["c", "a", "b"])
    np.testing.assert_allclose(model.mean_energy_gradient(permuted), wanted, atol=1e-14)
    with pytest.raises(NamesError, match="unknown: 'd'"):
        model.mean_energy_gradient(ebm.Ensemble.from_data(rows, names=["a", "b", "d"]))


@given(pairwise_models(), st.floats(-3, 3))
def test_scaled_is_the_energy_times_beta(model, beta):
    """β multiplies all of E, offset and diagonal too, and so ln Z is that of βE."""
    hotter = model.scaled(beta)
    states = all_states(model.space)
    close(hotter, hotter.energy(states), beta * model.energy(states))
    top = (-beta * model.energy(states)).max()
    log_z = top + np.log(np.exp(-beta * model.energy(states) - top).sum())
    assert ebm.exact(hotter).log_partition == pytest.approx(log_z, rel=1e-10, abs=1e-10)


@given(pairwise_models(max_units=5))
def test_conditionals_are_those_of_the_joint_distribution(model):
    """p(unit at its high value | rest) from two energies; the unit's own value does not enter."""
    for x in all_states(model.space):
        wanted = [conditional(model, x, unit) for unit in range(model.n)]
        np.testing.assert_allclose(model.conditional(x), wanted, rtol=1e-9, atol=1e-12)
    low, high = model.space.values
    for unit in range(model.n):
        states = all_states(model.space)
        flipped = states.copy()
        flipped[:, unit] = low + high - flipped[:, unit]
        np.testing.assert_allclose(
            model.input(states)[:, unit],
            model.input(flipped)[:, unit],
            atol=1e-12 * size_of_terms(model),
        )


@pytest.mark.parametrize("size", [700.0, 1e4])
@pytest.mark.parametrize("family", FAMILIES)
def test_conditionals_of_strong_couplings_are_finite(family, size):
    """0 and 1 without overflow or a warning."""
    model = family([[0, size], [size, 0]], [-size / 2, -size / 2])
    probabilities = model.conditional(all_states(model.space))
    assert np.isfinite(probabilities).all()
    np.testing.assert_array_equal(np.round(probabilities[-1]), [1, 1])


@given(pairwise_models(min_units=2), st.randoms(use_true_random=False))
def test_relabelling_the_units_relabels_everything(model, random):
    """E of permuted states is E with permuted couplings; the same distribution."""
    order = list(range(model.n))
    random.shuffle(order)
    matrix, vector = matrix_of(model)[np.ix_(order, order)], vector_of(model)[order]
    if isinstance(model, ebm.BoltzmannMachine):
        permuted = ebm.BoltzmannMachine(
            matrix, vector, center=model.center[order], offset=model.offset
        )
    else:
        permuted = ebm.IsingModel(matrix, vector, offset=model.offset)
    states = all_states(model.space)
    close(model, permuted.energy(states[:, order]), model.energy(states))
    np.testing.assert_allclose(
        permuted.conditional(states[:, order]), model.conditional(states)[:, order], atol=1e-12
    )
    assert ebm.exact(permuted).log_partition == pytest.approx(ebm.exact(model).log_partition)


@given(sparse_patterns(), generators())
def test_sparse_machines_equal_dense_ones(pattern, rng):
    """Every method, on CSR and on dense storage; the parameters are the stored pairs."""
    matrix, full = pattern
    n = len(full)
    vector = rng.normal(size=n)
    center = {"center": rng.normal(size=n)}
    for family, more in ((ebm.BoltzmannMachine, center), (ebm.IsingModel, {})):
        sparse = family(matrix, vector, offset=0.5, **more)
        dense = family(full, vector, offset=0.5, **more)
        states = all_states(dense.space)
        for name in ("energy", "input", "conditional"):
            value = getattr(sparse, name)(states)
            np.testing.assert_allclose(value, getattr(dense, name)(states), atol=1e-12)
            assert isinstance(value, np.ndarray)
        for mine, other in zip(sparse.quadratic_form(), dense.quadratic_form(), strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-13)
        assert ebm.exact(sparse).log_partition == pytest.approx(ebm.exact(dense).log_partition)
        close(dense, sparse.scaled(-2.0).energy(states), dense.scaled(-2.0).energy(states))


@given(sparse_patterns(), generators())
def test_stored_entries_are_the_parameters(pattern, rng):
    """The pairs i < j that are stored, zeros included; the pattern survives every change."""
    matrix, full = pattern
    n = len(full)
    entries = matrix.tocoo()
    stored = sorted((i, j) for i, j in zip(entries.row, entries.col, strict=True) if i < j)
    machine = ebm.BoltzmannMachine(matrix, rng.normal(size=n), center=rng.normal(size=n))
    ising = ebm.IsingModel(matrix, rng.normal(size=n))
    theta = rng.normal(size=n + len(stored))
    versions = [
        machine,
        ising,
        machine.scaled(0.0),
        machine.recentered(0.3),
        machine.canonical(),
        machine.to_spins(),
        ising.to_binary(),
        ising.scaled(2.0),
        machine.with_parameters(np.zeros(len(theta))).with_parameters(theta),
        ising.with_parameters(np.zeros(len(theta))).with_parameters(theta),
    ]
    for model in versions:
        assert list(zip(*model.pairs, strict=True)) == stored
        assert len(model.parameters) == len(model.parameter_names) == len(theta)
    np.testing.assert_array_equal(versions[-1].parameters, theta)
    dense = ebm.BoltzmannMachine(full, machine.biases, center=machine.center)
    positions = [list(zip(*dense.pairs, strict=True)).index(pair) for pair in stored]
    kept = [*range(n), *(n + position for position in positions)]
    states = all_states(machine.space)
    np.testing.assert_allclose(
        machine.energy_gradient(states), dense.energy_gradient(states)[:, kept], atol=1e-13
    )
    average = ebm.exact(dense)
    np.testing.assert_allclose(
        machine.mean_energy_gradient(average),
        dense.mean_energy_gradient(average)[kept],
        atol=1e-12,
    )


@given(sparse_patterns(max_units=5))
def test_sparse_conversions_keep_the_energy(pattern):
    """to_spins, to_binary, canonical and recentered on CSR storage."""
    matrix, full = pattern
    n = len(full)
    machine = ebm.BoltzmannMachine(matrix, np.arange(n) / 3, center=0.3, offset=1.0)
    x = all_states(machine.space)
    wanted = ebm.BoltzmannMachine(full, np.arange(n) / 3, center=0.3, offset=1.0).energy(x)
    close(machine, machine.to_spins().energy(2 * x - 1), wanted)
    close(machine, machine.to_spins().to_binary().energy(x), wanted)
    close(machine, machine.canonical().energy(x), wanted)
    close(machine, machine.recentered(-1.0).energy(x), wanted)


@given(pairwise_models())
def test_equals_sees_every_number(model):
    """A copy is equal; a change of any number, name or of the class is seen."""
    copy = dataclasses.replace(model)
    assert model.equals(copy)
    assert copy.equals(model)
    bump = np.zeros((model.n, model.n))
    bump[0, 0] = 1e-9
    different = [
        model.with_parameters(np.nextafter(model.parameters, np.inf)),
        dataclasses.replace(model, offset=model.offset + 1e-9),
        dataclasses.replace(model, names=[f"u{i}" for i in range(model.n)]),
        model.to_spins() if isinstance(model, ebm.BoltzmannMachine) else model.to_binary(),
        None,
        model.parameters,
    ]
    if isinstance(model, ebm.BoltzmannMachine):
        different.append(dataclasses.replace(model, center=model.center + 1e-9))
        different.append(dataclasses.replace(model, weights=model.weights + bump))
    else:
        different.append(dataclasses.replace(model, couplings=model.couplings + bump))
    assert not any(model.equals(other) for other in different)


@pytest.mark.parametrize("family", FAMILIES)
def test_models_are_frozen_copies(family):
    """The caller's arrays are neither kept nor changed; a model cannot be written to."""
    matrix, vector = np.array([[0.0, 1.0], [3.0, 0.5]]), np.array([0.25, -1.0])
    before = matrix.copy(), vector.copy()
    for array in (matrix, vector):
        array.setflags(write=False)
    model = family(matrix, vector)
    np.testing.assert_array_equal(matrix, before[0])
    matrix.setflags(write=True)
    vector.setflags(write=True)
    energy = float(model.energy([1, 1]))
    matrix[:], vector[:] = 7.0, 7.0
    assert float(model.energy([1, 1])) == energy
    for array in (matrix_of(model), vector_of(model)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for name in ("offset", "names", "space", "biases", "fields"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(model, name, None)


@pytest.mark.parametrize("family", FAMILIES)
def test_sparse_storage_is_a_read_only_copy(family):
    """The entries of the model do not follow those of the matrix it was made from."""
    import scipy.sparse

    matrix = scipy.sparse.csr_array([[0.0, 1.0], [1.0, 0.5]])
    model = family(matrix, [0, 0])
    matrix.data[:] = 7.0
    np.testing.assert_array_equal(matrix_of(model), [[0, 1], [1, 0.5]])
    stored = model.weights if family is ebm.BoltzmannMachine else model.couplings
    with pytest.raises(ValueError, match="read-only"):
        stored.data[0] = 1


@pytest.mark.parametrize("dtype", ["int8", "bool", "float32", "int64", object])
@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_of_any_type_make_a_model(family, dtype):
    """Everything is float64 inside."""
    matrix, vector = np.array([[0, 1], [1, 0]]), np.array([1, 0])
    model = family(matrix.astype(dtype), vector.astype(dtype))
    assert model.equals(family(matrix.astype(float), vector.astype(float)))
    assert {matrix_of(model).dtype, vector_of(model).dtype} == {np.dtype(float)}
    assert model.equals(family(matrix.tolist(), tuple(vector.tolist())))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("matrix", "vector", "error", "words"),
    [
        (np.zeros((2, 3)), [0, 0, 0], ShapeError, r"{m} must have shape \(3, 3\), got \(2, 3\)"),
        (np.zeros((2, 2)), [0, 0, 0], ShapeError, r"{m} must have shape \(3, 3\), got \(2, 2\)"),
        (np.zeros(4), [0, 0], ShapeError, r"{m} must have shape \(2, 2\), got \(4,\)"),
        (0.0, [0.0], ShapeError, r"{m} must have shape \(1, 1\), got \(\)"),
        ([0, 0], np.zeros((2, 2)), ShapeError, r"{v} must have shape \(n,\) .*got \(2, 2\)"),
        (np.zeros((2, 2)), 0.0, ShapeError, r"{v} must have shape \(n,\) .*got \(\)"),
        (np.zeros((0, 0)), [], ShapeError, r"{v} must have shape \(n,\) with n ≥ 1, got \(0,\)"),
        ([[0, np.nan], [0, 0]], [0, 0], ModelError, r"{m} must be finite, got nan at \(0, 1\)"),
        ([[0, 1], [np.inf, 0]], [0, 0], ModelError, r"{m} must be finite, got inf at \(1, 0\)"),
        (np.eye(2), [0, -np.inf], ModelError, r"{v} must be finite, got -inf at \(1,\)"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(family, matrix, vector, error, words):
    """The argument, the shape or value wanted, and what was got."""
    names = ("weights", "biases") if family is ebm.BoltzmannMachine else ("couplings", "fields")
    with pytest.raises(error, match=words.format(m=names[0], v=names[1])):
        family(matrix, vector)


@pytest.mark.parametrize("family", FAMILIES)
def test_offsets_and_names_are_checked(family):
    """One finite number; n different names, which the space and the parameters carry."""
    matrix = np.zeros((2, 2))
    with pytest.raises(ShapeError, match=r"offset must be one number, got shape \(1,\)"):
        family(matrix, [0, 0], offset=[1.0])
    with pytest.raises(ModelError, match=r"offset must be finite, got nan"):
        family(matrix, [0, 0], offset=np.nan)
    with pytest.raises(NamesError, match="each of the 2 units, got 3"):
        family(matrix, [0, 0], names=["a", "b", "c"])
    with pytest.raises(NamesError, match="more than once"):
        family(matrix, [0, 0], names=["a", "a"])
    model = family(matrix, [0, 0], names=["a", "b"])
    assert model.names == model.space.names == ("a", "b")
    assert model.parameter_names[0].endswith("[a]")
    assert model.parameter_names[2].endswith("[a, b]")
    other = model.to_spins() if family is ebm.BoltzmannMachine else model.to_binary()
    assert other.names == model.with_parameters([1, 2, 3]).names == ("a", "b")
    with pytest.raises(TypeError):
        family(matrix, [0, 0], 0.5)


@given(boltzmann_machines())
def test_exact_distribution_agrees_with_the_table(machine):
    """ln Z and ln p of a machine and of its spin form equal the log-sum-exp over all energies."""
    log_z, p = distribution(machine)
    for model, states in (
        (machine, all_states(machine.space)),
        (machine.to_spins(), 2 * all_states(machine.space) - 1),
    ):
        exact = ebm.exact(model)
        assert exact.log_partition == pytest.approx(log_z, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(np.exp(exact.log_probability(states)), p, atol=1e-13)
