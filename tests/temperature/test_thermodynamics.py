"""Thermodynamic quantities: integer counts, definitions, each route against the other."""

import numpy as np
import pytest
from scipy import sparse

import ebm
from ebm.enumeration._frontier import frontier_of
from ebm.errors import (
    EbmError,
    EbmWarning,
    EnumerationLimitError,
    ModelError,
    PoorMixingWarning,
    PrecisionError,
    ShapeError,
)
from ebm.sampling.tempering import SideBySideSweeper
from ebm.temperature import _quantities
from ebm.temperature._by_frontier import by_frontier
from ebm.temperature._quantities import Values
from tests import torus_by_tempering
from tests.lattices import EIGHT, NAMES, SIX, of_six, torus
from tests.sampling.test_annealing import potts, restricted
from tests.sampling.test_no_drift import Frustrated, machine
from tests.user_models import TwoMembers

BETAS = np.array([0.3, 1.0, 0.7])
REFERENCE = np.array([SIX[2.0], SIX[2.5]])


def test_the_six_by_six_torus_to_all_stated_digits():
    record = ebm.thermodynamics(torus(6), [0.5, 0.4])
    assert record.method == "exact: sums over a frontier of 12 units"
    values, errors = of_six(record)
    assert values == pytest.approx(REFERENCE, rel=1e-9)
    assert not errors.any()
    assert record.is_exact


def test_the_eight_by_eight_torus_to_all_stated_digits():
    """Kaufman's ln Z, and its first two derivatives, at K = 0.44."""
    record = ebm.thermodynamics(torus(8), [0.44], max_seconds=1000)
    found = (
        record["log_partition"].value[0],
        -record["energy"].value[0],
        record["heat_capacity"].value[0] / 0.44**2,
    )
    assert found == pytest.approx(EIGHT, rel=1e-14)


@pytest.fixture(scope="module")
def tempered_six():
    return ebm.thermodynamics(torus(6), [0.5, 0.4], method="tempering", rng=3)


def test_the_six_by_six_torus_by_tempering_within_four_errors(tempered_six):
    assert tempered_six.method.startswith("tempering: ")
    assert not tempered_six.is_exact
    values, errors = of_six(tempered_six)
    assert (errors > 0).all()
    assert (abs(values - REFERENCE) < 4 * errors).all()
    assert (errors < [0.05, 0.01, 0.02, 0.01, 0.02, 0.005]).all()


def test_the_same_seed_gives_the_same_record(tempered_six):
    again = ebm.thermodynamics(torus(6), [0.4], method="tempering", rng=3)
    # The ladder begins at the largest β asked for, so that only equal questions are equal.
    other = ebm.thermodynamics(torus(6), [0.5, 0.4], method="tempering", rng=3)
    for name in NAMES:
        assert np.array_equal(tempered_six[name].value, other[name].value)
    assert len(again.samples.betas) <= len(other.samples.betas)


