"""What would take too long or too much is refused before any work, with both numbers named."""

import re
import sys
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import ebm
from ebm.enumeration._limits import Limits, describe_size, format_seconds
from ebm.enumeration._products import _idle_buffers
from ebm.enumeration._splitting import _split
from ebm.errors import EnumerationLimitError, LimitError, MemoryLimitError, ShapeError
from tests.user_models import CoupledLevels, HardCore, TwoMembers

#: Both costs and both limits, as the message gives them.
BOTH = re.compile(
    r"would take about (?P<time>[\d.e+]+) (ms|s|min|h|days|years) and "
    r"(?P<memory>[\d.e+]+) (?P<unit>bytes|KiB|MiB|GiB|TiB|PiB); "
    r"allowed are .+ and .+\. Raise (?P<argument>[\w ]+), or "
)
BYTES = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}


def machine(n):
    weights = (sparse.eye_array(n, k=1) + sparse.eye_array(n, k=-1)).tocsr() / 2
    return ebm.BoltzmannMachine(weights, np.linspace(-1, 1, n))


def refusal(function, *arguments, **options):
    """The message of a refusal that allocated nothing to speak of."""
    # What is imported on the way to the first one does not count.
    with pytest.raises(EnumerationLimitError):
        function(*arguments, **options)
    tracemalloc.start()
    try:
        with pytest.raises(EnumerationLimitError) as caught:
            function(*arguments, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20
    message = BOTH.search(str(caught.value))
    assert message, str(caught.value)
    return str(caught.value), message


class TestExact:
    @pytest.mark.parametrize("n", [40, 60, 100])
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_refused_at_once(self, n, n_jobs):
        # All pairs are coupled: on a graph such as a chain the sums are affordable.
        weights = sparse.csr_array(np.ones((n, n)) - np.eye(n))
        model = ebm.BoltzmannMachine(weights, np.linspace(-1, 1, n))
        text, message = refusal(ebm.exact, model, n_jobs=n_jobs)
        assert f"2^{n} states" in text
        assert message["argument"] == "max_seconds"

    def test_no_factors_are_made_of_a_form_of_all_pairs(self, monkeypatch):
        couplings = 1e-3 * (np.ones((120, 120)) - np.kron(np.eye(40), np.ones((3, 3))))
        model = CoupledLevels(couplings, np.zeros(120), q=3)
        module = sys.modules["ebm.enumeration.exact"]
        monkeypatch.setattr(module, "factors_of", lambda *_: pytest.fail("made 780 tables"))
        text, _ = refusal(ebm.exact, model)
        assert "3^40 states" in text

    def test_the_energy_is_not_even_asked_for(self):
        class Untouchable(HardCore):
            def energy(self, states):
                pytest.fail("evaluated")

        text, message = refusal(ebm.exact, Untouchable(np.zeros(45)))
        assert "2^45 states" in text
        assert message["argument"] == "max_seconds"

    def test_slow_energies_are_timed_on_a_few_states(self):
        seen = []

        class Slow(ebm.EnergyModel):
            space = ebm.Binary(24)

            def energy(self, states):
                seen.append(len(states))
                return np.zeros(len(states))

        with pytest.raises(EnumerationLimitError, match="max_seconds"):
            ebm.exact(Slow(), max_seconds=0.04)
        assert sum(seen) <= 2**14

    def test_the_limits_lift_the_refusal(self):
        model = machine(18)
        _, message = refusal(ebm.exact, model, max_seconds=1e-6)
        assert message["argument"] == "max_seconds"
        _, message = refusal(ebm.exact, model, max_memory=1000)
        assert message["argument"] == "max_memory"
        _, message = refusal(ebm.exact, model, max_seconds=1e-6, max_memory=1000)
        assert message["argument"] == "max_seconds and max_memory"
        assert np.isfinite(ebm.exact(model, max_seconds=1e-3, max_memory=2**20).log_partition)

    @pytest.mark.parametrize(("n", "n_jobs"), [(22, 1), (27, 2), (31, 2)])
    def test_the_memory_named_is_the_memory_used(self, n, n_jobs):
        model = machine(n)
        _, message = refusal(ebm.exact, model, max_memory=1, n_jobs=n_jobs)
        named = float(message["memory"]) * BYTES[message["unit"]]
        _split.cache_clear()
        _idle_buffers.cache_clear()
        tracemalloc.start()
        try:
            ebm.exact(model, n_jobs=n_jobs)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2 * named
        assert peak > named / 10

    @pytest.mark.parametrize("name", ["max_seconds", "max_memory"])
    @pytest.mark.parametrize("value", [0, -1, np.nan])
    def test_limits_must_be_positive(self, name, value):
        with pytest.raises(ShapeError, match=f"{name} must be a positive number"):
            ebm.exact(machine(3), **{name: value})

    def test_infinite_limits_are_limits(self):
        ensemble = ebm.exact(machine(3), max_seconds=np.inf, max_memory=np.inf)
        assert np.isfinite(ensemble.log_partition)


class TestMembers:
    """A model may be cheap to sum and dear to stream: each member has its own estimate."""

    def test_passes_over_all_states(self):
        ensemble = ebm.exact(machine(22), max_seconds=0.1)
        for member in (
            lambda: next(iter(ensemble.blocks())),
            lambda: ensemble.expectation(lambda x: x),
            lambda: ensemble.covariance(lambda x: x),
            lambda: ensemble.weights,
            lambda: ensemble.states,
        ):
            text, message = refusal(member)
            assert "2^22 states" in text
            assert message["argument"] == "max_seconds"
        # What needs no pass still answers.
        assert np.isfinite([ensemble.entropy(), ensemble.mean_energy()]).all()
        assert ensemble.sample(3, rng=0).shape == (3, 22)

    def test_tables_that_do_not_fit(self):
        ensemble = ebm.exact(machine(20), max_memory=2**22)
        for member in (lambda: ensemble.states, lambda: ensemble.weights):
            _, message = refusal(member)
            assert message["argument"] == "max_memory"
        assert ensemble.expectation(lambda x: x[:, 0]) == pytest.approx(
            ensemble.moments().mean[0], rel=1e-10
        )

    def test_fourth_moments(self):
        ensemble = ebm.exact(machine(22), max_seconds=2e-3)
        text, message = refusal(ensemble.fourth_moments, np.zeros(22))
        assert "do without standard errors" in text
        assert message["argument"] == "max_seconds"

    def test_user_models_stream_under_the_same_limits(self):
        ensemble = ebm.exact(TwoMembers(machine(14)), max_memory=2**24)
        assert ensemble.weights.shape == (2**14,)


class TestNeighbors:
    """Other work that would enumerate says so too; what need not, never does."""

    def test_local_minima(self):
        text, message = refusal(ebm.local_minima, machine(28))
        assert "energies of 2^28 states" in text
        assert message["argument"] == "max_memory"

    def test_fit(self):
        rows = np.random.default_rng(0).integers(0, 2, (300, 60))
        family = ebm.BoltzmannMachine(np.zeros((60, 60)), np.zeros(60))
        with pytest.raises(EnumerationLimitError, match=r"2\^60 states"):
            ebm.fit(family, rows)

    @pytest.mark.parametrize("n", [60, 500])
    def test_inversion_never_enumerates(self, n):
        rows = np.random.default_rng(0).integers(0, 2, (1000, n))
        model = ebm.inversion.mean_field(ebm.Ensemble.from_data(rows))
        assert model.energy(rows).shape == (1000,)

    def test_covariances_of_many_observables(self):
        ensemble = ebm.exact(machine(3))
        with pytest.raises(MemoryLimitError, match="fewer observables"):
            ensemble.covariance(lambda x: np.broadcast_to(x[:, :1], (len(x), 100_000)))


def test_every_refusal_is_a_limit_error_and_a_value_error():
    with pytest.raises(LimitError):
        Limits(max_seconds=1).require("it", 2, 0, "rest")
    with pytest.raises(ValueError, match="about 2 s and 0 bytes; allowed are 1 s"):
        Limits(max_seconds=1).require("it", 2, 0, "rest")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1e-3, "1 ms"),
        (3, "3 s"),
        (600, "10 min"),
        (86400, "24 h"),
        (8.64e6, "100 days"),
        (3.15576e9, "100 years"),
    ],
)
def test_durations(seconds, text):
    assert format_seconds(seconds) == text


