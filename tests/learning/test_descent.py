"""Gradient learning: where it ends, what it does not depend on, and how it fails."""

import numpy as np
import pytest

import ebm
from ebm.errors import (
    CodingError,
    ConstantUnitError,
    DivergenceError,
    EbmError,
    FewSamplesWarning,
    ModelError,
    NoMaximumWarning,
)
from ebm.learning import Decay
from ebm.learning._gauges import gauge_of
from tests import oracles
from tests.learning.stepping import fit


def truth(n=5, seed=0):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(0, 0.7, (n, n)), 1)
    return ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 0.5, n), center=0.3)


def restricted(seed=0, n=5, m=3, **fields):
    rng = np.random.default_rng(seed)
    settings = {
        "visible_center": rng.uniform(0, 1, n),
        "hidden_center": rng.uniform(0, 1, m),
    } | fields
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, 0.8, (n, m)), rng.normal(0, 0.5, n), rng.normal(0, 0.5, m), **settings
    )


ROWS = ebm.exact(truth()).sample(4000, rng=1).astype(np.int8)
START = ebm.BoltzmannMachine(np.zeros((5, 5)), np.zeros(5), center=0.3, offset=2.0)


# Where it ends.


@pytest.mark.parametrize("optimizer", [ebm.GradientDescent(4.0, momentum=0.5), ebm.Adam(0.02)])
@pytest.mark.parametrize("l2", [0.0, 0.03])
def test_exact_gradients_reach_the_newton_optimum(optimizer, l2):
    newton = fit(START, ROWS, l2=l2)
    result = fit(START, ROWS, optimizer=optimizer, l2=l2, n_epochs=4000, tolerance=1e-7)
    assert np.abs(result.model.parameters - newton.model.parameters).max() < 1e-5
    assert result.model.offset == 2.0
    assert np.array_equal(result.model.center, START.center)
    assert abs(result.log_likelihood - newton.log_likelihood) < 1e-7
    assert abs(result.aic - newton.aic) < 1e-4
    assert result.converged
    assert result.message.startswith("converged after")


@pytest.mark.parametrize("centering", [True, False])
@pytest.mark.parametrize("start", [START, START.to_spins(), restricted()])
def test_small_steps_lower_the_loss_every_time(start, centering):
    rows = 2 * ROWS - 1 if isinstance(start, ebm.IsingModel) else ROWS
    result = fit(start, rows, optimizer=ebm.GradientDescent(0.05), n_epochs=60, centering=centering)
    likelihoods = [epoch.log_likelihood for epoch in result.history]
    assert len(likelihoods) == 60
    assert (np.diff(likelihoods) > 0).all()
    assert result.log_likelihood == likelihoods[-1]
    wanted = oracles.mean_log_likelihood(result.model, rows)
    assert abs(result.log_likelihood - wanted) < 1e-10


def check_within_errors(result, wanted):
    """Nearer to the exact fit than that is to the truth; at most three errors off anywhere."""
    difference = (result.model.parameters - wanted.model.parameters) / wanted.standard_errors
    assert np.sqrt((difference**2).mean()) < 1
    assert np.abs(difference).max() < 3


@pytest.mark.parametrize("start", [START, START.to_spins()])
def test_persistent_chains_recover_the_exact_fit_within_its_errors(start):
    rows = 2 * ROWS - 1 if isinstance(start, ebm.IsingModel) else ROWS
    wanted = fit(start, rows)
    result = fit(start, rows, average=ebm.PersistentChains(2000, sweeps=2), rng=0)
    assert result.converged
    assert result.log_likelihood is None
    assert "log_likelihood=unknown" in repr(result)
    with pytest.raises(EbmError, match="never knew ln Z"):
        _ = result.aic
    check_within_errors(result, wanted)
    assert result.history[-1].rms_moment_error < 0.25


def test_moment_errors_see_couplings_ten_times_too_small():
    """Nothing about correlation, which is blind to scale."""
    wanted = fit(START, ROWS).model
    small = ebm.BoltzmannMachine(wanted.weights / 10, wanted.biases, center=0.3)
    average = ebm.PersistentChains(2000)
    still = fit(small, ROWS, average=average, optimizer=ebm.Adam(1e-9), n_epochs=60, rng=0)
    assert not still.converged
    assert still.history[-1].rms_moment_error > 3


