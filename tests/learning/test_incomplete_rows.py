"""Fits to rows with missing cells: the observed likelihood, its information, what is refused."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import ebm
from ebm.effective import CompletedRows
from ebm.errors import (
    ConstantUnitError,
    EbmError,
    LimitError,
    MissingValueError,
    NoMaximumWarning,
    NotConvergedWarning,
    SymmetricStartWarning,
)
from tests import oracles
from tests.test_completed_rows import levels, machine, pairwise, sines, spins
from tests.test_marginal_parameters import boltzmann, deep, triples

NAN = float("nan")
#: Counts of the cells seen in lexicographic order, by which of three units are seen.
COUNTS = {
    "111": [9, 5, 4, 8, 3, 2, 7, 22],
    "110": [4, 3, 2, 7],
    "101": [3, 4, 1, 6],
    "011": [5, 2, 3, 8],
    "100": [3, 4],
    "000": [2],
}
BIASES, WEIGHTS = [-1.1724457, -0.9745490, -0.6743559], [1.6978986, 0.4242413, 1.4740315]
ERRORS = [0.4908292, 0.4678014, 0.4222706, 0.5733833, 0.5726476, 0.5714120]


def counted_rows():
    """The rows of the reference, and how often each occurs."""
    rows, counts = [], []
    for pattern, numbers in COUNTS.items():
        seen = [k for k in range(3) if pattern[k] == "1"]
        for values, count in zip(itertools.product((0, 1), repeat=len(seen)), numbers, strict=True):
            row = np.full(3, NAN)
            row[seen] = values
            rows.append(row)
            counts.append(count)
    return np.array(rows), np.array(counts, dtype=float)


@pytest.fixture(scope="module")
def data():
    rows, counts = counted_rows()
    return ebm.IncompleteEnsemble.from_data(rows, sample_weight=counts)


def independent(n=3, family=ebm.BoltzmannMachine):
    return family(np.zeros((n, n)), np.zeros(n))


def with_holes(model, n_rows=300, share=0.2, seed=0):
    """Rows of a model, a share of their cells removed whatever they held."""
    rng = np.random.default_rng(seed)
    rows = ebm.exact(model).sample(n_rows, rng=rng).astype(float)
    rows[rng.random(rows.shape) < share] = NAN
    return ebm.IncompleteEnsemble.from_data(rows, space=model.space)


def weak():
    return independent(5, ebm.IsingModel).with_parameters(sines(15, 0.4))


def log_likelihood(family, data):
    """θ -> Σ_r w_r [ln Σ_{x agrees with r} e^{−E} − ln Z], from the table of all states."""
    states = oracles.all_states(family.space)
    values = data.space.states(np.maximum(data.levels, 0))
    agree = [
        (states[:, seen] == value[seen]).all(axis=1)
        for value, seen in zip(values, data.levels >= 0, strict=True)
    ]

    def of(theta):
        log_weights = -np.asarray(family.with_parameters(theta).energy(states))
        log_weights -= log_weights.max()
        p = np.exp(log_weights)
        return float(data.weights @ np.log([p[own].sum() for own in agree]) - np.log(p.sum()))

    return of


@pytest.mark.parametrize("solver", [ebm.Newton(), ebm.LBFGS(tolerance=1e-11)])
def test_reference_numbers(data, solver):
    """Parameters, likelihood and errors; EM and a direct maximization agree on them."""
    result = ebm.fit(independent(), data, solver=solver)
    assert result.converged
    np.testing.assert_allclose(result.model.biases, BIASES, atol=1e-7)
    np.testing.assert_allclose(result.model.weights[np.triu_indices(3, 1)], WEIGHTS, atol=1e-7)
    assert result.log_likelihood * result.sample_size == pytest.approx(-175.66048869, abs=1e-8)
    np.testing.assert_allclose(result.standard_errors, ERRORS, atol=1e-7)


def test_errors_of_completed_rows_as_data_are_too_small(data):
    """The wrong formula M Cov φ, with the missing cells counted as seen, is told from the right."""
    result = ebm.fit(independent(), data)
    complete = ebm.fisher_information(result.model).dense() * result.sample_size
    wrong = np.sqrt(np.diag(np.linalg.inv(complete)))
    np.testing.assert_allclose(result.standard_errors, ERRORS, atol=1e-7)
    assert (wrong < 0.95 * np.array(ERRORS)).all()


def test_the_share_of_missing_information_is_the_rate_of_em(data):
    """The largest eigenvalue of 1 − (M F)⁻¹ I, and by it the error of EM falls in a step."""
    result = ebm.fit(independent(), data, solver=ebm.Newton(tolerance=1e-13))
    complete, observed = ebm.fisher_information(result.model).dense(), result.fisher.dense()

    def rate(n_rows):
        lost = np.eye(6) - np.linalg.solve(n_rows * complete, result.sample_size * observed)
        return np.linalg.eigvals(lost).real.max()

    # Rows that show nothing are cases of the EM of the reference.
    assert rate(result.sample_size + data.n_blank) == pytest.approx(0.4272585, abs=1e-7)
    model, distances = independent(), []
    for _ in range(14):
        model = ebm.fit(model, CompletedRows(model, data), solver=ebm.Newton(1e-13)).model
        distances.append(np.abs(model.parameters - result.model.parameters).max())
    assert distances[-1] / distances[-2] == pytest.approx(rate(result.sample_size), rel=5e-3)


@pytest.mark.parametrize("solver", [ebm.Newton(), ebm.LBFGS()])
def test_the_likelihood_rises_with_every_step(solver):
    """The observed one, that is reported."""
    data = with_holes(weak(), n_rows=600, share=0.4)
    result = ebm.fit(independent(5, ebm.IsingModel), data, solver=solver)
    values = [step.log_likelihood for step in result.history]
    assert len(values) > 4
    assert (np.diff(values) > -1e-13).all()
    exactly = log_likelihood(result.model, data)
    assert values[-1] == result.log_likelihood
    assert values[-1] == pytest.approx(exactly(result.model.parameters), rel=1e-12)


@pytest.mark.parametrize(
    "make", [pairwise, spins, levels, machine, triples, boltzmann, deep], ids=lambda f: f.__name__
)
def test_the_end_is_a_maximum_with_the_observed_information(make):
    """Of any family over a finite space: slopes and second differences of the table's likelihood.

    Hidden units and missing cells are summed out together.
    """
    truth = make()
    data = with_holes(truth, n_rows=400, share=0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        result = ebm.fit(truth, data, solver=ebm.LBFGS(max_iterations=60))
    exactly, theta = log_likelihood(truth, data), result.model.parameters
    assert result.log_likelihood == pytest.approx(exactly(theta), rel=1e-11)
    assert result.log_likelihood > exactly(truth.parameters)
    if result.converged:
        slopes = oracles.finite_difference(exactly, theta)
        np.testing.assert_allclose(slopes, 0, atol=1e-6)
    from ebm.learning._incomplete_likelihood import IncompleteLikelihoodLoss
    from ebm.learning.penalties import AppliedPenalty

    loss = IncompleteLikelihoodLoss(
        truth, data, ebm.exact, AppliedPenalty(truth, ebm.Penalty()), None
    )
    # At the truth, where no parameter is far out.
    point = loss.point(truth.parameters)
    slopes = oracles.finite_difference(exactly, truth.parameters)
    np.testing.assert_allclose(-point.slopes, slopes, atol=1e-8)
    columns = [
        oracles.finite_difference(lambda theta, k=k: loss.point(theta).slopes[k], truth.parameters)
        for k in range(min(len(theta), 4))
    ]
    information = loss.observed_information(point.model, point.ensemble)
    np.testing.assert_allclose(information[: len(columns)], columns, atol=1e-7)


def test_rows_without_missing_cells_give_the_ordinary_fit():
    """The same maximum and errors; no assumption is mentioned."""
    rows = ebm.exact(pairwise()).sample(500, rng=0)
    incomplete = ebm.fit(independent(5), ebm.IncompleteEnsemble.from_data(rows))
    complete = ebm.fit(independent(5), rows)
    np.testing.assert_allclose(incomplete.model.parameters, complete.model.parameters, atol=1e-9)
    np.testing.assert_allclose(incomplete.standard_errors, complete.standard_errors, rtol=1e-8)
    assert incomplete.bic == pytest.approx(complete.bic, rel=1e-12)
    assert "random" not in incomplete.message
    assert not incomplete.warnings


def test_rows_that_show_nothing_add_nothing(data):
    """Their likelihood is one, and no count contains them."""
    rows, counts = counted_rows()
    shows = ~np.isnan(rows).all(axis=1)
    without = ebm.IncompleteEnsemble.from_data(rows[shows], sample_weight=counts[shows])
    one, other = ebm.fit(independent(), data), ebm.fit(independent(), without)
    np.testing.assert_array_equal(one.model.parameters, other.model.parameters)
    assert (one.log_likelihood, one.bic) == (other.log_likelihood, other.bic)
    assert any("2 rows show nothing" in note for note in one.warnings)


def test_the_assumption_and_the_missing_cells_are_said():
    """By column, and by the names of the units."""
    rows = [[0, 1], [1, NAN], [0, 0], [1, 1], [NAN, 1], [1, NAN], [1, 0], [0, 1]]
    data = ebm.IncompleteEnsemble.from_data(rows, names=["left", "right"])
    result = ebm.fit(independent(2), data)
    assert result.message.endswith("; cells taken as missing at random")
    told, starts = result.warnings
    assert told.startswith("3 of 16 cells are missing ('left' 1, 'right' 2), and are taken as")
    assert "several maxima" in starts
    assert result.model.names == ("left", "right")


def test_covariances_of_pairs_are_not_those_of_pairs_of_columns():
    """Cells missing by what another cell holds bias complete rows, not the likelihood."""
    truth = ebm.IsingModel([[0, 0.8, 0], [0.8, 0, 0.5], [0, 0.5, 0]], [0.2, -0.3, 0.1])
    rng = np.random.default_rng(1)
    rows = ebm.exact(truth).sample(20_000, rng=rng).astype(float)
    # The third answer is left out by four in five of those who said no to the second.
    rows[(rows[:, 1] < 0) & (rng.random(len(rows)) < 0.8), 2] = NAN
    data = ebm.IncompleteEnsemble.from_data(rows, space=ebm.Spins)
    start = independent(3, ebm.IsingModel)
    result = ebm.fit(start, data)
    z = (result.model.parameters - truth.parameters) / result.standard_errors
    assert np.abs(z).max() < 3.5
    dropped = ebm.fit(start, data.complete_rows())
    z = (dropped.model.parameters - truth.parameters) / dropped.standard_errors
    assert np.abs(z).max() > 10


def test_intervals_cover_and_are_narrower_than_those_of_complete_rows():
    """The long version is ``python -m tests.learning.coverage_of_incomplete_rows``."""
    from tests.learning.coverage_of_incomplete_rows import problem

    outcomes = [problem(seed, n=4, n_rows=150) for seed in range(40)]
    covered = np.concatenate([outcome.covered for outcome in outcomes])
    # Ten parameters of a problem are correlated: four deviations of half as many.
    assert abs(covered.mean() - 0.95) < 4 * np.sqrt(0.95 * 0.05 / (len(covered) / 2))
    # Complete rows alone do not always have a maximum.
    assert np.nanmean([outcome.width for outcome in outcomes]) < 0.9


def test_complete_rows_of_three_units_leave_wider_intervals():
    """By 17 % of 400 rows with a fifth of the cells removed; 11 to 17 % of the reference."""
    from tests.learning.coverage_of_incomplete_rows import problem

    widths = [problem(seed, n=3, n_rows=400).width for seed in range(12)]
    assert 1.14 < 1 / np.mean(widths) < 1.2


def test_an_interrupted_fit_keeps_what_it_has(data):
    """Ctrl-C ends it with the model reached, and the assumption is still said."""
    calls = []

    def average(model):
        calls.append(model)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return ebm.exact(model)

    result = ebm.fit(independent(), data, loss=ebm.Likelihood(average))
    assert not result.converged
    assert result.message.startswith("interrupted")
    assert "missing at random" in result.message
    assert (
        result.log_likelihood
        > ebm.fit(independent(), data, penalty=ebm.Penalty(1e6, 1e6)).log_likelihood
    )


def test_a_penalty_holds_what_rows_leave_open():
    """Pairs that no row shows together: named, hardly known, and held by a penalty."""
    rows = [[0, NAN, 1], [1, NAN, 0], [1, NAN, 1], [0, NAN, 0], [NAN, 1, 1], [NAN, 0, 1],
            [NAN, 1, 0], [NAN, 0, 0], [NAN, 1, 1], [0, NAN, 0]]  # fmt: skip
    data = ebm.IncompleteEnsemble.from_data(rows, names=list("abc"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = ebm.fit(independent(), data)
    errors = result.standard_errors
    assert errors is None or errors[3] > 1e4
    assert any("no row shows both units of 'a' and 'b'" in note for note in result.warnings)
    held = ebm.fit(independent(), data, penalty=0.1)
    assert held.converged
    assert np.abs(held.model.parameters).max() < 2


def test_a_saddle_is_no_maximum():
    """A unit that is seldom seen, uncoupled at the start: gradients vanish, errors are refused."""
    pattern = csr_array([[0, 0, 1.0], [0, 0, 1.0], [1.0, 1.0, 0]])
    both = [[0, 0, NAN], [1, 1, NAN]] * 60 + [[0, 1, NAN], [1, 0, NAN]] * 10
    seen = [list(row) for row in itertools.product((0, 1), repeat=3)]
    data = ebm.IncompleteEnsemble.from_data(both + seen)
    machine = ebm.BoltzmannMachine(pattern, np.zeros(3))
    start = machine.with_parameters(np.zeros(5))
    with pytest.warns(NotConvergedWarning, match="saddle"):
        result = ebm.fit(start, data, solver=ebm.LBFGS())
    assert not result.converged
    assert result.standard_errors is None
    assert any("not positive definite" in note for note in result.warnings)
    other = ebm.fit(start.with_parameters([0, 0, 0, 0.5, 0.6]), data)
    assert other.converged
    assert other.log_likelihood > result.log_likelihood + 0.1
    assert (np.array(other.standard_errors) > 0).all()


def test_a_fit_goes_on_from_couplings_that_are_given():
    """Several starts are how several maxima are found."""
    data = with_holes(pairwise(), share=0.5)
    first = ebm.fit(independent(5), data)
    again = ebm.fit(first.model, data)
    assert again.n_iterations <= 1
    assert again.log_likelihood == pytest.approx(first.log_likelihood, abs=1e-12)


@pytest.mark.parametrize("solver", [None, ebm.LBFGS()])
def test_a_way_to_infinity_is_told(solver):
    """Two units that are never both on where both are seen, the third with missing cells."""
    rows = [[0, 0, 0], [0, 1, 1], [1, 0, NAN], [0, 1, 0], [1, 0, 1], [0, 0, NAN], [1, 0, 0]] * 4
    data = ebm.IncompleteEnsemble.from_data(rows, names=list("abc"))
    with pytest.warns(NoMaximumWarning, match="'a', 'b'"):
        result = ebm.fit(independent(), data, solver=solver)
    assert not result.converged
    held = ebm.fit(independent(), data, penalty=0.05)
    assert held.converged


@pytest.mark.filterwarnings("ignore::ebm.errors.NotConvergedWarning")
def test_missing_cells_of_a_marginal(data):
    """Hidden units are warned of where nothing tells them apart, as over complete rows."""
    joint = ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5))
    start = ebm.marginalize(joint, [0, 1, 2])
    with pytest.warns(SymmetricStartWarning):
        ebm.fit(start, data)


def test_free_and_tied_parameters():
    """One field for all spins; the observed information is that of the model's parameters."""
    data = with_holes(weak(), n_rows=500)
    ties = [0] * 5 + list(range(1, 11))
    result = ebm.fit(independent(5, ebm.IsingModel), data, penalty=ebm.Penalty(ties=ties))
    assert np.ptp(result.model.fields) == 0
    assert result.fisher.dense().shape == (15, 15)
    free = ebm.fit(independent(5, ebm.IsingModel), data)
    assert free.log_likelihood > result.log_likelihood


