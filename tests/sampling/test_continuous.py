"""Langevin and Hamiltonian chains: no drift, averages that are known, refusals."""

import numpy as np
import pytest

import ebm
from ebm.errors import MemoryLimitError, ModelError, PoorMixingWarning, ShapeError
from ebm.sampling._streams import SeededRun
from ebm.sampling.hamiltonian import HamiltonianMonteCarlo, Langevin
from tests.statistical import check_mean, check_z_scores

ROOT = np.random.default_rng(7).normal(size=(3, 3))
PRECISION = ROOT @ ROOT.T + 0.3 * np.eye(3)
CENTER = np.array([0.5, -1.0, 2.0])


class Gaussian(ebm.EnergyModel):
    """E = ½ (x − μ)ᵀ A (x − μ)."""

    space = ebm.Reals(3)

    def energy(self, states):
        x = np.asarray(states) - CENTER
        return 0.5 * np.einsum("...i,ij,...j", x, PRECISION, x)

    def state_gradient(self, states):
        return (np.asarray(states) - CENTER) @ PRECISION


SAMPLERS = {
    "langevin": Langevin(0.7),
    "langevin with masses": Langevin(0.9, mass=[1.0, 3.0, 2.0]),
    "hybrid": HamiltonianMonteCarlo(0.55, 5),
    "hybrid with masses": HamiltonianMonteCarlo(1.0, 3, mass=[1.0, 3.0, 2.0], jitter=0.4),
}


def exact_draws(n, rng):
    """Independent draws of the Gaussian."""
    half = np.linalg.cholesky(np.linalg.inv(PRECISION))
    return CENTER + np.random.default_rng(rng).standard_normal((n, 3)) @ half.T


@pytest.mark.parametrize("name", SAMPLERS)
def test_chains_do_not_drift(name):
    """Exact draws stay exact draws at a step that is often refused."""
    start = exact_draws(40_000, 1)
    samples = ebm.sample(
        Gaussian(),
        SAMPLERS[name],
        n_draws=1,
        burn_in=4,
        initial=start,
        rng=2,
        run=ebm.sampling.SamplingRun(observe=lambda x: x),
    )
    states = samples.final.states
    assert 0.3 < samples.acceptance.mean() < 0.96
    assert (states != start).all(axis=1).mean() > 0.5
    white = (states - CENTER) @ np.linalg.cholesky(PRECISION)
    root = np.sqrt(len(white))
    check_z_scores(white.mean(0), 0, 1 / root)
    pairs = [white[:, i] * white[:, j] for i in range(3) for j in range(i)]
    check_z_scores([pair.mean() for pair in pairs], 0, 1 / root)
    check_z_scores((white**2).mean(0), 1, np.sqrt(2) / root)
    # Beyond the second moments, which a Gaussian proposal might get right by accident.
    check_z_scores((white**4).mean(0), 3, np.sqrt(96) / root)


@pytest.mark.parametrize("name", SAMPLERS)
def test_chains_forget_their_start(name):
    """From far away; the errors that the samples report are right."""
    samples = ebm.sample(
        Gaussian(), SAMPLERS[name], n_draws=2000, n_chains=8, burn_in=200, initial=[6, 6, 6], rng=3
    )
    covariance = np.linalg.inv(PRECISION)
    assert samples.values.shape == (8, 2000, 3)
    assert (samples.r_hat < 1.1).all()
    assert (abs(samples.mean - CENTER) < 6 * samples.standard_error).all()
    errors = np.sqrt(np.diag(covariance) / samples.ess)
    np.testing.assert_allclose(samples.standard_error, errors, rtol=0.3)


def test_langevin_is_the_textbook_proposal():
    """x′ = x − ½ε² ∂E/m + ε ξ/√m with the acceptance of its own densities, by its definition."""
    step, mass = 0.9, np.array([1.0, 3.0, 2.0])
    start = exact_draws(500, 4)
    sampler = Langevin(step, mass=mass)
    moved = ebm.sample(Gaussian(), sampler, n_draws=1, burn_in=0, initial=start, rng=5).final.states
    source = SeededRun(5, start, start).source
    xi, threshold = source.standard_normal(start.shape), source.uniform(size=500)
    model = Gaussian()

    def drift(x):
        return x - 0.5 * step**2 * model.state_gradient(x) / mass

    def log_density(x, y):
        return -(mass * (y - drift(x)) ** 2).sum(-1) / (2 * step**2)

    trial = drift(start) + step * xi / np.sqrt(mass)
    gain = model.energy(start) - model.energy(trial)
    gain += log_density(trial, start) - log_density(start, trial)
    wanted = np.where((1 - threshold < np.exp(gain))[:, None], trial, start)
    np.testing.assert_allclose(moved, wanted, rtol=1e-10)