def test_mini_batches_reach_the_optimum_as_the_rate_falls():
    wanted = fit(START, ROWS)
    result = fit(
        START,
        ROWS,
        optimizer=ebm.GradientDescent(Decay(1.0, 100)),
        batch_size=300,
        n_epochs=40,
        rng=0,
    )
    check_within_errors(result, wanted)
    # 13 batches of 300 and one of 100.
    assert result.history[0].n_updates == 14


def test_one_epoch_of_batches_is_one_large_step_at_a_small_rate():
    """Every row counts once, whatever batch it is in: the last one of 4000 % 900 rows too."""
    rate = 1e-6
    whole = fit(START, ROWS, optimizer=ebm.GradientDescent(rate), n_epochs=1)
    parts = fit(START, ROWS, optimizer=ebm.GradientDescent(rate), batch_size=900, n_epochs=1, rng=0)
    full, sum_of_parts = whole.model.parameters, parts.model.parameters * 900 / 4000
    assert np.abs(full - sum_of_parts).max() < 1e-4 * np.abs(full).max()


# What it does not depend on.


def test_weights_are_repetitions():
    rows, weights = ROWS[:50], np.arange(50) % 4
    repeated = np.random.default_rng(1).permutation(np.repeat(rows, weights, axis=0))
    settings = {"optimizer": ebm.Adam(0.05), "n_epochs": 5, "batch_size": 16, "rng": 3}
    with_weights = fit(START, rows, weights=weights, l2=0.1, **settings)
    written_out = fit(START, repeated, l2=0.1, **settings)
    assert np.array_equal(with_weights.model.parameters, written_out.model.parameters)


def test_fractional_weights_enter_the_exact_gradient():
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 200)
    wanted = fit(START, ROWS[:200], weights=weights, l2=0.02)
    result = fit(
        START,
        ROWS[:200],
        weights=weights,
        l2=0.02,
        optimizer=ebm.GradientDescent(4.0, momentum=0.5),
        tolerance=1e-8,
    )
    assert np.abs(result.model.parameters - wanted.model.parameters).max() < 1e-5


@pytest.mark.parametrize("average", [ebm.PersistentChains(50), ebm.ContrastiveDivergence()])
def test_equal_seeds_give_equal_fits(average):
    def trained(rng):
        return fit(restricted(), ROWS[:200], average=average, n_epochs=3, rng=rng)

    assert np.array_equal(trained(5).model.parameters, trained(5).model.parameters)
    generator = np.random.default_rng(5)
    first = trained(generator).model.parameters
    assert not np.array_equal(first, trained(generator).model.parameters)


def recentering_descent(model, rows, rate, n_updates, l2):
    """The definition: a machine that is moved to the new centers before each step."""
    data = ebm.Ensemble.from_data(rows)
    center = data.expectation(model.hidden_conditional)
    given = model
    for _ in range(n_updates):
        inner = model.recentered(rows.mean(axis=0), center)
        ours = inner.mean_energy_gradient(data)
        theirs = inner.mean_energy_gradient(ebm.exact(inner))

        def penalty(theta, inner=inner):
            outer = inner.with_parameters(theta).recentered(
                given.visible_center, given.hidden_center
            )
            return 0.5 * l2 * outer.parameters @ outer.parameters

        gradient = ours - theirs + oracles.finite_difference(penalty, inner.parameters)
        inner = inner.with_parameters(inner.parameters - rate * gradient)
        hidden = slice(model.n, model.n + model.n_hidden)
        center = 0.99 * center - 0.01 * (ours + theirs)[hidden] / 2
        model = inner.recentered(given.visible_center, given.hidden_center)
    return model


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_centered_steps_are_those_of_a_recentered_machine(l2):
    start = restricted()
    rows = ROWS[:200]
    wanted = recentering_descent(start, rows, 0.3, 20, l2)
    settings = {"n_epochs": 20, "l2": l2, "l2_biases": l2}
    result = fit(start, rows, optimizer=ebm.GradientDescent(0.3), **settings)
    assert np.abs(result.model.parameters - wanted.parameters).max() < 1e-9
    assert np.array_equal(result.model.visible_center, start.visible_center)
    plain = fit(start, rows, optimizer=ebm.GradientDescent(0.3), centering=False, **settings)
    assert np.abs(result.model.parameters - plain.model.parameters).max() > 1e-3


