"""ebm.sample: reproducible, resumable, independent of threads, honest about its errors."""

import numpy as np
import pytest

import ebm
from ebm.errors import PoorMixingWarning, StuckUnitWarning
from tests.sampling import kernels
from tests.statistical import check_z_scores


def machine(n=7, seed=0):
    rng = np.random.default_rng(seed)
    return ebm.BoltzmannMachine(rng.normal(size=(n, n)), rng.normal(size=n))


class Triples(ebm.EnergyModel):
    space = ebm.Spins(4)

    def energy(self, states):
        s = np.asarray(states)
        return -0.8 * s[..., 0] * s[..., 1] * s[..., 2] - s @ [0.3, 0.1, -0.2, 0.5]


MODELS = [
    machine(),
    machine().to_spins(),
    Triples(),
    kernels.levels(),
    kernels.SparseForm(kernels.levels()),
    kernels.counted(),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_chains", [3, 600])
def test_draws_do_not_depend_on_threads(model, n_chains):
    draws = [
        ebm.sample(
            model, n_draws=5, n_chains=n_chains, rng=3, run=ebm.sampling.SamplingRun(n_jobs=jobs)
        ).chains
        for jobs in (1, 2, 4)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])


@pytest.mark.parametrize("sampler", [ebm.Gibbs(), ebm.Metropolis()])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_chains", [3, 300])
def test_taking_up_equals_not_stopping(model, n_chains, sampler):
    whole = ebm.sample(model, sampler, n_draws=9, n_chains=n_chains, rng=4)
    first = ebm.sample(model, sampler, n_draws=4, n_chains=n_chains, rng=4)
    rest = ebm.sample(model, sampler, n_draws=5, initial=first.final)
    np.testing.assert_array_equal(np.concatenate([first.chains, rest.chains], axis=1), whole.chains)
    again = ebm.sample(model, sampler, n_draws=5, initial=first.final)
    np.testing.assert_array_equal(rest.chains, again.chains)


def test_an_int_seed_repeats_and_a_generator_goes_on():
    model = machine()
    one, two = (ebm.sample(model, n_draws=20, rng=5).chains for _ in range(2))
    np.testing.assert_array_equal(one, two)
    rng = np.random.default_rng(5)
    one, two = (ebm.sample(model, n_draws=20, rng=rng).chains for _ in range(2))
    assert (one != two).any()


def test_one_step_at_a_time_does_not_freeze():
    model = machine()
    samples = ebm.sample(model, n_draws=1, rng=6)
    seen = [samples.chains[:, -1]]
    for _ in range(20):
        samples = ebm.sample(model, n_draws=1, initial=samples.final)
        seen.append(samples.chains[:, -1])
    assert len(np.unique(np.array(seen)[:, 0], axis=0)) > 3


def test_thinning_and_burn_in_are_sweeps():
    model = machine()
    dense = ebm.sample(model, n_draws=12, burn_in=6, rng=7)
    thinned = ebm.sample(model, n_draws=4, burn_in=6, run=ebm.sampling.SamplingRun(thin=3), rng=7)
    np.testing.assert_array_equal(dense.chains[:, 2::3], thinned.chains)


def test_errors_cover_the_truth():
    """z-scores of many independent runs are standard; false-fail rate in tests.statistical."""
    model = machine(n=5, seed=1)
    truth = ebm.exact(model).moments().mean
    values, errors = [], []
    for seed in range(60):
        estimate = ebm.sample(model, n_draws=400, rng=seed).estimate(lambda x: x)
        values.append(estimate.value[seed % 5])
        errors.append(estimate.standard_error[seed % 5])
    check_z_scores(np.array(values), truth[np.arange(60) % 5], np.array(errors))


def test_moments_say_how_many_draws_they_are_worth():
    samples = ebm.sample(machine(), n_draws=500, rng=8)
    moments = samples.moments()
    assert moments.sample_size == pytest.approx(samples.ess.min())
    flat = samples.chains.reshape(-1, 7)
    np.testing.assert_allclose(moments.mean, flat.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.covariance, np.cov(flat.T, ddof=0), atol=1e-12)


def test_a_unit_that_never_flips_is_named():
    model = ebm.BoltzmannMachine(np.zeros((2, 2)), [0.1, 60.0], names=["free", "stuck"])
    samples = ebm.sample(model, n_draws=50, rng=9)
    with pytest.warns(StuckUnitWarning, match="stuck"):
        r_hat = samples.r_hat
    assert np.isnan(r_hat[1])
    assert np.isfinite(r_hat[0])
    with pytest.warns(StuckUnitWarning, match="stuck"):
        assert np.isfinite(samples.sample_size)


