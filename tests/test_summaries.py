"""What objects print, and what they show in a notebook."""

from html.parser import HTMLParser

import numpy as np
import pytest

import ebm
from ebm._summary import MOST_ROWS, Summary
from ebm.errors import LimitError, ModelError

NAMES = ["a", "<b>", "c & d"]
COUPLINGS = np.array([[0, 0.5, 0], [0.5, 0, -1.25], [0, -1.25, 0]])
MODEL = ebm.BoltzmannMachine(COUPLINGS, [0.1, -0.2, 0.3], names=NAMES)
ROWS = ebm.exact(MODEL).sample(2000, rng=0)


class Cells(HTMLParser):
    """The cells of all tables, and whether each tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data


DATA = ebm.Ensemble.from_data(ROWS, names=NAMES)
FIT = ebm.fit(MODEL.with_parameters(np.zeros(6)), DATA)
SAMPLES = ebm.sample(MODEL, n_draws=100, rng=0)
#: One of each kind that has a summary.
RESULTS = {
    "model": lambda: MODEL,
    "layers": lambda: ebm.RestrictedBoltzmannMachine(np.ones((3, 2)), np.zeros(3), np.zeros(2)),
    "terms": lambda: ebm.InteractionModel({(0, 1, 2): 0.5, (0,): 1.0}, ebm.Spins(3)),
    "levels": lambda: ebm.exact(ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))),
    "table": lambda: ebm.TabularModel([0.0, np.inf, 1.0, 2.0], ebm.Binary(2)),
    "exact": lambda: ebm.exact(MODEL),
    "moments": lambda: ebm.exact(MODEL).moments(),
    "data": lambda: DATA,
    "fit": lambda: FIT,
    "samples": lambda: SAMPLES,
    "two draws": lambda: ebm.sample(MODEL, n_draws=2, rng=0),
    "tempered": lambda: ebm.sample(MODEL, ebm.ParallelTempering([0.5]), n_draws=400, rng=0),
    "landscape": lambda: ebm.landscape(MODEL),
    "minima": lambda: ebm.local_minima(MODEL),
    "ground state": lambda: ebm.ground_state(MODEL.to_spins()),
    "thermodynamics": lambda: ebm.thermodynamics(MODEL, [0.5, 1.0]),
    "ln Z": lambda: ebm.log_partition(MODEL),
    "edges": lambda: ebm.inversion.edge_posterior(DATA, rng=0),
    "report": lambda: ebm.analyze(DATA),
    "comparison": lambda: ebm.compare(ebm.exact(MODEL), DATA),
    "dataset": lambda: ebm.datasets.spikes(),
    "states": lambda: ebm.table(MODEL),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_everything_prints_and_shows_tables(kind):
    result = RESULTS[kind]()
    assert "\n" not in repr(result) or kind == "moments"
    assert str(result)
    assert "nan" not in str(result)
    shown = result._repr_html_()
    parsed = Cells(shown)
    assert not parsed.open
    assert "<b>" not in shown
    if parsed.cells and kind != "ln Z":
        for cell in parsed.cells:
            # Only rows that are cut by the width of a line differ.
            assert cell in str(result) or kind == "thermodynamics"


def test_numbers_are_those_of_the_result():
    ensemble, text = ebm.exact(MODEL), str(ebm.exact(MODEL))
    for number in (
        f"{ensemble.log_partition:.10g}",
        f"{ensemble.entropy(base=2):.4f} bits",
        f"{ensemble.mean_energy():.4f}",
        *(f"{mean:.4f}" for mean in ensemble.moments().mean),
    ):
        assert number in text
    fit = FIT
    assert f"{fit.log_likelihood:.6f}" in str(fit)
    strongest = int(np.argmax(np.abs(fit.model.parameters) * fit.model.is_coupling))
    row = next(line for line in str(fit).splitlines() if "W[<b>, c & d]" in line)
    assert f"{fit.model.parameters[strongest]:.3f}" in row
    assert f"{fit.standard_errors[strongest]:.3f}" in row
    samples = SAMPLES
    estimate = samples.estimate(lambda states: states)
    for mean, error in zip(estimate.value, estimate.standard_error, strict=True):
        assert f"{mean:.4f}" in str(samples)
        assert f"{error:.4f}" in str(samples)


def test_a_fit_without_a_maximum_says_so():
    with pytest.warns(ebm.EbmWarning):
        fit = ebm.fit(ebm.BoltzmannMachine(np.zeros((2, 2)), np.zeros(2)), [[0, 1], [0, 0], [1, 0]])
    assert "not converged" in str(fit)
    assert all(warning in " ".join(str(fit).split()) for warning in fit.warnings)


def test_many_rows_are_counted():
    wide = ebm.Ensemble.from_data(np.random.default_rng(0).integers(0, 2, (50, 30)))
    assert f"… and {30 - MOST_ROWS} more" in str(wide)
    assert f"… and {30 - MOST_ROWS} more" in wide._repr_html_()
    assert len(str(wide).splitlines()) < 20


def test_printing_takes_no_sums_over_many_states(monkeypatch):
    chain = ebm.IsingModel(np.eye(60, k=1) + np.eye(60, k=-1), np.zeros(60))
    ensemble = ebm.exact(chain)
    monkeypatch.setattr(type(ensemble), "means", None)
    monkeypatch.setattr(type(ensemble), "entropy", None)
    assert f"{ensemble.log_partition:.10g}" in str(ensemble)
    assert "elimination" in str(ensemble)
    many = ebm.BoltzmannMachine(np.zeros((200, 200)), np.zeros(200))
    monkeypatch.setattr(type(many), "parameter_names", None)
    assert "19900, all 0" in str(many)


def test_a_model_of_a_user_prints():
    class Own(ebm.EnergyModel):
        space = ebm.Levels(2, 3)

        def energy(self, states):
            return np.asarray(states, dtype=float).sum(-1)

    assert "2 units, each an integer from 0 to 2" in str(Own())
    assert "9 states" in str(ebm.table(Own()))
    mixed = ebm.Product(ebm.Binary(2), ebm.Levels(1, 4))
    assert str(mixed) == "2 units, each 0 or 1; 1 unit, each an integer from 0 to 3"


def test_a_summary_without_rows_has_no_table():
    assert Summary("title").text() == "title"
    assert Cells(Summary("<title>").html()).cells == []


def test_the_table_of_states_is_that_of_the_sums():
    table, ensemble = ebm.table(MODEL), ebm.exact(MODEL)
    assert np.array_equal(table.states, ensemble.states)
    assert table.probabilities.sum() == pytest.approx(1, abs=1e-15)
    weights = np.exp(-MODEL.energy(table.states))
    assert table.probabilities == pytest.approx(weights / weights.sum(), rel=1e-13)
    assert table.log_partition == ensemble.log_partition
    rising = ebm.table(MODEL, order="energy")
    assert (np.diff(rising.energies) >= 0).all()
    assert rising.probabilities @ rising.states == pytest.approx(ensemble.moments().mean)
    frame = table.to_frame()
    assert list(frame.columns) == ["energy", "probability", *NAMES]
    assert frame["probability"].to_numpy() == pytest.approx(table.probabilities)


def test_the_table_of_states_refuses_what_nobody_reads():
    with pytest.raises(LimitError, match="2\\^11 states is longer than 1024 rows"):
        ebm.table(ebm.BoltzmannMachine(np.zeros((11, 11)), np.zeros(11)))
    with pytest.raises(ModelError, match="order must be 'states' or 'energy', got 'p'"):
        ebm.table(MODEL, order="p")
    assert len(ebm.table(ebm.BoltzmannMachine(np.zeros((10, 10)), np.zeros(10)))) == 1024


def test_energy_levels_have_degeneracies_and_probabilities():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    ring = ebm.IsingModel(0.5 * (np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0)), np.zeros(4))
    states = ebm.table(ring)
    ax = states.plot()
    written = [text.get_text() for text in ax.texts]
    levels = {-2.0: 2, 0.0: 12, 2.0: 2}
    assert written[::2] == [f"× {number}" for number in levels.values()]
    for text, energy in zip(written[1::2], levels, strict=True):
        exact = states.probabilities[np.isclose(states.energies, energy)].sum()
        assert float(text) == pytest.approx(exact, rel=5e-3)
    assert ebm.plotting.energy_levels(ring, ax=ax) is ax
    forbidden = ebm.TabularModel([0.0, np.inf, 1.0, 2.0], ebm.Binary(2))
    assert len(ebm.plotting.energy_levels(forbidden).texts) == 6
    pyplot.close("all")


def test_names_of_several_lines_and_huge_numbers_stay_in_their_cells():
    """Such names broke the lines of the table, and numbers were printed with 300 digits."""
    coupling = [[0, 1e300], [1e300, 0]]
    text = str(ebm.IsingModel(coupling, [0, 0], names=["a\nb", "é" * 10_000]))
    assert text.splitlines()[-1].startswith("  J[a b, éé")
    assert text.endswith("1e+300")
    assert max(map(len, text.splitlines())) <= 80
    pair = ebm.table(ebm.IsingModel([[0, 1], [1, 0]], [0.5, 0], names=["a\nb", "é" * 10_000]))
    lines = str(pair).splitlines()
    assert len(lines) == 2 + len(pair)
    assert len(set(map(len, lines[1:]))) == 1
    assert max(map(len, Cells(pair._repr_html_()).cells)) <= 48
