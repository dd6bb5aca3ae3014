"""Models in files: nothing is lost, nothing is overwritten, nothing else is read."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

import ebm
from ebm._files import atomic_write
from ebm.errors import EbmError, FileFormatError
from ebm.io import load, save
from ebm.model import EnergyModel
from ebm.models import BoltzmannMachine, IsingModel, TabularModel
from ebm.spaces import Binary, Levels, Spins

FILE_TEST = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NUMBERS = st.floats(-1e300, 1e300).filter(lambda x: x == 0 or abs(x) > 1e-300)
NAMES = ["Ginsburg", "O'Connor", "Ünit 3"]


def vectors(n: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, n, elements=NUMBERS)


def matrices(n: int) -> st.SearchStrategy[np.ndarray]:
    return hnp.arrays(np.float64, (n, n), elements=NUMBERS)


def round_trip(model: Any, folder: Path) -> Any:
    save(model, folder / "model.npz", overwrite=True)
    return load(folder / "model.npz")


# Round trips


@given(matrices(3), vectors(3), vectors(3), NUMBERS, st.sampled_from([None, NAMES]))
@FILE_TEST
def test_boltzmann_machine_comes_back_bit_for_bit(
    tmp_path: Path,
    weights: np.ndarray,
    biases: np.ndarray,
    center: np.ndarray,
    offset: float,
    names: list[str] | None,
) -> None:
    weights = np.triu(weights) + np.triu(weights, 1).T
    model = BoltzmannMachine(weights, biases, center=center, offset=offset, names=names)
    back = round_trip(model, tmp_path)
    assert isinstance(back, BoltzmannMachine)
    assert back.weights.tobytes() == model.weights.tobytes()
    assert back.biases.tobytes() == model.biases.tobytes()
    assert back.center.tobytes() == model.center.tobytes()
    assert (back.offset, back.names, back.space) == (model.offset, model.names, model.space)


@given(matrices(3), vectors(3), NUMBERS, st.sampled_from([None, NAMES]))
@FILE_TEST
def test_ising_model_comes_back_bit_for_bit(
    tmp_path: Path,
    couplings: np.ndarray,
    fields: np.ndarray,
    offset: float,
    names: list[str] | None,
) -> None:
    couplings = np.triu(couplings) + np.triu(couplings, 1).T
    model = IsingModel(couplings, fields, offset=offset, names=names)
    back = round_trip(model, tmp_path)
    assert back.equals(model)
    assert (back.offset, back.names) == (model.offset, model.names)
    assert back.couplings.tobytes() == model.couplings.tobytes()


@pytest.mark.parametrize("layout", [np.asfortranarray, np.transpose, lambda a: a[::-1, ::-1]])
def test_any_memory_layout_keeps_its_numbers(tmp_path: Path, layout: Any) -> None:
    weights = layout(np.arange(9.0).reshape(3, 3) / 7)
    model = BoltzmannMachine(weights, [1, 2, 3])
    assert np.array_equal(round_trip(model, tmp_path).weights, (weights + weights.T) / 2)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_array, sparse.coo_matrix])
@pytest.mark.parametrize("cls", [BoltzmannMachine, IsingModel])
def test_sparse_couplings_stay_sparse_with_their_pattern(
    tmp_path: Path, make: Any, cls: Any
) -> None:
    entries = (
        np.array([0.1, 0.1, 0.0, 0.7]),
        (np.array([0, 1, 1, 2]), np.array([1, 0, 3, 2])),
    )
    matrix = make(sparse.coo_array(entries, shape=(4, 4)))
    model = cls(matrix, np.zeros(4), offset=0.3)
    back = round_trip(model, tmp_path)
    assert sparse.issparse(back.weights if cls is BoltzmannMachine else back.couplings)
    assert back.equals(model)
    # The stored zero at (1, 3) is a parameter and stays one.
    assert [pair.tolist() for pair in back.pairs] == [[0, 1], [1, 3]]
    assert np.array_equal(back.parameters, model.parameters)


@pytest.mark.parametrize(
    "space", [Binary(2, names=["a", "b"]), Spins(2), Levels(1, 4, names=["site"])]
)
def test_tables_keep_forbidden_states_and_their_space(tmp_path: Path, space: Any) -> None:
    model = TabularModel([0.1, np.inf, -3.0, 1 / 3], space)
    back = round_trip(model, tmp_path)
    assert back.equals(model)
    assert back.space == space
    assert back.energies.tobytes() == model.energies.tobytes()


def test_what_is_read_is_read_only(tmp_path: Path) -> None:
    back = round_trip(IsingModel([[0, 1], [1, 0]], [0, 0]), tmp_path)
    with pytest.raises(ValueError, match="read-only"):
        back.fields[0] = 1


# Writing


def test_the_path_is_taken_as_it_is(tmp_path: Path) -> None:
    save(IsingModel([[0, 1], [1, 0]], [0, 0]), tmp_path / "fit.model")
    assert [path.name for path in tmp_path.iterdir()] == ["fit.model"]
    assert load(str(tmp_path / "fit.model")).n == 2


def test_a_file_that_is_there_stays_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_text("precious")
    model = IsingModel([[0, 1], [1, 0]], [0, 0])
    with pytest.raises(FileExistsError, match=r"overwrite=True.*model\.npz"):
        save(model, path)
    assert path.read_text() == "precious"
    save(model, path, overwrite=True)
    assert load(path).equals(model)


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file_alone(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    path = tmp_path / "model.npz"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path, overwrite=True) as file:
            file.write(b"half of the ne")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_written_files_have_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "ordinary").write_text("")
    with atomic_write(tmp_path / "ours") as file:
        file.write(b"")
    modes = [stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("ordinary", "ours")]
    assert modes[0] == modes[1]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such folder.*absent"):
        save(IsingModel([[0, 1], [1, 0]], [0, 0]), tmp_path / "absent" / "model.npz")


def test_a_class_of_ones_own_is_refused_before_writing(tmp_path: Path) -> None:
    class Own(EnergyModel):
        space = Binary(2)

        def energy(self, states: Any) -> Any:
            return np.zeros(np.shape(states)[:-1])

    with pytest.raises(FileFormatError, match=r"class Own .*BoltzmannMachine.*numpy\.savez"):
        save(Own(), tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


# Reading what is not a model


def archive(path: Path, header: Any, **arrays: Any) -> Path:
    record = header if isinstance(header, str) else json.dumps(header)
    np.savez(path, ebm_model=np.array(record), **arrays)
    return path


SPACE = {"class": "Binary", "n": 2, "names": None}
GOOD = {"format_version": 1, "class": "IsingModel", "space": SPACE | {"class": "Spins"}}
FIELDS = {"couplings": np.eye(2), "fields": np.zeros(2), "offset": np.array(0.0)}


def test_the_header_of_these_tests_is_readable(tmp_path: Path) -> None:
    assert load(archive(tmp_path / "x.npz", GOOD, **FIELDS)).n == 2


@pytest.mark.parametrize(
    ("header", "fields", "message"),
    [
        (GOOD | {"format_version": 2}, FIELDS, "format version 2.*upgrade ebm-framework"),
        (GOOD | {"class": "Perceptron"}, FIELDS, "holds a Perceptron"),
        (GOOD | {"space": SPACE | {"class": "Torus"}}, FIELDS, "damaged.*Torus"),
        (GOOD | {"space": None}, FIELDS, "damaged"),
        (GOOD, FIELDS | {"fields": np.zeros(3)}, r"damaged.*shape \(3, 3\)"),
        (GOOD, {"couplings": np.eye(2)}, "damaged.*fields"),
        (GOOD, {"fields": np.zeros(2)}, "damaged.*couplings"),
        ({"class": "IsingModel"}, FIELDS, "unreadable record"),
        ("[1, 2", FIELDS, "unreadable record"),
        ("7", FIELDS, "unreadable record"),
    ],
)
def test_records_that_are_wrong(
    tmp_path: Path, header: Any, fields: dict[str, Any], message: str
) -> None:
    path = archive(tmp_path / "x.npz", header, **fields)
    with pytest.raises(FileFormatError, match=message) as error:
        load(path)
    assert "\n" not in str(error.value)
    assert "x.npz" in str(error.value)


@pytest.mark.parametrize("content", [b"", b"a,b\n0,1\n", b"PK\x03\x04", b"\x93NUMPY"])
def test_files_that_are_no_archive(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(FileFormatError, match="not a model file"):
        load(tmp_path / "x.npz")


def test_other_numpy_files_are_no_models(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=np.eye(2))
    np.save(tmp_path / "x.npy", np.eye(2))
    np.savez(tmp_path / "o.npz", ebm_model=np.array([{}], dtype=object))
    for name in ("x.npz", "x.npy", "o.npz"):
        with pytest.raises(FileFormatError, match="not a model file"):
            load(tmp_path / name)


@given(st.integers(0, 10_000), st.integers(0, 255))
@settings(FILE_TEST, max_examples=150)
def test_a_flipped_byte_is_an_error_of_ours_or_does_no_harm(
    tmp_path: Path, place: int, value: int
) -> None:
    path = tmp_path / "model.npz"
    model = IsingModel([[0, 1], [1, 0]], [0.1, 0.2], names=["a", "b"])
    save(model, path, overwrite=True)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = value
    path.write_bytes(content)
    try:
        back = load(path)
    except EbmError:
        return
    assert back.equals(model)


def test_links_stay_links_and_modes_stay_modes(tmp_path: Path) -> None:
    model = BoltzmannMachine(np.zeros((2, 2)), [1, 2])
    target, link = tmp_path / "model.npz", tmp_path / "link.npz"
    ebm.save(model, target)
    target.chmod(0o600)
    link.symlink_to(target)
    ebm.save(model, link, overwrite=True)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError, match="not a regular file"):
        ebm.save(BoltzmannMachine(np.zeros((2, 2)), [1, 2]), pipe, overwrite=True)
    assert not pipe.is_file()


# Models made of another model

STAR = [[0, 0, 1], [0, 0, 0.3], [1, 0.3, 0]]
JOINT = [
    IsingModel(STAR, [0.1, 0, -0.2], names=["a", "b", "c"]),
    BoltzmannMachine(sparse.csr_array(STAR), [0.1, 0, -0.2]),
    ebm.InteractionModel({(0, 1, 2): 0.4, (1,): 0.1}, Binary(3)),
    ebm.RestrictedBoltzmannMachine(np.array(STAR), [0.1, 0, -0.2], [0, 0, 1]),
    TabularModel([0, 1, 2, np.inf, 3, 4, 5, 6.0], Binary(3, names=["a", "b", "c"])),
]


@pytest.mark.parametrize("joint", JOINT, ids=lambda joint: type(joint).__name__)
def test_marginals_come_back_as_their_joint_model_and_what_they_keep(
    tmp_path: Path, joint: Any
) -> None:
    marginal = ebm.marginalize(joint, keep=[2, 0])
    back = round_trip(marginal, tmp_path)
    assert type(back) is type(marginal)
    assert back.equals(marginal)
    assert back.keep == (2, 0)
    assert back.space == marginal.space
    assert back.model.equals(joint)
    states = marginal.space.states_at(np.arange(4))
    assert np.array_equal(back.energy(states), marginal.energy(states))
    twice = ebm.MarginalModel(marginal, (1,))
    assert round_trip(twice, tmp_path).equals(twice)


def test_a_joint_model_of_a_newer_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    save(ebm.marginalize(JOINT[0], keep=[0]), path)
    arrays = dict(np.load(path))
    header = json.loads(str(arrays["ebm_model"]))
    header["model"]["class"] = "Futuristic"
    np.savez(path, **arrays | {"ebm_model": np.array(json.dumps(header))})
    with pytest.raises(FileFormatError, match="holds a Futuristic"):
        load(path)


def test_models_made_of_ones_own_say_what_to_save(tmp_path: Path) -> None:
    class Own(EnergyModel):
        space = Spins(3)

        def energy(self, states: Any) -> Any:
            return -0.5 * np.prod(states, axis=-1)

    with pytest.raises(FileFormatError, match=r"class Own cannot.*savez"):
        save(ebm.marginalize(Own(), keep=[0]), tmp_path / "model.npz")
    with pytest.raises(FileFormatError, match=r"model\.model, with numpy\.savez, and take given"):
        save(Own().given({0: 1}), tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())
