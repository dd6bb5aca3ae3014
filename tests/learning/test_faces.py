"""Whether a maximum exists: every family and route against the hull of all states.

Rows bound the likelihood if and only if they do not lie on a proper face of the polytope of the
features of all states, which a linear program over all of them decides. ``python -m
tests.learning.test_faces 1500`` counts the answers on as many random supports of each family.
"""

import sys
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import linprog

import ebm
from ebm.errors import ConstantUnitError, NoMaximumWarning
from ebm.learning import _separation as rows_only
from ebm.learning.penalties import AppliedPenalty
from tests import oracles


def all_states(space):
    return np.concatenate(list(space.enumerate()))


def lies_on_a_face(features, of_rows):
    """Whether some d·T + c is zero on all rows, nowhere positive, and not zero everywhere."""
    slack = np.column_stack([-features, np.ones(len(features))])
    level = np.column_stack([-of_rows, np.ones(len(of_rows))])
    program = linprog(
        -slack.sum(axis=0),
        A_ub=np.concatenate([-slack, slack]),
        b_ub=np.concatenate([np.zeros(len(slack)), np.ones(len(slack))]),
        A_eq=level,
        b_eq=np.zeros(len(level)),
        bounds=(None, None),
    )
    assert program.status == 0
    return -program.fun > 1e-6


def pairs(n):
    return np.zeros((n, n)), np.zeros(n)


def binary(n):
    return ebm.BoltzmannMachine(*pairs(n))


def spins(n):
    return ebm.IsingModel(*pairs(n))


def potts(n):
    n = min(n, 3)
    return ebm.PottsModel(np.zeros((n, n, 3, 3)), np.zeros((n, 3)))


def triples(n):
    units = [(i,) for i in range(n)]
    both = [(i, j) for j in range(n) for i in range(j)]
    return ebm.InteractionModel(
        dict.fromkeys([*units, *both, *((i, i + 1, i + 2) for i in range(n - 2))], 0.0),
        ebm.Binary(n),
    )


def by_hand(n):
    i, j = np.triu_indices(n, 1)
    theta = np.random.default_rng(n).normal(size=n + len(i))
    return oracles.LinearFamily(
        ebm.Binary(n), lambda x: np.concatenate([x, x[..., i] * x[..., j]], axis=-1), theta
    )


def one_hot(n):
    """A Potts model as a user writes it: a number for every value, so that many change nothing."""
    n = min(n, 2)
    i, j = np.triu_indices(n, 1)

    def features(x):
        on = (x[..., None] == np.arange(3)).astype(float)
        both = on[..., i, :, None] * on[..., j, None, :]
        return np.concatenate([part.reshape(*x.shape[:-1], -1) for part in (on, both)], axis=-1)

    return oracles.LinearFamily(ebm.Levels(n, 3), features, np.zeros(3 * n + 9 * len(i)))


FAMILIES = [binary, spins, potts, triples, by_hand, one_hot]


