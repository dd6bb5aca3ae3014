"""Parameters held fixed or tied, θ = θ₀ + Aφ, against the minimum over φ by brute force."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import ebm
from ebm.errors import EbmError, NamesError, NoMaximumWarning, ShapeError
from ebm.learning.penalties import AppliedPenalty
from tests import oracles

RNG = np.random.default_rng(0)
ROWS = (RNG.random((400, 4)) < [0.3, 0.5, 0.6, 0.4]).astype(np.int8)
ROWS[:150, 1] = ROWS[:150, 0]
ROWS[100:200, 3] = 1 - ROWS[100:200, 2]

MACHINE = ebm.BoltzmannMachine(np.zeros((4, 4)), [0.2, -0.1, 0.3, 0.0], center=0.3)
MACHINE = MACHINE.with_parameters(MACHINE.parameters + np.linspace(-0.3, 0.4, 10))
SPINS = MACHINE.to_spins()
TRIPLES = ebm.InteractionModel(
    {(0,): 0.2, (1,): -0.3, (2,): 0.0, (3,): 0.1, (0, 1): 0.5, (2, 3): -0.5, (0, 1, 2): 0.1},
    ebm.Binary(4),
)
FAMILIES = {"machine": MACHINE, "spins": SPINS, "triples": TRIPLES}


def matrix(p):
    """Three ways open, one of them a difference."""
    ways = np.zeros((p, 3))
    ways[0, 0], ways[1, 0] = 1, -1
    ways[2:4, 1] = 1, 2
    ways[4:, 2] = 1
    return ways


def penalties(p):
    some = np.arange(p) % 3 != 1
    uniform = np.minimum(np.arange(p), 4)
    return {
        "free": {"free": some},
        "all couplings alike": {"ties": uniform},
        "labels are words": {"ties": ["b"] * 2 + ["c"] * 2 + ["W"] * (p - 4)},
        "ties of the free": {"ties": uniform, "free": some},
        "matrix": {"ties": matrix(p)},
        "matrix, free": {"ties": matrix(p), "free": np.arange(p) != 2},
        "one way": {"ties": np.ones((p, 1))},
    }


KINDS = list(penalties(10))


def rows_of(model):
    return 2 * ROWS.astype(int) - 1 if isinstance(model, ebm.IsingModel) else ROWS


def loss_and_slopes(model, rows, penalty):
    """L(θ) and its gradient from all states."""
    states, own = oracles.all_states(model.space), AppliedPenalty(model, penalty)

    def of(theta):
        at = model.with_parameters(theta)
        energies = at.energy(states)
        least = energies.min()
        log_z = np.log(np.exp(least - energies).sum()) - least
        p = np.exp(-energies - log_z)
        slopes = at.energy_gradient(rows).mean(axis=0) - p @ at.energy_gradient(states)
        value = at.energy(rows).mean() + log_z + own.value(theta)
        return value, slopes + own.gradient(theta)

    return of


def brute_force(model, rows, penalty):
    """The minimum over φ, and A."""
    theta = np.array(model.parameters)
    ways = penalty.directions(len(theta))
    loss = loss_and_slopes(model, rows, penalty)

    def inner(phi):
        value, slopes = loss(theta + ways @ phi)
        return value, ways.T @ slopes

    phi = np.zeros(ways.shape[1])
    for _ in range(3):
        phi = minimize(inner, phi, jac=True, method="BFGS", options={"gtol": 1e-12}).x
    return theta + ways @ phi, ways


def standard_errors(model, rows, penalty, ways):
    """√diag(A H⁻¹ (Aᵀ F A) H⁻¹ Aᵀ / N), H = Aᵀ (F + ∂²R) A, from the states."""
    fisher = oracles.covariance(model, model.energy_gradient)
    inner = ways.T @ fisher @ ways
    hessian = inner + ways.T @ AppliedPenalty(model, penalty).hessian @ ways
    response = ways @ np.linalg.inv(hessian)
    return np.sqrt(np.diag(response @ inner @ response.T) / len(rows))


SOLVERS = {
    "given none": (None, 1e-8),
    "Newton": (ebm.Newton(), 1e-8),
    "L-BFGS": (ebm.LBFGS(), 1e-6),
    "gradient steps": (
        ebm.GradientSteps(ebm.GradientDescent(0.2, momentum=0.9), n_epochs=20_000, tolerance=1e-8),
        1e-6,
    ),
    "natural gradient": (
        ebm.GradientSteps(ebm.NaturalGradient(0.5, damping=0.05), n_epochs=500, tolerance=1e-8),
        1e-6,
    ),
}


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", ["given none", "Newton", "L-BFGS"])
def test_the_minimum_is_that_over_phi(solver, family, kind, l2):
    model, (solver, within) = FAMILIES[family], SOLVERS[solver]
    check_minimum(model, solver, within, kind, l2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("solver", ["gradient steps", "natural gradient"])
def test_gradient_steps_end_there_too(solver, family, kind):
    model, (solver, within) = FAMILIES[family], SOLVERS[solver]
    check_minimum(model, solver, within, kind, 0.05)


def check_minimum(model, solver, within, kind, l2):
    rows = rows_of(model)
    penalty = ebm.Penalty(l2=l2, l2_biases=l2 / 2, **penalties(len(model.parameters))[kind])
    wanted, ways = brute_force(model, rows, penalty)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ebm.fit(model, rows, penalty=penalty, solver=solver)
    assert result.converged, result.message
    theta = result.model.parameters
    np.testing.assert_allclose(theta, wanted, atol=within)
    # Nowhere but along A.
    moved = theta - model.parameters
    np.testing.assert_allclose(ways @ (np.linalg.pinv(ways) @ moved), moved, atol=1e-13)
    likelihood = oracles.mean_log_likelihood(result.model, rows)
    assert result.log_likelihood == pytest.approx(likelihood, rel=1e-10)
    if isinstance(solver, ebm.GradientSteps):
        assert result.standard_errors is None
        return
    errors = standard_errors(result.model, rows, penalty, ways)
    np.testing.assert_allclose(result.standard_errors, errors, rtol=1e-6, atol=1e-12)
    fisher = oracles.covariance(result.model, result.model.energy_gradient)
    np.testing.assert_allclose(result.fisher.dense(), fisher, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_not_free_keeps_its_number_to_the_bit(family):
    model = FAMILIES[family]
    free = np.arange(len(model.parameters)) % 2 == 0
    for solver in (None, ebm.LBFGS(), ebm.GradientSteps(ebm.GradientDescent(0.5), 20)):
        result = ebm.fit(
            model, rows_of(model), penalty=ebm.Penalty(l2=0.1, free=free), solver=solver
        )
        theta = result.model.parameters
        assert np.array_equal(theta[~free], model.parameters[~free])
        assert not np.isclose(theta[free], model.parameters[free]).any()
        if result.standard_errors is not None:
            assert (result.standard_errors[~free] == 0).all()
            assert (result.standard_errors[free] > 0).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_all_free_and_none_tied_is_the_fit_of_old(family):
    model = FAMILIES[family]
    rows, p = rows_of(model), len(model.parameters)
    wanted = ebm.fit(model, rows)
    for penalty in (ebm.Penalty(free=np.ones(p)), ebm.Penalty(ties=np.arange(p))):
        result = ebm.fit(model, rows, penalty=penalty)
        np.testing.assert_allclose(result.model.parameters, wanted.model.parameters, atol=1e-8)
        np.testing.assert_allclose(result.standard_errors, wanted.standard_errors, rtol=1e-6)


def test_a_restricted_machine_with_fixed_biases():
    start = ebm.RestrictedBoltzmannMachine.for_data(ROWS, 2, rng=0)
    free = np.asarray(start.is_coupling)
    penalty = ebm.Penalty(l2=0.02, free=free)
    steps = ebm.GradientSteps(ebm.GradientDescent(0.5, momentum=0.9), n_epochs=5000, tolerance=1e-7)
    by_steps = ebm.fit(start, ROWS, penalty=penalty, solver=steps)
    result = ebm.fit(start, ROWS, penalty=penalty)
    assert result.converged
    assert by_steps.converged
    loss = loss_and_slopes(start, ROWS, penalty)
    for fitted in (result, by_steps):
        theta = fitted.model.parameters
        assert np.array_equal(theta[~free], start.parameters[~free])
        assert np.abs(loss(theta)[1][free]).max() < 1e-6
    assert loss(result.model.parameters)[0] == pytest.approx(loss(by_steps.model.parameters)[0])


def test_chains_learn_along_the_ways_open_to_them():
    ties = np.minimum(np.arange(10), 4)
    penalty = ebm.Penalty(l2=0.01, ties=ties)
    wanted = ebm.fit(MACHINE, ROWS, penalty=penalty)
    chains = ebm.Likelihood(ebm.PersistentChains(2000))
    result = ebm.fit(MACHINE, ROWS, loss=chains, penalty=penalty, rng=0)
    assert result.converged
    moved = result.model.parameters - MACHINE.parameters
    assert np.ptp(moved[4:]) < 1e-12
    difference = (result.model.parameters - wanted.model.parameters) / wanted.standard_errors
    assert np.abs(difference).max() < 1


@pytest.mark.parametrize("solver", [ebm.Newton(), ebm.LBFGS()])
def test_columns_in_the_span_of_others_change_nothing(solver):
    wanted = ebm.fit(MACHINE, ROWS, penalty=ebm.Penalty(ties=matrix(10)), solver=solver)
    mixed = matrix(10) @ [[1, 0, 0, 1, 2, 1e-20], [0, 1, 0, 1, -1, 0], [0, 0, 1, 1, 0, 0]]
    mixed = np.column_stack([np.zeros(10), mixed])
    result = ebm.fit(MACHINE, ROWS, penalty=ebm.Penalty(ties=mixed), solver=solver)
    assert result.converged
    np.testing.assert_allclose(result.model.parameters, wanted.model.parameters, atol=1e-6)
    np.testing.assert_allclose(result.standard_errors, wanted.standard_errors, atol=1e-6)


def test_directions_too_many_to_hold_are_refused():
    penalty = ebm.Penalty(free=np.ones(10**5, dtype=bool))
    with pytest.raises(ebm.errors.LimitError, match="directions in which 100000 parameters"):
        penalty.directions(10**5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("penalty", "error", "said"),
        [
            ({"free": np.zeros(10)}, EbmError, "leave no parameter that may change"),
            ({"free": np.ones(9)}, ShapeError, "free must have an entry for each of the 10"),
            ({"free": np.ones((10, 1))}, ShapeError, "free must have an entry for each of the 10"),
            ({"ties": np.arange(11)}, ShapeError, "ties must have an entry for each of the 10"),
            ({"ties": np.ones((9, 2))}, ShapeError, "ties must have an entry for each of the 10"),
            ({"ties": np.ones((2, 2, 2))}, ShapeError, "ties must be labels"),
            ({"ties": np.zeros((10, 2))}, EbmError, "leave no parameter that may change"),
            ({"free": True}, ShapeError, r"free must be flags \(p,\)"),
            ({"free": [[1], [1, 0]]}, ShapeError, "free must not be ragged"),
            ({"free": np.arange(10)}, EbmError, "free must hold True and False"),
            ({"free": np.full(10, np.nan)}, EbmError, "free must hold True and False"),
            ({"free": ["no"] * 10}, ebm.errors.ModelError, "free must hold numbers, got text"),
            ({"ties": [[1], [1, 0]]}, ShapeError, "ties must not be ragged"),
            ({"ties": [None] * 10}, EbmError, "ties must be labels of one kind"),
            ({"ties": [np.nan] + [1.0] * 9}, EbmError, "ties must be labels of one kind"),
            ({"ties": np.full((10, 2), np.nan)}, EbmError, "ties must be a matrix of finite"),
            ({"ties": np.full((10, 2), 1e200)}, EbmError, "ties must be a matrix of finite"),
            ({"ties": [["a", "b"]] * 10}, ebm.errors.ModelError, "ties must hold numbers"),
        ],
    )
    @pytest.mark.parametrize("solver", [None, ebm.GradientSteps(n_epochs=1)])
    def test_what_fits_no_parameters(self, penalty, error, said, solver):
        with pytest.raises(error, match=said):
            ebm.fit(MACHINE, ROWS, penalty=ebm.Penalty(**penalty), solver=solver)

    @pytest.mark.parametrize(
        ("penalty", "said"),
        [
            ("strong", "penalty must be"),
            (-1.0, "penalty must be"),
            (float("nan"), "penalty must be"),
            (ebm.Penalty, "penalty must be an object: write Penalty"),
        ],
    )
    def test_what_is_no_penalty(self, penalty, said):
        with pytest.raises(EbmError, match=said):
            ebm.fit(MACHINE, ROWS, penalty=penalty)

    @pytest.mark.parametrize("name", ["l2", "l2_biases", "l1"])
    @pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), 1e101])
    def test_strengths_out_of_range(self, name, value):
        with pytest.raises(EbmError, match=f"{name} must be a number from 0 to"):
            ebm.Penalty(**{name: value})


def test_a_number_is_a_penalty_on_couplings():
    one = ebm.fit(MACHINE, ROWS, penalty=0.1).model.parameters
    other = ebm.fit(MACHINE, ROWS, penalty=ebm.Penalty(l2=0.1)).model.parameters
    assert np.array_equal(one, other)


CONSTANT = np.column_stack([ROWS[:, :3], np.ones(len(ROWS), dtype=np.int8)])
ALONE = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))


class TestAUnitThatNeverChanges:
    """Its bias is no matter where it is held, and has no maximum where it is free."""

    @pytest.mark.parametrize("loss", [ebm.Likelihood(), ebm.inversion.Pseudolikelihood()])
    def test_held_by_free(self, loss):
        held = ebm.Penalty(free=[1, 1, 1, 0, 1, 1, 0, 1, 0, 0])
        result = ebm.fit(ALONE, CONSTANT, penalty=held, loss=loss)
        assert result.converged
        assert not result.model.parameters[[3, 6, 8, 9]].any()

    @pytest.mark.parametrize(
        "free", [[1, 1, 1, 1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 0, 1, 1, 1, 1, 1, 1]]
    )
    @pytest.mark.parametrize("loss", [ebm.Likelihood(), ebm.inversion.Pseudolikelihood()])
    def test_free_to_grow(self, free, loss):
        with pytest.warns(NoMaximumWarning, match="no maximum at finite parameters.*'3'"):
            result = ebm.fit(ALONE, CONSTANT, penalty=ebm.Penalty(free=free), loss=loss)
        assert not result.converged


def test_a_saturated_start_gives_no_false_errors():
    strong = ebm.BoltzmannMachine(1e3 * (1 - np.eye(4)), np.zeros(4))
    biases = ebm.Penalty(free=[1] * 4 + [0] * 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ebm.EbmWarning)
        result = ebm.fit(strong, ROWS, penalty=biases, solver=ebm.Newton())
    # Chains of units, each on only where the one before is, have any means.
    np.testing.assert_allclose(result.ensemble.moments().mean, ROWS.mean(axis=0), atol=1e-9)
    deviations = np.sqrt(np.diag(np.linalg.inv(result.fisher.dense()[:4, :4]) / len(ROWS)))
    np.testing.assert_allclose(result.standard_errors, [*deviations, *[0] * 6], rtol=1e-9)


@pytest.mark.parametrize("kind", ["free", "all couplings alike", "matrix"])
@pytest.mark.parametrize("size", [5.0, 40.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_newton_steps_leave_a_saturated_start(family, size, kind):
    model = FAMILIES[family]
    p = len(model.parameters)
    model = model.with_parameters(size * np.random.default_rng(5).normal(size=p))
    penalty = ebm.Penalty(l2=0.01, **penalties(p)[kind])
    wanted = ebm.fit(model, rows_of(model), penalty=penalty, solver=ebm.LBFGS())
    assert wanted.converged
    result = ebm.fit(model, rows_of(model), penalty=penalty, solver=ebm.Newton())
    assert result.converged, result.message
    assert result.n_iterations < 60
    np.testing.assert_allclose(result.model.parameters, wanted.model.parameters, atol=1e-5)


def test_a_model_of_one_state_is_left_as_well():
    """No feature varies there at all, so that the Newton step is zero."""
    rng = np.random.default_rng(13)
    model = ebm.BoltzmannMachine(np.zeros((4, 4)), np.zeros(4))
    model = model.with_parameters(300 * rng.normal(size=10))
    penalty = ebm.Penalty(ties=np.where(np.arange(10) < 4, 0, 1))
    result = ebm.fit(model, ROWS, penalty=penalty, solver=ebm.Newton())
    wanted = ebm.fit(model, ROWS, penalty=penalty, solver=ebm.LBFGS())
    assert result.converged, result.message
    np.testing.assert_allclose(result.model.parameters, wanted.model.parameters, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["free", "all couplings alike"])
def test_every_solver_names_units_without_a_maximum(family, kind, seed):
    """L-BFGS goes so far out that Newton steps from there are rounding."""
    model = FAMILIES[family]
    model = model.with_parameters(np.zeros(len(model.parameters)))
    few = np.random.default_rng(seed).integers(0, 2, (3, 4))
    rows = np.repeat(2 * few - 1 if isinstance(model, ebm.IsingModel) else few, 10, axis=0)
    penalty = ebm.Penalty(**penalties(len(model.parameters))[kind])
    ends = []
    for solver in (ebm.Newton(), ebm.LBFGS()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoMaximumWarning)
            result = ebm.fit(model, rows, penalty=penalty, solver=solver)
        ends.append("has no maximum" in result.message)
        if ends[-1]:
            assert "combination of '" in result.warnings[0]
    assert ends[0] == ends[1]


class TestNames:
    """Parameters are chosen by what the model calls them."""

    NAMED = ebm.BoltzmannMachine(
        MACHINE.weights, MACHINE.biases, center=MACHINE.center, names=["a", "b", "c", "d"]
    )
    CHOSEN = ("W[a, b]", "b[c]", "b[a]")

    def flags(self):
        return [name in self.CHOSEN for name in self.NAMED.parameter_names]

    @pytest.mark.parametrize("solver", [None, ebm.LBFGS(), ebm.GradientSteps(n_epochs=3)])
    def test_names_are_flags(self, solver):
        pandas = pytest.importorskip("pandas")
        series = pandas.Series(self.flags(), index=self.NAMED.parameter_names)
        ways = [self.flags(), list(self.CHOSEN), np.array(self.CHOSEN), series, series[::-1]]
        ends = [
            ebm.fit(
                self.NAMED, ROWS, penalty=ebm.Penalty(l2=0.1, free=way), solver=solver
            ).model.parameters
            for way in ways
        ]
        assert all(np.array_equal(end, ends[0]) for end in ends[1:])
        assert not np.array_equal(ends[0], self.NAMED.parameters)

    def test_they_go_with_ties_and_other_losses(self):
        ties = np.arange(10) % 3
        for loss in (None, ebm.inversion.Pseudolikelihood()):
            ends = [
                ebm.fit(
                    self.NAMED, ROWS, penalty=ebm.Penalty(free=way, ties=ties), loss=loss
                ).model.parameters
                for way in (self.flags(), list(self.CHOSEN))
            ]
            assert np.array_equal(*ends)

    @pytest.mark.parametrize(
        ("free", "said"),
        [
            (["W[b, a]"], r"free holds 'W\[b, a\]': did you mean 'W\[a, b\]'"),
            (["b[a]", "x"], r"free holds 'x': the parameters are 'b\[a\]', .*\(4 more\)"),
        ],
    )
    def test_other_names_are_refused_with_near_ones(self, free, said):
        with pytest.raises(NamesError, match=said):
            ebm.fit(self.NAMED, ROWS, penalty=ebm.Penalty(free=free))

    @pytest.mark.parametrize("free", [["b[a]", "b[a]"], ["b[a]", True], [["b[a]"]], []])
    def test_what_are_no_names(self, free):
        with pytest.raises(EbmError, match="free"):
            ebm.fit(self.NAMED, ROWS, penalty=ebm.Penalty(free=free))

    def test_of_a_model_without_names_flags_are_wanted(self):
        class Own(ebm.ParametricModel):
            space, parameters = ebm.Binary(4), np.zeros(1)

            def with_parameters(self, theta):
                changed = Own()
                changed.parameters = np.asarray(theta, dtype=float)
                return changed

            def energy(self, states):
                return -self.parameters[0] * np.sum(states, axis=-1)

            def energy_gradient(self, states):
                return -np.sum(states, axis=-1, keepdims=True)

        with pytest.raises(NamesError, match="has no parameter_names: give flags"):
            ebm.fit(Own(), ROWS, penalty=ebm.Penalty(free=["b[a]"]))