MODELS = {
    "{0,1}": machine(0, scale=0.7),
    "spins": machine(2, scale=0.7).to_spins(),
    "table": ebm.TabularModel(np.random.default_rng(0).normal(size=16), ebm.Spins(4)),
    "forbidden states": Frustrated(),
    "levels": potts(),
    "three-body": ebm.InteractionModel({(0, 1, 2): -1.5, (1,): 0.4, (0, 2): 1.0}, ebm.Spins(3)),
    "user's own": TwoMembers(machine(0, scale=0.7)),
    "layers": restricted(1.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_quantities_are_those_of_their_definitions(name):
    """ln Z and its derivatives in β by central differences, S = −Σ p ln p, moments of m."""
    model = MODELS[name]
    record = ebm.thermodynamics(model, BETAS, method="exact")

    def log_partition(beta):
        return ebm.exact(_quantities.tempered(model, beta)).log_partition

    for k, beta in enumerate(BETAS):
        exact = ebm.exact(_quantities.tempered(model, beta))
        h = 1e-3
        far = [log_partition(beta + j * h) for j in (-2, -1, 0, 1, 2)]
        energy = -(far[0] - 8 * far[1] + 8 * far[3] - far[4]) / (12 * h)
        curvature = (-far[0] + 16 * far[1] - 30 * far[2] + 16 * far[3] - far[4]) / (12 * h**2)
        assert record["log_partition"].value[k] == pytest.approx(exact.log_partition, abs=1e-11)
        assert record["free_energy"].value[k] == pytest.approx(-exact.log_partition / beta)
        assert record["energy"].value[k] == pytest.approx(energy, abs=1e-7)
        assert record["heat_capacity"].value[k] == pytest.approx(beta**2 * curvature, abs=1e-6)
        assert record["entropy"].value[k] == pytest.approx(
            exact.log_partition + beta * energy, abs=1e-7
        )
        if name != "layers":
            assert record["entropy"].value[k] == pytest.approx(exact.entropy(), abs=1e-9)
        if isinstance(model.space, ebm.Binary | ebm.Spins):
            check_magnetization(record, k, beta, exact)
        else:
            assert "susceptibility" not in record.values


def check_magnetization(record, k, beta, exact):
    n, low = exact.space.n, exact.space.values[0]
    moments = [
        exact.expectation(
            lambda x, j=j: np.abs(np.where(x > low, 1, -1).mean(axis=1)) ** j  # s = ±1
        )
        for j in (1, 2, 4)
    ]
    assert record["absolute_magnetization"].value[k] == pytest.approx(moments[0])
    chi = beta * n * (moments[1] - moments[0] ** 2)
    assert record["susceptibility"].value[k] == pytest.approx(chi, abs=1e-10)
    binder = 1 - moments[2] / (3 * moments[1] ** 2)
    assert record["binder_cumulant"].value[k] == pytest.approx(binder, abs=1e-10)


@pytest.mark.parametrize("name", ["{0,1}", "forbidden states", "levels", "three-body", "layers"])
def test_chains_agree_with_exact_sums_within_their_errors(name):
    model = MODELS[name]
    exact = ebm.thermodynamics(model, BETAS, method="exact")
    chains = ebm.thermodynamics(model, BETAS, method="tempering", n_draws=600, rng=5)
    for quantity in exact.values:
        off = abs(chains[quantity].value - exact[quantity].value)
        assert (off < 4.5 * chains[quantity].standard_error + 1e-9).all(), quantity


def sparse_machine(seed, kind):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(size=(9, 9)) * (rng.random((9, 9)) < 0.3), 1)
    weights = sparse.csr_array(weights + weights.T)
    if kind is ebm.Spins:
        return ebm.IsingModel(weights, rng.normal(size=9), offset=0.7)
    return ebm.BoltzmannMachine(weights, rng.normal(size=9), center=rng.random(9), offset=0.7)


@pytest.mark.parametrize("kind", [ebm.Binary, ebm.Spins])
@pytest.mark.parametrize("seed", range(4))
def test_a_frontier_sums_over_all_states(seed, kind):
    """Fields of any sign, units without neighbors, diagonals, both codings, against enumeration."""
    model = sparse_machine(seed, kind)
    # The frontier gives no averages of a user's own.
    own = {"first": lambda x: x[:, 0]}
    record = ebm.thermodynamics(model, BETAS, method="exact", observables=own)
    assert record.method == "exact: all 2^9 states"
    values = Values(model, {})
    log_partition, averages = by_frontier(frontier_of(model), values, BETAS)
    for k, beta in enumerate(BETAS):
        row = values.quantities(beta, log_partition[k], averages[k])
        for name, value in zip(values.names, row, strict=True):
            assert value == pytest.approx(record[name].value[k], abs=1e-10), name


def test_a_record_prints_its_numbers():
    """A row for each temperature, values to their errors, exact ones to six digits."""
    ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 0])
    lines = str(ebm.thermodynamics(ring, [0.5, 1.0])).splitlines()
    assert lines[0] == "exact: all 2^3 states"
    assert lines[2].split() == ["T", "log_partition", "free_energy", "energy", "heat_capacity"]
    assert lines[3].split()[:2] == ["2", "2.5339"]
    drawn = ebm.thermodynamics(ring, [0.5], method="tempering", n_draws=200, rng=0)
    assert str(drawn).splitlines()[3].count("±") == 4


def test_a_frontier_with_a_wrong_sign_of_the_energy_is_caught(monkeypatch):
    """Mutant of the test above: averages of +½xAx + b·x in place of the energy."""
    model = sparse_machine(0, ebm.Spins)
    frontier, values = frontier_of(model), Values(model, {})
    log_partition, averages = by_frontier(frontier, values, BETAS)
    averages[:, 0] *= -1
    right = ebm.thermodynamics(model, BETAS, method="exact")["energy"].value
    found = values.quantities(BETAS[0], log_partition[0], averages[0])[2]
    assert abs(found - right[0]) > 1e-3


