"""A user's gradient is held against differences of the energy before a fit."""

import numpy as np
import pytest

import ebm
from ebm.errors import ModelError
from ebm.learning._own_gradients import require_own_gradient

SPACE = ebm.Spins(5)
ROWS = np.random.default_rng(0).choice([-1, 1], (200, 5))


class Curved(ebm.ParametricModel):
    """E(x; θ) = −Σ_k u(θ_k) f_k(x) over p features, a factor for each entry of the gradient."""

    u, slope = staticmethod(lambda t: t), staticmethod(np.ones_like)

    def __init__(self, theta, factors=1.0, dtype=float):
        self.space, self.theta = SPACE, np.asarray(theta, dtype=float)
        self.factors, self.dtype = factors, dtype

    @property
    def parameters(self):
        return self.theta

    def with_parameters(self, theta):
        return type(self)(theta, self.factors, self.dtype)

    def features(self, states):
        s = np.asarray(states, dtype=self.dtype)
        masks = np.arange(1, len(self.theta) + 1)[:, None] >> np.arange(5) & 1
        return np.where(masks, s[..., None, :], 1).prod(axis=-1).astype(self.dtype)

    def energy(self, states):
        return -self.features(states) @ self.u(self.theta).astype(self.dtype)

    def energy_gradient(self, states):
        return -self.features(states) * (self.slope(self.theta) * self.factors).astype(self.dtype)


class Exponential(Curved):
    u, slope = staticmethod(np.exp), staticmethod(np.exp)


class Steep(Curved):
    u = staticmethod(lambda t: np.sin(10 * t))
    slope = staticmethod(lambda t: 10 * np.cos(10 * t))


class Rectified(Curved):
    u = staticmethod(lambda t: np.maximum(t, 0))
    slope = staticmethod(lambda t: (t > 0).astype(float))


class Root(Curved):
    """Of positive parameters alone."""

    u, slope = staticmethod(np.sqrt), staticmethod(lambda t: 0.5 / np.sqrt(t))

    def with_parameters(self, theta):
        if (np.asarray(theta) < 0).any():
            raise ValueError("parameters must be positive")
        return super().with_parameters(theta)


KINDS = [Curved, Exponential, Steep, Rectified, Root]


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("size", [0.0, 1e-8, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("kind", KINDS)
def test_no_true_gradient_is_refused(kind, size, dtype):
    if kind is Exponential and size > 100:
        pytest.skip("energies overflow")
    for seed in range(5):
        theta = size * np.abs(np.random.default_rng(seed).normal(size=31))
        assert require_own_gradient(kind(theta, dtype=dtype)) is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_half_precision_is_no_wrong_gradient(size, seed):
    theta = size * np.random.default_rng(seed).normal(size=2)
    assert require_own_gradient(Curved(theta, dtype=np.float16)) is None


@pytest.mark.parametrize("factors", [[-1, -1], [-1, 1], [1, 3], [0, 1]])
def test_half_precision_does_not_hide_a_wrong_one(factors):
    with pytest.raises(ModelError, match="energy_gradient"):
        require_own_gradient(Curved(np.zeros(2), np.array(factors), np.float16))


@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.5, 1.01, 2.0])
@pytest.mark.parametrize("wrong", [0, 17, 30])
@pytest.mark.parametrize("kind", [Curved, Exponential, Rectified, Root])
def test_a_wrong_entry_is_named(kind, wrong, factor):
    if factor == 1.01 and kind is not Curved:
        pytest.skip("a percent is within the error of differences here")
    factors = np.ones(31)
    factors[wrong] = factor
    with pytest.raises(ModelError, match=rf"energy_gradient .*parameter {wrong} as"):
        require_own_gradient(kind(np.full(31, 0.3), factors))


def test_a_fit_refuses_a_wrong_gradient_with_the_name_of_the_parameter():
    class Named(Curved):
        parameter_names = ("field", "bond")

    assert ebm.fit(Named([0.0, 0.0]), ROWS).converged
    with pytest.raises(ModelError, match=r"Named\.energy_gradient .*'bond' .*the sign is wrong"):
        ebm.fit(Named([0.0, 0.0], [1, -1]), ROWS)
    with pytest.raises(ModelError, match=r"'field' as .*look for a factor"):
        ebm.fit(Named([0.0, 0.0], [2, 1]), ROWS)


def test_parameters_that_are_dropped_are_a_reason_too():
    class Dropping(Curved):
        def with_parameters(self, theta):
            return Dropping(np.append(theta[:1], 0.0))

    with pytest.raises(ModelError, match=r"parameter 1 .*with_parameters that drops it"):
        ebm.fit(Dropping([0.0, 0.0]), ROWS)


def test_forbidden_states_and_continuous_ones_are_compared_where_the_energy_is_finite():
    class HardCore(Curved):
        def energy(self, states):
            energy = super().energy(states)
            return np.where((np.asarray(states) == 1).sum(axis=-1) > 3, np.inf, energy)

    require_own_gradient(HardCore(np.zeros(4)))
    with pytest.raises(ModelError, match="parameter 2"):
        require_own_gradient(HardCore(np.zeros(4), [1, 1, 2, 1]))

    class Exclusive(Curved):
        """One spin is up: none of the states drawn at random is allowed."""

        def energy(self, states):
            energy = super().energy(states)
            return np.where((np.asarray(states) == 1).sum(axis=-1) == 1, energy, np.inf)

    with pytest.raises(ModelError, match="parameter 1"):
        ebm.fit(Exclusive(np.zeros(4), [1, -1, 1, 1]), 2 * np.eye(5) - 1)

    class Oscillator(ebm.ParametricModel):
        space, parameters, factor = ebm.spaces.Reals(2), np.ones(1), 1.0

        def with_parameters(self, theta):
            changed = type(self)()
            changed.parameters = np.asarray(theta)
            return changed

        def energy(self, states):
            return 0.5 * self.parameters[0] * (np.asarray(states) ** 2).sum(axis=-1)

        def energy_gradient(self, states):
            return 0.5 * self.factor * (np.asarray(states) ** 2).sum(axis=-1, keepdims=True)

    class Doubled(Oscillator):
        factor = 2.0

    require_own_gradient(Oscillator())
    with pytest.raises(ModelError, match="parameter 0"):
        require_own_gradient(Doubled())
