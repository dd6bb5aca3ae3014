"""The expansion about independent units: levels in pairs, terms of many units; by enumeration."""

import math
import warnings
from collections import Counter
from dataclasses import replace
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest

import ebm
from ebm.errors import EbmError, LimitError, ModelError, SeriesWarning
from ebm.perturbation import expand
from ebm.perturbation.bethe._coupling_graph import coupling_graph
from ebm.perturbation.bethe._tables import TableGraph
from ebm.perturbation.bethe._witness import Witness
from ebm.perturbation.clusters import _orders
from ebm.perturbation.clusters._centered_terms import centered_terms
from ebm.perturbation.clusters._multisets import TermGraph, linked_multisets
from ebm.perturbation.clusters._pair_products import PairProducts
from tests.cluster_error_estimates import collected
from tests.error_estimates import counted
from tests.oracles import all_states

pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")


def potts(n, q, strength, seed=0):
    rng = np.random.default_rng(seed)
    couplings = (
        strength * rng.normal(size=(n, n, q, q)) * np.triu(np.ones((n, n)), 1)[..., None, None]
    )
    return ebm.PottsModel(couplings + couplings.transpose(1, 0, 3, 2), rng.normal(size=(n, q)))


def printed_potts(strength=0.6, n=4, q=3):
    """Of the reference numbers: h_i(a) = sin(1+3i+a)/2, J_ij(a,b) = .6 sin(1+i+2j+3a+5b)."""
    a = np.arange(q)
    couplings = np.zeros((n, n, q, q))
    for i, j in combinations(range(n), 2):
        couplings[i, j] = strength * np.sin(1 + i + 2 * j + 3 * a[:, None] + 5 * a)
        couplings[j, i] = couplings[i, j].T
    return ebm.PottsModel(couplings, np.sin(1 + 3 * np.arange(n)[:, None] + a) / 2)


def terms_of(n, sizes, strength, space, seed=0):
    rng = np.random.default_rng(seed)
    terms = {(i,): rng.normal() for i in range(n)}
    for size in sizes:
        terms |= {key: strength * rng.normal() for key in combinations(range(n), size)}
    return ebm.InteractionModel(terms, space(n), offset=0.7)


MODELS = {
    "levels": potts(4, 3, 0.7),
    "two levels": potts(4, 2, 0.7, seed=1),
    "triples of {0,1}": terms_of(5, (3,), 0.8, ebm.Binary),
    "pairs and triples of spins": terms_of(4, (2, 3), 0.3, ebm.Spins, seed=2),
    "four together": terms_of(5, (4,), 0.4, ebm.Spins, seed=3),
}


def exact_orders(model, expansion, order):
    """Coefficients of t in ln Σ p_0 e^{tV}, ⟨f⟩ and Cov, V = −E − L_0 − ln p_0, from moments."""
    x = all_states(model.space)
    f = model.space.features(x)
    n, width = model.space.n, f.shape[1] // model.space.n
    mean = expansion.mean_terms[0].reshape(n, width)
    if width == 1:
        low, high = model.space.values
        up = (mean - low) / (high - low)
        p0 = np.where(x == high, up[:, 0], 1 - up[:, 0]).prod(axis=1)
    else:
        p0 = mean[np.arange(n), x.astype(int)].prod(axis=1)
    v = -model.energy(x) - expansion.log_partition_terms[0] - np.log(p0)

    def series(g):
        powers = [v**k / math.factorial(k) for k in range(order + 1)]
        return np.array([np.tensordot(p0 * power, g, axes=1) for power in powers])

    def times(a, b):
        return np.array([sum(a[j] * b[k - j] for j in range(k + 1)) for k in range(order + 1)])

    z = series(np.ones(len(x)))
    inverse, log = np.zeros(order + 1), np.zeros(order + 1)
    inverse[0] = 1
    for k in range(1, order + 1):
        inverse[k] = -sum(z[j] * inverse[k - j] for j in range(1, k + 1))
        log[k] = z[k] - sum(j * log[j] * z[k - j] for j in range(1, k)) / k
    means = times(series(f), inverse)
    seconds = times(series(np.einsum("si,sj->sij", f, f)), inverse)
    products = np.array(
        [sum(np.outer(means[j], means[k - j]) for j in range(k + 1)) for k in range(order + 1)]
    )
    return log, means, seconds - products


