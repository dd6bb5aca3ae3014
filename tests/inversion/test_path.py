"""The path of sparse models: its ends, its conditions at every strength, and what it says."""

import pickle

import numpy as np
import pytest

import ebm
from ebm.errors import (
    ConstantUnitError,
    EbmError,
    LimitError,
    NoMaximumWarning,
    NotConvergedWarning,
)
from ebm.inversion import (
    InteractionScreening,
    MinimumProbabilityFlow,
    Pseudolikelihood,
    regularization_path,
)
from ebm.inversion import (
    path as path_module,
)
from tests.inversion.test_level_pseudolikelihood import counted
from tests.inversion.test_sparse import BINARY, COUNTS, ISING, STATES, TABLE, flat

LOSSES = [
    ebm.Likelihood(),
    Pseudolikelihood(),
    Pseudolikelihood(True),
    InteractionScreening(),
    InteractionScreening(False),
    MinimumProbabilityFlow(),
]


def ring(n=12, m=1500, seed=3):
    """Rows of a ring of spins with couplings ±.5."""
    rng = np.random.default_rng(seed)
    bonds = np.roll(np.eye(n), 1, axis=0) * rng.choice([-0.5, 0.5], n)
    return ebm.exact(ebm.IsingModel(bonds + bonds.T, np.zeros(n))).sample(m, seed)


@pytest.mark.parametrize("loss", LOSSES)
class TestEveryStrength:
    def test_it_is_the_fit_at_that_strength(self, loss):
        path = regularization_path(flat(BINARY), TABLE, loss=loss, strengths=6)
        for l1, model, objective in zip(path.l1, path.models, path.objectives, strict=True):
            single = ebm.fit(flat(BINARY), TABLE, loss=loss, penalty=ebm.Penalty(l1=l1))
            np.testing.assert_allclose(model.parameters, single.model.parameters, atol=2e-5)
            problem, _ = path_module.sparse_problem(flat(BINARY), TABLE, loss, ebm.Penalty())
            sparse = problem.loss(l1)
            assert min(sparse.objective(row) for row in path.coordinates) == objective
        assert not path.supports[0].any()
        assert (path.residuals <= 1e-6).all()
        np.testing.assert_allclose(path.l1[1:] / path.l1[:-1], 0.01 ** (1 / 5))

    def test_its_end_is_the_minimum_without_a_penalty(self, loss):
        solver = ebm.ProximalNewton(tolerance=1e-11)
        path = regularization_path(
            flat(BINARY), TABLE, loss=loss, strengths=np.geomspace(1, 1e-10, 8), solver=solver
        )
        free = ebm.fit(flat(BINARY), TABLE, loss=loss)
        np.testing.assert_allclose(path.models[-1].parameters, free.model.parameters, atol=1e-8)

    def test_conditions_are_those_of_slopes_by_differences(self, loss):
        """KKT of all couplings, from the values of the loss alone; a wrong strength fails."""
        solver = ebm.ProximalNewton(tolerance=1e-9)
        path = regularization_path(flat(BINARY), TABLE, loss=loss, strengths=4, solver=solver)
        problem, n = path.problem, 4
        for l1, theta in zip(path.l1[1:], path.coordinates[1:], strict=True):
            steps = 1e-5 * np.eye(len(theta))
            values = [
                [problem.smooth.point(theta + sign * step).value for step in steps]
                for sign in (1, -1)
            ]
            slopes = (np.array(values[0]) - np.array(values[1])) / 2e-5
            there = theta[n:] != 0
            np.testing.assert_allclose(slopes[:n], 0, atol=1e-8)
            np.testing.assert_allclose(
                slopes[n:][there], -l1 * np.sign(theta[n:][there]), atol=1e-8
            )
            assert (np.abs(slopes[n:][~there]) <= l1 + 1e-8).all()
            assert there.any()
            assert not np.allclose(slopes[n:][there], -1.01 * l1 * np.sign(theta[n:][there]))

    def test_names_are_those_of_the_data(self, loss):
        data = ebm.Ensemble.from_data(STATES, sample_weight=COUNTS, names=list("dbca"))
        path = regularization_path(flat(BINARY), data, loss=loss, strengths=3)
        assert path.models[-1].names == tuple("dbca")


