"""Parallel tempering: exact copies stay exact at every temperature, hidden layers included."""

from dataclasses import replace

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError, NormalizationError, ShapeError
from ebm.sampling import ChainState
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling._tempered_models import tempered
from ebm.sampling.tempering import SideBySideSweeper, TemperingSweeper
from tests.lattices import torus
from tests.sampling import kernels
from tests.sampling.kernels import Still
from tests.sampling.test_annealing import diagonal, potts, restricted
from tests.sampling.test_no_drift import Frustrated, frustrated_ring, machine
from tests.statistical import FALSE_FAIL_RATE, check_distribution, distribution_p_value
from tests.user_models import HardCore

BETAS = (0.6, 0.35, 0.0)
N_CHAINS = 20_000

MODELS = [
    machine(0),
    diagonal(machine(4)),
    frustrated_ring(5).scaled(2.0),
    restricted(2.5),
    ebm.marginalize(machine(5, scale=2.0), [0, 2, 3]),
    potts(),
    Frustrated(),
]


def started(model, seed=1):
    """Chains whose copies are exact draws at their temperatures."""
    rng = np.random.default_rng(seed)
    states = [
        ebm.exact(each).sample(N_CHAINS, rng)
        for each in (model, *(tempered(model, beta) for beta in BETAS))
    ]
    streams = new_streams(rng, len(block_slices(N_CHAINS)))
    return ChainState(states[0], streams, copies=np.stack(states[1:], axis=1))


def moved(model, inner=None):
    sampler = ebm.ParallelTempering(BETAS, inner)
    return ebm.sample(
        model, sampler, n_draws=1, run=ebm.sampling.SamplingRun(thin=3), initial=started(model)
    ).final