class TestOrders:
    @pytest.mark.parametrize("name", MODELS)
    def test_every_order_is_that_of_enumeration(self, name):
        model = MODELS[name]
        expansion = expand(model, 4)
        log, means, covariances = exact_orders(model, expansion, 4)
        assert abs(log[1]) < 1e-13
        np.testing.assert_allclose(expansion.log_partition_terms[1:], log[1:], atol=1e-13)
        np.testing.assert_allclose(expansion.mean_terms, means, atol=1e-13)
        np.testing.assert_allclose(expansion.covariance_terms, covariances, atol=1e-13)

    @pytest.mark.parametrize("name", ["levels", "two levels"])
    def test_products_are_the_clusters(self, name, monkeypatch):
        own = expand(MODELS[name], 4).log_partition_terms, expand(MODELS[name], 3).mean_terms
        covariances = expand(MODELS[name], 2).covariance_terms
        monkeypatch.setattr(_orders, "MOST_ORDERS", (0, 0, 0))
        np.testing.assert_allclose(own[0], expand(MODELS[name], 4).log_partition_terms, atol=1e-14)
        np.testing.assert_allclose(own[1], expand(MODELS[name], 3).mean_terms, atol=1e-14)
        np.testing.assert_allclose(
            covariances, expand(MODELS[name], 2).covariance_terms, atol=1e-14
        )

    def test_the_printed_numbers_of_levels(self):
        expansion = expand(printed_potts(), 4)
        expected = [4.5132486199, 0, 0.2696272685, -0.0045986587, 0.0190986511]
        np.testing.assert_allclose(expansion.log_partition_terms, expected, atol=6e-11)
        means = expansion.mean_terms[2:, 1]
        np.testing.assert_allclose(means, [0.0735658713, -0.0041426247, 0.0092646572], atol=6e-11)
        exact = ebm.exact(printed_potts()).log_partition
        np.testing.assert_allclose(exact, 4.7966772045, atol=6e-11)

    def test_the_printed_numbers_of_triples(self):
        """J (x−σ)(x−σ)(x−σ) of all triples of six units, about σ itself."""
        log_odds = np.sin(np.arange(1, 7))
        sigma = 1 / (1 + np.exp(-log_odds))
        terms = {(i,): b for i, b in enumerate(log_odds)}
        for k, key in enumerate(combinations(range(6), 3)):
            for size in range(4):
                for part in combinations(key, size):
                    rest = math.prod(-sigma[i] for i in key if i not in part)
                    terms[part] = terms.get(part, 0.0) + 0.8 * math.sin(k + 1) * rest
        expansion = expand(ebm.InteractionModel(terms, ebm.Binary(6)), 4)
        assert len(expansion.machine.term_units) == 20
        expected = [4.4862009784, 0, 0.0350003821, 0.0036711198, 0.0016998092]
        np.testing.assert_allclose(expansion.log_partition_terms, expected, atol=6e-11)

    def test_the_printed_fourth_order_at_fixed_probabilities(self):
        """Γ_4: L_4 without double edges that meet, each pair less (Var_i A_ij + Var_j A_ji)/8."""
        terms = centered_terms(printed_potts())
        p, couplings = terms.probability, terms.couplings
        a = np.einsum("ijst,jt->ijs", couplings**2, p)

        def covariance(i, x, y):
            return p[i] @ (x * y) - (p[i] @ x) * (p[i] @ y)

        meeting = sum(
            covariance(i, a[i, j], a[i, k]) / 4
            for i in range(4)
            for j, k in combinations([u for u in range(4) if u != i], 2)
        )
        own = sum(covariance(i, a[i, j], a[i, j]) / 8 for i in range(4) for j in range(4))
        fourth = PairProducts(couplings, p).log_partition(4)[3] - meeting - own
        np.testing.assert_allclose(fourth, -0.0053251, atol=6e-8)

    def test_the_fourth_order_needs_all_of_its_parts(self):
        """Closed walks that turn back at once, and double edges that meet at a unit."""
        terms = centered_terms(printed_potts())
        products = PairProducts(terms.couplings, terms.probability)
        for left_out in (products._turned_back() / 8, products._walks() / 8):
            assert abs(left_out) > 1e-4

    @pytest.mark.parametrize("order", [2, 3, 4])
    def test_errors_fall_by_a_power_more_than_the_order(self, order):
        errors = []
        for strength in (0.1, 0.05):
            model = printed_potts(strength)
            exact = ebm.exact(model)
            expansion = expand(model, order)
            covariance = exact.moments().covariance
            errors.append(
                [
                    abs(expansion.log_partition_terms.sum() - exact.log_partition),
                    np.abs(expansion.mean_terms.sum(axis=0) - exact.moments().mean).max(),
                    np.abs(expansion.covariance_terms.sum(axis=0) - covariance).max(),
                ]
            )
        slopes = np.log2(errors[0]) - np.log2(errors[1])
        np.testing.assert_allclose(slopes, order + 1, atol=0.35)

    def test_the_mean_field_is_what_the_others_say_on_average(self):
        """ln p_i(s) = E_0[−E | x_i = s] + const."""
        model = MODELS["pairs and triples of spins"]
        m = expand(model, 2).mean_terms[0]
        x = all_states(model.space)
        for i in range(4):
            others = np.where(x == 1, (1 + m) / 2, (1 - m) / 2)
            others[:, i] = 1
            weights = others.prod(axis=1)
            up, down = (-(weights * model.energy(x))[x[:, i] == s].sum() for s in (1, -1))
            np.testing.assert_allclose(np.arctanh(m[i]), (up - down) / 2, atol=1e-12)