@pytest.mark.parametrize("model", [truth(), truth().to_spins(), restricted()])
def test_gauges_are_coordinates(model):
    """There and back again, as a recentered model moves, and the gradient of the same function."""
    mean = np.linspace(0.2, 0.8, 5)
    gauge = gauge_of(model, mean, centering=True)
    center, theta = np.array([0.3, 0.1, 0.6]), model.parameters
    move = np.random.default_rng(0).normal(0, 0.3, len(theta))
    after = gauge.moved(theta, move, center)
    assert np.abs(gauge.moved(after, -move, center) - theta).max() < 1e-14
    if isinstance(model, ebm.BoltzmannMachine):
        inner = model.recentered(mean)
        back = inner.with_parameters(inner.parameters + move).recentered(model.center)
        assert np.abs(after - back.parameters).max() < 1e-14
    if isinstance(model, ebm.RestrictedBoltzmannMachine):
        inner = model.recentered(mean, center)
        inner = inner.with_parameters(inner.parameters + move)
        back = inner.recentered(model.visible_center, model.hidden_center)
        assert np.abs(after - back.parameters).max() < 1e-14
        one, other = ebm.exact(model.with_parameters(after)), ebm.exact(inner)
        states = oracles.all_states(model.space)
        difference = one.log_probability(states) - other.log_probability(states)
        assert np.abs(difference).max() < 1e-12

    def value(theta):
        return np.sin(theta) @ np.arange(len(theta))

    slope = np.cos(theta) * np.arange(len(theta))
    wanted = oracles.finite_difference(lambda x: value(gauge.moved(theta, x, center)), 0 * theta)
    assert np.abs(gauge.gradient(slope, center) - wanted).max() < 1e-7


def shifting_bars(n=9, width=1):
    return np.array([np.roll([1] * width + [0] * (n - width), k) for k in range(n)])


@pytest.mark.parametrize("average", ["exact", "uncentered"])
def test_flipped_data_are_learnt_alike(average):
    """Shifting bar of 9: a 0 for a 1 changes nothing when centered."""
    rows = shifting_bars()
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.5, (9, 4))
    curves = []
    for data, sign in ((rows, 1), (1 - rows, -1)):
        mean = data.mean(axis=0)
        start = ebm.RestrictedBoltzmannMachine(
            sign * weights,
            np.log(mean / (1 - mean)),
            np.zeros(4),
            visible_center=mean,
            hidden_center=0.5,
        )
        # Without centering the same two machines are written about 0.
        if average == "uncentered":
            start = start.recentered(0, 0)
        result = fit(
            start,
            data,
            optimizer=ebm.GradientDescent(0.5, momentum=0.9),
            n_epochs=400,
            centering=average == "exact",
        )
        curves.append([epoch.log_likelihood for epoch in result.history])
    difference = np.abs(np.diff(curves, axis=0)).max()
    assert curves[0][-1] > curves[0][0] + 0.1
    assert difference < 1e-11 if average == "exact" else difference > 1e-3


def test_moments_are_enough_for_pairwise_families():
    moments = ebm.Ensemble.from_data(ROWS).moments()
    settings = {"average": ebm.PersistentChains(200), "n_epochs": 20, "rng": 0}
    by_moments = fit(START, moments, **settings)
    assert by_moments.history[-1].iteration == 20
    spins = fit(START, moments.to(ebm.Spins), **settings)
    assert np.abs(spins.model.parameters - by_moments.model.parameters).max() < 1e-12


