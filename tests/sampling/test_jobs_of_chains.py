"""Blocks of chains as jobs: the same bits wherever they are made, and nothing lost."""

import multiprocessing
import pickle
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, ModelError
from ebm.sampling import SamplingRun, _drawing
from tests.sampling import kernels

LADDER = ebm.ParallelTempering([0.6, 0.3, 0.0])
SMALL_LAYERS = ebm.RestrictedBoltzmannMachine(
    np.random.default_rng(0).normal(size=(6, 4)), np.zeros(6), np.zeros(4)
)
#: A kernel of each kind: single units, two layers, ladders whose slots swap temperatures or states.
KINDS = {
    "units": (kernels.pairs(), None),
    "layers": (SMALL_LAYERS, None),
    "temperatures": (kernels.pairs(), LADDER),
    "states": (SMALL_LAYERS, LADDER),
}


class Weighed:
    """An executor that keeps the length of what it is given."""

    def __init__(self, executor):
        self.executor, self.lengths = executor, []

    def submit(self, function, *parts):
        self.lengths.append(len(pickle.dumps((function, *parts))))
        return self.executor.submit(function, *parts)


@pytest.fixture(scope="module")
def engines():
    """Two threads, and a process that begins with nothing."""
    spawned = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(1, mp_context=spawned) as process:
        yield Weighed(threads), Weighed(process)


def check_equal(one, other):
    """Draws, what is counted, and all that chains remember."""
    np.testing.assert_array_equal(one.chains, other.chains)
    for name in ("states", "streams", "copies"):
        np.testing.assert_array_equal(getattr(one.final, name), getattr(other.final, name))
    for name in ("slots", "rejection", "round_trips", "n_scans"):
        np.testing.assert_array_equal(getattr(one, name, None), getattr(other, name, None))
    assert (one.final.ladder is None) == (other.final.ladder is None)
    if one.final.ladder is not None:
        for part in fields(one.final.ladder):
            parts = (getattr(samples.final.ladder, part.name) for samples in (one, other))
            np.testing.assert_array_equal(*parts)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_and_ends_have_the_same_bits_on_any_engine(kind, engines):
    model, sampler = KINDS[kind]
    settings = {"n_draws": 21, "n_chains": 600, "rng": 3, "burn_in": 5}
    here = ebm.sample(model, sampler, **settings)
    assert len(np.unique(here.chains[:, -1], axis=0)) > 1
    again = ebm.sample(model, sampler, n_draws=7, initial=here.final)
    for engine in engines:
        run = SamplingRun(executor=engine)
        there = ebm.sample(model, sampler, run=run, **settings)
        check_equal(there, here)
        # Blocks go on from what other blocks and engines left.
        check_equal(ebm.sample(model, sampler, n_draws=7, initial=there.final, run=run), again)
        assert max(engine.lengths) < 2**20


def test_portions_of_the_work_leave_no_trace_in_counts_of_swaps(monkeypatch):
    """Their lengths follow the clock."""
    runs = []
    for first in (1, 5, 64):
        monkeypatch.setattr(_drawing, "FIRST_PORTION", first)
        runs.append(ebm.sample(kernels.pairs(), LADDER, n_draws=64, n_chains=300, rng=1))
    for other in runs[1:]:
        check_equal(runs[0], other)


def test_clamped_units_are_those_of_their_block(engines):
    rows = np.random.default_rng(0).choice(kernels.pairs().space.values, (600, 2))
    clamped = {0: rows[:, 0], 3: rows[:, 1]}
    settings = {"n_draws": 4, "rng": 1}
    here = ebm.sample(kernels.pairs(), run=SamplingRun(clamped=clamped), **settings)
    run = SamplingRun(clamped=clamped, executor=engines[0])
    there = ebm.sample(kernels.pairs(), run=run, **settings)
    check_equal(here, there)
    np.testing.assert_array_equal(there.chains[:, -1, [0, 3]], rows)


def test_chains_that_died_go_on_from_their_folder(tmp_path, monkeypatch):
    model, settings = kernels.pairs(), {"n_draws": 5, "n_chains": 600, "rng": 3}
    here, job, made = ebm.sample(model, LADDER, **settings), _drawing._job, []

    def dying(sweeps, block):
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(len(block["states"]))
        return job(sweeps, block)

    run = SamplingRun(checkpoint=tmp_path / "chains")
    with monkeypatch.context() as patch:
        patch.setattr(_drawing, "_job", dying)
        with pytest.raises(KeyboardInterrupt):
            ebm.sample(model, LADDER, run=run, **settings)
        assert made == [256, 256]
        made.clear()
        check_equal(ebm.sample(model, LADDER, run=run, **settings), here)
        assert made == [600 - 512]
    for change, name in (
        ({"rng": 4}, "rng"),
        ({"burn_in": 3}, "burn_in"),
        ({"n_draws": 6}, "n_draws"),
    ):
        with pytest.raises(EbmError, match=f"another {name}"):
            ebm.sample(model, LADDER, run=run, **settings | change)
    with pytest.raises(EbmError, match="another energy function"):
        ebm.sample(model.scaled(0.5), LADDER, run=run, **settings)
    with pytest.raises(EbmError, match="another sampler"):
        ebm.sample(model, run=run, **settings)


def test_progress_counts_jobs(engines, monkeypatch):
    bars = []

    def ticker(wanted, total, unit):
        bars.append([total, unit, 0])

        def tick():
            bars[-1][2] += 1

        return tick, lambda: None

    monkeypatch.setattr(_drawing, "ticker", ticker)
    run = SamplingRun(executor=engines[0], progress=True)
    ebm.sample(kernels.pairs(), n_draws=4, n_chains=600, rng=1, run=run)
    assert bars == [[3, "job", 3]]