class TestLinkedSets:
    @pytest.mark.parametrize("alone", [0, 1, 2])
    @pytest.mark.parametrize("name", ["levels", "pairs and triples of spins"])
    def test_every_one_is_met_once(self, name, alone):
        """Connected, and so many units at most in one term only; by listing all multisets."""
        terms = centered_terms(MODELS[name])
        graph = TermGraph(terms.term_units, 4)
        sets = [{u for u in units if u >= 0} for units in terms.term_units.tolist()]

        def is_linked(chosen):
            left, joined = list(chosen[1:]), set(sets[chosen[0]])
            while near := [k for k in left if sets[k] & joined]:
                joined |= sets[near[0]]
                left.remove(near[0])
            counts = Counter(u for k in chosen for u in sets[k])
            return not left and list(counts.values()).count(1) <= alone

        for k, rows in enumerate(linked_multisets(graph, 4, alone), start=1):
            listed = combinations_with_replacement(range(len(sets)), k)
            expected = [chosen for chosen in listed if is_linked(chosen)]
            assert sorted(map(tuple, rows.tolist())) == expected
            assert len(rows) <= graph.expected(k, alone)


class TestFirstOrder:
    """[EBM] eqs 31 to 36 for any discrete energy."""

    @pytest.mark.parametrize("name", MODELS)
    def test_the_density_ratio_has_the_moments_of_the_expansion(self, name):
        model = MODELS[name]
        expansion = expand(model, 1)
        x = all_states(model.space)
        ratio = expansion.density_ratio_terms(x)
        f = model.space.features(x)
        p0 = np.exp(-model.energy(x) - expansion._exponents(x) - expansion.log_partition_terms[0])
        np.testing.assert_allclose(p0.sum(), 1)
        assert abs(p0 @ ratio[1]) < 1e-13
        np.testing.assert_allclose((p0 * ratio[1]) @ f, 0, atol=1e-13)
        first = np.einsum("s,si,sj->ij", p0 * ratio[1], f, f)
        np.testing.assert_allclose(expansion.covariance_terms[1], first, atol=1e-13)

    def test_eq_33_of_levels_is_the_centered_coupling(self):
        """C_ij(s, t) = p_i(s) p_j(t) J_ij(s, t): the inversion of it is Ĉ / (p p)."""
        model = printed_potts(1e-4)
        moments = ebm.exact(model).moments()
        inverted = moments.covariance / np.outer(moments.mean, moments.mean)
        centered = centered_terms(model).couplings
        np.testing.assert_allclose(
            inverted.reshape(4, 3, 4, 3)[0, :, 1, :], centered[0, 1], atol=1e-7
        )