def test_sparse_couplings_stay_sparse():
    from scipy.sparse import csr_array

    matrix = csr_array(np.eye(5, k=1) + np.eye(5, k=-1))
    start = ebm.BoltzmannMachine(matrix, np.zeros(5), center=0.3)
    wanted = fit(start, ROWS)
    result = fit(start, ROWS, average=ebm.PersistentChains(2000), rng=0)
    assert len(result.model.parameters) == 9
    check_within_errors(result, wanted)


def test_any_parametric_model_learns():
    def features(x):
        return np.stack([x.sum(-1), x[..., 0] * x[..., 1] * x[..., 2]], axis=-1)

    family = oracles.LinearFamily(ebm.Binary(4), features, [0.0, 0.0])
    rows = ebm.exact(family.with_parameters([-0.3, 1.0])).sample(3000, rng=0)
    wanted = fit(family, rows)
    exact = fit(family, rows, optimizer=ebm.GradientDescent(0.5), tolerance=1e-7)
    assert np.abs(exact.model.parameters - wanted.model.parameters).max() < 1e-4
    chains = fit(family, rows, average=ebm.PersistentChains(100), n_epochs=10, rng=0)
    assert np.isfinite(chains.model.parameters).all()


def test_a_route_of_ones_own():
    class Draws:
        """Fresh exact draws at each step, and how many steps there were."""

        def start(self, model, data, rng):
            return {"steps": np.array(0)}

        def step(self, model, batch, state):
            draws = ebm.exact(model).sample(2000, rng=int(state["steps"]))
            return ebm.Ensemble.from_data(draws), {"steps": state["steps"] + 1}

    wanted = fit(START, ROWS)
    result = fit(START, ROWS, average=Draws(), rng=0)
    assert result.converged
    check_within_errors(result, wanted)


# Penalties.


def test_l1_shrinks_couplings_to_nearly_zero():
    independent = (np.random.default_rng(0).random((2000, 5)) < 0.7).astype(np.int8)
    settings = {"optimizer": ebm.GradientDescent(Decay(1.0, 20)), "n_epochs": 300}
    free = fit(START, independent, **settings).model
    penalized = fit(START, independent, l1=0.03, **settings).model
    assert np.abs(penalized.weights).max() < 0.01 < 0.1 < np.abs(free.weights).max()
    assert np.abs(penalized.biases).min() > 0.5


def test_contrastive_divergence_is_not_taken_for_converged():
    result = fit(START, ROWS, average=ebm.ContrastiveDivergence(), n_epochs=20, rng=0)
    assert not result.converged
    assert np.isnan(result.history[-1].rms_moment_error)
    assert "how far the moments are off is not known" in result.message


# History.


def test_history_of_a_machine_that_learns_by_heart():
    rng = np.random.default_rng(0)
    rows = (rng.random((40, 12)) < 0.5).astype(np.int8)
    other = (rng.random((500, 12)) < 0.5).astype(np.int8)
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 20, rng=0, scale=0.1)
    result = fit(
        start,
        rows,
        average=ebm.PersistentChains(100),
        optimizer=ebm.GradientDescent(0.2),
        batch_size=10,
        n_epochs=200,
        validation=other,
        rng=0,
    )
    first, last = result.history[0], result.history[-1]
    assert [epoch.iteration for epoch in result.history] == list(range(1, 201))
    assert last.n_updates == 800
    assert last.reconstruction_error < 0.5 * first.reconstruction_error
    assert last.free_energy_gap > first.free_energy_gap + 1
    wanted = result.model.energy(other).mean() - result.model.energy(rows).mean()
    assert abs(last.free_energy_gap - wanted) < 1e-9
    v = rows.astype(float)
    form = result.model.layered_form().at_origin()
    h = result.model.hidden_conditional(v)
    mean = 1 / (1 + np.exp(-(h @ form.weights.T + form.visible)))
    assert abs(last.reconstruction_error - ((v - mean) ** 2).mean()) < 1e-12
    assert np.isnan(last.log_likelihood)
    assert last.largest_parameter == np.abs(result.model.parameters).max()