def test_own_observables_of_any_shape():
    model = machine(0, scale=0.7)
    own = {"first": lambda x: x[:, 0], "all": lambda x: x}
    exact = ebm.thermodynamics(model, BETAS, observables=own)
    chains = ebm.thermodynamics(
        model, BETAS, observables=own, method="tempering", n_draws=1000, rng=1
    )
    assert exact["all"].value.shape == (3, 6)
    for k, beta in enumerate(BETAS):
        mean = ebm.exact(model.scaled(beta)).moments().mean
        assert exact["all"].value[k] == pytest.approx(mean)
        assert exact["first"].value[k] == pytest.approx(mean[0])
    off = abs(chains["all"].value - exact["all"].value)
    assert (off < 4.5 * chains["all"].standard_error).all()


def test_frames_and_intervals():
    pytest.importorskip("pandas")
    own = {"all": lambda x: x[:, :2]}
    record = ebm.thermodynamics(
        machine(0), BETAS, observables=own, method="tempering", n_draws=100, rng=1
    )
    frame = record.to_frame()
    assert list(frame.columns[:4]) == [
        "beta",
        "temperature",
        "log_partition",
        "log_partition_error",
    ]
    assert list(frame.columns[-4:]) == ["all_0", "all_0_error", "all_1", "all_1_error"]
    assert frame["beta"].tolist() == BETAS.tolist()
    low, high = record["energy"].interval(0.95)
    # Student's t with 19 degrees of freedom.
    assert (high - low) / 2 == pytest.approx(2.093024054 * record["energy"].standard_error)
    with pytest.raises(EbmError, match="quantity must be one of log_partition"):
        record["magnetisation"]


@pytest.mark.parametrize(
    ("betas", "settings", "error", "match"),
    [
        ([0.5, 0.0], {}, EbmError, "betas must be positive"),
        ([0.5, np.nan], {}, EbmError, "betas must be positive"),
        ([np.inf], {}, EbmError, "betas must be positive"),
        ([], {}, ShapeError, "betas must be a row of numbers"),
        ([[0.5]], {}, ShapeError, "betas must be a row of numbers"),
        (["a"], {}, ModelError, "betas must hold numbers, got text"),
        ([0.5], {"method": "annealing"}, EbmError, "method must be one of auto, exact, tempering"),
        ([0.5], {"n_draws": 10}, ShapeError, "n_draws must be an integer of at least 20"),
        ([0.5], {"observables": {"energy": len}}, EbmError, "'energy' is taken"),
        ([0.5], {"observables": {"own": 3}}, EbmError, "must be a function of states"),
        ([0.5], {"observables": {"own": lambda x: 1.0}}, ShapeError, "one value for each"),
        ([0.5], {"max_seconds": 0}, EbmError, "max_seconds must be a positive number"),
    ],
)
def test_other_arguments_are_named(betas, settings, error, match):
    with pytest.raises(error, match=match):
        ebm.thermodynamics(machine(0), betas, **settings)


def test_sums_that_cost_too_much_are_refused_and_real_units_too():
    dense = ebm.IsingModel(np.ones((40, 40)) - np.eye(40), np.zeros(40))
    with pytest.raises(EnumerationLimitError, match='take method="tempering"'):
        ebm.thermodynamics(dense, [0.1], method="exact")
    with pytest.raises(ModelError, match="thermodynamics needs a finite space"):
        ebm.thermodynamics(Line(), [0.1])


class Line(ebm.EnergyModel):
    space = ebm.Reals(2)

    def energy(self, states):
        return (np.asarray(states) ** 2).sum(-1)


def test_chains_without_round_trips_are_not_trusted():
    with pytest.warns(PoorMixingWarning, match="round trips between the ends of the ladder"):
        ebm.thermodynamics(torus(6), [0.6], method="tempering", n_draws=60, n_chains=1, rng=0)


def test_a_figure_has_a_panel_for_each_quantity(tempered_six):
    pytest.importorskip("matplotlib").use("Agg")
    panels = tempered_six.plot()
    assert len(panels) == len(panels[0].figure.axes) == 7
    exact = ebm.thermodynamics(potts(), BETAS)
    assert len(exact.plot()) == 4
    (panel,) = ebm.plotting.thermodynamics(tempered_six, "log_partition", ax=panels[0])
    assert panel is panels[0]
    assert panel.get_ylabel() == "ln Z / n"
    with pytest.raises(EbmError, match="one for each of 2 quantities"):
        tempered_six.plot(["energy", "entropy"], ax=panel)
    for wrong, match in ((3, "record must be a result of ebm.thermodynamics"),):
        with pytest.raises(EbmError, match=match):
            ebm.plotting.thermodynamics(wrong)
    with pytest.raises(EbmError, match="quantity must be one of"):
        ebm.plotting.thermodynamics(exact, ["energie"])