def test_a_checkpoint_is_taken_up(tmp_path, data):
    """As if the fit had never stopped; of other rows it is refused."""
    path = tmp_path / "fit.npz"
    whole = ebm.fit(independent(), data)
    with pytest.warns(NotConvergedWarning):
        ebm.fit(independent(), data, solver=ebm.Newton(max_iterations=2), checkpoint=path)
    resumed = ebm.fit(independent(), data, solver=ebm.Newton(), checkpoint=path)
    np.testing.assert_array_equal(resumed.model.parameters, whole.model.parameters)
    other = with_holes(independent())
    with pytest.raises(EbmError, match="data"):
        ebm.fit(independent(), other, solver=ebm.Newton(), checkpoint=path)


def test_what_needs_complete_rows_is_refused(data):
    """Chains, gradient steps, pseudo-likelihood and l1, by sentences."""
    start = independent()
    with pytest.raises(EbmError, match=r"PersistentChains takes complete rows.*ClampedChains\(\)"):
        ebm.fit(start, data, loss=ebm.Likelihood(ebm.PersistentChains()))
    biased = ebm.Likelihood(ebm.ContrastiveDivergence(), completion=ebm.ClampedChains())
    with pytest.raises(EbmError, match="ContrastiveDivergence takes complete rows"):
        ebm.fit(start, data, loss=biased)
    with pytest.raises(EbmError, match=r"solver must be one of ebm\.Newton\(\), ebm\.LBFGS\(\)"):
        ebm.fit(start, data, solver=ebm.GradientSteps())
    with pytest.raises(MissingValueError, match="the likelihood"):
        ebm.fit(start, data, loss=ebm.inversion.Pseudolikelihood())
    with pytest.raises(EbmError, match="l1"):
        ebm.fit(start, data, penalty=ebm.Penalty(l1=0.1))
    hidden = boltzmann()
    holes = with_holes(hidden)
    with pytest.raises(EbmError, match="affine"):
        ebm.fit(hidden, holes, solver=ebm.Newton())


