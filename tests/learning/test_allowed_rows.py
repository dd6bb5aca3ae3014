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


SAMPLED = ebm.Likelihood(ebm.PersistentChains(20), completion=ebm.ClampedChains())


def with_a_hole(rows):
    """The rows as floats; the second unit of the second one is missing."""
    rows = np.array(rows, dtype=float)
    rows[1, 1] = np.nan
    return ebm.IncompleteEnsemble.from_data(rows)


@pytest.mark.filterwarnings("ignore")
def test_cells_that_chains_fill_in_are_never_those_that_are_forbidden():
    # Draws of the column of the missing cell are mostly 1, which its row forbids.
    rows = with_a_hole([[0, 1, 1, 0], [1, 0, 1, 1], *[[0, 1, 0, 1]] * 20, [0, 0, 0, 0]])
    result = ebm.fit(HardCore(), rows, loss=SAMPLED, solver=STEPS, rng=0)
    assert np.isfinite(result.model.parameters).all()
    assert not result.ensemble.states[:, :2].all(axis=1).any()


@pytest.mark.filterwarnings("ignore")
def test_rows_beside_which_chains_find_nothing_allowed():
    family = ebm.marginalize(HardCore(), [0, 1, 3])
    with pytest.raises(ModelError, match=r"beside the row \[1 1 1\], as if HardCore forbade"):
        ebm.fit(family, FORBIDDEN[:, [0, 1, 3]], loss=SAMPLED, solver=STEPS, rng=0)
    holes = FORBIDDEN.astype(float)
    holes[-1, 2] = np.nan
    data = ebm.IncompleteEnsemble.from_data(holes)
    with pytest.raises(ModelError, match="HardCore forbids the state"):
        ebm.fit(HardCore(), data, loss=SAMPLED, solver=STEPS, rng=0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("restarts", [0.0, 0.5])
def test_hidden_units_of_chains_start_where_they_are_allowed_beside_rows(restarts):
    # The second unit, summed out, is 0 wherever the first is 1.
    family = ebm.marginalize(HardCore(), [0, 2, 3])
    chains = ebm.PersistentChains(200, restarts=restarts)
    loss = ebm.Likelihood(chains, completion=ebm.ClampedChains())
    result = ebm.fit(family, ALLOWED[:, [0, 2, 3]], loss=loss, solver=STEPS, rng=0)
    assert np.isfinite(result.model.parameters).all()
    assert not result.ensemble.states[:, :2].all(axis=1).any()