def test_runs_go_on_and_repeat():
    sampler = HamiltonianMonteCarlo(0.5, 3, jitter=0.2)
    settings = {"n_chains": 5, "burn_in": 3, "run": ebm.sampling.SamplingRun(thin=2)}
    whole = ebm.sample(Gaussian(), sampler, n_draws=9, rng=6, **settings)
    first = ebm.sample(Gaussian(), sampler, n_draws=4, rng=6, **settings)
    rest = ebm.sample(
        Gaussian(), sampler, n_draws=5, run=ebm.sampling.SamplingRun(thin=2), initial=first.final
    )
    joined = np.concatenate([first.values, rest.values], axis=1)
    np.testing.assert_array_equal(joined, whole.values)
    source = np.random.default_rng(6)
    again = ebm.sample(Gaussian(), sampler, n_draws=9, rng=source, **settings)
    np.testing.assert_array_equal(again.values, whole.values)
    other = ebm.sample(Gaussian(), sampler, n_draws=9, rng=source, **settings)
    assert not np.array_equal(other.values, whole.values)


def test_observables_are_recorded_instead_of_states():
    seen = []

    def observe(x):
        seen.append(x.copy())
        x[:] = np.nan
        return np.stack([seen[-1].sum(-1), seen[-1][:, 0] ** 2], axis=-1)

    settings = {"n_draws": 5000, "n_chains": 3, "rng": 7}
    samples = ebm.sample(
        Gaussian(), Langevin(0.5), run=ebm.sampling.SamplingRun(observe=observe), **settings
    )
    states = ebm.sample(Gaussian(), Langevin(0.5), **settings).values
    np.testing.assert_array_equal(samples.values[..., 0], states.sum(-1))
    np.testing.assert_array_equal(samples.values[..., 1], states[..., 0] ** 2)
    assert samples.mean.shape == samples.standard_error.shape == (2,)


class Walled(Gaussian):
    """Forbidden below 0 in the first coordinate, and without a value at infinity."""

    def energy(self, states):
        x = np.asarray(states)
        assert np.isfinite(x).all()
        return np.where(x[..., 0] > 0, super().energy(x), np.inf)


def test_forbidden_states_are_never_entered():
    samples = ebm.sample(Walled(), Langevin(0.6), n_draws=500, initial=CENTER, rng=8, n_chains=6)
    assert (samples.values[..., 0] > 0).all()
    assert samples.acceptance.min() > 0.2
    with pytest.raises(ModelError, match="initial must hold states of finite energy"):
        ebm.sample(Walled(), Langevin(0.6), n_draws=5, initial=-CENTER, rng=8)