def problem(family, seed, **penalties):
    """A member of a family, rows on a random support, and whether they lie on a face.

    Penalties leave the features of directions alone that they do not hold.
    """
    rng = np.random.default_rng(seed)
    model = family(int(rng.integers(2, 6)))
    states = all_states(model.space)
    least = 2 if rng.random() < 0.4 else max(2, len(states) // 2)
    size = int(rng.integers(least, len(states) + 1))
    support = states[rng.choice(len(states), size, replace=False)]
    rows = np.repeat(support, rng.integers(1, 2 + int(10 ** rng.uniform(0, 3)), size), axis=0)
    free = AppliedPenalty(model, ebm.Penalty(**penalties)).unpenalized()
    on_face = lies_on_a_face(
        model.energy_gradient(states) @ free, model.energy_gradient(support) @ free
    )
    return model, rows, on_face


def answer(model, rows, **options):
    """What a fit says: True for no maximum, False for one, None for anything else."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = ebm.fit(model, rows, **options)
        except ConstantUnitError:
            return True
    warned = any(issubclass(w.category, NoMaximumWarning) for w in caught)
    if warned != ("no maximum" in result.message) or (warned and result.converged):
        return None
    return True if warned else (False if result.converged else None)


@pytest.mark.parametrize("family", FAMILIES)
def test_exact_fits_know_whether_a_maximum_exists(family):
    answers = Counter()
    for seed in range(60):
        model, rows, on_face = problem(family, seed)
        answers[on_face, answer(model, rows)] += 1
    assert set(answers) == {(True, True), (False, False)}, answers


@pytest.mark.parametrize("family", [binary, spins, potts, triples])
@pytest.mark.parametrize("steps", [False, True])
def test_a_penalty_on_biases_alone_holds_some_faces(family, steps):
    """Units that are never both on have no best coupling, whatever holds biases; others may."""
    answers = Counter()
    options = {"solver": ebm.GradientSteps(n_epochs=1)} if steps else {}
    for seed in range(8 if steps else 30):
        model, rows, on_face = problem(family, seed, l2_biases=0.1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ebm.fit(model, rows, penalty=ebm.Penalty(l2_biases=0.1), **options)
        answers[on_face, any(issubclass(w.category, NoMaximumWarning) for w in caught)] += 1
    assert set(answers) == {(True, True), (False, False)}, answers


@pytest.mark.parametrize("n", [4, 16])
def test_units_that_exclude_each_other_have_a_maximum(n):
    """Few states are allowed, and adding one number to all parameters changes nothing."""

    class OneOn(oracles.LinearFamily):
        def with_parameters(self, theta):
            return OneOn(self.space, self.features, theta, self.base)

        def energy(self, states):
            return np.where(np.sum(states, axis=-1) == 1, super().energy(states), np.inf)

    units = np.concatenate([np.arange(n), np.random.default_rng(0).integers(0, n, 200)])
    rows = np.eye(n)[units]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ebm.fit(OneOn(ebm.Binary(n), lambda x: x, np.zeros(n)), rows)
    assert result.converged
    wanted = np.log(rows.mean(axis=0))
    np.testing.assert_allclose(result.model.parameters, wanted - wanted.mean(), atol=1e-7)


@pytest.mark.parametrize("l2_biases", [0.0, 0.2])
def test_a_term_that_is_rarely_seen_is_no_idle_direction(l2_biases):
    """All of twelve units on: one state in 4096, and none of those drawn at random."""
    model = ebm.InteractionModel({tuple(range(12)): 0.0, (0,): 0.0}, ebm.Binary(12))
    rows = np.concatenate([np.ones((300, 12)), np.random.default_rng(0).integers(0, 2, (300, 12))])
    rows = np.random.default_rng(1).permutation(rows)
    result = ebm.fit(model, rows, penalty=ebm.Penalty(l2_biases=l2_biases))
    assert result.converged
    own = result.ensemble.expectation(lambda x: x.all(axis=-1))
    assert own == pytest.approx(rows.all(axis=1).mean(), abs=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sees_all", [True, False])
def test_rows_alone_never_claim_a_maximum_that_is_not_there(family, sees_all, monkeypatch):
    if not sees_all:
        monkeypatch.setattr(rows_only, "FEW_STATES", 0)
    answers = Counter()
    for seed in range(60):
        model, rows, on_face = problem(family, seed)
        data = ebm.Ensemble.from_data(rows, space=model.space)
        doubt = rows_only.separation(model, data, AppliedPenalty(model, ebm.Penalty(0.0)))
        answers[on_face, doubt is not None] += 1
        assert doubt is None or doubt.is_certain == sees_all
    assert answers[True, False] == 0, answers
    # Of neighbors alone a few maxima are not certain; with all states every one is.
    assert answers[False, True] <= (0 if sees_all else 6), answers


class TestChains:
    """Fits by chains cannot sum over states: the rows speak."""

    never_000_or_111 = np.array([[k >> i & 1 for i in range(3)] for k in range(1, 7)] * 50)

    def fit(self, rows, **options):
        start = binary(rows.shape[1])
        options = {"solver": ebm.GradientSteps(n_epochs=2), **options}
        return ebm.fit(start, rows, loss=ebm.Likelihood(ebm.PersistentChains(50)), rng=0, **options)

    def test_three_units_that_never_agree_have_no_maximum(self):
        with pytest.warns(NoMaximumWarning, match="some combination of '0', '1', '2' never"):
            result = self.fit(self.never_000_or_111)
        assert not result.converged

    def test_among_many_units_there_may_be_none(self):
        rows = np.random.default_rng(0).integers(0, 2, (3000, 14))
        rows = rows[~((rows[:, 2] == rows[:, 5]) & (rows[:, 5] == rows[:, 9]))]
        with pytest.warns(NoMaximumWarning, match=r"may have no maximum.*'2', '5', '9'"):
            result = self.fit(rows)
        assert not result.converged
        assert "may have no maximum" in result.warnings[0]

    def test_rows_with_a_maximum_are_answered_without_a_warning(self):
        rows = np.random.default_rng(0).integers(0, 2, (3000, 14))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert self.fit(rows).warnings == ()

    def test_fewer_rows_than_parameters_may_have_one(self):
        rows = np.random.default_rng(0).integers(0, 2, (100, 14))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert self.fit(rows).warnings == ()

    def test_a_penalty_makes_one(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert self.fit(self.never_000_or_111, penalty=ebm.Penalty(l2=1e-2)).warnings == ()

    def test_a_triple_that_is_never_seen_nor_next_to_a_row_is_doubted(self, monkeypatch):
        # Neighbors of rows with at most one unit on never show all three.
        monkeypatch.setattr(rows_only, "FEW_STATES", 0)
        model = ebm.InteractionModel({(0, 1, 2): 0.0}, ebm.Binary(3))
        data = ebm.Ensemble.from_data([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        doubt = rows_only.separation(model, data, AppliedPenalty(model, ebm.Penalty(0.0)))
        assert doubt.units == ("0", "1", "2")

    def test_the_question_has_a_limit_that_the_result_states(self):
        rows = np.random.default_rng(0).integers(0, 2, (200, 70))
        result = self.fit(rows)
        assert "at most 2000 parameters" in result.warnings[-1]


def ring(n, coupling):
    bonds = coupling * np.roll(np.eye(n), 1, axis=0)
    return bonds + bonds.T


def torus(side, signs):
    """Couplings of a periodic square lattice, one sign for each of the 2 L² bonds."""
    couplings = np.zeros((side**2, side**2))
    for site in range(side**2):
        x, y = divmod(site, side)
        for k, other in enumerate(((x + 1) % side * side + y, x * side + (y + 1) % side)):
            couplings[site, other] += signs[2 * site + k]
            couplings[other, site] += signs[2 * site + k]
    return couplings


def plus_minus(seed):
    return np.random.default_rng(seed).choice([-1.0, 1.0], 32)


STRONG = {
    "ring of 12 at 1.5": ring(12, 1.5),
    "ring of 10 at 2.5": ring(10, 2.5),
    **{f"ferromagnet at {beta}": torus(4, np.full(32, beta)) for beta in (0.5, 0.6, 1.0)},
    **{
        f"glass {seed} at {beta}": beta * torus(4, plus_minus(seed))
        for seed in (0, 2)
        for beta in (1.0, 2.0)
    },
}


@pytest.mark.parametrize("name", STRONG)
def test_strong_couplings_come_back_from_their_moments(name):
    couplings = STRONG[name]
    n = len(couplings)
    truth = ebm.exact(ebm.IsingModel(couplings, np.zeros(n)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ebm.fit(spins(n), truth.moments())
    assert result.converged
    np.testing.assert_allclose(result.model.couplings, couplings, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_strong_series_reach_the_optimum_of_scipy_from_the_pseudolikelihood(seed):
    """Rows of a chain at strong coupling, far fewer than independent: the fit, and L-BFGS."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    couplings = rng.normal(0, 0.6, (8, 8))
    truth = ebm.IsingModel(np.triu(couplings, 1) + np.triu(couplings, 1).T, rng.normal(0, 0.3, 8))
    chain = ebm.sample(truth, n_draws=2000, n_chains=1, burn_in=100, rng=seed)
    data = ebm.Ensemble.from_data(chain.chains[0], space=ebm.Spins)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = ebm.inversion.pseudolikelihood(data).model
        result = ebm.fit(spins(8), data)

    def loss(theta):
        model = start.with_parameters(theta)
        ensemble = ebm.exact(model)
        misfit = model.mean_energy_gradient(data) - model.mean_energy_gradient(ensemble)
        return float(data.expectation(model.energy)) + ensemble.log_partition, misfit

    tight = {"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-10}
    best = minimize(loss, start.parameters, jac=True, method="L-BFGS-B", options=tight)
    model = start.with_parameters(best.x)
    on_face = lies_on_a_face(
        model.energy_gradient(all_states(model.space)), model.energy_gradient(data.states)
    )
    assert result.converged == (not on_face)
    assert -result.log_likelihood <= best.fun + 1e-9
    if not on_face:
        np.testing.assert_allclose(-result.log_likelihood, best.fun, rtol=1e-7)


def affine(features, base=None):
    """A user's family E = base(x) − θ·φ(x) over {0,1}^4, at θ = 0."""
    size = features(np.zeros((1, 4))).shape[-1]
    return oracles.LinearFamily(ebm.Binary(4), features, np.zeros(size), base)


MIXED = np.random.default_rng(5).normal(size=(4, 7))
ODD_FEATURES = {
    "on and off": lambda x: np.concatenate([x, 1 - x], axis=-1),
    "more than units": lambda x: x @ MIXED + 3,
    "a constant": lambda x: np.concatenate([x, np.ones((*x.shape[:-1], 1))], axis=-1),
    "large and small": lambda x: x * np.array([1e-3, 1.0, 1e3, 1.0]),
    "a constant and copies": lambda x: np.concatenate(
        [x, np.ones((*x.shape[:-1], 1)), x[..., :2] * 1e3 + 7], axis=-1
    ),
    "nothing": lambda x: 0 * x[..., :1],
}


@pytest.mark.parametrize("features", ODD_FEATURES.values(), ids=ODD_FEATURES)
@pytest.mark.parametrize("seed", range(4))
def test_directions_that_change_nothing_are_no_way_to_infinity(features, seed):
    rows = (np.random.default_rng(seed).random((1000, 4)) < 0.4).astype(int)
    family = affine(features)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ebm.fit(family, rows)
    assert result.converged
    means = ebm.exact(result.model).expectation(features)
    np.testing.assert_allclose(means, features(rows.astype(float)).mean(axis=0), rtol=1e-9)


def test_features_of_any_scale_have_standard_errors():
    scale = np.array([1e-3, 1.0, 1e3, 1.0])
    rows = (np.random.default_rng(0).random((500, 4)) < 0.4).astype(int)
    errors = ebm.fit(affine(lambda x: x * scale), rows).standard_errors
    plain = ebm.fit(affine(lambda x: x), rows).standard_errors
    np.testing.assert_allclose(errors * scale, plain, rtol=1e-6)


@pytest.mark.parametrize("field", [20.0, 30.0, 800.0])
def test_a_saturated_start_is_left_behind(field):
    """E = 20 x₀ at θ = 0, or 800 x₀: the maximum is at 20, or at 800, and a log-odds more."""
    rows = (np.random.default_rng(0).random((500, 4)) < [0.3, 0.5, 0.6, 0.2]).astype(int)
    result = ebm.fit(affine(lambda x: x, base=lambda x: field * x[..., 0]), rows)
    assert result.converged
    rate = rows.mean(axis=0)
    expected = np.log(rate / (1 - rate)) + np.array([field, 0, 0, 0])
    np.testing.assert_allclose(result.model.parameters, expected, rtol=1e-6)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-9])
