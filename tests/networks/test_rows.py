"""Rows and labels that are refused, each by name."""

import re

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import ebm.networks
from ebm.errors import (
    CodingError,
    EbmError,
    MissingValueError,
    ModelError,
    ShapeError,
)

Z = np.linspace(-1, 1, 12).reshape(6, 2)
LABELS = [0, 1, 2, 0, 1, 2]


def build(inputs=Z, labels=LABELS, **keywords):
    """A system of these rows."""
    return ebm.networks.SoftmaxMLPAction(inputs, labels, 3, **keywords)


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
        (CodingError, "at least two classes", {"labels": [0] * 6}),
        (CodingError, "labels must be integers 0 … M−1, got float64", {"labels": [0.0] * 6}),
        (CodingError, "labels must be integers", {"labels": ["a"] * 6}),
        (ShapeError, "labels must have shape (6,), one a row, got (5,)", {"labels": LABELS[:5]}),
        (CodingError, "inputs must be floats, got int64: scale", {"inputs": np.ones((6, 2), int)}),
        (CodingError, "inputs must be floats, got uint8", {"inputs": np.ones((6, 2), np.uint8)}),
        (CodingError, "got torch.int64", {"inputs": torch.ones(6, 2, dtype=torch.int64)}),
        (ModelError, "inputs must hold numbers, got text", {"inputs": [["a", "b"]] * 6}),
        (MissingValueError, "got nan in row 4, column 1", {"inputs": with_entry(np.nan)}),
        (MissingValueError, "got -inf in row 4, column 1", {"inputs": with_entry(-np.inf)}),
        (ShapeError, "flatten images to rows", {"inputs": np.zeros((6, 2, 2))}),
        (ShapeError, "inputs must have shape (N, E)", {"inputs": np.zeros((0, 2)), "labels": []}),
        (ShapeError, "sample_weight must have shape (6,)", {"sample_weight": [1.0]}),
        (ModelError, "finite and not negative", {"sample_weight": [1, 1, 1, 1, 1, -1]}),
        (ModelError, "finite and not negative", {"sample_weight": [1, 1, 1, 1, 1, np.nan]}),
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
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


def test_bad_loaders():
    """No pairs, labels twice, NaN, an empty class."""
    with pytest.raises(ModelError, match="labels must be None with a DataLoader"):
        build(loader(batch_size=2), LABELS)
    only = torch.utils.data.DataLoader(torch.from_numpy(Z), batch_size=2)
    with pytest.raises(ModelError, match="must yield pairs"):
        build(only, None)
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
    assert build(np.asfortranarray(Z)).energy(theta) == pytest.approx(float(build().energy(theta)))
