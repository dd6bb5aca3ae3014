"""Rows and labels that are refused, each by name."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

pytest.importorskip("torch")

import torch

from ebm.errors import (
    CodingError,
    EbmError,
    MissingValueError,
    ModelError,
    NamesError,
    ShapeError,
)
from tests.networks.systems import softmax_mlp

Z = np.linspace(-1, 1, 12).reshape(6, 2)
LABELS = [0, 1, 2, 0, 1, 2]
FIRST = np.arange(6) == 0
PAIRS = torch.utils.data.TensorDataset(torch.from_numpy(Z), torch.tensor(LABELS))


def build(inputs=Z, labels=LABELS, **keywords):
    """A system of these rows."""
    return softmax_mlp(inputs, labels, 3, **keywords)


def test_labels_and_weights_of_a_series_are_paired_with_a_frame_by_their_labels():
    """Rows of a shuffled frame beside a series that was not shuffled with it."""
    frame = pd.DataFrame(Z, index=list("uvwxyz"))
    labels, weights = pd.Series(LABELS, frame.index), pd.Series(np.arange(1.0, 7), frame.index)
    wanted = build(sample_weight=weights.to_numpy())
    theta = np.linspace(-1, 1, wanted.space.n)
    for order in (list("zyxwvu"), list("wuyvzx")):
        own = build(frame.loc[order], labels, sample_weight=weights)
        np.testing.assert_allclose(own.energy(theta), wanted.energy(theta), rtol=1e-12)
    assert build(frame, labels.to_numpy()).energy(theta) == build().energy(theta)
    with pytest.raises(NamesError, match="labels of labels must be those of the rows"):
        build(frame, labels.rename({"u": "other"}))


def with_entry(value):
    """The rows with one entry changed."""
    z = Z.copy()
    z[4, 1] = value
    return z


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (CodingError, "0 … M−1, here 0 … 2, got -1", {"labels": [0, 1, 2, 0, -1, 2]}),
        (CodingError, "here 0 … 1, got 2", {"n_classes": 2}),
        (CodingError, "got none in 1: number the classes", {"labels": [0, 2, 2, 0, 2, 2]}),
        (CodingError, "got none in 3, 4", {"n_classes": 5}),
        (CodingError, "got none in 2", {"sample_weight": [1, 1, 0, 1, 1, 0]}),
        (
            CodingError,
            "got none in 0, 1, 2 and 2017 more: number",
            {"labels": [2020, 2021, 2022] * 2},
        ),
        (CodingError, "got none in 3, 4, 5 and 999999999994 more", {"n_classes": 10**12}),
        (CodingError, "at least two classes", {"labels": [0] * 6}),
        (CodingError, "labels must be integers 0 … M−1, got float64", {"labels": [0.0] * 6}),
        (CodingError, "got torch.bfloat16", {"labels": torch.zeros(6, dtype=torch.bfloat16)}),
        (CodingError, "got bool: np.unique(labels, return_inverse=True)", {"labels": [True] * 6}),
        (CodingError, "np.unique(labels, return_inverse=True)[1]", {"labels": list("ynynyn")}),
        (ModelError, "labels must have no masked", {"labels": np.ma.masked_array(LABELS, FIRST)}),
        *(
            (ShapeError, "n_classes must be a positive integer", {"n_classes": wrong})
            for wrong in (0, -1, True, 3.0, "3", [3], np.array([3]))
        ),
        (ShapeError, "labels must have shape (6,), one a row, got (5,)", {"labels": LABELS[:5]}),
        (CodingError, "inputs must be floats, got int64: scale", {"inputs": np.ones((6, 2), int)}),
        (CodingError, "inputs must be floats, got uint8", {"inputs": np.ones((6, 2), np.uint8)}),
        (CodingError, "got torch.int64", {"inputs": torch.ones(6, 2, dtype=torch.int64)}),
        (CodingError, "got object: convert them by", {"inputs": Z.astype(object)}),
        (ModelError, "inputs must hold numbers, got text", {"inputs": [["a", "b"]] * 6}),
        (ModelError, "real numbers, got complex", {"inputs": Z + 1j}),
        (ModelError, "real numbers, got complex", {"inputs": torch.from_numpy(Z + 1j)}),
        (ModelError, "no masked", {"inputs": np.ma.masked_array(Z, Z > 0.9)}),
        (ModelError, "sparse tensor: use .to_dense()", {"inputs": torch.from_numpy(Z).to_sparse()}),
        (ModelError, "got csr_array: use .toarray()", {"inputs": scipy.sparse.csr_array(Z)}),
        (ModelError, "wrap it in a torch.utils.data.DataLoader", {"inputs": PAIRS}),
        (ShapeError, "inputs must not be ragged", {"inputs": [[1.0], [1.0, 2.0]] * 3}),
        (
            MissingValueError,
            "finite in torch.float32, got -inf in row 0, column 0",
            {"inputs": 1e300 * Z, "dtype": "float32"},
        ),
        (MissingValueError, "got nan in row 4, column 1", {"inputs": with_entry(np.nan)}),
        (MissingValueError, "got -inf in row 4, column 1", {"inputs": with_entry(-np.inf)}),
        (ShapeError, "flatten images to rows", {"inputs": np.zeros((6, 2, 2))}),
        (ShapeError, "inputs must have shape (N, E)", {"inputs": np.zeros((0, 2)), "labels": []}),
        (ShapeError, "sample_weight must have shape (6,)", {"sample_weight": [1.0]}),
        (ModelError, "finite and not negative", {"sample_weight": [1, 1, 1, 1, 1, -1]}),
        (ModelError, "finite and not negative", {"sample_weight": [1, 1, 1, 1, 1, np.nan]}),
        (
            ModelError,
            "sample_weight must hold real numbers",
            {"sample_weight": torch.ones(6, dtype=torch.complex64)},
        ),
        (ModelError, "must not be zero everywhere", {"sample_weight": [0] * 6}),
        (ModelError, "dtype must be float32 or float64", {"dtype": "float16"}),
        (
            EbmError,
            "device must be one that torch can use here, got 'toaster'",
            {"device": "toaster"},
        ),
    ],
)
def test_bad_rows(error, message, arguments):
    """Before any work, saying what was got."""
    with pytest.raises(error, match=re.escape(message)):
        build(**arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what happens without a GPU")
def test_a_gpu_that_is_not_there():
    """Named, with what to do."""
    with pytest.raises(EbmError, match=r"got 'cuda'.*use device='cpu'"):
        build(device="cuda")


def loader(labels=LABELS, **keywords):
    """A DataLoader over the rows."""
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(Z), torch.tensor(labels))
    return torch.utils.data.DataLoader(pairs, **keywords)


def test_a_shuffled_loader():
    """Two passes disagree, at the start or later."""
    torch.manual_seed(0)
    with pytest.raises(EbmError, match=r"two passes over the DataLoader.*shuffle=False"):
        build(loader(batch_size=2, shuffle=True), None)
    rows = Z.copy()
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(rows), torch.tensor(LABELS))
    system = build(torch.utils.data.DataLoader(pairs, batch_size=4), None)
    theta = np.ones(system.space.n)
    system.energy(theta)
    rows[0, 0] += 1e-3
    with pytest.raises(EbmError, match="shuffle"):
        system.energy(theta)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_loader_that_grows_or_shrinks(change):
    class Changing(torch.utils.data.IterableDataset):
        n = 4

        def __iter__(self):
            self.n += change
            return iter(list(zip(torch.from_numpy(Z), LABELS, strict=True))[: self.n])

    with pytest.raises(EbmError, match="two passes over the DataLoader gave different rows"):
        build(torch.utils.data.DataLoader(Changing(), batch_size=9), None)


def test_bad_loaders():
    """No pairs, labels twice, NaN, an empty class."""
    with pytest.raises(ModelError, match="labels must be None with a DataLoader"):
        build(loader(batch_size=2), LABELS)
    only = torch.utils.data.DataLoader(torch.from_numpy(Z), batch_size=2)
    with pytest.raises(ModelError, match="must yield pairs"):
        build(only, None)
    # One column after the other, which would be read as rows.
    columns = torch.utils.data.DataLoader([(row.tolist(), 0) for row in Z], batch_size=2)
    with pytest.raises(ModelError, match="inputs as one tensor a batch, got list"):
        build(columns, None)
    with pytest.raises(CodingError, match="got none in 1"):
        build(loader([0, 2, 2, 0, 2, 2], batch_size=4), None)
    pairs = torch.utils.data.TensorDataset(
        torch.from_numpy(with_entry(np.nan)), torch.tensor(LABELS)
    )
    with pytest.raises(MissingValueError, match="row 4, column 1"):
        build(torch.utils.data.DataLoader(pairs, batch_size=3), None)


def test_other_kinds_of_rows():
    """Half precision is computed in float32; integer labels of any width; lists; byte order."""
    assert build(Z.astype(np.float16)).dtype == torch.float32
    assert build(torch.from_numpy(Z).float()).dtype == torch.float32
    assert build(Z.tolist(), np.array(LABELS, np.uint8)).dtype == torch.float64
    assert build(Z, dtype=np.float32).dtype == torch.float32
    theta = np.linspace(-1, 1, build().space.n)
    assert build(Z.astype(">f8")).energy(theta) == build().energy(theta)
    assert build(Z.astype(np.longdouble)).energy(theta) == build().energy(theta)
    half = torch.from_numpy(Z).bfloat16()
    loaded = torch.utils.data.TensorDataset(half, torch.tensor(LABELS))
    loaded = build(torch.utils.data.DataLoader(loaded, batch_size=4), None)
    assert loaded.energy(theta) == pytest.approx(float(build(half).energy(theta)), rel=1e-6)
    arrays = [(Z[:4], np.array(LABELS[:4])), (Z[4:], np.array(LABELS[4:]))]
    arrays = build(torch.utils.data.DataLoader(arrays, batch_size=None), None)
    assert arrays.energy(theta) == pytest.approx(float(build().energy(theta)), rel=1e-14)
    assert build(np.asfortranarray(Z)).energy(theta) == pytest.approx(float(build().energy(theta)))


def test_weights_of_any_size():
    """Only ratios matter, also where their sum would overflow, or be next to nothing."""
    theta = np.linspace(-1, 1, build().space.n)
    for size in (1e308, 5e-324):
        got = build(sample_weight=[size] * 6).energy(theta)
        assert got == pytest.approx(float(build().energy(theta)), rel=1e-14)


@pytest.mark.parametrize("use", ["energy", "state_gradient"])
def test_another_default_device_or_dtype_of_torch(use):
    """What stays on the CPU stays there; what is not half stays so."""
    theta = np.linspace(-1, 1, build().space.n)
    wanted = getattr(build(), use)(theta)
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float16)
        got = getattr(build(sample_weight=[2] * 6), use)(theta)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose(got, wanted, rtol=1e-14)