def test_a_record_says_how_it_was_made():
    record = ebm.thermodynamics(torus(3), [0.2, 0.4])
    assert repr(record).startswith("Thermodynamics(2 temperatures, exact: ")


@pytest.mark.parametrize("beta", [5.0, 13.0, 30.0, 200.0])
@pytest.mark.parametrize("coupling", [1.0, -1.0])
def test_frontiers_of_cold_lattices_keep_both_ordered_states(beta, coupling):
    """Weights of one of them fell below the range of numbers beside the other."""
    model = ebm.from_graph(ebm.lattice((4, 4), coupling=coupling))
    frontier, values = frontier_of(model), Values(model, {})
    if frontier.serves(np.array([beta])):
        log_partition, averages = by_frontier(frontier, values, np.array([beta]))
        assert log_partition[0] == pytest.approx(32 * beta + np.log(2), abs=1e-9)
        assert values.quantities(beta, log_partition[0], averages[0])[4] == pytest.approx(np.log(2))
    assert frontier.serves(np.array([beta])) == (beta < 15)
    record = ebm.thermodynamics(model, [beta])
    assert record["entropy"].value[0] == pytest.approx(np.log(2), abs=1e-9)
    if coupling > 0:
        assert record["binder_cumulant"].value[0] == pytest.approx(2 / 3)


def test_a_variance_keeps_its_digits_beside_large_energies():
    couplings = np.array([[0, 1, -1], [1, 0, 1], [-1, 1, 0.0]])
    fields = np.array([0.1, 0, 0])
    large, small = (
        ebm.thermodynamics(ebm.IsingModel(size * couplings, fields), [0.5, 1.0])
        for size in (1e8, 50)
    )
    for name in ("heat_capacity", "binder_cumulant", "absolute_magnetization"):
        np.testing.assert_allclose(large[name].value, small[name].value, rtol=1e-6)
    np.testing.assert_allclose(large["entropy"].value, small["entropy"].value, atol=1e-6)


@pytest.mark.parametrize("method", ["exact", "tempering"])
def test_temperatures_of_which_nothing_is_known_are_refused(method):
    pair = ebm.IsingModel([[0, 1], [1, 0]], [0, 0])
    with pytest.raises(PrecisionError, match="give smaller betas"):
        ebm.thermodynamics(pair, [1e200], method=method, rng=0)


def test_a_model_without_any_possible_state_is_refused():
    model = Forbidden()
    for compute in (lambda: ebm.thermodynamics(model, [1]), lambda: ebm.log_partition(model)):
        with pytest.raises(ModelError, match="every state has energy"):
            compute()


class Forbidden(ebm.EnergyModel):
    space = ebm.Binary(2)

    def energy(self, states):
        return np.full(np.shape(states)[:-1], np.inf)


def test_observables_are_functions_by_name():
    pair = ebm.IsingModel([[0, 1], [1, 0]], [0, 0])
    for observables in (3, {1: lambda s: s[:, 0]}):
        with pytest.raises(EbmError, match="observables must"):
            ebm.thermodynamics(pair, [1], observables=observables)
    with pytest.raises(EbmError, match="quantity must be one of"):
        ebm.thermodynamics(pair, [1])[[1]]


def test_magnetization_of_the_sixteen_torus_agrees_with_clusters_within_four_errors():
    reference = torus_by_tempering.REFERENCE, torus_by_tempering.REFERENCE_ERROR
    off, _ = torus_by_tempering.against(16, *reference, 2, n_draws=1500, n_chains=8)
    assert abs(off).max() < 4


def test_an_interrupt_leaves_quantities_of_the_draws_so_far(monkeypatch):
    """The method says how many there are."""
    calls, advance = [], SideBySideSweeper.advance

    def interrupted(self, work, stream, n_sweeps):
        calls.append(n_sweeps)
        if n_sweeps == 1:
            calls.append("draw")
        if calls.count("draw") == 40:
            raise KeyboardInterrupt
        advance(self, work, stream, n_sweeps)

    monkeypatch.setattr(SideBySideSweeper, "advance", interrupted)
    model = torus(3).scaled(0.5)
    with pytest.warns(EbmWarning, match="interrupted after 16 of 500 draws"):
        record = ebm.thermodynamics(model, [0.5], method="tempering", n_draws=500, rng=0)
    assert "8 chains of 16 draws" in record.method
    exact = ebm.thermodynamics(model, [0.5])
    off = record["energy"].value - exact["energy"].value
    assert abs(off[0]) < 5 * record["energy"].standard_error[0]
