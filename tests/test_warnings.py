"""Every warning of the library points at the user's line that called it."""

import ast
import functools
import inspect
import operator
import warnings
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import ebm
from ebm import errors
from ebm._parallel import map_blocks

torch = pytest.importorskip("torch")

PACKAGE = Path(ebm.__file__).parent

#: Units 0 and 1 are never both on.
EXCLUSIVE = [[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
EVERY_PAIR = [[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 0]]
SLOW = np.random.default_rng(0).integers(0, 2, (60, 3))
UP_AND_DOWN = np.repeat([[1.0] * 8, [-1.0] * 8], 2, axis=0)


def glass(n, scale, seed=0):
    """Couplings too strong for a series."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, scale / np.sqrt(n), (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(size=n), center=0.5)


def magnet(coupling, n):
    """Every unit with every other."""
    return ebm.IsingModel(coupling * (np.ones((n, n)) - np.eye(n)), np.zeros(n))


def chains():
    """Chains that stay where they began, not yet asked about anything."""
    return ebm.sample(magnet(0.5, 8), n_draws=200, initial=UP_AND_DOWN, rng=0)


def step(states):
    """One step of chains, the seed the same at each."""
    return ebm.sample(magnet(0.0, 6), n_draws=1, burn_in=0, rng=3, initial=states).final.states


@pytest.fixture(autouse=True)
def no_run_before(monkeypatch):
    monkeypatch.setattr("ebm.sampling._streams._LATEST", OrderedDict())


class Valleys(ebm.EnergyModel):
    """Two valleys of a real number that no small step joins."""

    space = ebm.Reals(1)

    def energy(self, states):
        return 50 * (states[..., 0] ** 2 - 4) ** 2

    def state_gradient(self, states):
        return 200 * states * (states**2 - 4)


def optimizer():
    """One whose metric of a small batch is singular."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    made = ebm.networks.RelativeNaturalGradient(layers, 1e-3, decay=1.0, damping=0.0, period=1)
    layers(torch.ones(1, 4)).sum().backward()
    torch.optim.lr_scheduler.StepLR(made, 1)
    return made


MLP = ebm.networks.SoftmaxMLPAction([[1.0], [2.0]], [0, 1], 2)
WIDE = MLP.flatten(np.zeros((2, 2)), np.array([4.0, -1.0]), np.ones((2, 1)), np.ones(2))
STRONG = functools.cache(lambda: ebm.exact(glass(8, 12.0)).moments())

#: What is warned of, what is made ready, and the call: each on the one line that must be shown.
CALLS = {
    "rows read": ("FewSamples", list, lambda _: ebm.Ensemble.from_data([[0, 1]])),
    "rows read by fit": (
        "FewSamples",
        lambda: ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)),
        lambda start: ebm.fit(start, [[0, 1, 1], [1, 0, 0]], penalty=ebm.Penalty(l2=0.1)),
    ),
    "rows read by pseudo-likelihood": (
        "FewSamples",
        list,
        lambda _: ebm.inversion.pseudolikelihood(
            [[0, 1, 1], [1, 0, 0]], penalty=ebm.Penalty(l2=0.1)
        ),
    ),
    "shares": (
        "FewSamples",
        lambda: ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)),
        lambda start: ebm.fit(
            start,
            ebm.Ensemble.from_data(EXCLUSIVE, space=start.space, sample_weight=[1 / 6] * 6),
            **STEPS,
        ),
    ),
    "fit": (
        "NoMaximum",
        lambda: ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)),
        lambda start: ebm.fit(start, EXCLUSIVE),
    ),
    "rows that depend on their neighbors": (
        "DependentRows",
        lambda: ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)),
        lambda start: ebm.fit(start, np.repeat(SLOW, 9, axis=0)),
    ),
    "a fit cut short": (
        "NotConverged",
        lambda: ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)),
        lambda start: ebm.fit(start, EVERY_PAIR, solver=ebm.Newton(max_iterations=1)),
    ),
    "hidden units without weights": (
        "SymmetricStart",
        lambda: ebm.marginalize(ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5)), range(3)),
        lambda start: ebm.fit(start, EVERY_PAIR, penalty=1.0),
    ),
    "fit by steps": (
        "NoMaximum",
        lambda: ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)),
        lambda start: ebm.fit(start, EXCLUSIVE, **STEPS),
    ),
    "pseudo-likelihood": (
        "NoMaximum",
        lambda: np.repeat(np.array(EXCLUSIVE)[:, [0, 1, 1]], 9, axis=0),
        lambda rows: ebm.inversion.pseudolikelihood(rows),
    ),
    "pseudo-likelihood cut short": (
        "Ebm",
        lambda: np.random.default_rng(0).integers(0, 2, (80, 4)),
        lambda rows: ebm.inversion.pseudolikelihood(
            rows, solver=ebm.inversion.TruncatedNewton(max_iterations=1)
        ),
    ),
    "inversion by the plain series": (
        "Series",
        STRONG,
        lambda moments: ebm.inversion.mean_field(moments, 3),
    ),
    "a property": (
        "Series",
        lambda: ebm.perturbation.expand(glass(6, 8.0), 2),
        lambda expansion: expansion.covariance,
    ),
    "a method over a property": (
        "Series",
        lambda: ebm.perturbation.expand(glass(6, 8.0), 2),
        lambda expansion: expansion.moments(),
    ),
    "a property of a solution": (
        "Series",
        lambda: ebm.perturbation.plefka(glass(8, 5.0), 2),
        lambda solution: solution.covariance,
    ),
    "moments of a solution": (
        "Series",
        lambda: ebm.perturbation.plefka(glass(8, 5.0), 2),
        lambda solution: solution.moments(),
    ),
    "beliefs": (
        "Series",
        lambda: ebm.perturbation.bethe(magnet(1.0, 5), covariance="beliefs"),
        lambda saddle: saddle.covariance,
    ),
    "hidden units": (
        "Series",
        lambda: ebm.effective.expand(magnet(1.5, 3), [0, 1], 4),
        lambda expansion: expansion.interactions(),
    ),
    "an action": ("Series", list, lambda _: MLP.expand(WIDE, 2)),
    "a sum of an action": (
        "Series",
        lambda: MLP.expand(0.1 * WIDE, 2),
        lambda expansion: expansion.partial_sums(1e3),
    ),
    "a step under what torch wraps around it": ("Ebm", optimizer, lambda made: made.step()),
    "moments of chains": ("PoorMixing", chains, lambda samples: samples.moments()),
    "an estimate of chains": (
        "PoorMixing",
        chains,
        lambda samples: samples.estimate(lambda x: x[:, 0]),
    ),
    "chains compared": (
        "PoorMixing",
        lambda: (ebm.exact(magnet(0.5, 8)), chains()),
        lambda routes: ebm.compare(*routes),
    ),
    "steps of chains with one seed": (
        "RepeatedNumbers",
        lambda: functools.reduce(lambda states, _: step(states), range(2), np.ones(6)),
        lambda states: ebm.sample(magnet(0.0, 6), n_draws=1, burn_in=0, rng=3, initial=states),
    ),
    "chains of real numbers": (
        "PoorMixing",
        Valleys,
        lambda model: ebm.sample(model, ebm.Langevin(1e-3), n_draws=200, **ENDS),
    ),
    "a unit that never changes": (
        "StuckUnit",
        lambda: ebm.sample(ebm.BoltzmannMachine([[0.0]], [60.0]), n_draws=50, rng=0),
        lambda samples: samples.r_hat,
    ),
    "weights of few chains": (
        "PoorWeights",
        lambda: glass(24, 12.0),
        lambda model: ebm.log_partition(model, ebm.Annealing(100, 3), rng=0),
    ),
}
STEPS = {"solver": ebm.GradientSteps(n_epochs=2), "rng": 0}
ENDS = {"n_chains": 4, "initial": [[2.0], [2.0], [-2.0], [-2.0]], "rng": 0}


