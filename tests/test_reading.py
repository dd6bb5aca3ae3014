"""States of every make, in one piece and in blocks, and what cannot be read."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm._arrays import plain_array
from ebm.errors import CodingError, MemoryLimitError, MissingValueError, ModelError, ShapeError
from ebm.spaces import space as space_module
from tests.strategies import generators
from tests.user_models import HardCore

torch = pytest.importorskip("torch")

SPARSE = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]
TENSORS = {
    "requires grad": lambda rows: torch.tensor(rows, dtype=torch.float64, requires_grad=True),
    "of an operation": lambda rows: torch.tensor(rows, dtype=torch.float32, requires_grad=True) * 1,
    "bfloat16": lambda rows: torch.tensor(rows, dtype=torch.bfloat16),
    "float16": lambda rows: torch.tensor(rows, dtype=torch.float16),
    "float8": lambda rows: torch.tensor(rows).to(torch.float8_e4m3fn),
    "bool": lambda rows: torch.tensor(rows, dtype=torch.bool),
    "uint8": lambda rows: torch.tensor(rows, dtype=torch.uint8),
    "sparse": lambda rows: torch.tensor(rows).to_sparse(),
    "sparse with grad": lambda rows: torch.tensor(1.0 * rows).to_sparse().requires_grad_(),
    "sparse bfloat16": lambda rows: torch.tensor(rows, dtype=torch.bfloat16).to_sparse(),
    "transposed": lambda rows: torch.tensor(rows.T).T,
    "conjugate view": lambda rows: torch.tensor(1.0 * rows).conj(),
    "negative view": lambda rows: torch.tensor(0 + 1j * rows).conj().imag.neg(),
}


def models(rng, n=3):
    """One of each family over {0,1}^n and three others."""
    weights = rng.normal(size=(n, n))
    vector = rng.normal(size=n)
    triples = {(0,): 0.5, tuple(range(n)): -1.0, (0, n - 1): 2.0}
    machine = ebm.BoltzmannMachine(weights, vector, center=rng.uniform(size=n), offset=1.5)
    return [
        machine,
        ebm.BoltzmannMachine(scipy.sparse.csr_array(machine.weights), vector),
        ebm.RestrictedBoltzmannMachine(rng.normal(size=(n, 2)), vector, rng.normal(size=2)),
        ebm.InteractionModel(triples, ebm.Binary(n)),
        ebm.TabularModel(rng.normal(size=2**n), ebm.Binary(n)),
        ebm.marginalize(machine, keep=range(n - 1, -1, -1)),
        ebm.PottsModel(np.zeros((n, n, 2, 2)), rng.normal(size=(n, 2))),
        HardCore(vector),
    ]


def routes(model):
    """Functions of states that the model has, and its log-probability."""
    own = ("energy", "energy_gradient", "input", "conditional", "hidden_input")
    found = [getattr(model, name) for name in own if hasattr(model, name)]
    if isinstance(model, ebm.ParametricModel):
        direction = np.arange(1.0, 1 + len(model.parameters))
        found.append(lambda states: model.energy_derivative(states, direction))
    return [*found, ebm.exact(model).log_probability, model.space.index]


@pytest.fixture(params=[2**20, 7], ids=["one block", "blocks of two rows"])
def block(request, monkeypatch):
    """The same whatever the size of a block."""
    monkeypatch.setattr(space_module, "BLOCK", request.param)


def test_every_route_takes_what_fit_takes(block):
    """scipy.sparse of every format, tensors, frames with nullable columns: as the array itself."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (9, 3))
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    makes = {
        **{kind: scipy.sparse.coo_array(rows).asformat(kind) for kind in SPARSE},
        "matrix": scipy.sparse.csr_matrix(rows),
        **{name: make(rows) for name, make in TENSORS.items()},
        **{kind: frame.astype(kind) for kind in ("int8", "Int8", "boolean", "category", "object")},
        "mixed": frame.astype({"a": "Int64", "b": float}),
        "masked": np.ma.MaskedArray(rows, mask=False),
        "list": rows.tolist(),
        "float128": rows.astype(np.longdouble),
    }
    for model in models(rng):
        if isinstance(model, HardCore):
            continue  # a model of somebody else reads its states as it likes
        for route in routes(model):
            wanted = route(rows)
            for name, given_rows in makes.items():
                np.testing.assert_allclose(
                    route(given_rows), wanted, rtol=1e-12, err_msg=f"{model!r} {name}"
                )