@pytest.mark.parametrize("loss", [ebm.Likelihood(), Pseudolikelihood()])
def test_a_path_goes_to_other_processes(loss):
    path = regularization_path(flat(BINARY), TABLE, loss=loss, strengths=3)
    copy = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(copy.parameters, path.parameters)


class TestScreening:
    def test_couplings_left_out_by_the_strong_rule_are_put_back(self, monkeypatch):
        """With a rule that leaves out all that is zero the path is the same."""
        rows = ring()
        whole = regularization_path(flat(ISING, 12), rows, strengths=12)
        original = path_module.SparseProblem.loss
        monkeypatch.setattr(
            path_module.SparseProblem,
            "loss",
            lambda problem, l1, screen=0.0: original(problem, l1, screen=1e9),
        )
        strict = regularization_path(flat(ISING, 12), rows, strengths=12)
        np.testing.assert_allclose(strict.parameters, whole.parameters, atol=1e-5)
        assert (strict.residuals <= 1e-6).all()

    def test_the_ring_is_found_before_anything_else(self):
        path = regularization_path(flat(ISING, 12), ring(m=4000))
        i, j = path.family.pairs
        is_ring = (j - i == 1) | (j - i == 11)
        assert any((support == is_ring).all() for support in path.supports)
        assert "50 strengths" in repr(path)

    def test_single_precision_only_steers(self, monkeypatch):
        from ebm.inversion import _local_loss

        rows = ring()
        double = regularization_path(flat(ISING, 12), rows, strengths=8)
        monkeypatch.setattr(_local_loss, "SMALL", 1)
        single = regularization_path(flat(ISING, 12), rows, strengths=8)
        np.testing.assert_allclose(single.parameters, double.parameters, atol=1e-5)
        assert (single.residuals <= 1e-6).all()