class TestErrors:
    def test_wrong_numbers_are_warned_of_and_right_ones_are_not(self):
        """By the rates that tests/cluster_error_estimates.py prints."""
        found = collected(range(18), orders=(2, 3))
        n, off, missed, false, _ = np.sum([counted(those) for those in found.values()], axis=0)
        assert 0.15 * n < off < 0.8 * n
        assert missed <= 0.03 * n
        assert false <= 0.15 * n

    def test_trees_of_tables_are_summed_exactly(self):
        """So that what is estimated is the error itself."""
        chain = np.zeros((4, 4, 3, 3))
        for i in range(3):
            chain[i, i + 1] = np.random.default_rng(i).normal(size=(3, 3))
            chain[i + 1, i] = chain[i, i + 1].T
        levels = ebm.PottsModel(chain, np.random.default_rng(9).normal(size=(4, 3)))
        triples = ebm.InteractionModel(
            {(0, 1, 2): 0.8, (2, 3, 4): -1.1, (2, 3): 0.4, (0,): 0.3, (4,): -0.5, (): 0.2},
            ebm.Spins(5),
            offset=0.3,
        )
        for model in (levels, triples):
            exact, expansion = ebm.exact(model), expand(model, 2)
            witness = expansion._witness
            np.testing.assert_allclose(witness.log_partition, exact.log_partition, rtol=1e-9)
            np.testing.assert_allclose(witness.mean, exact.moments().mean, atol=1e-7)
            np.testing.assert_allclose(witness.covariance, exact.moments().covariance, atol=1e-7)
            error = abs(expansion.log_partition - exact.log_partition)
            np.testing.assert_allclose(expansion.log_partition_error, error, rtol=1e-6)

    def test_pairs_of_two_values_have_the_loops_of_the_pairwise_witness(self):
        model = ebm.IsingModel(0.3 * (np.ones((5, 5)) - np.eye(5)), [0.1, 0.4, -0.2, 0.3, 0.0])
        terms = {(i, j): model.couplings[i, j] for i, j in combinations(range(5), 2)}
        terms |= {(i,): h for i, h in enumerate(model.fields)}

        class AsTerms(ebm.EnergyModel):
            space = model.space

            def energy(self, states):
                return model.energy(states)

            def term_form(self):
                return ebm.forms.TermForm(terms, 0.0)

        witness = expand(AsTerms(), 2)._witness
        other = Witness(model.space, coupling_graph(model)[0])
        loops = [state.loops for state in witness.states]
        np.testing.assert_allclose(loops, [other.states[0].log_partition], rtol=1e-6)
        np.testing.assert_allclose(witness.log_partition, other.log_partition, rtol=1e-7)
        np.testing.assert_allclose(witness.covariance, other.covariance, atol=1e-7)

    def test_weak_couplings_are_trusted_and_strong_ones_are_not(self):
        for model in (printed_potts(0.2), terms_of(6, (3,), 0.1, ebm.Binary)):
            expansion = expand(model, 3)
            moments = ebm.exact(model).moments()
            assert expansion.log_partition_error < 0.1
            assert expansion.covariance_error < 0.1
            off = abs(expansion.log_partition - moments.log_partition)
            assert off < expansion.log_partition_error
        magnet = np.multiply.outer(1.5 * (np.ones((5, 5)) - np.eye(5)), np.eye(3))
        with pytest.warns(SeriesWarning, match="ln Z by about"):
            expand(ebm.PottsModel(magnet, np.zeros((5, 3))), 3).moments()

    def test_two_triples_that_share_two_units_are_seen_at_first_order(self):
        """s_0 s_1 s_2 and s_1 s_2 s_3 correlate s_0 and s_3, which messages do not see."""
        model = ebm.InteractionModel({(0, 1, 2): 1.0, (1, 2, 3): 1.0}, ebm.Spins(4))
        assert ebm.exact(model).moments().covariance[0, 3] > 0.5
        assert expand(model, 1).covariance_error > 0.5

    def test_means_of_units_that_never_change_are_certain(self):
        """Of no variance linear response is off by nothing, not by what variances are held at."""
        fields = np.zeros((4, 3))
        fields[0, 1] = 1000
        fixed = ebm.InteractionModel({(0, 1, 2): 0.3, (1,): 0.2, (0,): 1000.0}, ebm.Spins(3))
        for model in (ebm.PottsModel(printed_potts(0.1).couplings, fields), fixed):
            expansion = expand(model, 4)
            error = np.abs(expansion.mean - ebm.exact(model).moments().mean)
            assert (error <= expansion.mean_error + 1e-9).all()
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                expansion.moments()

    def test_many_units_without_an_estimate_are_not_called_strongly_coupled(self):
        keys = {(i, i + 1, i + 2): 0.1 for i in range(0, 2998, 2)}
        with pytest.warns(
            SeriesWarning, match="up to 4000 levels of all units together, here .* 6"
        ):
            expand(ebm.InteractionModel(keys, ebm.Spins(3000)), 2).log_partition  # noqa: B018

    def test_density_ratios_are_uncertain_where_no_state_is_found(self):
        model = printed_potts(600.0)
        expansion = expand(model, 1)
        assert expansion.log_partition_error == np.inf
        assert (expansion.density_ratio_error(all_states(model.space)[:5]) == np.inf).all()


