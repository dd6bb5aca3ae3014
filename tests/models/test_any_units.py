"""The pairwise model of any units: its special cases, its gauges, its fits."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

import ebm
from ebm.errors import (
    ModelError,
    NamesError,
    NoMaximumWarning,
    NormalizationError,
    ShapeError,
)
from ebm.models._library import library_model
from tests import oracles, strategies

SPACE = ebm.Product(ebm.Binary(1), ebm.Levels(2, 3), ebm.Spins(1), names=["a", "b", "c", "d"])


def random_model(space=SPACE, seed=0, scale=0.5):
    rng, d = np.random.default_rng(seed), space.n_features
    units = np.repeat(np.arange(space.n), space.widths)
    couplings = rng.normal(0, scale, (d, d)) * (units[:, None] != units)
    return ebm.PairwiseModel(
        space, couplings + couplings.T, rng.normal(0, scale, d), offset=rng.normal()
    )


def alone(kind, n=4, seed=1):
    """A model of one kind of units by its own class, and the same as a model of any units."""
    rng = np.random.default_rng(seed)
    if kind is ebm.PottsModel:
        couplings = rng.normal(0, 0.3, (n, n, 3, 3))
        couplings[np.arange(n), np.arange(n)] = 0
        model = kind(couplings + couplings.transpose(1, 0, 3, 2), rng.normal(size=(n, 3)), offset=1)
    else:
        couplings = rng.normal(0, 0.2, (n, n))
        np.fill_diagonal(couplings, 0)
        model = kind(couplings + couplings.T, rng.normal(size=n), offset=1)
    matrix, vector, constant = model.quadratic_form()
    return model, ebm.PairwiseModel(model.space, matrix, vector, offset=constant)


class TestSpecialCases:
    @pytest.mark.parametrize("kind", [ebm.BoltzmannMachine, ebm.IsingModel, ebm.PottsModel])
    def test_of_one_kind_it_has_the_energies_and_parameters_of_that_class(self, kind):
        own, general = alone(kind)
        states = oracles.all_states(own.space)
        np.testing.assert_allclose(general.energy(states), own.energy(states), atol=1e-13)
        np.testing.assert_allclose(general.parameters, own.parameters, atol=1e-13)
        np.testing.assert_array_equal(general.is_coupling, own.is_coupling)
        slopes = general.energy_gradient(states)
        np.testing.assert_allclose(slopes, own.energy_gradient(states), atol=1e-13)
        brackets = [name[1:] for name in general.parameter_names]
        assert brackets == [name[1:] for name in own.parameter_names]

    @pytest.mark.parametrize("kind", [ebm.BoltzmannMachine, ebm.IsingModel, ebm.PottsModel])
    @pytest.mark.parametrize("penalty", [None, ebm.Penalty(l2=0.05, l2_biases=0.02)])
    def test_of_one_kind_fits_agree(self, kind, penalty):
        own, general = alone(kind, n=3)
        rows = ebm.exact(own).sample(400, rng=0)
        data = ebm.Ensemble.from_data(rows, space=own.space)
        results = [ebm.fit(model, data, penalty=penalty) for model in (own, general)]
        parameters, others = (result.model.parameters for result in results)
        np.testing.assert_allclose(others, parameters, atol=2e-5)
        np.testing.assert_allclose(
            results[1].standard_errors, results[0].standard_errors, rtol=1e-4
        )

    def test_two_valued_units_in_pairs_have_all_their_methods(self):
        own, general = alone(ebm.IsingModel)
        assert library_model(general).equals(own)
        expansion = ebm.perturbation.expand(general, 3)
        assert expansion.log_partition == ebm.perturbation.expand(own, 3).log_partition


class TestGauges:
    @given(strategies.mixed_models())
    def test_they_change_no_energy(self, model):
        states = oracles.all_states(model.space)
        wanted = model.energy(states)
        for other in (
            model.last_state_zero(),
            model.zero_sum(),
            model.with_parameters(model.parameters),
            model.zero_sum().with_parameters(model.parameters),
        ):
            np.testing.assert_allclose(other.energy(states), wanted, atol=1e-12)
            np.testing.assert_allclose(other.parameters, model.parameters, atol=1e-12)

    def test_entries_of_last_levels_are_zero(self):
        model = random_model().last_state_zero()
        last = [3, 6]
        assert not model.fields[last].any()
        assert not model.couplings[last].any()
        assert not model.couplings[:, last].any()

    def test_sums_over_levels_are_zero_and_couplings_smallest(self):
        model = random_model().zero_sum()
        for unit in (1, 2):
            own = SPACE.columns([unit])
            assert abs(model.fields[own].sum()) < 1e-14
            np.testing.assert_allclose(model.couplings[own].sum(axis=0), 0, atol=1e-14)
        for other in (random_model(), random_model().last_state_zero()):
            assert np.linalg.norm(model.couplings) < np.linalg.norm(other.couplings)

    def test_parameters_are_named_by_units_and_levels(self):
        names = random_model().parameter_names
        assert names[:6] == ("v[a]", "v[b](0)", "v[b](1)", "v[c](0)", "v[c](1)", "v[d]")
        assert names[6:10] == ("A[a, b](0)", "A[a, b](1)", "A[a, c](0)", "A[a, c](1)")
        assert names[10:12] == ("A[a, d]", "A[b, c](0, 0)")
        assert len(set(names)) == len(names) == len(random_model().parameters) == 6 + 13

    def test_what_a_penalty_acts_on_is_linear_with_its_adjoint(self):
        penalized, rng = random_model().penalized(), np.random.default_rng(3)
        theta = rng.normal(size=19)
        slopes = rng.normal(size=len(penalized.is_coupling))
        one, other = penalized.of(theta) @ slopes, theta @ penalized.transposed(slopes)
        assert one == pytest.approx(other, rel=1e-12)
        zero_sum = random_model().with_parameters(theta).zero_sum()
        np.testing.assert_allclose(penalized.of(theta)[:8], zero_sum.fields, atol=1e-13)
        sizes = (penalized.of(theta)[penalized.is_coupling] ** 2).sum()
        assert sizes == pytest.approx((zero_sum.couplings**2).sum() / 2)

    @pytest.mark.parametrize("kind", [ebm.BoltzmannMachine, ebm.PottsModel])
    def test_the_penalty_is_that_of_one_kind(self, kind):
        own, general = alone(kind)
        theta = np.random.default_rng(0).normal(size=len(own.parameters))
        one, other = (np.sort(model.penalized().of(theta)) for model in (own, general))
        np.testing.assert_allclose(one, other, atol=1e-13)


class TestParametricModel:
    def test_slopes_are_those_of_the_energy(self):
        model = random_model()
        for state in oracles.all_states(SPACE)[::5]:
            slopes = oracles.finite_difference(
                lambda theta, state=state: float(model.with_parameters(theta).energy(state)),
                model.parameters,
            )
            np.testing.assert_allclose(model.energy_gradient(state), slopes, atol=1e-9)

    def test_means_of_slopes_need_moments_alone(self):
        model, states = random_model(), oracles.all_states(SPACE)
        _, p = oracles.distribution(model)
        wanted = p @ model.energy_gradient(states)
        ensemble = ebm.exact(model)
        np.testing.assert_allclose(model.mean_energy_gradient(ensemble), wanted, atol=1e-14)
        direction = np.arange(19.0)
        np.testing.assert_allclose(
            model.energy_derivative(states, direction),
            model.energy_gradient(states) @ direction,
            atol=1e-12,
        )

    def test_any_stack_of_states(self):
        model = random_model()
        for shape in ((), (0,), (2, 3)):
            states = SPACE.random(int(np.prod(shape)), rng=0).reshape(*shape, 4)
            assert model.energy(states).shape == shape
            assert model.energy_gradient(states).shape == (*shape, 19)

    def test_the_form_and_the_scaled_model(self):
        model, states = random_model(), oracles.all_states(SPACE)
        f = SPACE.features(states)
        matrix, vector, constant = model.quadratic_form()
        energies = constant - f @ vector - 0.5 * ((f @ matrix) * f).sum(axis=1)
        np.testing.assert_allclose(model.energy(states), energies, atol=1e-13)
        np.testing.assert_allclose(model.scaled(0.3).energy(states), 0.3 * energies, atol=1e-13)

    def test_fisher_information_is_the_covariance_of_slopes(self):
        model = random_model()
        covariance = oracles.covariance(model, model.energy_gradient)
        information = np.asarray(ebm.fisher_information(model))
        np.testing.assert_allclose(information, covariance, atol=1e-13)

    def test_files_copies_and_pickles(self, tmp_path):
        space = ebm.Product(
            left=ebm.Binary(1),
            right=ebm.Product(ebm.Levels(2, 3), ebm.Spins(1)),
            names=list("wxyz"),
        )
        for model in (random_model(), random_model(space), random_model(ebm.Levels(3, 3))):
            path = tmp_path / "model.npz"
            ebm.save(model, path, overwrite=True)
            for again in (ebm.load(path), pickle.loads(pickle.dumps(model))):
                assert again.equals(model)
                assert repr(again.space) == repr(model.space)


class TestFits:
    def test_a_fit_reproduces_the_moments_of_the_data(self):
        truth = random_model()
        data = ebm.exact(truth).sample(4000, rng=1)
        result = ebm.fit(ebm.PairwiseModel(SPACE), ebm.Ensemble.from_data(data, space=SPACE))
        f = SPACE.features(data)
        moments = ebm.exact(result.model).moments()
        np.testing.assert_allclose(moments.mean, f.mean(axis=0), atol=1e-8)
        np.testing.assert_allclose(moments.second, f.T @ f / 4000, atol=1e-8)
        z = (result.model.parameters - truth.parameters) / result.standard_errors
        assert np.sqrt((z**2).mean()) < 1.6

    def test_which_level_is_last_does_not_matter(self):
        """A penalized fit to data with two levels exchanged is the fit with them exchanged."""
        rows = ebm.exact(random_model()).sample(300, rng=2)
        turned = rows.copy()
        turned[:, 1] = np.array([2, 1, 0])[rows[:, 1].astype(int)]
        penalty = ebm.Penalty(l2=0.1, l2_biases=0.05)
        one, other = (
            ebm.fit(
                ebm.PairwiseModel(SPACE), ebm.Ensemble.from_data(x, space=SPACE), penalty=penalty
            ).model.zero_sum()
            for x in (rows, turned)
        )
        order = [0, 3, 2, 1, 4, 5, 6, 7]
        np.testing.assert_allclose(other.couplings, one.couplings[np.ix_(order, order)], atol=2e-6)

    def test_by_persistent_chains(self):
        data = ebm.Ensemble.from_data(ebm.exact(random_model()).sample(500, rng=3), space=SPACE)
        start, exact = ebm.PairwiseModel(SPACE), ebm.fit(ebm.PairwiseModel(SPACE), data)
        chains = ebm.Likelihood(ebm.PersistentChains(200))
        steps = ebm.GradientSteps(n_epochs=60)
        sampled = ebm.fit(start, data, loss=chains, solver=steps, rng=0)
        gains = [ebm.exact(m).log_probability(data.states) @ data.weights for m in
                 (start, sampled.model, exact.model)]  # fmt: skip
        assert gains[1] - gains[0] > 0.8 * (gains[2] - gains[0])

    def test_a_combination_that_never_occurs_has_no_maximum(self):
        rows = oracles.all_states(SPACE)
        rows = rows[(rows[:, 0] == 0) | (rows[:, 1] != 2)]
        with pytest.warns(NoMaximumWarning):
            ebm.fit(ebm.PairwiseModel(SPACE), ebm.Ensemble.from_data(rows, space=SPACE))


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((ebm.Binary,), ModelError, "space must be a space of units"),
            ((ebm.Reals(2),), NormalizationError, "least eigenvalue is 0, mostly along unit '0'"),
            ((SPACE, np.zeros((4, 4))), ShapeError, r"couplings must have shape \(8, 8\)"),
            ((SPACE, None, np.zeros(4)), ShapeError, r"fields must have shape \(8,\)"),
            ((SPACE, np.full((8, 8), np.nan)), ModelError, "couplings must be finite"),
            ((SPACE, np.eye(8)), ModelError, r"couplings\[0, 0\] must be zero.*unit 'a'"),
            ((SPACE, np.eye(8, k=2) + np.eye(8, k=-2)), ModelError, r"\[1, 3\].*unit 'b'"),
            ((SPACE, np.eye(8, k=4)), ModelError, "must be symmetric"),
        ],
    )
    def test_refusals(self, arguments, error, message):
        with pytest.raises(error, match=message):
            ebm.PairwiseModel(*arguments)

    def test_sparse_couplings_are_refused(self):
        from scipy.sparse import csr_array

        with pytest.raises(ModelError, match="toarray"):
            ebm.PairwiseModel(SPACE, csr_array((8, 8)))

    def test_labels_are_names_where_units_have_one_feature_each(self):
        space = ebm.Product(ebm.Binary(1), ebm.Spins(1), names=["x", "y"])
        fields = pd.Series([1.0, 2.0], index=["y", "x"])
        np.testing.assert_array_equal(ebm.PairwiseModel(space, fields=fields).fields, [2, 1])
        unnamed = ebm.PairwiseModel(space.named(None), fields=fields)
        assert unnamed.space.names == ("y", "x")
        with pytest.raises(NamesError, match="labels"):
            ebm.PairwiseModel(SPACE, fields=pd.Series(np.zeros(8), index=list("abcdefgh")))