def test_a_model_of_somebody_else_is_given_checked_blocks(block):
    """``exact(model).log_probability`` and ``fit`` read for it."""
    model = HardCore(np.array([0.5, -1.0, 2.0]))
    rows = np.array([[0, 1, 0], [1, 0, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0]])
    ensemble = ebm.exact(model)
    wanted = -model.energy(rows) - ensemble.log_partition
    for states in (rows, scipy.sparse.csr_array(rows), torch.tensor(rows).to_sparse()):
        np.testing.assert_allclose(ensemble.log_probability(states), wanted, rtol=1e-14)


@pytest.mark.parametrize("make", TENSORS)
def test_a_fit_of_a_tensor_is_that_of_its_numbers(make):
    """Gradients are left behind, short floats and sparse layouts are read."""
    rows = np.array([[0, 1], [1, 1], [1, 0], [0, 0], [1, 1]])
    start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    wanted = ebm.fit(start, rows).model
    assert ebm.fit(start, TENSORS[make](rows)).model.equals(wanted)
    theta = torch.tensor(wanted.parameters, requires_grad=True)
    assert start.with_parameters(theta).equals(wanted)
    assert ebm.BoltzmannMachine(
        torch.tensor(wanted.weights, requires_grad=True), torch.tensor(wanted.biases)
    ).equals(wanted)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (5, 3), (2, 4, 3), (0, 3), (2, 0, 3)])
def test_any_stack_of_states_keeps_its_axes_in_blocks(shape, block):
    """(..., n) -> (...), or (..., n) -> (..., n)."""
    rng = np.random.default_rng(1)
    states = rng.integers(0, 2, shape)
    for model in models(rng):
        energies = model.energy(states)
        assert energies.shape == shape[:-1]
        one_by_one = [float(model.energy(state)) for state in states.reshape(-1, 3)]
        np.testing.assert_allclose(energies.ravel(), one_by_one, rtol=1e-12)
    assert models(rng)[0].conditional(states).shape == shape


@given(generators(), st.integers(1, 40))
@settings(max_examples=20)
def test_the_size_of_a_block_changes_nothing(rng, size):
    """Energies of all families, row by row."""
    rows = rng.integers(0, 2, (11, 3))
    for model in models(rng):
        wanted = model.energy(rows)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(space_module, "BLOCK", size)
            np.testing.assert_allclose(model.energy(rows), wanted, rtol=1e-12)
            np.testing.assert_allclose(model.energy(rows.T.copy().T), wanted, rtol=1e-12)


def test_states_in_another_coding_are_refused_with_the_numbers_of_all_rows(block):
    """A complaint does not depend on the block in which the row is."""
    model = models(np.random.default_rng(2))[0]
    rows = np.zeros((9, 3))
    rows[7, 1] = 2
    with pytest.raises(CodingError, match="unit '1' has the values 0, 2 where 0 or 1"):
        model.energy(rows)
    rows[3, 2] = rows[7, 1] = np.nan
    with pytest.raises(MissingValueError, match=r"2 of 9 rows .*in '1', '2'"):
        model.energy(rows)
    frame = pd.DataFrame(rows, columns=["a", "b", "c"]).astype("Int8")
    with pytest.raises(MissingValueError, match=r"2 of 9 rows .*in '1', '2'"):
        model.energy(frame)
    with pytest.raises(ShapeError, match=r"\(\.\.\., 3\), got \(9, 2\)"):
        model.energy(scipy.sparse.csr_array(rows[:, :2]))
    with pytest.raises(ShapeError, match="looks transposed"):
        model.energy(np.zeros((3, 9)))
    with pytest.raises(CodingError, match=r"column 'b' holds 'y', 'n' .*\(column == 'y'\)"):
        model.energy(frame.assign(b=["y", "n"] * 4 + ["y"]))