def test_columns_that_say_nothing_are_refused_by_name():
    """Without a value, or with the same one in all cells seen."""
    empty = ebm.IncompleteEnsemble.from_data([[0, NAN], [1, NAN]], names=["a", "b"])
    with pytest.raises(MissingValueError, match=r"no row has a value of 'b'.*marginalize"):
        ebm.fit(independent(2), empty)
    rows = [[0, 1], [1, NAN], [1, 1]]
    constant = ebm.IncompleteEnsemble.from_data(rows, names=["a", "b"])
    with pytest.raises(ConstantUnitError, match="unit 'b' never changes"):
        ebm.fit(independent(2), constant)
    assert ebm.fit(independent(2), constant, penalty=ebm.Penalty(0.1, 0.1)).converged


def test_too_many_units_are_refused_before_any_work():
    """By the limit of the exact sums."""
    rows = np.tile([0.0, 1.0], (60, 20))
    rows[::2] = 1 - rows[::2]
    rows[:, 0] = NAN
    rows[:2, 0] = [0, 1]
    with pytest.raises(LimitError):
        ebm.fit(independent(40), ebm.IncompleteEnsemble.from_data(rows))


def test_a_parameter_vector_of_a_user_is_learnt():
    """A family of the user's own, by energies and their gradient."""
    truth = sines(3, 0.7)

    def features(x):
        x = np.asarray(x)
        return np.stack([x.sum(-1), (x[..., :-1] * x[..., 1:]).sum(-1), x[..., 0]], axis=-1)

    family = oracles.LinearFamily(ebm.Spins(4), features, truth)
    data = with_holes(family, n_rows=2000)
    result = ebm.fit(family.with_parameters(np.zeros(3)), data)
    assert result.converged
    z = (result.model.parameters - truth) / result.standard_errors
    assert np.abs(z).max() < 3.5
