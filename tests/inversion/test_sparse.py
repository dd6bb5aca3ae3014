"""Losses with absolute values of couplings: reference numbers, an independent solver, zeros."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import logsumexp

import ebm
from ebm.errors import ConstantUnitError, EbmError, ModelError, NoMaximumWarning
from ebm.inversion import InteractionScreening, MinimumProbabilityFlow, Pseudolikelihood
from ebm.learning import _absolutes

COUNTS = [13, 21, 3, 16, 9, 11, 15, 20, 8, 1, 5, 3, 20, 13, 25, 17]
STATES = np.array(list(itertools.product((0, 1), repeat=4)))
TABLE = ebm.Ensemble.from_data(STATES, sample_weight=COUNTS)
SPINS = ebm.Ensemble.from_data(2 * STATES - 1, sample_weight=COUNTS, space=ebm.Spins)
BINARY, ISING = ebm.BoltzmannMachine, ebm.IsingModel
PRECISE = ebm.ProximalNewton(tolerance=1e-12)


def flat(kind, n=4, **how):
    return kind(np.zeros((n, n)), np.zeros(n), **how)


def couplings(result):
    return result.model.parameters[len(result.model.space.labels) :]


def fitted(loss, l1, kind=BINARY, data=None, **how):
    data = data or (SPINS if kind is ISING else TABLE)
    return ebm.fit(flat(kind), data, loss=loss, penalty=ebm.Penalty(l1=l1), solver=PRECISE, **how)


class TestReferenceNumbers:
    """Of 200 rows of four units, each computed in two ways."""

    def test_of_the_likelihood(self):
        result = fitted(None, 0.02)
        wanted = [1.0324403, 0, -0.7260913, 0.4769826, 0, 0]
        np.testing.assert_allclose(couplings(result), wanted, atol=6e-8)
        assert np.count_nonzero(couplings(result)) == 3
        value = -result.log_likelihood + 0.02 * np.abs(couplings(result)).sum()
        assert value == pytest.approx(2.6717847568, abs=6e-11)
        free = fitted(None, 0.0)
        wanted = [1.4133350, -0.006318988, -1.0220673, 0.8871620, -0.2156737, 0.3431793]
        np.testing.assert_allclose(couplings(free), wanted, atol=6e-8)

    def test_of_the_joint_pseudolikelihood(self):
        result = fitted(Pseudolikelihood(), 0.02)
        wanted = [1.2054340, 0, -0.8618452, 0.6660751, -0.039177293, 0.1387785]
        np.testing.assert_allclose(couplings(result), wanted, atol=6e-8)
        value = -result.log_pseudolikelihood + 0.02 * np.abs(couplings(result)).sum()
        assert value == pytest.approx(2.5753172870, abs=6e-11)
        free = ebm.fit(flat(BINARY), TABLE, loss=Pseudolikelihood())
        wanted = [1.4140605, -0.011440113, -1.0218432, 0.8882180, -0.2159963, 0.3425532]
        np.testing.assert_allclose(couplings(free), wanted, atol=6e-8)

    def test_of_minimum_probability_flow(self):
        problem = MinimumProbabilityFlow().of(flat(ISING), SPINS, ebm.Penalty(l1=0.02))
        result = problem.solve(PRECISE, progress=False)
        wanted = [0.3437180, 0, -0.2517716, 0.2036967, -0.036577533, 0.0729818]
        np.testing.assert_allclose(couplings(result), wanted, atol=6e-8)
        value = -result.history[-1].log_likelihood + 0.02 * np.abs(couplings(result)).sum()
        assert value == pytest.approx(3.7443692372, abs=6e-11)

    @pytest.mark.parametrize(
        ("loss", "kind", "value", "row"),
        [
            (Pseudolikelihood(True), BINARY, 0.6490705068, [0.9810106, 0, -0.6584612]),
            (InteractionScreening(False), ISING, 0.9223622074, [0.3401737, 0, -0.2432208]),
            (InteractionScreening(), ISING, -0.0818843745, [0.3425367, 0, -0.2452229]),
        ],
    )
    def test_of_the_regression_of_the_first_unit(self, loss, kind, value, row):
        data = SPINS if kind is ISING else TABLE
        sparse = getattr(loss, "sparse", loss.of)
        problem = sparse(flat(kind), data, ebm.Penalty(l1=0.02))
        result = problem.solve(PRECISE, progress=False)
        np.testing.assert_allclose(result.regressions[0, 1:], row, atol=6e-8)
        smooth = problem.smooth
        theta = smooth.coordinates(np.zeros(4), result.regressions)
        # Biases at the means of the data, from the model whose couplings are those of one row.
        found = minimize(
            lambda b: smooth.terms(np.append(b, theta[4:])).total,
            problem.start()[:4],
            tol=1e-14,
        )
        biases = found.x
        loss_of_unit = smooth.unit_losses(np.append(biases, theta[4:]))[0]
        assert loss_of_unit + 0.02 * np.abs(row).sum() == pytest.approx(value, abs=2e-9)

    @pytest.mark.parametrize(
        ("loss", "kind", "wanted"),
        [
            (ebm.Likelihood(), BINARY, 0.076),
            (Pseudolikelihood(), BINARY, 0.152),
            (Pseudolikelihood(node_wise=True), BINARY, 0.076),
            (InteractionScreening(False), ISING, 0.3186785905),
            (InteractionScreening(), ISING, 0.3340659341),
            (MinimumProbabilityFlow(), ISING, 0.6236560848),
        ],
    )
    def test_of_the_strength_from_which_on_nothing_is_coupled(self, loss, kind, wanted):
        data = SPINS if kind is ISING else TABLE
        problem = loss.of(flat(kind), data, ebm.Penalty(l1=0.02))
        problem = problem.sparse() if hasattr(problem, "sparse") else problem
        assert problem.largest_l1 == pytest.approx(wanted, rel=1e-9)
        assert not couplings(fitted(loss, 1.001 * wanted, kind)).any()
        below = fitted(loss, 0.99 * wanted, kind)
        assert couplings(below).any() or below.regressions.any()

    def test_of_the_slopes_of_the_first_unit_alone(self):
        """Of its three couplings without any: .305 without, .306 with the logarithm."""
        for logarithm, wanted in ((False, 0.3049775), (True, 0.3059581)):
            loss = InteractionScreening(logarithm)
            problem = loss.of(flat(ISING), SPINS, ebm.Penalty(l1=0.02))
            slopes = problem.smooth.point(problem.without_couplings).slopes[4:7]
            assert abs(slopes).max() == pytest.approx(wanted, abs=6e-8)


def random_rows(seed, n=5, m=60):
    rng = np.random.default_rng(seed)
    rows = (rng.random((m, n)) < rng.uniform(0.3, 0.7, n)).astype(int)
    rows[: m // 3, 1] = rows[: m // 3, 0]
    return rows


def objectives(rows, *, loss):
    """The stated losses, written out: θ = (biases, couplings i < j) -> value, without penalty."""
    n = rows.shape[1]
    i, j = np.triu_indices(n, 1)
    every = np.array(list(itertools.product((0, 1), repeat=n)))

    def fields(theta):
        weights = np.zeros((n, n))
        weights[i, j] = weights[j, i] = theta[n:]
        return theta[:n] + rows @ weights

    def likelihood(theta):
        def minus_energy(x):
            return x @ theta[:n] + (x[:, i] * x[:, j]) @ theta[n:]

        return logsumexp(minus_energy(every)) - minus_energy(rows).mean()

    def pseudolikelihood(theta):
        return np.logaddexp(0, (1 - 2 * rows) * fields(theta)).mean(axis=0).sum()

    def flow(theta):
        return np.exp((0.5 - rows) * fields(theta)).mean(axis=0).sum()

    return {"likelihood": likelihood, "pseudolikelihood": pseudolikelihood, "flow": flow}[loss]


def lowest(objective, n, p, l1):
    """The minimum with W = u − v, u and v ≥ 0, by L-BFGS-B: another way to the same number."""

    def split(z):
        theta = np.append(z[:n], z[n : n + p] - z[n + p :])
        return objective(theta) + l1 * z[n:].sum()

    def slopes(z):
        z = np.asarray(z, float)
        return np.array([(split(z + h) - split(z - h)) / 2e-5 for h in 1e-5 * np.eye(len(z))])

    bounds = [(None, None)] * n + [(0, None)] * (2 * p)
    settings = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000, "maxfun": 10**6}
    start = np.zeros(n + 2 * p)
    return minimize(
        split, start, jac=slopes, method="L-BFGS-B", bounds=bounds, options=settings
    ).fun


@pytest.mark.parametrize("l1", [0.01, 0.04])
@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("likelihood", ebm.Likelihood()),
        ("pseudolikelihood", Pseudolikelihood()),
        ("flow", MinimumProbabilityFlow()),
    ],
)
def test_the_objective_is_that_of_another_convex_solver(name, loss, l1):
    for seed in range(3):
        rows = random_rows(seed)
        objective = objectives(rows, loss=name)
        result = ebm.fit(flat(BINARY, 5), rows, loss=loss, penalty=ebm.Penalty(l1=l1))
        assert result.converged, result.message
        theta = result.model.parameters
        value = objective(theta) + l1 * np.abs(theta[5:]).sum()
        assert value == pytest.approx(lowest(objective, 5, 10, l1), abs=1e-8)


@pytest.mark.parametrize("loss", [Pseudolikelihood(True), InteractionScreening()])
def test_regressions_are_those_of_another_convex_solver(loss):
    rows, l1 = random_rows(5), 0.03
    result = ebm.fit(flat(BINARY, 5), rows, loss=loss, penalty=ebm.Penalty(l1=l1))
    for unit in range(5):
        others = np.delete(rows, unit, axis=1)

        def of_unit(theta, unit=unit, others=others):
            field = theta[0] + others @ theta[1:]
            if isinstance(loss, Pseudolikelihood):
                return np.logaddexp(0, (1 - 2 * rows[:, unit]) * field).mean()
            return np.log(np.exp((0.5 - rows[:, unit]) * field).mean())

        row = np.delete(result.regressions[unit], unit)
        bias = minimize(
            lambda b, row=row, of_unit=of_unit: of_unit(np.append(b, row)), 0.0, tol=1e-12
        ).x
        value = of_unit(np.append(bias, row)) + l1 * np.abs(row).sum()
        assert value == pytest.approx(lowest(of_unit, 1, 4, l1), abs=1e-8)


LOSSES = [
    None,
    Pseudolikelihood(),
    Pseudolikelihood(True),
    Pseudolikelihood(True, "or"),
    InteractionScreening(),
    InteractionScreening(logarithm=False, rule="or"),
    MinimumProbabilityFlow(),
]


@pytest.mark.parametrize("loss", LOSSES)
class TestZeros:
    def test_both_codings_and_any_center_give_one_graph(self, loss):
        """λ_J = 4 λ_W is one estimate."""
        binary = fitted(loss, 0.02)
        spins = fitted(loss, 0.08, ISING)
        centered = ebm.fit(
            flat(BINARY, center=[0.3, 0.1, 0.7, 0.5]),
            TABLE,
            loss=loss,
            penalty=ebm.Penalty(l1=0.02),
            solver=PRECISE,
        )
        np.testing.assert_allclose(4 * couplings(spins), couplings(binary), atol=1e-9)
        np.testing.assert_array_equal(couplings(spins) == 0, couplings(binary) == 0)
        moved = centered.model.recentered(0.0)
        np.testing.assert_allclose(moved.parameters, binary.model.parameters, atol=1e-9)
        np.testing.assert_allclose(
            spins.model.to_binary().parameters, binary.model.parameters, atol=1e-9
        )

    def test_a_mask_holds_couplings_where_they_are(self, loss):
        start = ebm.BoltzmannMachine(0.5 * (np.eye(4)[[1, 0, 3, 2]]), np.zeros(4))
        free = np.ones(10, dtype=bool)
        free[4] = False
        penalty = ebm.Penalty(l1=0.02, free=free)
        result = ebm.fit(start, TABLE, loss=loss, penalty=penalty)
        assert result.converged
        assert result.model.weights[0, 1] == pytest.approx(0.5, abs=1e-15)
        assert (couplings(result) == 0).any()
        names = [name for k, name in enumerate(start.parameter_names) if k != 4]
        by_name = ebm.Penalty(l1=0.02, free=names)
        same = ebm.fit(start, TABLE, loss=loss, penalty=by_name)
        np.testing.assert_array_equal(same.model.parameters, result.model.parameters)
        sparse = ebm.BoltzmannMachine(csr_array(np.eye(4)[[1, 0, 3, 2]]), np.zeros(4))
        assert len(couplings(ebm.fit(sparse, TABLE, loss=loss, penalty=penalty_of(0.01)))) == 2

    def test_held_biases_stay_and_the_rest_is_best(self, loss):
        start = ebm.BoltzmannMachine(np.zeros((4, 4)), [0.2, 0, 0, 0], center=0.3)
        free = np.arange(10) > 0
        result = ebm.fit(start, TABLE, loss=loss, penalty=ebm.Penalty(l1=0.02, free=free))
        assert result.converged
        assert result.model.biases[0] == pytest.approx(0.2, abs=0.1)

    def test_it_is_the_end_of_no_penalty(self, loss):
        if isinstance(loss, Pseudolikelihood):
            free = ebm.fit(flat(BINARY), TABLE, loss=loss, solver=None)
        else:
            free = fitted(loss, 0.0)
        nearly = fitted(loss, 1e-12)
        np.testing.assert_allclose(couplings(nearly), couplings(free), atol=2e-8)

    def test_a_run_that_was_stopped_goes_on_to_the_same_bits(self, loss, tmp_path):
        whole = fitted(loss, 0.01)
        for steps in range(1, whole.n_iterations):
            path = tmp_path / f"{steps}.npz"
            few = ebm.ProximalNewton(tolerance=1e-12, max_iterations=steps)
            how = {"loss": loss, "penalty": ebm.Penalty(l1=0.01), "checkpoint": path}
            with pytest.warns(ebm.errors.NotConvergedWarning, match="max_iterations"):
                ebm.fit(flat(BINARY), TABLE, solver=few, **how)
            resumed = ebm.fit(flat(BINARY), TABLE, solver=PRECISE, **how)
            np.testing.assert_array_equal(resumed.model.parameters, whole.model.parameters)
            assert resumed.history == whole.history
        with pytest.raises(EbmError, match="belongs to a run with another l1"):
            ebm.fit(flat(BINARY), TABLE, solver=PRECISE, **{**how, "penalty": penalty_of(0.02)})

    def test_rows_are_counts(self, loss):
        repeated = np.repeat(STATES, COUNTS, axis=0)
        one = ebm.fit(flat(BINARY), repeated, loss=loss, penalty=penalty_of(0.02))
        two = ebm.fit(flat(BINARY), TABLE, loss=loss, penalty=penalty_of(0.02))
        np.testing.assert_allclose(one.model.parameters, two.model.parameters, atol=1e-9)

    def test_squares_beside_absolute_values(self, loss):
        weak = ebm.fit(flat(BINARY), TABLE, loss=loss, penalty=ebm.Penalty(l1=0.01))
        both = ebm.fit(flat(BINARY), TABLE, loss=loss, penalty=ebm.Penalty(l1=0.01, l2=0.5))
        assert both.converged
        assert np.abs(couplings(both)).sum() < 0.7 * np.abs(couplings(weak)).sum()

    def test_ties_are_refused(self, loss):
        ties = [0, 1, 2, 3] + [4] * 6
        with pytest.raises(EbmError, match="ties have no place beside l1"):
            ebm.fit(flat(BINARY), TABLE, loss=loss, penalty=ebm.Penalty(l1=0.01, ties=ties))

    def test_units_that_never_change_are_refused(self, loss):
        rows = np.array(STATES)
        rows[:, 2] = 1
        with pytest.raises(ConstantUnitError, match=r"'2' never changes, .*: leave such units out"):
            ebm.fit(flat(BINARY), rows, loss=loss, penalty=penalty_of(0.02))
        held = ebm.Penalty(l1=0.02, l2_biases=0.01)
        result = ebm.fit(flat(BINARY), rows, loss=loss, penalty=held)
        assert result.converged


def penalty_of(l1):
    return ebm.Penalty(l1=l1)


class TestStatements:
    def test_the_message_says_how_well_the_conditions_hold(self):
        result = fitted(Pseudolikelihood(), 0.02)
        assert "conditions of the minimum hold to" in result.message
        assert "for all 6 couplings, 5 of which are not zero" in result.message
        assert result.standard_errors is None
        assert any("one_step" in note for note in result.warnings)

    def test_the_conditions_see_a_wrong_minimum(self):
        """A coupling moved by 1e-6, one that should not be zero, one that should be."""
        problem = Pseudolikelihood().sparse(flat(BINARY), TABLE, penalty_of(0.02))
        loss = problem.loss(0.02)
        theta = problem.smooth.coordinates(*arrays_at_means(fitted(Pseudolikelihood(), 0.02)))
        assert loss.residual(theta) < 1e-10
        for k, value in ((4, theta[4] + 1e-6), (7, 0.0), (5, 1e-9)):
            wrong = theta.copy()
            wrong[k] = value
            assert loss.residual(wrong) > 1e-8

    def test_the_rule_and_takes_what_both_regressions_have(self):
        # Between the strengths at which a pair of units enters the one regression and the other.
        both, either = (
            fitted(InteractionScreening(rule=rule), 0.19, ISING) for rule in ("and", "or")
        )
        found = both.regressions
        np.testing.assert_array_equal(found, either.regressions)
        one_sided = (found != 0) != (found.T != 0)
        assert one_sided.any()
        assert not both.model.couplings[one_sided].any()
        assert either.model.couplings[one_sided].all()
        np.testing.assert_allclose(either.model.couplings, (found + found.T) / 2, atol=1e-15)
        with pytest.raises(EbmError, match="rule must be 'and' or 'or', got 'xor'"):
            Pseudolikelihood(True, "xor")
        with pytest.raises(EbmError, match="give node_wise=True"):
            Pseudolikelihood(rule="or")

    def test_both_forms_of_screening_have_one_minimum_without_a_penalty(self):
        one, other = (fitted(InteractionScreening(flag), 0.0) for flag in (True, False))
        np.testing.assert_allclose(one.model.parameters, other.model.parameters, atol=1e-9)

    @pytest.mark.parametrize("loss", [InteractionScreening(), MinimumProbabilityFlow()])
    def test_exact_data_give_back_the_machine(self, loss):
        truth = ebm.BoltzmannMachine(
            [[0, 1.2, 0, -0.7], [1.2, 0, 0.9, 0], [0, 0.9, 0, 0], [-0.7, 0, 0, 0]],
            [0.3, -0.5, 0.1, 0.2],
        )
        result = ebm.fit(flat(BINARY), ebm.exact(truth), loss=loss)
        assert result.converged
        np.testing.assert_allclose(result.model.parameters, truth.parameters, atol=1e-8)
        np.testing.assert_array_equal(result.standard_errors, 0)

    @pytest.mark.parametrize(
        "loss", [InteractionScreening(), InteractionScreening(False), MinimumProbabilityFlow()]
    )
    def test_parameters_are_within_their_errors(self, loss):
        truth = ebm.BoltzmannMachine([[0, 0.8, 0], [0.8, 0, -0.6], [0, -0.6, 0]], [0.2, -0.3, 0.4])
        scores = []
        for seed in range(40):
            rows = ebm.exact(truth).sample(1500, seed)
            result = ebm.fit(flat(BINARY, 3), rows, loss=loss)
            scores.append((result.model.parameters - truth.parameters) / result.standard_errors)
        scores = np.array(scores)
        # 40 squares have a deviation of .22 about 1; of six, one in 10⁴ is beyond .45 to 1.9.
        assert (np.abs((scores**2).mean(axis=0) - 1) < 0.9).all()
        assert 0.7 < (scores**2).mean() < 1.35

    @pytest.mark.parametrize(
        "loss",
        [InteractionScreening(), Pseudolikelihood(node_wise=True), MinimumProbabilityFlow()],
        ids=repr,
    )
    @pytest.mark.parametrize("kind", [BINARY, ISING])
    def test_errors_are_the_influence_of_each_row(self, kind, loss):
        """√(Σ_r w_r I_r²/N), I_r the slope at weights (1−ε) w + ε δ_r; the center moves, too."""
        states = STATES if kind is BINARY else 2 * STATES - 1
        share = np.array(COUNTS) / 200
        solver = {} if isinstance(loss, Pseudolikelihood) else {"solver": PRECISE}

        def result(weights):
            data = ebm.Ensemble.from_data(
                states, sample_weight=200 * weights, space=flat(kind).space
            )
            return ebm.fit(flat(kind), data, loss=loss, **solver)

        total = np.zeros(10)
        for row, towards in enumerate(np.eye(16) - share):
            ends = [result(share + step * towards).model.parameters for step in (1e-4, -1e-4)]
            total += share[row] * ((ends[0] - ends[1]) / 2e-4) ** 2
        errors = result(share).standard_errors
        np.testing.assert_allclose(errors, np.sqrt(total / 200), rtol=1e-4)

    @pytest.mark.filterwarnings("ignore::ebm.errors.NotConvergedWarning")
    @pytest.mark.parametrize(
        "loss", [InteractionScreening(), InteractionScreening(False), MinimumProbabilityFlow()]
    )
    def test_without_a_minimum_it_is_said(self, loss):
        rows = np.random.default_rng(0).integers(0, 2, (80, 3))
        equal = np.column_stack([rows, rows[:, 1]])
        with pytest.warns(NoMaximumWarning, match="'1' and '3' are always equal"):
            result = ebm.fit(flat(BINARY), equal, loss=loss)
        assert not result.converged
        assert result.standard_errors is None
        most = np.column_stack([rows, rows.sum(axis=1) > 1])
        with pytest.warns(NoMaximumWarning, match="'3' is predicted without error"):
            ebm.fit(flat(BINARY), most.astype(int), loss=loss)
        sometimes = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
        data = ebm.Ensemble.from_data(sometimes, sample_weight=[3, 1, 2, 2, 1, 4])
        with pytest.warns(NoMaximumWarning, match="predicted without error"):
            ebm.fit(flat(BINARY, 3), data, loss=loss)
        assert ebm.fit(flat(BINARY), equal, loss=loss, penalty=ebm.Penalty(l2=0.1)).converged

    def test_models_and_moments_that_do_not_suit_are_refused(self):
        potts = ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.zeros((2, 3)))
        with pytest.raises(ModelError, match="no pairwise model of two-valued units"):
            MinimumProbabilityFlow().of(potts, TABLE, ebm.Penalty())
        with pytest.raises(ModelError, match="rows are wanted"):
            ebm.fit(flat(BINARY), TABLE.moments(), loss=MinimumProbabilityFlow())
        with pytest.raises(EbmError, match="logarithm must be True or False"):
            InteractionScreening(logarithm=1)

    def test_strong_inputs_overflow_nowhere(self):
        rows = ebm.exact(ebm.BoltzmannMachine(3 * (np.ones((4, 4)) - np.eye(4)), [-4.5] * 4))
        for loss in (InteractionScreening(), InteractionScreening(False)):
            result = ebm.fit(flat(BINARY), rows.sample(400, 1), loss=loss, penalty=penalty_of(1e-3))
            assert result.converged, result.message
            assert np.isfinite(result.model.parameters).all()

    def test_a_logarithm_that_falls_for_ever_is_said_to(self):
        """Two rows that all units tell apart: ln E falls faster than a weak penalty rises."""
        rows = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 19
        with pytest.warns(NoMaximumWarning, match="no minimum.*are always equal"):
            result = ebm.fit(
                flat(BINARY, 3), rows, loss=InteractionScreening(), penalty=penalty_of(1e-3)
            )
        assert not result.converged
        assert np.isfinite(result.model.parameters).all()

    def test_names_are_those_of_the_data(self):
        data = ebm.Ensemble.from_data(STATES, sample_weight=COUNTS, names=list("abcd"))
        result = ebm.fit(flat(BINARY), data, loss=InteractionScreening(), penalty=penalty_of(0.1))
        assert result.model.names == tuple("abcd")


def arrays_at_means(result):
    """Biases at the means of the data, and weights."""
    model = result.model.recentered(np.average(STATES, axis=0, weights=COUNTS))
    return model.biases, model.weights


class TestGroups:
    def test_absolutes_of_groups_of_one_are_absolute_values(self):
        rng = np.random.default_rng(0)
        theta, slopes = rng.normal(size=(2, 6))
        theta[2] = 0
        strengths = np.full(6, 0.3)
        one = _absolutes.Absolutes(np.arange(7), strengths)
        assert one.value(theta) == pytest.approx(0.3 * np.abs(theta).sum())
        wanted = np.where(
            theta != 0, np.abs(slopes + 0.3 * np.sign(theta)), np.maximum(np.abs(slopes) - 0.3, 0)
        )
        np.testing.assert_allclose(one.residuals(theta, slopes), wanted)

    def test_groups_shrink_together(self):
        """min ½|φ − z|² + λ Σ|φ_G| has φ_G = (1 − λ/|z_G|)₊ z_G."""
        from ebm._kernels.coordinate_descent import descend

        z = np.array([0.3, -0.4, 2.0, 1.0, 0.5])
        starts = np.array([0, 2, 4, 5])
        places = np.array([[0, k, -1, 0] for k in range(5)])
        step = descend(
            np.eye(5)[None], places, -z, np.zeros(5), np.zeros(5),
            np.array([0.6, 0.6, 0.0]), starts, np.ones(3), np.arange(3), 1e-14, 50,
        )  # fmt: skip
        length = np.hypot(2, 1)
        wanted = [0, 0, 2 * (1 - 0.6 / length), 1 - 0.6 / length, 0.5]
        np.testing.assert_allclose(step, wanted, atol=1e-14)
        assert (step[:2] == 0).all()


@pytest.mark.parametrize("l1", [0.0, 0.1])
def test_what_leaves_no_errors_is_said(l1):
    """Proximal steps without an l1 chose nothing."""
    model = ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3))
    rows = ebm.exact(model).sample(50, rng=0)
    result = ebm.fit(model, rows, penalty=ebm.Penalty(l1=l1, l2=0.1), solver=ebm.ProximalNewton())
    (why,) = result.warnings
    assert ("l1 chose" if l1 else "leave the solver out") in why