@pytest.mark.parametrize("inner", [None, Still()], ids=["sweeps", "swaps alone"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_every_temperature_stays_exact(model, inner):
    """With a hidden layer the energies of a swap are those of the scaled joint model."""
    final = moved(model, inner)
    for states, beta in zip(
        [final.states, *np.moveaxis(final.copies, 1, 0)], (1.0, *BETAS), strict=True
    ):
        check_distribution(states, ebm.exact(tempered(model, beta)).weights, model.space)


def test_swaps_by_scaled_effective_energies_are_caught(monkeypatch):
    """Mutant: β F₁ in place of F_β."""
    model = restricted(2.5)

    class Scaled(ebm.EnergyModel):
        space = model.space

        def __init__(self, beta):
            self.beta = beta

        def energy(self, states):
            return self.beta * model.energy(states)

    odds, models = TemperingSweeper._log_odds, [Scaled(beta) for beta in (1.0, *BETAS)]

    def wrong(self, k, cold, hot):
        kept, self._models = self._models, models
        found = odds(self, k, cold, hot)
        self._models = kept
        return found

    monkeypatch.setattr(TemperingSweeper, "_log_odds", wrong)
    final = moved(model, Still())
    hot = ebm.exact(model.scaled(BETAS[1]))
    assert distribution_p_value(final.copies[:, 1], hot.weights, model.space) < FALSE_FAIL_RATE


def mutate_ratios(monkeypatch, factor):
    """Log odds of swaps times a factor."""
    made, odds = SideBySideSweeper.__init__, TemperingSweeper._log_odds

    def make(self, *args):
        made(self, *args)
        self._steps = factor * self._steps

    monkeypatch.setattr(SideBySideSweeper, "__init__", make)
    monkeypatch.setattr(TemperingSweeper, "_log_odds", lambda *args: factor * odds(*args))


@pytest.mark.parametrize("model", [machine(0), restricted(2.5), potts()])
def test_swaps_of_the_wrong_sign_are_caught(model, monkeypatch):
    mutate_ratios(monkeypatch, -1.0)
    final = moved(model)
    p_value = distribution_p_value(final.states, ebm.exact(model).weights, model.space)
    assert p_value < FALSE_FAIL_RATE


@pytest.mark.parametrize("model", [machine(0), restricted(2.5), potts()])
def test_swaps_that_are_always_taken_are_caught(model, monkeypatch):
    """Mutant: states handed down without asking."""
    mutate_ratios(monkeypatch, 0.0)
    final = moved(model)
    p_value = distribution_p_value(final.states, ebm.exact(model).weights, model.space)
    assert p_value < FALSE_FAIL_RATE


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(
    "model", [machine(0), kernels.sparse_pairs(), kernels.spins(), torus(8, 0.4)]
)
@pytest.mark.parametrize("inner", [ebm.Gibbs(), ebm.Metropolis()])
def test_log_weights_that_follow_flips_are_those_of_the_states(model, few, inner, monkeypatch):
    """Swaps are decided by them, and they are summed anew only once in a hundred scans."""
    monkeypatch.setattr("ebm.sampling.gibbs.FEW_CHAINS", 10**9 if few else 0)
    monkeypatch.setattr("ebm.sampling._colored_sweeps.UPDATE_COST", 10**9 if few else 0)
    sampler = ebm.ParallelTempering([0.5, 0.2], inner)
    final = ebm.sample(model, sampler, n_draws=37, n_chains=5, burn_in=0, rng=2).final
    states = np.concatenate([final.states[:, None], final.copies], axis=1)
    followed = np.take_along_axis(final.ladder.log_weights, final.ladder.order, axis=1)
    differences = followed + model.energy(states)
    assert np.ptp(differences) < 1e-4
    assert np.ptp(followed) > 1


COMPILED = [machine(0), kernels.sparse_pairs(), kernels.levels(), kernels.counted()]


@pytest.mark.parametrize("model", [*COMPILED, restricted(2.5)])
def test_chains_taken_up_are_those_that_never_stopped(model):
    sampler = ebm.ParallelTempering([0.5, 0.2])
    whole = ebm.sample(model, sampler, n_draws=6, n_chains=300, rng=3)
    first = ebm.sample(model, sampler, n_draws=4, n_chains=300, rng=3)
    rest = ebm.sample(model, sampler, n_draws=2, initial=first.final)
    assert np.array_equal(whole.chains[:, 4:], rest.chains)
    assert np.array_equal(whole.final.copies, rest.final.copies)


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
@pytest.mark.parametrize("model", COMPILED)
def test_draws_do_not_depend_on_threads(model, n_jobs):
    draw = {"n_draws": 2, "n_chains": 600, "rng": 3}
    one = ebm.sample(
        model, ebm.ParallelTempering([0.5]), run=ebm.sampling.SamplingRun(n_jobs=1), **draw
    )
    other = ebm.sample(
        model,
        ebm.ParallelTempering([0.5]),
        run=ebm.sampling.SamplingRun(n_jobs=n_jobs),
        **draw,
    )
    assert np.array_equal(one.chains, other.chains)


def test_plain_chains_can_go_on_tempered_and_back():
    model = machine(0)
    plain = ebm.sample(model, n_draws=2, rng=0)
    hot = ebm.sample(model, ebm.ParallelTempering([0.5]), n_draws=2, initial=plain.final, rng=1)
    assert hot.final.copies.shape == (4, 1, 6)
    assert ebm.sample(model, n_draws=2, initial=hot.final).final.copies is None
    with pytest.raises(ShapeError, match="must hold 2 copies of each chain"):
        ebm.sample(model, ebm.ParallelTempering([0.5, 0.1]), n_draws=2, initial=hot.final)


@pytest.mark.parametrize("betas", [(), (1.0, 0.5), (0.5, 0.5), (0.5, -0.1), (0.5, np.nan), 0.5])
def test_ladders_fall_from_below_1(betas):
    with pytest.raises(EbmError, match="betas must fall"):
        ebm.ParallelTempering(betas)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"betas": "a"}, "betas must hold numbers, got text"),
        ({"betas": [0.5j]}, "betas must hold real numbers"),
        ({"sampler": ebm.Gibbs}, r"got the class: write Gibbs\(\)"),
        ({"sampler": 3}, r"sampler must be one such as ebm.Gibbs\(\), got 3"),
        ({"sampler": ebm.ParallelTempering()}, "sampler must move one state of each chain"),
    ],
)
def test_other_settings_are_named(settings, match):
    with pytest.raises(ModelError, match=match):
        ebm.ParallelTempering(**settings)


def test_a_ladder_to_beta_zero_of_units_that_need_their_precision_is_a_sentence():
    machine = kernels.layers_of(ebm.units.Gaussian(1.3), ebm.units.Spin(), 0.5)()
    for run in (
        lambda: ebm.ParallelTempering.for_model(machine, rng=0),
        lambda: ebm.sample(machine, ebm.ParallelTempering([0.5, 0.0]), n_draws=1, rng=0),
    ):
        with pytest.raises(NormalizationError, match="at beta=0 this model has no distribution"):
            run()


def test_slots_do_not_go_on_from_states_that_they_forbid():
    """A new ladder may have a colder slot where there was β = 0, at which all states are alike."""
    model = HardCore([0.5, 1.0, -0.3, 0.8, 0.2])
    blocked = np.tile([1.0, 1, 1, 0, 0], (4, 1))
    warm = ebm.sample(model, ebm.ParallelTempering([0.5, 0.0]), n_draws=1, n_chains=4, rng=0).final
    chains = replace(warm, copies=np.stack([warm.states, blocked], axis=1))
    samples = ebm.sample(model, ebm.ParallelTempering([0.5, 0.1]), n_draws=20, initial=chains)
    assert np.isfinite(samples.energies).all()
    assert np.isfinite(samples.rejection).all()
    # At β = 0 the same copies stay where they are.
    again = ebm.sample(model, ebm.ParallelTempering([0.5, 0.0]), n_draws=20, initial=chains)
    assert np.isinf(again.energies).any()