def test_what_has_no_jobs_or_no_effect_is_refused(tmp_path):
    with pytest.raises(EbmError, match="executor must have submit"):
        SamplingRun(executor=3)
    with pytest.raises(EbmError, match="n_jobs=2 counts threads"):
        SamplingRun(n_jobs=2, checkpoint=tmp_path)
    with pytest.raises(EbmError, match="checkpoint must be the path of a folder"):
        ebm.sample(kernels.pairs(), n_draws=1, run=SamplingRun(checkpoint=5))
    with pytest.raises(ModelError, match="advance together"):
        ebm.sample(
            Bowl(),
            ebm.HamiltonianMonteCarlo(0.3, 4),
            n_draws=4,
            run=SamplingRun(checkpoint=tmp_path / "none"),
        )


class Bowl(ebm.EnergyModel):
    """x²/2."""

    space = ebm.Reals(2)

    def energy(self, states):
        return (np.asarray(states) ** 2).sum(-1) / 2

    def state_gradient(self, states):
        return np.asarray(states)


#: Chains along models, and along two layers without models, in three blocks.
PATHS = {"models": kernels.pairs(), "layers": SMALL_LAYERS}
METHODS = {
    "annealing": ebm.Annealing(n_chains=600, n_steps=30),
    "ratio": ebm.sampling.BennettRatio(ebm.Annealing(n_chains=600, n_steps=20)),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", METHODS)
def test_annealing_has_the_same_bits_on_any_engine(path, method, engines):
    model, method = PATHS[path], METHODS[method]
    here = ebm.log_partition(model, method, rng=1)
    for engine in engines:
        there = ebm.log_partition(model, method, rng=1, executor=engine)
        assert repr(there) == repr(here)
        assert (there.value, there.standard_error) == (here.value, here.standard_error)
        assert (there.lower.value, there.effective_size) == (
            here.lower.value,
            here.effective_size,
        )
        assert max(engine.lengths) < 2**20


def test_annealed_states_and_weights_have_the_same_bits(engines):
    method = ebm.Annealing(n_chains=600, n_steps=10)
    here, there = (method.run(kernels.pairs(), rng=1, executor=e) for e in (None, engines[0]))
    np.testing.assert_array_equal(here.states, there.states)
    np.testing.assert_array_equal(here.log_weights, there.log_weights)


class Twice:
    """An executor that runs each job again, as one does whose answer was lost."""

    def submit(self, function, *parts):
        function(*parts)
        future = Future()
        future.set_result(function(*parts))
        return future


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", METHODS)
def test_jobs_that_run_twice_have_the_same_bits(path, method):
    model, method = PATHS[path], METHODS[method]
    here, there = (ebm.log_partition(model, method, rng=1, executor=e) for e in (None, Twice()))
    assert (there.value, there.standard_error) == (here.value, here.standard_error)
    for kind, sampler in KINDS.values():
        settings = {"n_draws": 3, "n_chains": 300, "rng": 1}
        again = ebm.sample(kind, sampler, run=SamplingRun(executor=Twice()), **settings)
        check_equal(ebm.sample(kind, sampler, **settings), again)


def centered(center):
    return ebm.RestrictedBoltzmannMachine(
        SMALL_LAYERS.weights, np.zeros(6), np.zeros(4), visible_center=center
    )


class Ruled(ebm.EnergyModel):
    """E = k x₀, beside a parameter that says nothing of k."""

    space, parameters = ebm.Binary(3), np.ones(1)

    def __init__(self, k):
        self.k = k

    def energy(self, states):
        return self.k * np.asarray(states, dtype=float)[..., 0]


@pytest.mark.parametrize(
    ("one", "other"), [(centered(0.0), centered(0.5)), (Ruled(1.0), Ruled(2.0))]
)
def test_models_of_equal_parameters_do_not_share_a_folder(one, other, tmp_path):
    np.testing.assert_array_equal(one.parameters, other.parameters)
    settings = {"n_draws": 2, "rng": 1, "run": SamplingRun(checkpoint=tmp_path / "draws")}
    kept = ebm.sample(one, **settings).chains
    np.testing.assert_array_equal(ebm.sample(one, **settings).chains, kept)
    with pytest.raises(EbmError, match="another energy function"):
        ebm.sample(other, **settings)


def test_chains_that_turn_round_have_the_same_bits(engines, monkeypatch):
    """Where there are no exact draws to start from."""
    monkeypatch.setattr(ebm.sampling.BennettRatio, "_drawn", lambda *_: (None, ""))
    method = METHODS["ratio"]
    here, there = (
        ebm.log_partition(SMALL_LAYERS, method, rng=1, executor=e) for e in (None, engines[0])
    )
    assert "their ends" in here.message
    assert here.value == there.value


def test_functions_are_not_given_an_executor(engines):
    with pytest.raises(ModelError, match="cannot be handed on to exact"):
        ebm.log_partition(kernels.pairs(), ebm.exact, executor=engines[0])
    with pytest.raises(ModelError, match="PopulationAnnealing are resampled together"):
        ebm.log_partition(kernels.pairs(), ebm.PopulationAnnealing(), executor=engines[0])
    with pytest.raises(EbmError, match="executor must have submit"):
        ebm.log_partition(kernels.pairs(), ebm.Annealing(), executor=2)