def test_progress_is_a_bar(capsys):
    fit(START, ROWS, optimizer=ebm.Adam(0.01), n_epochs=3, progress=True)
    assert "epoch" in capsys.readouterr().err


# How it fails, and how it does not.


@pytest.mark.parametrize("average", [ebm.PersistentChains(50), ebm.exact])
@pytest.mark.parametrize("start", [START, restricted()])
def test_a_rate_of_1000_is_caught_and_named(start, average):
    with pytest.raises(
        DivergenceError, match=r"diverged at update \d+ \(epoch .*max\|W\| was"
    ) as e:
        fit(start, ROWS, average=average, optimizer=ebm.GradientDescent(1000.0), rng=0)
    assert e.value.parameter in start.parameter_names
    assert e.value.parameter in str(e.value)
    assert e.value.update == 1
    assert np.isfinite(e.value.model.parameters).all()


def test_the_first_update_that_is_not_finite_is_named():
    class Broken:
        def start(self, model, data, rng):
            return np.array(0)

        def step(self, model, batch, state):
            ensemble = ebm.exact(model)
            if state < 3:
                return ensemble, state + 1

            class Nowhere:
                def moments(self):
                    moments = ensemble.moments()
                    mean = moments.mean.copy()
                    mean[2] = np.nan
                    object.__setattr__(moments, "mean", mean)
                    return moments

            return Nowhere(), state

    with pytest.raises(DivergenceError, match=r"update 4 .* b\[2\] from .* to nan"):
        fit(START, ROWS, average=Broken(), optimizer=ebm.GradientDescent(0.1), centering=False)


def test_sparse_rows_do_not_drive_hidden_units_to_one():
    rng = np.random.default_rng(0)
    rows = (rng.random((1000, 60)) < 0.01).astype(np.int8)
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 10, rng=0)
    result = fit(start, rows, average=ebm.PersistentChains(100), n_epochs=20, rng=0)
    hidden = result.model.hidden_conditional(rows).mean(axis=0)
    assert (hidden > 0.1).all()
    assert (hidden < 0.9).all()
    drawn = result.ensemble.moments().mean.mean()
    assert 0.005 < drawn < 0.02


def test_constant_columns_stay_finite():
    """For hidden units; a pairwise family says that there is no best bias."""
    rows = ROWS[:300].copy()
    rows[:, 0], rows[:, 1] = 0, 1
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 3, rng=0)
    assert np.isfinite(start.parameters).all()
    with pytest.warns(NoMaximumWarning, match="units '0', '1' never change in the data"):
        result = fit(start, rows, average=ebm.PersistentChains(50), n_epochs=20, rng=0)
    assert len(result.warnings) == 1
    assert np.isfinite(result.model.parameters).all()
    with pytest.warns(NoMaximumWarning, match="units '0', '1' never change in the data"):
        exact = ebm.fit(start, rows, penalty=0.1, solver=ebm.LBFGS(max_iterations=3))
    assert not exact.converged
    assert "the likelihood has no maximum" in exact.message
    assert any("never change in the data" in note for note in exact.warnings)
    small = ebm.RestrictedBoltzmannMachine([[0.1]], [0.0], [0.0])
    with pytest.warns(NoMaximumWarning, match="unit '0' never changes in the data"):
        exact = ebm.fit(small, [[1], [1]])
    assert not exact.converged
    assert exact.message.endswith("the likelihood has no maximum")
    fit(start, rows, average=ebm.PersistentChains(50), n_epochs=2, l2_biases=1e-3, rng=0)
    assert np.isfinite([epoch.rms_moment_error for epoch in result.history]).all()
    with pytest.raises(ConstantUnitError, match="units '0', '1' never change"):
        fit(START, rows, average=ebm.PersistentChains(50))
    held = {"l2": 1e-2, "l2_biases": 1e-2, "n_epochs": 20}
    penalized = fit(START, rows, average=ebm.PersistentChains(50), rng=0, **held)
    assert np.isfinite(penalized.model.parameters).all()