class TestAnswers:
    def test_moments_stand_beside_the_exact_ones(self):
        model = printed_potts(0.3)
        exact = ebm.exact(model).moments()
        for moments in (expand(model, 4).moments(), expand(model, 4).inverse_series()):
            np.testing.assert_allclose(moments.covariance, exact.covariance, atol=5e-4)
            blocks = moments.covariance.reshape(4, 3, 4, 3)[2, :, 2, :]
            own = moments.mean.reshape(4, 3)[2]
            np.testing.assert_allclose(blocks, np.diag(own) - np.outer(own, own), atol=1e-15)
        i, j = expand(model, 2).pairs
        assert len(i) == 6 * 9
        expansion = expand(model, 2)
        np.testing.assert_allclose(expansion.pair_covariance, expansion.covariance[i, j])

    @pytest.mark.parametrize("name", ["levels", "pairs and triples of spins", "Ising"])
    def test_what_is_kept_cannot_be_changed_from_outside(self, name):
        ising = ebm.IsingModel(0.2 * (1 - np.eye(3)), [0.1, 0.2, 0.3])
        expansion = expand(MODELS.get(name, ising), 2)
        for what in ("log_partition", "mean", "covariance", "pair_covariance"):
            assert not getattr(expansion, f"{what}_terms").flags.writeable
            assert what == "log_partition" or not getattr(expansion, what).flags.writeable

    def test_models_of_a_users_own_are_expanded_by_their_form(self):
        own = printed_potts()

        class Mine(ebm.EnergyModel):
            space = own.space

            def energy(self, states):
                return own.energy(states)

            def quadratic_form(self):
                return own.quadratic_form()

        class Together(ebm.EnergyModel):
            space = ebm.Spins(3)

            def energy(self, states):
                return -0.5 * states.prod(axis=-1) - 0.2 * states[..., 0]

            def term_form(self):
                return ebm.forms.TermForm({(0, 1, 2): 0.5, (0,): 0.2}, 0.0)

        np.testing.assert_array_equal(
            expand(Mine(), 3).log_partition_terms, expand(own, 3).log_partition_terms
        )
        exact = ebm.exact(Together()).log_partition
        np.testing.assert_allclose(expand(Together(), 6).log_partition, exact, atol=2e-3)

    def test_models_without_couplings_are_their_order_zero(self):
        for model in (potts(3, 3, 0.0), terms_of(3, (), 0.0, ebm.Spins)):
            moments = expand(model, 3).moments()
            exact = ebm.exact(model).moments()
            np.testing.assert_allclose(moments.log_partition, exact.log_partition)
            np.testing.assert_allclose(moments.mean, exact.mean, atol=1e-14)
            np.testing.assert_allclose(moments.covariance, exact.covariance, atol=1e-14)


