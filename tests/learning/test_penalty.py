"""Penalties against their formulas: on couplings alone, and blind to how values are numbered."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.learning.penalties import AppliedPenalty
from tests import oracles, strategies
from tests.learning.stepping import fit


def bare_potts(n, q):
    return ebm.PottsModel(np.zeros((n, n, q, q)), np.zeros((n, q)))


def bare_terms(n, order, space):
    """All terms of at most so many units."""
    sizes = range(1, order + 1)
    return ebm.InteractionModel(
        {units: 0.0 for k in sizes for units in itertools.combinations(range(n), k)}, space(n)
    )


def level_rows(n, q, seed, n_rows=200):
    """Rows that show every value of every unit, the low ones more often."""
    rng = np.random.default_rng(seed)
    rows = np.minimum(rng.geometric(0.45, (n_rows, n)) - 1, q - 1)
    rows[:, 0] = np.where(rng.random(n_rows) < 0.4, rows[:, -1], rows[:, 0])
    return np.concatenate([rows, np.repeat(np.arange(q)[:, None], n, axis=1)])


def loss(result, l2, l2_biases=0.0):
    """What the fit minimized: at its minimum an error of the parameters counts squared."""
    penalty = AppliedPenalty(result.model, ebm.Penalty(l2, l2_biases)).value(
        result.model.parameters
    )
    return penalty - result.log_likelihood


def by_steps(start, rows, **options):
    optimizer = ebm.GradientDescent(0.5, momentum=0.9)
    return fit(start, rows, optimizer=optimizer, n_epochs=3000, tolerance=1e-8, **options)


class TestFormula:
    @given(strategies.potts_models(), st.floats(0, 2), st.floats(0, 2), st.floats(0, 2))
    def test_of_a_potts_model_it_is_taken_in_the_zero_sum_gauge(self, model, l2, l2_biases, l1):
        own = model.zero_sum()
        pairs = own.couplings[model.pairs]
        wanted = 0.5 * l2 * (pairs**2).sum() + 0.5 * l2_biases * (own.fields**2).sum()
        wanted += l1 * np.abs(pairs).sum()
        penalty = AppliedPenalty(model, ebm.Penalty(l2, l2_biases, l1))
        assert penalty.value(model.parameters) == pytest.approx(wanted, rel=1e-10, abs=1e-12)

    @given(strategies.potts_models(), strategies.generators())
    def test_no_couplings_of_the_same_energies_have_a_smaller_one(self, model, rng):
        """The zero-sum gauge is where a penalty on all q² numbers of a pair would end."""
        moved = rng.normal(size=(model.n, model.n, model.q))
        others = model.couplings + moved[..., :, None] + moved.transpose(1, 0, 2)[..., None, :]
        least = AppliedPenalty(model, ebm.Penalty(1.0)).value(model.parameters)
        assert least <= 0.5 * (others[model.pairs] ** 2).sum() + 1e-12

    @given(strategies.interaction_models(), st.floats(0, 2), st.floats(0, 2))
    def test_of_interactions_it_is_on_couplings_about_one_half(self, model, l2, l2_biases):
        theta = dict(zip(model.terms, model.parameters, strict=True))
        binary = isinstance(model.space, ebm.Binary)
        sets = {
            b for a in theta for k in range(2, len(a) + 1) for b in itertools.combinations(a, k)
        }
        sets = sets if binary else {units for units in theta if len(units) > 1}
        couplings = [
            sum(J * 0.5 ** (len(a) - len(b)) for a, J in theta.items() if set(b) <= set(a))
            if binary
            else theta[b]
            for b in sets
        ]
        wanted = 0.5 * l2 * np.square(couplings).sum()
        wanted += 0.5 * l2_biases * sum(J**2 for a, J in theta.items() if len(a) == 1)
        penalty = AppliedPenalty(model, ebm.Penalty(l2, l2_biases))
        assert penalty.value(model.parameters) == pytest.approx(wanted, rel=1e-10, abs=1e-12)

    @given(
        strategies.potts_models()
        | strategies.interaction_models()
        | strategies.restricted_machines()
        | strategies.pairwise_models(),
        st.floats(0.01, 2),
        st.floats(0.01, 2),
    )
    def test_gradient_and_hessian_are_its_derivatives(self, model, l2, l2_biases):
        penalty, theta = AppliedPenalty(model, ebm.Penalty(l2, l2_biases)), model.parameters
        slopes = oracles.finite_difference(penalty.value, theta)
        np.testing.assert_allclose(penalty.gradient(theta), slopes, rtol=1e-6, atol=1e-7)
        # The penalty is quadratic: its Hessian times θ is its gradient.
        hessian = penalty.hessian.reshape(len(theta), len(theta))
        np.testing.assert_allclose(hessian @ theta, penalty.gradient(theta), rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(hessian, hessian.T, atol=1e-12)

    @given(strategies.potts_models())
    def test_the_subgradient_of_l1_is_its_slope(self, model):
        penalty, theta = AppliedPenalty(model, ebm.Penalty(0.0, l1=0.7)), model.parameters
        couplings = model.zero_sum().couplings[model.pairs]
        if np.abs(couplings).min(initial=1.0) > 1e-3:
            slopes = oracles.finite_difference(penalty.value, theta)
            np.testing.assert_allclose(penalty.gradient(theta), slopes, rtol=1e-6, atol=1e-7)

    def test_a_model_of_a_user_says_which_parameters_are_couplings(self):
        class Marked(oracles.LinearFamily):
            is_coupling = (False, True, True)

        family = Marked(ebm.Binary(3), lambda x: x, [1.0, 2.0, 3.0])
        assert AppliedPenalty(family, ebm.Penalty(0.1, 0.5)).value(
            family.parameters
        ) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("model", "n_biases"),
    [
        (bare_potts(3, 4), 9),
        (bare_terms(4, 3, ebm.Binary), 4),
        (bare_terms(4, 3, ebm.Spins), 4),
        (ebm.RestrictedBoltzmannMachine(np.zeros((3, 2)), np.zeros(3), np.zeros(2)), 5),
        (ebm.BoltzmannMachine(np.zeros((3, 3)), np.zeros(3)), 3),
    ],
)
def test_fields_are_no_couplings(model, n_biases):
    is_coupling = np.asarray(model.is_coupling)
    assert is_coupling.shape == model.parameters.shape
    np.testing.assert_array_equal(is_coupling, np.arange(len(is_coupling)) >= n_biases)


class TestNumbering:
    @settings(max_examples=20)
    @given(st.integers(2, 3), st.integers(2, 4), st.integers(0, 10**6), st.floats(0.01, 1))
    def test_of_values_does_not_change_a_potts_fit(self, n, q, seed, l2):
        rows = level_rows(n, q, seed)
        rng = np.random.default_rng(seed)
        orders = np.array([rng.permutation(q) for _ in range(n)])
        renamed = orders[np.arange(n), rows]
        for options in ({}, {"l2_biases": 0.1}):
            one, other = (fit(bare_potts(n, q), x, l2=l2, **options) for x in (rows, renamed))
            assert loss(one, l2, **options) == pytest.approx(loss(other, l2, **options), abs=1e-10)
            np.testing.assert_allclose(
                one.ensemble.log_probability(rows),
                other.ensemble.log_probability(renamed),
                atol=1e-4,
            )

    def test_of_values_does_not_change_gradient_steps(self):
        rows = level_rows(3, 3, 0)
        renamed = np.array([[2, 0, 1], [1, 0, 2], [0, 2, 1]])[np.arange(3), rows]
        results = [by_steps(bare_potts(3, 3), x, l2=0.05) for x in (rows, renamed)]
        results.append(ebm.fit(bare_potts(3, 3), rows, penalty=ebm.Penalty(l2=0.05)))
        losses = [loss(result, 0.05) for result in results]
        np.testing.assert_allclose(losses, losses[0], atol=1e-10)

    @settings(max_examples=20)
    @given(st.sampled_from([ebm.Binary, ebm.Spins]), st.integers(0, 10**6), st.floats(0.01, 1))
    def test_of_the_two_values_does_not_change_a_fit_of_triples(self, kind, seed, l2):
        rng = np.random.default_rng(seed)
        rows = rng.integers(0, 2, (200, 4))
        rows[:, 0] = np.where(rng.random(200) < 0.6, rows[:, 1] ^ rows[:, 2], rows[:, 0])
        flipped = rows ^ rng.integers(0, 2, 4)
        low, high = kind(4).values
        one, other = (
            ebm.fit(bare_terms(4, 3, kind), np.where(x, high, low), penalty=ebm.Penalty(l2=l2))
            for x in (rows, flipped)
        )
        assert loss(one, l2) == pytest.approx(loss(other, l2), abs=1e-10)

    def test_a_penalty_on_the_parameters_as_they_stand_would_be_seen(self):
        """The mutant: what the penalty was before."""
        rows = level_rows(3, 4, 1)
        renamed = 3 - rows

        class AsTheyStand(ebm.PottsModel):
            def penalized(self):
                return ebm.ParametricModel.penalized(self)

        start = AsTheyStand(np.zeros((3, 3, 4, 4)), np.zeros((3, 4)))
        one, other = (
            ebm.fit(start, x, penalty=ebm.Penalty(l2=0.1)).log_likelihood for x in (rows, renamed)
        )
        assert abs(one - other) > 1e-4


class TestRates:
    @pytest.mark.parametrize("l2", [1e-3, 0.1, 10.0])
    def test_are_those_of_the_data_whatever_the_penalty_on_couplings(self, l2):
        rows = level_rows(3, 4, 2)
        result = ebm.fit(bare_potts(3, 4), rows, penalty=ebm.Penalty(l2=l2))
        wanted = result.model.space.features(rows).mean(axis=0)
        np.testing.assert_allclose(result.ensemble.moments().mean, wanted, atol=1e-6)

    @pytest.mark.parametrize("kind", [ebm.Binary, ebm.Spins])
    def test_of_a_model_with_triples(self, kind):
        rows = kind(4).random(100, rng=3)
        rows[:70, 1] = rows[:70, 0]
        result = ebm.fit(bare_terms(4, 3, kind), rows, penalty=ebm.Penalty(l2=0.1))
        np.testing.assert_allclose(result.ensemble.moments().mean, rows.mean(axis=0), atol=1e-6)

    def test_a_strong_penalty_leaves_independent_units(self):
        rows = level_rows(3, 3, 4)
        model = ebm.fit(bare_potts(3, 3), rows, penalty=ebm.Penalty(l2=1e4)).model
        np.testing.assert_allclose(model.couplings, 0, atol=1e-3)
        logs = np.log([(rows == a).mean(axis=0) for a in range(3)]).T
        np.testing.assert_allclose(model.fields, logs - logs[:, -1:], atol=1e-3)


def test_of_two_values_the_penalty_is_that_of_an_ising_model():
    """J_ij(a, b) = J_ij s_a s_b holds each coupling four times: l2 there is 4 l2 here."""
    rows = level_rows(4, 2, 5)
    ising = ebm.IsingModel(np.zeros((4, 4)), np.zeros(4))
    one = ebm.fit(bare_potts(4, 2), rows, penalty=ebm.Penalty(l2=0.02))
    other = ebm.fit(ising, 2 * rows - 1, penalty=ebm.Penalty(l2=0.08))
    assert loss(one, 0.02) == pytest.approx(loss(other, 0.08), abs=1e-10)


def test_standard_errors_are_those_of_the_penalized_estimator():
    rows = level_rows(3, 3, 6)
    result = ebm.fit(bare_potts(3, 3), rows, penalty=ebm.Penalty(l2=0.05))
    penalty, theta = AppliedPenalty(result.model, ebm.Penalty(0.05)), result.model.parameters
    slopes = [
        oracles.finite_difference(lambda t, k=k: penalty.gradient(t)[k], theta)
        for k in range(len(theta))
    ]
    fisher = result.fisher.dense()
    inverse = np.linalg.inv(fisher + np.array(slopes))
    wanted = np.sqrt(np.diag(inverse @ fisher @ inverse) / len(rows))
    np.testing.assert_allclose(result.standard_errors, wanted, rtol=1e-5)