def test_trajectories_that_leave_for_infinity_are_refused():
    with pytest.warns(PoorMixingWarning, match="4 of 4 chains accepted no proposal"):
        samples = ebm.sample(
            Walled(), HamiltonianMonteCarlo(50.0, 200), n_draws=20, initial=CENTER, rng=9
        )
    np.testing.assert_array_equal(samples.values, np.broadcast_to(CENTER, (4, 20, 3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("step", [1e12, 1e30, 1e60, 1e150])
def test_trajectories_to_where_an_action_overflows_are_refused(step, dtype):
    pytest.importorskip("torch")
    import ebm.networks

    rng = np.random.default_rng(10)
    z, labels = rng.normal(0.3, 1, (12, 2)), np.arange(12) % 3
    action = ebm.networks.SoftmaxMLPAction(
        z, labels, 2, prior_precision=0.7, settings=ebm.networks.RowSettings(dtype=dtype)
    )
    with pytest.warns(PoorMixingWarning, match="4 of 4 chains accepted no proposal"):
        samples = ebm.sample(action, HamiltonianMonteCarlo(step, 9), n_draws=20, rng=9)
    np.testing.assert_array_equal(samples.values[:, 0], samples.values[:, -1])


class Undecided(Walled):
    """No slope behind the wall; with a hole, none in front of it either."""

    hole = False

    def state_gradient(self, states):
        x = np.asarray(states)
        gone = (x[..., :1] <= 0) | (self.hole & (x[..., :1] < 1))
        return np.where(gone, np.nan, super().state_gradient(x))


def test_slopes_may_be_missing_where_states_are_forbidden():
    """A trajectory that meets such a state is refused; elsewhere a slope is needed."""
    settings = {"n_draws": 300, "initial": CENTER + np.eye(3)[0], "n_chains": 6}
    samples = ebm.sample(Undecided(), HamiltonianMonteCarlo(0.5, 3), rng=8, **settings)
    assert (samples.values[..., 0] > 0).all()
    assert samples.acceptance.min() > 0.2
    holed = Undecided()
    holed.hole = True
    with pytest.raises(ModelError, match="must not be NaN at a state of finite energy"):
        ebm.sample(holed, HamiltonianMonteCarlo(0.5, 3), rng=8, **settings)


def test_observables_keep_their_shape():
    """One number would otherwise be written over a whole row."""
    count = iter(range(9))
    with pytest.raises(ShapeError, match=r"observe must return one shape, got \(4, 3\) first"):
        ebm.sample(
            Gaussian(),
            Langevin(0.5),
            n_draws=9,
            run=ebm.sampling.SamplingRun(observe=lambda x: x if next(count) < 5 else x[:, :1]),
        )


@pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")
def test_the_virial_theorem_of_an_action():
    """⟨θ·∂E/∂θ⟩ = d at λ > 0, and Langevin and Hamiltonian chains agree."""
    pytest.importorskip("torch")
    import ebm.networks

    rng = np.random.default_rng(10)
    z, labels = rng.normal(0.3, 1, (12, 2)), np.arange(12) % 3
    action = ebm.networks.SoftmaxMLPAction(z, labels, 2, scale=6.0, prior_precision=0.7)
    d = action.space.n

    def virial(theta):
        return (theta * action.state_gradient(theta)).sum(-1)

    # 100 independent chains, started near the answer, whose last values have no memory of it.
    for sampler, burn_in in (
        (HamiltonianMonteCarlo(0.5, 4, jitter=0.3), 15),
        (Langevin(0.5), 60),
    ):
        samples = ebm.sample(
            action,
            sampler,
            n_draws=4,
            n_chains=100,
            burn_in=burn_in,
            rng=11,
            run=ebm.sampling.SamplingRun(observe=virial),
        )
        means = samples.values.mean(1)
        assert 0.4 < samples.acceptance.mean() < 0.999
        check_z_scores(means.mean(), d, means.std(ddof=1) / 10)


def test_an_action_without_a_prior_is_refused():
    """E11: S alone has no normalizable exp(−S)."""
    pytest.importorskip("torch")
    import ebm.networks

    action = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], 2)
    with pytest.raises(ModelError, match=r"cannot be sampled.*U → U \+ 1vᵀ"):
        ebm.sample(action, Langevin(0.1), n_draws=5)


@pytest.mark.parametrize("sampler", [None, ebm.Metropolis()])
def test_the_other_samplers_are_named(sampler):
    """Who asks Gibbs for chains over R^n is told what makes them, and the other way round."""
    with pytest.raises(ModelError, match=r"use ebm\.Langevin"):
        ebm.sample(Gaussian(), sampler, n_draws=5)
    with pytest.raises(ModelError, match=r"over finite spaces take ebm\.Gibbs"):
        ebm.sample(ebm.IsingModel([[0.0]], [0.0]), Langevin(0.1), n_draws=5)


def test_chains_that_disagree():
    """Steps too short to leave the start are accepted, and tell nothing."""
    with pytest.warns(PoorMixingWarning, match="the chains disagree: split R-hat is up to"):
        ebm.sample(Gaussian(), Langevin(1e-3), n_draws=100, burn_in=0, rng=0)


def drawn(**settings):
    """Draws, with the settings of the run beside the others."""
    kept = {k: settings.pop(k) for k in ("thin", "observe", "n_jobs") if k in settings}
    return ebm.sample(**settings, run=ebm.sampling.SamplingRun(**kept))


class Flat(Gaussian):
    def flat_directions(self):
        return ("x → x + (1, 1, 1)", "x → x + (1, 0, 0)")


class Unsloped(Gaussian):
    state_gradient = None


class Wrong(Gaussian):
    def state_gradient(self, states):
        return np.asarray(states)[..., :2]


class Undefined(Gaussian):
    def state_gradient(self, states):
        return np.full(np.shape(states), np.nan)


@pytest.mark.parametrize(
    ("model", "settings", "error", "match"),
    [
        (Flat(), {}, ModelError, r"\(1, 1, 1\); x → .* give prior_precision > 0"),
        (Unsloped(), {}, ModelError, "and a method state_gradient"),
        (Wrong(), {}, ModelError, r"must map states \(4, 3\) to the same shape, got \(4, 2\)"),
        (Undefined(), {}, ModelError, "must not be NaN at a state of finite energy"),
        (ebm.IsingModel([[0, 1], [1, 0]], [0, 0]), {}, ModelError, r"must have a space ebm.Reals"),
        (Gaussian(), {"sampler": ebm.Gibbs()}, ModelError, "use ebm.Langevin or"),
        (Gaussian(), {"sampler": Langevin(1, mass=[1, 2])}, ShapeError, r"have shape \(3,\)"),
        (Gaussian(), {"n_draws": 0}, ShapeError, "n_draws must be"),
        (Gaussian(), {"n_draws": 10**9}, MemoryLimitError, "record something smaller by observe"),
        (Gaussian(), {"n_jobs": 2}, ModelError, "n_jobs has no effect on Langevin"),
        (Gaussian(), {"thin": 0}, ShapeError, "thin must be"),
        (Gaussian(), {"burn_in": -1}, ShapeError, "burn_in must be"),
        (Gaussian(), {"initial": np.zeros((2, 2, 3))}, ShapeError, "initial must have shape"),
        (Gaussian(), {"observe": lambda x: x.sum()}, ShapeError, "observe must map states"),
        (Gaussian(), {"observe": "x"}, ModelError, "observe must be a function of the states"),
        (
            Gaussian(),
            {"observe": lambda x: np.zeros((len(x), 10**6)), "n_draws": 10**4},
            MemoryLimitError,
            "4 chains of 10000 draws of 1000000 numbers would take",
        ),
    ],
)
def test_bad_arguments_are_named(model, settings, error, match):
    with pytest.raises(error, match=match):
        drawn(**{"model": model, "sampler": Langevin(0.5), "n_draws": 5, **settings})


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"step": 0}, "step must be positive"),
        ({"step": np.inf}, "step must be positive"),
        ({"jitter": 1}, "jitter must be in"),
        ({"mass": [1, -1]}, "mass must be a positive number"),
        ({"n_leapfrog": 0}, "n_leapfrog must be"),
    ],
)
def test_bad_settings_of_samplers_are_named(settings, match):
    with pytest.raises((ModelError, ShapeError), match=match):
        HamiltonianMonteCarlo(**{"step": 0.1, "n_leapfrog": 3, **settings})