def shown(call, category):
    """(file, line) of each warning of that category."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(each.filename, each.lineno) for each in caught if each.category is category]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_warning_points_at_the_line_that_called(name, in_thread):
    """Whatever lies between: functions, properties, dataclasses, torch, a thread of the user."""
    category, ready, call = CALLS[name]
    call = functools.partial(call, ready())
    if in_thread:
        with ThreadPoolExecutor(1) as pool:
            lines = shown(lambda: pool.submit(call).result(), getattr(errors, f"{category}Warning"))
    else:
        lines = shown(call, getattr(errors, f"{category}Warning"))
    assert lines
    assert set(lines) == {(__file__, inspect.getsourcelines(call.func)[1])}


def test_every_kind_of_warning_is_among_the_calls():
    kinds = {f"{category}Warning" for category, _, _ in CALLS.values()}
    assert kinds == {name for name in errors.__all__ if name.endswith("Warning")}


def test_a_warning_in_a_thread_of_the_library_points_at_the_line_that_waits():
    """No frame of the worker is the user's; with one job there is no worker."""
    say = functools.partial(errors.warn, category=errors.EbmWarning)
    for n_jobs in (1, 2):
        lines = shown(lambda n=n_jobs: list(map_blocks(say, "abc", n)), errors.EbmWarning)
        here = inspect.currentframe().f_lineno - 1
        assert lines == 3 * [(__file__, here)]


def test_a_warning_nobody_waits_for_is_shown_all_the_same():
    """A function of the library handed to a thread as it is."""
    say = functools.partial(errors.warn, category=errors.EbmWarning)
    with ThreadPoolExecutor(1) as pool:
        assert len(shown(lambda: pool.submit(say, "a").result(), errors.EbmWarning)) == 1


def test_a_line_is_shown_once_by_default_and_each_line_anew():
    """The registry is that of the user's module, as with warnings of Python."""
    names = {"__name__": "users", "warn": errors.warn, "EbmWarning": errors.EbmWarning}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        exec("for _ in range(3):\n    warn('a', EbmWarning)\nwarn('a', EbmWarning)", names)
    assert [each.lineno for each in caught] == [2, 3]


def test_getting_a_property_by_its_name_is_a_call():
    solution = ebm.perturbation.plefka(glass(8, 5.0), 2)
    lines = shown(lambda: operator.attrgetter("covariance")(solution), errors.SeriesWarning)
    assert {filename for filename, _ in lines} == {__file__}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_nobody_counts_stack_levels(path):
    """One place knows where a warning points: ebm.errors.warn."""
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if is_warn(node)]
    assert calls == []


def is_warn(node):
    """Whether this is ``warnings.warn(…)``, or gives a ``stacklevel``."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name == "warnings.warn" or any(word.arg == "stacklevel" for word in node.keywords)


def test_the_reader_of_calls_sees_one():
    """The test above can fail."""
    assert is_warn(ast.parse("warnings.warn('a')").body[0].value)
    assert is_warn(ast.parse("say('a', stacklevel=2)").body[0].value)
    assert not is_warn(ast.parse("warn('a', EbmWarning)").body[0].value)