class TestStatements:
    @pytest.mark.parametrize("loss", [ebm.Likelihood(), Pseudolikelihood(), Pseudolikelihood(True)])
    def test_it_stops_where_a_unit_is_predicted_without_error(self, loss):
        rows = np.random.default_rng(0).integers(0, 2, (60, 3))
        rows = np.column_stack([rows, rows.sum(axis=1) > 1]).astype(int)
        data = ebm.Ensemble.from_data(rows, names=["x", "y", "z", "most"])
        with pytest.warns(NoMaximumWarning, match="unit 'most' is predicted without error"):
            path = regularization_path(
                flat(BINARY), data, loss=loss, strengths=np.geomspace(1, 1e-6, 50)
            )
        assert len(path.l1) < 50
        assert "ended before" in path.message
        assert np.isfinite(path.parameters).all()
        held = regularization_path(
            flat(BINARY), data, loss=loss, penalty=ebm.Penalty(l2=0.3), strengths=5
        )
        assert held.penalty.l2 == 0.3

    def test_a_logarithm_that_falls_for_ever_ends_it(self):
        rows = [[0, 0, 0]] * 20 + [[1, 1, 1]] * 19
        with pytest.warns(NoMaximumWarning):
            path = regularization_path(flat(BINARY, 3), rows, loss=InteractionScreening())
        assert len(path.l1) < 50

    def test_an_empty_cell_is_named(self):
        rows = [[0, 0, 1]] * 20 + [[0, 1, 0]] * 10 + [[1, 0, 1]] * 15 + [[0, 0, 0]] * 9
        rows += [[1, 0, 0]] * 4 + [[0, 1, 1]] * 7
        path = regularization_path(flat(BINARY, 3), rows, strengths=np.geomspace(1, 0.3, 5))
        assert "without l1 there is no minimum: units '0' and '1' are never both on" in path.message

    def test_a_path_over_which_nothing_enters_is_refused(self):
        independent = ebm.exact(flat(BINARY, 3))
        with pytest.raises(EbmError, match="no coupling enters the path"):
            regularization_path(flat(BINARY, 3), independent)
        free = np.arange(10) < 4
        with pytest.raises(EbmError, match="no coupling enters the path"):
            regularization_path(flat(BINARY), TABLE, penalty=ebm.Penalty(free=free))

    def test_settings(self):
        for wrong, said in [
            ({"penalty": ebm.Penalty(l1=0.1)}, "without l1 and group_l1, got l1=0.1"),
            ({"penalty": ebm.Penalty(group_l1=0.1)}, "without l1 and group_l1, got group_l1=0.1"),
            ({"penalty": ebm.Penalty(ties=[0, 1, 2, 3] + [4] * 6)}, "ties have no place"),
            ({"strengths": 1}, "strengths"),
            ({"strengths": [0.5, 0.7]}, "strengths must be their number, or fall"),
            ({"strengths": [2.0, 0.7]}, "strengths must be their number, or fall"),
            ({"strengths": [0.5, 0.0]}, "strengths must be their number, or fall"),
            ({"strengths": [0.5, np.nan]}, "strengths must be their number, or fall"),
            ({"loss": "rise"}, "loss must be one such as"),
            ({"loss": Pseudolikelihood}, "loss must be one such as"),
            ({"loss": ebm.Likelihood(ebm.PersistentChains())}, "needs an average that knows ln Z"),
            ({"solver": ebm.Newton()}, "solver must be ebm.ProximalNewton"),
            ({"solver": ebm.ProximalNewton}, "solver must be ebm.ProximalNewton"),
        ]:
            with pytest.raises(EbmError, match=said):
                regularization_path(flat(BINARY), TABLE, **wrong)
        rows = np.array(STATES)
        rows[:, 0] = 0
        with pytest.raises(ConstantUnitError, match="'0' never changes"):
            regularization_path(flat(BINARY), rows)

    @pytest.mark.filterwarnings("ignore::ebm.errors.FewSamplesWarning")
    def test_fewer_rows_than_units(self):
        rows = np.random.default_rng(1).integers(0, 2, (8, 12))
        rows[0], rows[1] = 0, 1
        path = regularization_path(flat(BINARY, 12), rows, strengths=np.geomspace(1, 0.3, 20))
        assert "without l1 there is no minimum" in path.message
        with pytest.warns(NoMaximumWarning, match="predicted without error"):
            assert len(regularization_path(flat(BINARY, 12), rows).l1) < 50
        assert (path.residuals <= 1e-6).all()

    def test_a_path_of_hours_is_refused_before_any_work(self):
        rows = np.random.default_rng(0).integers(0, 2, (2500, 800))
        with pytest.raises(LimitError, match="a path of 5000 strengths for 800 units and 2500"):
            regularization_path(flat(BINARY, 800), rows, strengths=5000)

    def test_an_interrupt_keeps_what_there_is(self, monkeypatch):
        from ebm.inversion._local_loss import LocalLoss

        evaluate, calls = LocalLoss._evaluated, []

        def interrupted(loss, theta):
            calls.append(1)
            if len(calls) == 12:
                raise KeyboardInterrupt
            return evaluate(loss, theta)

        monkeypatch.setattr(LocalLoss, "_evaluated", interrupted)
        path = regularization_path(flat(BINARY), TABLE, strengths=30)
        assert 1 <= len(path.l1) < 30
        assert "interrupted" in path.message

    def test_incomplete_rows_are_refused(self):
        rows = np.where(np.arange(16)[:, None] == [3, 5, 9, 1], np.nan, STATES)
        data = ebm.IncompleteEnsemble.from_data(rows)
        with pytest.raises(EbmError, match="or step from zeros: give complete rows"):
            regularization_path(flat(BINARY), data, loss=ebm.Likelihood())
        with pytest.raises(EbmError, match="need complete rows"):
            regularization_path(flat(BINARY), data)

    def test_huge_weights_change_nothing(self):
        heavy = ebm.Ensemble.from_data(STATES, sample_weight=1e9 * np.array(COUNTS))
        one, other = (
            regularization_path(flat(BINARY), data, strengths=5) for data in (TABLE, heavy)
        )
        np.testing.assert_allclose(one.parameters, other.parameters, atol=1e-9)


@pytest.mark.filterwarnings("ignore::ebm.errors.NoMaximumWarning")
def test_a_path_that_separates_at_its_last_strength_has_not_ended_before_it():
    rows = [[0, 0], [1, 1]] * 20
    whole = regularization_path(flat(BINARY, 2), rows, strengths=np.geomspace(1, 1e-3, 20))
    last = whole.l1[-1] / whole.l1[0]
    steps = np.geomspace(1, last, len(whole.l1))
    path = regularization_path(flat(BINARY, 2), rows, strengths=steps)
    assert "ended before" in whole.message
    assert "ended before" not in path.message
    assert "without l1 there is no minimum: units '0', '1' are predicted" in path.message