def test_sizes():
    assert describe_size(ebm.Spins(70)) == "2^70 states"


class TestMarginals:
    """Each energy of a marginal is a sum over what is summed out, and counts as one."""

    def triples(self, n_traced):
        n = 10 + n_traced
        terms = {(i, j, j + 1): 0.1 for i in range(10) for j in range(10, n - 1)}
        return ebm.marginalize(ebm.InteractionModel(terms, ebm.Binary(n)), range(10))

    def coupled(self, n_traced):
        n = 14 + n_traced
        weights = np.full((n, n), 0.1)
        np.fill_diagonal(weights, 0)
        return ebm.marginalize(ebm.BoltzmannMachine(weights, np.zeros(n)), range(14))

    @pytest.mark.parametrize("make", ["triples", "coupled"])
    def test_the_traced_states_count_for_each_kept_one(self, make):
        text, message = refusal(ebm.exact, getattr(self, make)(26))
        assert "2^10 states" in text or "2^14 states" in text
        assert message["argument"] == "max_seconds"
        # 2^36 and 2^40 joint states in hours, not the kept ones in milliseconds.
        assert message[2] in {"h", "days"}

    @pytest.mark.parametrize("make", ["triples", "coupled"])
    def test_their_cost_is_timed_on_few_states(self, make, monkeypatch):
        seen, marginal = [], getattr(self, make)(14)
        energy = type(marginal).energy

        def counted(model, states):
            seen.append(len(states))
            return energy(model, states)

        monkeypatch.setattr(type(marginal), "energy", counted)
        with pytest.raises(EnumerationLimitError, match="would take about"):
            ebm.exact(marginal, max_seconds=0.1)
        assert sum(seen) < 400

    def test_those_of_a_few_traced_units_are_summed_as_before(self):
        marginal = self.coupled(4)
        assert ebm.exact(marginal).log_partition == pytest.approx(
            ebm.exact(marginal.model).log_partition, rel=1e-14
        )