def test_forbidden_states_are_never_drawn():
    p = np.zeros(8)
    p[[1, 2, 4]] = 1 / 3
    model = ebm.TabularModel.from_probabilities(p, ebm.Binary(3))
    samples = ebm.sample(model, n_draws=5, rng=10)
    assert np.isin(model.space.index(samples.chains), [1, 2, 4]).all()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_draws": 0}, "n_draws"),
        ({"n_draws": 2.5}, "n_draws"),
        ({"n_draws": 1, "n_chains": 0}, "n_chains"),
        ({"n_draws": 1, "thin": 0}, "thin"),
        ({"n_draws": 1, "burn_in": -1}, "burn_in"),
        ({"n_draws": 1, "initial": np.zeros((2, 2, 7))}, "initial"),
        ({"n_draws": 1, "initial": np.zeros(6)}, "shape"),
        ({"n_draws": 1, "initial": 2 * np.ones(7)}, "0 or 1"),
        ({"n_draws": 10**12}, "n_draws|draws"),
        ({"n_draws": np.array([3])}, r"n_draws must be a positive integer, got array\(\[3\]\)"),
        ({"n_draws": 1, "thin": 10**30}, r"thin must be a positive integer below 2\*\*63"),
        ({"n_draws": 1, "burn_in": 10**30}, r"burn_in must be an integer of at least 0 below"),
        ({"n_draws": 1, "n_chains": 10**12}, "1000000000000 chains of 7 units"),
        ({"n_draws": 1, "initial": np.ones((0, 7))}, "initial must have .* at least one chain"),
    ],
)
def test_bad_arguments_are_named(arguments, match):
    with pytest.raises(ebm.EbmError, match=match):
        drawn(**arguments)


def drawn(thin=1, **arguments):
    return ebm.sample(machine(), **arguments, run=ebm.sampling.SamplingRun(thin))


def test_what_has_no_effect_is_refused():
    with pytest.raises(ebm.errors.ModelError, match=r"observe is for ebm\.Reals"):
        ebm.sample(machine(), n_draws=1, run=ebm.sampling.SamplingRun(observe=np.abs))
    with pytest.raises(ebm.errors.ModelError, match=r"run must be ebm\.sampling\.SamplingRun"):
        ebm.sample(machine(), n_draws=1, run={"thin": 2})


def test_any_integer_type_will_do():
    draws = ebm.sample(
        machine(),
        n_draws=np.int64(3),
        n_chains=np.array(2),
        run=ebm.sampling.SamplingRun(thin=np.uint8(1)),
        rng=0,
    )
    assert draws.chains.shape == (2, 3, 7)


def test_a_model_that_writes_into_its_states_draws_the_same():
    class Careless(Triples):
        def energy(self, states):
            energies = super().energy(states)
            states[...] = 1 - states
            return energies

    for sampler in (ebm.Gibbs(), ebm.Metropolis(), ebm.ParallelTempering([0.5])):
        one, other = (
            ebm.sample(model, sampler, n_draws=5, rng=3).chains for model in (Triples(), Careless())
        )
        assert np.array_equal(one, other)
    settings = ebm.Annealing(20, 5)
    one, other = (ebm.log_partition(m, settings, rng=1) for m in (Triples(), Careless()))
    assert one == other


@pytest.mark.parametrize("value", ["1.0", 1j, np.ma.masked])
def test_energies_are_real_numbers(value):
    class Strange(ebm.EnergyModel):
        space = ebm.Binary(2)

        def energy(self, states):
            if value is np.ma.masked:
                return np.ma.masked_all(np.shape(states)[:-1])
            return np.full(np.shape(states)[:-1], value)

    with pytest.raises(ebm.EbmError, match=r"Strange\.energy must h"):
        ebm.sample(Strange(), n_draws=1, rng=0)


def up_and_down(strength, n=8):
    """A magnet whose chains stay where they start."""
    return ebm.IsingModel(strength * (np.ones((n, n)) - np.eye(n)), np.zeros(n))


def test_chains_that_disagree_say_so_once():
    start = np.repeat([[1.0] * 8, [-1.0] * 8], 2, axis=0)
    model = up_and_down(0.5)
    samples = ebm.sample(model, n_draws=200, initial=start, rng=0)
    with pytest.warns(PoorMixingWarning, match=r"split R-hat is .* for unit '\d'.* 8 of 8 units"):
        samples.moments()
    samples.moments()
    again = ebm.sample(model, n_draws=200, initial=start, rng=0)
    with pytest.warns(PoorMixingWarning):
        again.estimate(lambda x: x[:, 0])


def test_chains_that_agree_or_are_short_stay_silent(recwarn):
    """A thousand units in short chains are no reason to warn."""
    start = np.repeat([[1.0] * 8, [-1.0] * 8], 2, axis=0)
    ebm.sample(up_and_down(0.5), n_draws=99, initial=start, rng=0).moments()
    free = ebm.BoltzmannMachine(np.zeros((1000, 1000)), np.zeros(1000))
    for shape in ((4, 100), (2, 200), (1, 400), (1, 100)):
        ebm.sample(free, n_chains=shape[0], n_draws=shape[1], rng=1).moments()
    assert not recwarn.list


def test_initial_states_must_be_allowed():
    model = ebm.TabularModel([0.0, np.inf], ebm.Binary(1))
    with pytest.raises(ebm.EbmError, match="finite energy"):
        ebm.sample(model, n_draws=1, initial=[1])


def test_a_continuum_is_refused():
    class Well(ebm.EnergyModel):
        space = ebm.Reals(1)

        def energy(self, states):
            return 0.5 * (np.asarray(states) ** 2).sum(axis=-1)

    with pytest.raises(ebm.EbmError, match="finite space"):
        ebm.sample(Well(), n_draws=1)


@pytest.mark.parametrize("n_draws", [1, 3])
def test_few_draws_of_many_chains_have_moments(n_draws):
    """What halves of chains would tell is unknown; the chains are independent."""
    samples = ebm.sample(kernels.pairs(), n_draws=n_draws, n_chains=500, rng=0)
    moments = samples.moments()
    np.testing.assert_allclose(moments.mean, samples.chains.mean(axis=(0, 1)))
    assert moments.sample_size == 500
    assert np.isnan(samples.r_hat).all()
    assert np.isnan(samples.ess).all()