@pytest.mark.parametrize(
    ("family", "loss"),
    [
        *((BINARY, loss) for loss in LOSSES),
        *((ebm.OrdinalModel, loss) for loss in LOSSES[:5]),
        *((ebm.PottsModel, loss) for loss in LOSSES[:5]),
    ],
)
class TestCheckpoints:
    def of(self, family, loss, **how):
        model, rows = flat(BINARY), TABLE
        if family is not BINARY:
            shape = (3, 3, 3, 3) if family is ebm.PottsModel else (3, 3)
            model, rows = family(np.zeros(shape), np.zeros((3, 3))), counted()
        return regularization_path(
            model, rows, **{"loss": loss, "strengths": np.geomspace(1, 0.05, 8), **how}
        )

    def test_a_path_that_was_stopped_goes_on_to_the_same_bits(
        self, family, loss, tmp_path, monkeypatch
    ):
        whole = self.of(family, loss)
        original, file = path_module.iterate, tmp_path / "path.npz"
        for last in (1, 4, 7):
            runs = []

            def stopped(*args, last=last, runs=runs, **how):
                runs.append(1)
                if len(runs) > last:
                    raise SystemExit
                return original(*args, **how)

            monkeypatch.setattr(path_module, "iterate", stopped)
            file.unlink(missing_ok=True)
            with pytest.raises(SystemExit):
                self.of(family, loss, checkpoint=file)
            monkeypatch.setattr(path_module, "iterate", original)
            resumed = self.of(family, loss, checkpoint=file)
            for name in ("coordinates", "objectives", "residuals", "l1"):
                np.testing.assert_array_equal(getattr(resumed, name), getattr(whole, name))
            assert resumed.message == whole.message
        monkeypatch.setattr(path_module, "iterate", None)
        again = self.of(family, loss, checkpoint=file)
        np.testing.assert_array_equal(again.coordinates, whole.coordinates)

    def test_it_is_that_of_one_path(self, family, loss, tmp_path):
        file = tmp_path / "path.npz"
        self.of(family, loss, checkpoint=file)
        for other, said in [
            ({"strengths": 9}, "strengths: their number, the largest or the smallest differs"),
            ({"solver": ebm.ProximalNewton(1e-8)}, "tolerance"),
            ({"penalty": ebm.Penalty(l2=0.1)}, "(l2|parameters)"),
            ({"penalty": ebm.Penalty(l2_biases=0.1)}, "(l2_biases|parameters)"),
        ]:
            with pytest.raises(EbmError, match=f"belongs to a run with another {said}"):
                self.of(family, loss, checkpoint=file, **other)
        another = ebm.Likelihood() if isinstance(loss, Pseudolikelihood) else Pseudolikelihood()
        with pytest.raises(EbmError, match=rf"another loss: {type(loss).__name__}\("):
            self.of(family, another, checkpoint=file)


@pytest.mark.filterwarnings("ignore::ebm.errors.NoMaximumWarning")
def test_a_path_that_had_ended_is_not_followed_again(tmp_path, monkeypatch):
    rows, file = [[0, 0], [1, 1]] * 20, tmp_path / "path.npz"
    whole = regularization_path(
        flat(BINARY, 2), rows, strengths=np.geomspace(1, 1e-3, 50), checkpoint=file
    )
    assert "ended before" in whole.message
    monkeypatch.setattr(path_module, "iterate", None)
    again = regularization_path(
        flat(BINARY, 2), rows, strengths=np.geomspace(1, 1e-3, 50), checkpoint=file
    )
    assert again.message == whole.message
    np.testing.assert_array_equal(again.coordinates, whole.coordinates)


def test_more_iterations_go_on_where_a_path_had_too_few(tmp_path):
    file = tmp_path / "path.npz"
    whole = regularization_path(flat(BINARY), TABLE, strengths=6)
    few = ebm.ProximalNewton(1e-6, max_iterations=2)
    with pytest.warns(NotConvergedWarning, match="max_iterations = 2 was reached"):
        stopped = regularization_path(flat(BINARY), TABLE, strengths=6, solver=few, checkpoint=file)
    assert 1 <= len(stopped.l1) < 6
    resumed = regularization_path(flat(BINARY), TABLE, strengths=6, checkpoint=file)
    np.testing.assert_array_equal(resumed.coordinates, whole.coordinates)