@pytest.mark.parametrize("total", [1.0, 0.01])
def test_normalized_weights_are_no_reason_to_stop(total):
    """Beside the error of one sample all moments agree at once."""
    weights = np.full(len(ROWS), total / len(ROWS))
    with pytest.warns(FewSamplesWarning, match="the weights of 4000 rows sum to"):
        result = fit(
            START, ROWS, weights=weights, average=ebm.PersistentChains(500), n_epochs=30, rng=0
        )
    assert not result.converged
    assert len(result.warnings) == 1
    with pytest.warns(FewSamplesWarning):
        exact = fit(START, ROWS, weights=weights, optimizer=ebm.GradientDescent(4.0, momentum=0.5))
    assert exact.converged
    wanted = ebm.fit(START, ROWS)
    assert np.abs(exact.model.parameters - wanted.model.parameters).max() < 1e-5


def test_numbers_of_numpy_are_numbers():
    steps = ebm.GradientSteps(n_epochs=np.int64(2), centering=np.bool_(True))
    assert (steps.n_epochs, steps.centering) == (2, True)
    assert ebm.Penalty(l1=np.float32(0.1)).l1 == float(np.float32(0.1))
    assert ebm.Penalty(l1=np.int64(1)).l1 == 1.0


def test_pairs_without_a_maximum_are_named():
    rows = ROWS[(ROWS[:, 0] == 0) | (ROWS[:, 1] == 0)]
    with pytest.warns(NoMaximumWarning, match="units '0' and '1' are never both on"):
        result = fit(START, rows, average=ebm.PersistentChains(50), n_epochs=5, rng=0)
    assert len(result.warnings) == 1


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"n_epochs": 0}, EbmError, "n_epochs must be a positive integer, got 0"),
        ({"batch_size": 2.5}, EbmError, "batch_size must be a positive integer, got 2.5"),
        ({"l2": -1}, EbmError, "l2 must be a number"),
        ({"l2_biases": float("inf")}, EbmError, "l2_biases must be a number"),
        ({"l1": float("nan")}, EbmError, "l1 must be a number from 0 to 1e\\+100, got nan"),
        ({"l1": "a"}, EbmError, "l1 must hold numbers, got text"),
        ({"l2": "a"}, EbmError, "l2 must hold numbers, got text"),
        ({"tolerance": None}, EbmError, "tolerance must be a number, got None"),
        ({"validation": ebm.exact(START.to_spins())}, CodingError, "^validation rows: "),
        ({"validation": ebm.exact(START).moments()}, ModelError, "validation must be rows"),
        ({"centering": "yes"}, EbmError, "centering must be True or False, got 'yes'"),
        ({"optimizer": ebm.Adam}, EbmError, r"write Adam\(rate\)"),
        ({"optimizer": "adam"}, EbmError, "optimizer must have start and step"),
        ({"average": ebm.PersistentChains}, ModelError, r"write PersistentChains\(\)"),
        ({"average": 3}, ModelError, "average must be a function"),
        ({"validation": [[0, 1, 2, 0, 0]]}, CodingError, "^validation rows: .*2"),
        ({"rng": "seed"}, TypeError, "rng must be"),
    ],
)
def test_bad_arguments_are_named(changes, error, message):
    settings = {"optimizer": ebm.Adam(0.01), "n_epochs": 2} | changes
    with pytest.raises(error, match=message):
        fit(START, ROWS, **settings)


@pytest.mark.parametrize("rows", [2 * ROWS - 1, ROWS + 0.5, np.where(ROWS, np.nan, 0.0)])
def test_other_codings_are_errors(rows):
    for start in (START, restricted()):
        with pytest.raises(EbmError):
            fit(start, rows, average=ebm.PersistentChains())


def test_settings_of_gradient_steps_need_gradient_steps():
    with pytest.raises(EbmError, match="rng belongs to gradient steps"):
        ebm.fit(START, ROWS, rng=3)
    with pytest.raises(EbmError, match="l1 belongs to gradient steps"):
        ebm.fit(START, ROWS, penalty=ebm.Penalty(l1=0.1), solver=ebm.Newton())
    with pytest.raises(TypeError, match="validation"):
        ebm.LBFGS(validation=ROWS)