class TestRefusals:
    @pytest.mark.parametrize("name", ["levels", "pairs and triples of spins"])
    @pytest.mark.parametrize("order", [3, 5])
    def test_numbers_beyond_floating_point_are_refused(self, name, order):
        """Instead of a silent NaN, and before numpy warns of one."""
        expansion = expand(MODELS[name].scaled(1e200), order)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for what in ("log_partition", "mean", "covariance", "pair_covariance"):
                with pytest.raises(EbmError, match=f"order {order} overflowed: the couplings"):
                    getattr(expansion, what)

    def test_variances_beyond_floating_point_are_refused(self):
        """Where the means of a series are finite, and their squares are not."""
        model = ebm.InteractionModel({(0, 1, 2): 1e150, (0,): 0.2, (1, 2): 0.3}, ebm.Spins(3))
        with pytest.raises(EbmError, match="the covariance to order 2 overflowed"):
            expand(model, 2).moments()

    def test_orders_and_centers_that_there_are_not(self):
        with pytest.raises(LimitError, match="the limit is order 6"):
            expand(printed_potts(), 7)
        with pytest.raises(EbmError, match="center must be None or"):
            expand(printed_potts(), 2, center=0.5)
        assert expand(printed_potts(), 2, center="independent").order == 2
        with pytest.raises(EbmError, match="two-valued units in pairs"):
            expand(printed_potts(), 2).third_cumulants()

    def test_sums_over_too_many_sets_are_refused_by_their_number(self):
        model = terms_of(16, (3,), 0.1, ebm.Spins)
        with pytest.raises(LimitError, match=r"ln Z to order 5: about .* linked sets of 5 of \d+"):
            expand(model, 5).log_partition_terms  # noqa: B018

    def test_a_term_of_many_units_is_refused_before_it_is_centered(self):
        model = ebm.InteractionModel({tuple(range(30)): 1.0}, ebm.Spins(30))
        with pytest.raises(LimitError, match="of up to 30 units each"):
            expand(model, 2)
        model = ebm.InteractionModel({tuple(range(20)): 1.0}, ebm.Spins(20))
        with pytest.raises(LimitError, match=r"up to 20 units each, would .* allowed are 1 s"):
            expand(model, 2, max_seconds=1)

    def test_an_energy_of_the_number_of_active_units_is_no_sum_of_terms(self):
        class Counted(ebm.EnergyModel):
            space = ebm.Binary(3)

            def energy(self, states):
                return -(states.sum(axis=-1) ** 2)

            def term_form(self):
                return ebm.forms.TermForm({}, 0.0, count=np.arange(4.0) ** 2)

        with pytest.raises(ModelError, match="number of active units"):
            expand(Counted(), 2)


class TestTimeOfErrorEstimates:
    """Messages along large tables count, as everything else does, before they are sent."""

    TERMS = {tuple(range(12)): 0.3, (0, 1): 0.3} | {(i,): 0.1 for i in range(12)}

    def expansion(self, max_seconds):
        model = ebm.InteractionModel(self.TERMS, ebm.Binary(12))
        return replace(ebm.perturbation.expand(model, 1), max_seconds=max_seconds)

    def test_without_the_time_there_is_no_estimate_and_a_sentence(self, monkeypatch):
        monkeypatch.setattr(TableGraph, "sent", lambda *_: pytest.fail("a message was sent"))
        expansion = self.expansion(0.05)
        assert expansion.log_partition_error == math.inf
        message = r"along tables, here of 4\.1e\+03 entries, .*; allowed are 50 ms"
        with pytest.warns(SeriesWarning, match=message):
            assert np.isfinite(expansion.log_partition)

    def test_with_it_the_estimate_is_the_same(self):
        found = [self.expansion(seconds).log_partition_error for seconds in (60.0, math.inf)]
        assert found[0] == found[1] < 0.01

    def test_starts_are_given_up_one_by_one(self):
        """As many rounds as the time allows, and the states that they find."""
        expansion = self.expansion(60.0)
        seconds = [0.1, 0.25, 60.0]
        numbers = []
        for limit in seconds:
            rounds = []
            sent = TableGraph.sent

            def noted(graph, cavity, sent=sent, rounds=rounds):
                rounds.append(1)
                return sent(graph, cavity)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TableGraph, "sent", noted)
                assert replace(expansion, max_seconds=limit).log_partition_error < 0.01
            numbers.append(len(rounds))
        assert numbers[0] < numbers[1] <= numbers[2]