def test_tensors_that_numpy_cannot_read_are_refused_by_name():
    """Where there are no numbers at all, or complex ones."""
    model = models(np.random.default_rng(3))[0]
    words = r"must be an array, got a Tensor .*\.detach\(\)\.cpu\(\)\.numpy\(\)"
    with pytest.raises(ModelError, match="states " + words):
        model.energy(torch.zeros(2, 3, device="meta"))
    with pytest.raises(ModelError, match="data " + words):
        ebm.fit(model, torch.zeros(2, 3, device="meta"))
    with pytest.raises(ModelError, match="biases " + words):
        ebm.BoltzmannMachine(np.zeros((3, 3)), torch.zeros(3, device="meta"))
    with pytest.raises(CodingError, match="real numbers"):
        model.energy(torch.zeros(2, 3, dtype=torch.complex64))


def test_what_another_library_does_not_give_out_is_an_error_of_this_one():
    """Arrays on another device raise errors of their own."""

    class Distant:
        shape = (2, 3)

        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("implicit copies are not allowed:\n use .get()")

    words = "must be an array, got a Distant .*implicit copies are not allowed: use .get"
    with pytest.raises(ModelError, match="states " + words):
        ebm.Binary(3).check(Distant())
    with pytest.raises(ModelError, match="theta " + words):
        plain_array(Distant(), "theta")
    with pytest.raises(ShapeError, match="theta must not be ragged"):
        plain_array([[1], [1, 2]], "theta")


def test_sparse_rows_are_made_dense_a_block_at_a_time():
    """A table that would take 15 GiB is refused in one piece; a map of it never makes one."""
    n, m = 1000, 2_000_000
    rows = scipy.sparse.csr_array((np.ones(2), ([0, m - 1], [1, 2])), shape=(m, n))
    space = ebm.Binary(n)
    # 15 GiB of float64: a block of them is enough to see that the rest is not made.
    with pytest.raises(
        MemoryLimitError, match=r"a dense copy of the \(2000000, 1000\) sparse data"
    ):
        space.check(rows)
    seen = []
    sums = space.map(lambda states: seen.append(states.size) or states @ np.arange(n), rows[:3000])
    np.testing.assert_array_equal(sums, [1, *[0] * 2999])
    assert max(seen) <= space_module.BLOCK < sum(seen)


@pytest.mark.parametrize(
    ("name", "kept"), [("energy", 8), ("log_probability", 32), ("from_data", 96)]
)
def test_memory_does_not_grow_with_float_copies_of_the_rows(name, kept, monkeypatch):
    """Of 160 bytes that a row takes in float64 none are kept, beside its energy or its counts."""
    monkeypatch.setattr(space_module, "BLOCK", 2**16)
    rows = np.random.default_rng(4).integers(0, 2, (100_000, 20), dtype=np.int8)
    weights = np.diag(np.ones(19), 1)
    model = ebm.BoltzmannMachine(weights + weights.T, np.zeros(20))
    route = {
        "energy": model.energy,
        "log_probability": ebm.exact(model).log_probability,
        "from_data": ebm.Ensemble.from_data,
    }[name]
    route(rows[:100])
    tracemalloc.start()
    try:
        route(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 5 * 2**16 + kept * len(rows)


@pytest.mark.parametrize("unit", ["M8[s]", "m8[D]"])
def test_dates_are_no_states_and_no_numbers(unit):
    """numpy would read them as the time since 1970, which may be 0 or 1."""
    dates = np.zeros((4, 3), unit)
    for states in (dates, dates[0], pd.DataFrame(dates[:, :1].repeat(3, 1)), pd.Series(dates[0])):
        with pytest.raises(CodingError, match="numbers"):
            ebm.Binary(3).check(states)
    with pytest.raises(ModelError, match="biases must hold numbers, got dates or times"):
        ebm.BoltzmannMachine(np.zeros((3, 3)), dates[0])
    # The twin: the same zeros as numbers.
    assert not ebm.Binary(3).check(dates.astype(np.int64)).any()