@pytest.mark.parametrize("solver", [3, "adam", ebm.Adam(0.1)])
def test_a_solver_is_one_that_suits_the_loss(solver):
    names = r"solver must be one of ebm\.Newton\(\), ebm\.LBFGS\(\), ebm\.GradientSteps\(\)"
    with pytest.raises(EbmError, match=names):
        ebm.fit(START, ROWS, solver=solver)


def test_a_solver_of_ones_own_is_taken_by_the_losses_it_names():
    class Own:
        record_type, draws, losses = ebm.learning.FitStep, False, (ebm.Likelihood,)
        inner = ebm.LBFGS(1e-6)
        tolerance, max_iterations = inner.tolerance, inner.max_iterations
        start, step, record = inner.start, inner.step, inner.record
        verdict, settings = inner.verdict, inner.settings

    assert ebm.fit(START, ROWS, solver=Own()).converged
    with pytest.raises(EbmError, match="solver must be one of"):
        ebm.fit(START, ROWS, solver=ebm.inversion.TruncatedNewton())


@pytest.mark.parametrize("kind", [ebm.GradientSteps, ebm.Newton, ebm.LBFGS])
def test_a_solver_is_an_object(kind):
    with pytest.raises(EbmError, match=rf"solver must be an object: write {kind.__name__}\(\)"):
        ebm.fit(START, ROWS, solver=kind)


@pytest.mark.parametrize("solver", [ebm.Newton(), ebm.LBFGS()])
def test_chains_need_gradient_steps(solver):
    chains = ebm.Likelihood(ebm.PersistentChains(10))
    with pytest.raises(EbmError, match="needs an average that knows ln Z"):
        ebm.fit(START, ROWS, loss=chains, solver=solver)


def test_moments_have_no_batches_and_teach_no_hidden_units():
    moments = ebm.Ensemble.from_data(ROWS).moments()
    with pytest.raises(ModelError, match="batch_size needs rows"):
        fit(START, moments, optimizer=ebm.Adam(0.1), batch_size=10)
    with pytest.raises(ModelError, match="does not learn from moments alone"):
        fit(restricted(), moments, optimizer=ebm.Adam(0.1))


def test_inputs_are_left_alone():
    """Read-only arrays work."""
    rows, weights = ROWS[:100].copy(), np.ones(100)
    for array in (rows, weights):
        array.setflags(write=False)
    fit(restricted(), rows, weights=weights, average=ebm.PersistentChains(10), n_epochs=2)
    np.testing.assert_array_equal(rows, ROWS[:100])
    assert (weights == 1).all()


def test_five_hundred_units_in_little_memory():
    """No (n_states, p) array, and nothing of size 2^n: p is 125 250 here."""
    import tracemalloc

    rng = np.random.default_rng(0)
    rows = (rng.random((300, 500)) < rng.uniform(0.2, 0.8, 500)).astype(np.int8)
    start = ebm.BoltzmannMachine(np.zeros((500, 500)), np.zeros(500))
    data = ebm.Ensemble.from_data(np.concatenate([rows] * 2))
    tracemalloc.start()
    result = fit(start, data, l2=0.01, average=ebm.PersistentChains(64), n_epochs=10, rng=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    assert np.isfinite(result.model.parameters).all()
    assert result.history[-1].gradient_norm < result.history[0].gradient_norm


def test_for_data_starts_at_independent_units():
    rows = np.array([[0, 1, 1], [0, 1, 0], [0, 0, 0], [0, 1, 1]])
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 2, rng=0, names=["a", "b", "c"])
    assert start.names == ("a", "b", "c")
    assert np.allclose(start.visible_biases, np.log([1 / 7, 3, 1]))
    assert 0 < np.abs(start.weights).max() < 0.1
    assert np.array_equal(
        start.parameters, ebm.RestrictedBoltzmannMachine.for_data(rows, 2, rng=0).parameters
    )
    with pytest.raises(EbmError, match="n_hidden must be a positive integer, got 0"):
        ebm.RestrictedBoltzmannMachine.for_data(rows, 0)
