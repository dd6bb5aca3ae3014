"""What works with arrays of numpy copies tensors of any device to the host."""

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import ebm
from ebm.information import (
    Layer,
    LayerInformation,
    SoftmaxLayer,
    Tanh,
    chain_fisher,
    relative_fisher,
)
from tests.device_in_disguise import device_in_disguise, needs_disguise

pytestmark = needs_disguise
DRAWS = np.random.default_rng(0)
STATES = (DRAWS.random((40, 3)) > 0.4).astype(float)
WEIGHTS, REFERENCES = DRAWS.normal(size=(2, 3)), DRAWS.normal(size=(5, 3))
INFORMATION = DRAWS.random((5, 2))


@pytest.fixture
def moved():
    """From arrays to tensors of the device that want a gradient."""
    with device_in_disguise() as device:
        yield lambda array: torch.from_numpy(np.array(array)).to(device).requires_grad_()


@pytest.mark.parametrize(
    "answer",
    [
        lambda give: ebm.Ensemble.from_data(give(STATES)).weights,
        lambda give: ebm.Ensemble.from_data(STATES, sample_weight=give(STATES[:, 0] + 1)).weights,
        lambda give: Layer(give(WEIGHTS), give(WEIGHTS[:, 0]), response=Tanh()).weights,
        lambda give: LayerInformation(give(INFORMATION), give(REFERENCES)).dense(),
        lambda give: relative_fisher(SoftmaxLayer(give(WEIGHTS)), give(REFERENCES)).dense(),
        lambda give: chain_fisher([Layer(give(WEIGHTS))], give(REFERENCES)).dense(),
        lambda give: relative_fisher(Layer(WEIGHTS), REFERENCES).matvec(give(WEIGHTS.ravel())),
        lambda give: ebm.BoltzmannMachine(give(np.zeros((3, 3))), give(WEIGHTS[0])).energy(
            give(STATES)
        ),
    ],
)
def test_numbers_are_read_wherever_they_are(moved, answer):
    """The same to the last bit as of arrays."""
    np.testing.assert_array_equal(answer(moved), answer(lambda array: array))