class Oscillator(ebm.EnergyModel):
    """One frequency, ω = 1."""

    space = ebm.Reals(1)

    def energy(self, states):
        return 0.5 * (np.asarray(states) ** 2).sum(axis=-1)

    def state_gradient(self, states):
        return np.asarray(states)


#: The leapfrog map of the oscillator turns by θ with cos θ = 1 − ε²/2: a half and a whole turn.
TURNS = [(np.sqrt(2), 2), (np.sqrt(2), 4), (1.0, 3), (1.0, 6)]


def width_of_oscillator(step, n_leapfrog, **settings):
    """x² averaged along each of 400 chains that start at one point, and its exact value."""
    samples = ebm.sample(
        Oscillator(), HamiltonianMonteCarlo(step, n_leapfrog, **settings), n_draws=60, rng=4,
        n_chains=400, initial=[1.5], burn_in=300,
        run=ebm.sampling.SamplingRun(observe=lambda x: x**2),
    )  # fmt: skip
    return samples.values[..., 0].mean(axis=1), 1.0


@pytest.mark.parametrize(("step", "n_leapfrog"), TURNS)
def test_trajectories_of_half_a_turn_do_not_come_back_for_ever(step, n_leapfrog):
    check_mean(*width_of_oscillator(step, n_leapfrog))


@pytest.mark.parametrize(("step", "n_leapfrog"), TURNS)
def test_steps_that_are_all_alike_are_caught(step, n_leapfrog):
    """Mutant: from 1.5 to −1.5 or back, whatever the momenta; the mean looks better than any."""
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(*width_of_oscillator(step, n_leapfrog, jitter=0.0))


def test_advice_for_chains_over_real_numbers_is_of_their_samplers():
    with pytest.warns(PoorMixingWarning, match="longer paths of ebm.HamiltonianMonteCarlo") as said:
        note = ebm.sample(Well(), Langevin(0.1), n_draws=30, rng=0).estimate().note
    assert "ParallelTempering" not in note + str([one.message for one in said])


class Well(ebm.EnergyModel):
    """A Gaussian of one unit."""

    space = ebm.Reals(1)

    def energy(self, states):
        return (np.asarray(states) ** 2).sum(-1) / 2

    def state_gradient(self, states):
        return np.asarray(states)