@pytest.mark.parametrize("share", [1e-6, 1e-9])
@pytest.mark.parametrize("family", [binary, triples])
def test_a_rare_cell_is_seen_whatever_the_tolerance(family, share, tolerance):
    """ln(share) is the coupling of two units that are on together that seldom."""
    data = ebm.Ensemble.from_data(
        [[0, 0], [0, 1], [1, 0], [1, 1]], sample_weight=1e15 * np.array([1, 1, 1, share])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ebm.fit(family(2), data, solver=ebm.Newton(tolerance=tolerance))
    assert result.converged
    assert result.model.parameters[-1] == pytest.approx(np.log(share), abs=1e-5)


@pytest.mark.parametrize("l2", [1e-3, 1.0, 1e8, 1e20])
@pytest.mark.parametrize("family", [binary, potts, triples])
def test_no_penalty_is_so_large_that_the_maximum_is_lost(family, l2):
    rows = (np.random.default_rng(0).random((300, 3)) < 0.4).astype(int)
    rows = np.concatenate([rows, all_states(family(3).space)[:, :3]])
    rows = np.random.default_rng(1).permutation(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ebm.fit(family(3), rows, penalty=ebm.Penalty(l2=l2)).converged


@pytest.mark.parametrize("beta", [1.5, 2.0, 2.2, 2.5])
def test_what_moments_in_double_precision_do_not_tell_is_said(beta):
    """A fit of exact moments is right to VISIBLE, or it says that it is not."""
    couplings = torus(4, np.full(32, beta))
    truth = ebm.exact(ebm.IsingModel(couplings, np.zeros(16)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = ebm.fit(spins(16), truth)
    off = np.abs(result.model.couplings - couplings).max()
    assert result.converged == (not caught)
    assert off < 0.01 if result.converged else "double precision" in result.message


def test_a_penalty_that_is_there_is_not_advised():
    """A value of a Potts unit that never occurs asks for a penalty on fields."""
    rows = np.random.default_rng(0).integers(0, 2, (200, 3))
    with pytest.warns(
        NoMaximumWarning, match=r"add a penalty on biases, such as penalty=ebm\.Penalty\(l2_biases="
    ):
        ebm.fit(potts(3), rows, penalty=ebm.Penalty(l2=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ebm.fit(potts(3), rows, penalty=ebm.Penalty(l2=0.1, l2_biases=1e-3)).converged


def main(n_problems):
    """Count the answers of each family; print those that are false."""
    for family in FAMILIES:
        answers = Counter()
        for seed in range(n_problems):
            model, rows, on_face = problem(family, seed)
            answers[on_face, answer(model, rows)] += 1
        false = sum(n for (on_face, said), n in answers.items() if on_face != said)
        print(
            f"{family.__name__:>8}: {answers[True, True]} faces and {answers[False, False]} "
            f"maxima told, {false} false answers"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
