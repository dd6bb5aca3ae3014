"""Rows that a model forbids are refused by name, whatever they are for."""

import numpy as np
import pytest

import ebm
from ebm.errors import ModelError


class HardCore(ebm.ParametricModel):
    """Units of one activity; the first two are never active together."""

    space, parameters = ebm.Binary(4), np.zeros(1)

    def __init__(self, theta=(0.0,), names=None):
        self.parameters = np.asarray(theta, dtype=float)
        self.space = ebm.Binary(4, names=names)

    def with_parameters(self, theta):
        return HardCore(theta, self.space.names)

    def energy(self, states):
        x = np.asarray(states)
        return np.where(x[..., :2].all(-1), np.inf, -self.parameters[0] * x.sum(-1))

    def energy_gradient(self, states):
        return -np.sum(states, axis=-1, keepdims=True)


ALLOWED = np.array([[0, 0, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0]] * 3)
FORBIDDEN = np.vstack([ALLOWED, [[1, 1, 0, 1]]])
STEPS = ebm.GradientSteps(n_epochs=2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", [None, ebm.LBFGS(), STEPS])
def test_rows_of_the_data(solver):
    with pytest.raises(ModelError, match=r"rows of the data: .*\[1 1 0 1\], .*0\.1 of all rows"):
        ebm.fit(HardCore(), FORBIDDEN, solver=solver)
    with pytest.raises(ModelError, match="a = 1, b = 1, c = 0, d = 1"):
        ebm.fit(HardCore(names=list("abcd")), FORBIDDEN, solver=solver)
    assert np.isfinite(ebm.fit(HardCore(), ALLOWED, solver=solver).log_likelihood)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keep", [None, [0, 1, 3]])
def test_validation_rows(keep):
    family, columns = HardCore(), slice(None)
    if keep:
        family, columns = ebm.marginalize(family, keep), keep
    for rows in (FORBIDDEN[:, columns], ebm.Ensemble.from_data(FORBIDDEN[:, columns])):
        with pytest.raises(ModelError, match=r"validation rows: HardCore forbids .*\[1 1 .*1\]"):
            ebm.fit(
                family,
                ALLOWED[:, columns],
                solver=ebm.GradientSteps(n_epochs=2, validation=rows),
            )
    held = ebm.GradientSteps(n_epochs=2, validation=ALLOWED[:, columns])
    result = ebm.fit(family, ALLOWED[:, columns], solver=held)
    assert np.isfinite([epoch.free_energy_gap for epoch in result.history]).all()


def test_states_of_weight_zero_may_be_forbidden():
    """Those of an exact ensemble are visited, too."""
    truth = HardCore([0.3])
    assert ebm.fit(HardCore(), ebm.exact(truth)).model.parameters == pytest.approx([0.3])
