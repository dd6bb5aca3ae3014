"""Sums by three matrix products: any grouping of the units, and no loss that is not flagged."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebm
from ebm.enumeration._factors import CERTIFIED, Factors
from ebm.enumeration._halves import Halves, sum_by_halves
from ebm.enumeration._products import (
    BlockSums,
    borrowed_buffers,
    combine,
    sum_by_products,
    sum_certified,
)
from ebm.enumeration._splitting import split, split_sizes
from ebm.forms import summable_form
from tests import oracles, strategies
from tests.enumeration.adversaries import two_mode_adversary, underflow_adversary

#: group_bits and undivided_bits: from one unit a group, the rest fixed, to no fixed unit at all.
GROUPINGS = st.tuples(st.sampled_from([1, 2, 3, 10]), st.sampled_from([0, 4, 26]))


def form_of(model):
    return summable_form(model).at_origin().dense()


def check_totals(totals, model, rtol=1e-10):
    """Sums agree with the sum over all states."""
    log_z, _ = oracles.distribution(model)
    mean, covariance = oracles.moments(model)
    np.testing.assert_allclose(
        totals.log_total - form_of(model).constant, log_z, rtol=rtol, atol=1e-12
    )
    np.testing.assert_allclose(totals.mean, mean, rtol=rtol, atol=1e-13)
    second = covariance + np.outer(mean, mean)
    np.testing.assert_allclose(totals.second, second, rtol=rtol, atol=1e-13)


class TestGroupings:
    @given(strategies.quadratic_models(), GROUPINGS, st.booleans())
    @settings(max_examples=150)
    def test_any_grouping_gives_the_same_sums(self, model, grouping, with_potential):
        parts = split(model.space, *grouping)
        totals = sum_by_products(form_of(model), parts, 1, with_potential=with_potential)
        assert totals.log_lost_share(float(model.space.size)) < CERTIFIED
        assert len(totals.block_logs) == parts.fixed.size
        total = np.logaddexp.reduce(totals.block_logs)
        assert total == pytest.approx(totals.log_relative, abs=1e-9)
        check_totals(totals, model)

    @given(strategies.quadratic_models(), GROUPINGS)
    def test_products_and_halves_agree(self, model, grouping):
        totals, _ = sum_certified(form_of(model), split(model.space, *grouping), 1)
        halves = sum_by_halves(Halves((form_of(model),), model.space), 1)
        np.testing.assert_allclose(totals.log_total, halves.log_total, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(totals.second, halves.second, rtol=1e-11, atol=1e-14)

    @given(strategies.quadratic_models(min_units=4), GROUPINGS, st.sampled_from([2, 3, 8]))
    def test_threads_change_no_bit(self, model, grouping, n_jobs):
        parts = split(model.space, *grouping)
        one = sum_by_products(form_of(model), parts, 1, with_potential=True)
        many = sum_by_products(form_of(model), parts, n_jobs, with_potential=True)
        assert one.log_total == many.log_total
        np.testing.assert_array_equal(one.second, many.second)
        np.testing.assert_array_equal(one.block_logs, many.block_logs)

    def test_more_blocks_than_chunks(self):
        rng = np.random.default_rng(4)
        model = ebm.IsingModel(rng.normal(size=(9, 9)), rng.normal(size=9))
        parts = split(model.space, 1, 0)
        assert parts.fixed.size == 64
        for n_jobs in (1, 4):
            check_totals(
                sum_by_products(form_of(model), parts, n_jobs, with_potential=False), model
            )

    @given(
        st.integers(1, 60),
        st.integers(2, 5),
        st.floats(1, 12),
        st.floats(0, 40),
    )
    def test_groups_hold_every_unit_once(self, n, q, group_bits, undivided_bits):
        sizes = split_sizes(n, q, group_bits, undivided_bits)
        assert sum(sizes) == n
        assert min(sizes) >= 0
        largest = max(group_bits, math.log2(q)) / math.log2(q)
        assert max(sizes[:3]) <= max(largest, 1)

    def test_groups_and_their_tables(self):
        space = ebm.Levels(5, 3)
        parts = split(space, 2, 0)
        assert [group.units for group in parts] == [
            slice(0, 1),
            slice(1, 2),
            slice(2, 3),
            slice(3, 5),
        ]
        np.testing.assert_array_equal(
            parts.fixed.table, space.features(space.states_at(np.arange(9)))[:, 9:]
        )


class TestBuffers:
    def test_threads_that_sum_at_once_do_not_share_them(self):
        rng = np.random.default_rng(2)
        models = [ebm.IsingModel(rng.normal(size=(14, 14)), rng.normal(size=14)) for _ in range(12)]

        def total(model):
            return sum_by_products(form_of(model), split(model.space), 1, with_potential=False)

        alone = [total(model) for model in models]
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(total, models))
        for one, other in zip(alone, together, strict=True):
            assert one.log_total == other.log_total
            np.testing.assert_array_equal(one.second, other.second)

    def test_they_are_used_again(self):
        parts = split(ebm.Spins(13))
        with borrowed_buffers(parts) as first:
            with borrowed_buffers(parts) as second:
                assert second.f is not first.f
        with borrowed_buffers(parts) as third:
            assert third.f is first.f

    def test_large_ones_are_given_back(self):
        parts = split(ebm.Spins(30))
        with borrowed_buffers(parts) as first:
            pass
        with borrowed_buffers(parts) as second:
            assert second.f is not first.f


class TestCertificate:
    def test_adversary_is_flagged_without_the_potential_and_exact_with_it(self):
        model = underflow_adversary()
        parts = split(model.space)
        plain = sum_by_products(form_of(model), parts, 1, with_potential=False)
        assert plain.log_total == -math.inf
        assert not plain.log_lost_share(2.0**24) < CERTIFIED
        balanced = sum_by_products(form_of(model), parts, 1, with_potential=True)
        assert balanced.log_lost_share(2.0**24) < CERTIFIED
        assert balanced.log_total == pytest.approx(32005.54517744448, rel=1e-15)
        certified = sum_certified(form_of(model), parts, 1)
        assert certified is not None
        assert certified[1]

    def test_sums_that_lost_digits_but_not_all_are_flagged_too(self):
        # F G = exp(−735) is a subnormal number of a few digits: a plausible sum, and a wrong one.
        model = underflow_adversary(4, strength=735 / 16)
        exact = 16000 + 4 * math.log(2)
        plain = sum_by_products(form_of(model), split(model.space), 1, with_potential=False)
        assert 1e-9 < abs(plain.log_total - exact) < 1e-2
        assert not plain.log_lost_share(2.0**12) < CERTIFIED
        certified = sum_certified(form_of(model), split(model.space), 1)
        assert certified is not None
        assert certified[1]
        assert certified[0].log_total == pytest.approx(exact, rel=1e-15)

    def test_certificate_has_a_margin(self):
        # The bound on the share lost is e⁻⁴⁰, far below rounding; what is near it still passes.
        model = underflow_adversary(4, strength=650 / 16)
        plain = sum_by_products(form_of(model), split(model.space), 1, with_potential=False)
        assert -60 < plain.log_lost_share(2.0**12) < CERTIFIED
        check_totals(plain, model)

    def test_what_no_potential_balances_is_refused_and_summed_by_halves(self):
        model = two_mode_adversary()
        assert sum_certified(form_of(model), split(model.space), 1) is None
        totals = sum_by_halves(Halves((form_of(model),), model.space), 1)
        assert totals.log_total == pytest.approx(160000 + 5 * math.log(2), rel=1e-14)

    def test_fixing_the_unit_that_chooses_the_mode_restores_the_products(self):
        # Only the grouping (4, 4, 4) with z fixed has one mode in each block.
        a, b, c = slice(0, 4), slice(4, 8), slice(8, 12)
        weights = np.zeros((13, 13))
        weights[a, b], weights[b, c] = -50, 50
        weights[a, 12] = weights[c, 12] = -4000
        biases = np.zeros(13)
        biases[a] = biases[c] = 2000
        biases[12] = 2000 * 8
        model = ebm.BoltzmannMachine(weights + weights.T, biases)
        certified = sum_certified(form_of(model), split(model.space, 4, 0), 1)
        assert certified is not None
        check_totals(certified[0], model)

    @pytest.mark.parametrize("with_potential", [False, True])
    @pytest.mark.parametrize("scale", [30, 100, 300, 1000])
    def test_what_is_certified_is_right(self, scale, with_potential):
        n_certified = 0
        for seed in range(25):
            rng = np.random.default_rng(seed)
            n = int(rng.integers(6, 11))
            # Whole multiples: several states tie, so the moments are no trivial zeros and ones.
            weights = np.triu(scale * rng.integers(-2, 3, (n, n)), 1)
            model = ebm.BoltzmannMachine(
                weights + weights.T, scale * rng.integers(-2, 3, n) + rng.normal(size=n)
            )
            grouping = [(10, 26), (2, 0), (3, 26)][seed % 3]
            totals = sum_by_products(
                form_of(model), split(model.space, *grouping), 1, with_potential=with_potential
            )
            if totals.log_lost_share(2.0**n) < CERTIFIED:
                check_totals(totals, model)
                n_certified += 1
        assert n_certified >= (20 if scale <= 100 else 3)

    @pytest.mark.parametrize("seed", range(12))
    def test_dense_random_machines_pass_with_the_potential(self, seed):
        # LIMITS §1.3: 12 of 12 at 24 units; 15 here, so that the oracle is quick.
        rng = np.random.default_rng(seed)
        weights = np.triu(rng.normal(0, 200, (15, 15)), 1)
        model = ebm.BoltzmannMachine(weights + weights.T, rng.normal(0, 200, 15))
        certified = sum_certified(form_of(model), split(model.space), 1)
        assert certified is not None
        check_totals(certified[0], model)


class TestFactors:
    @given(strategies.quadratic_models(), GROUPINGS, st.booleans())
    def test_product_of_the_factors_is_the_boltzmann_weight(self, model, grouping, with_potential):
        parts = split(model.space, *grouping)
        form = form_of(model)
        factors = Factors(form, parts, with_potential=with_potential)
        energies = np.asarray(model.energy(oracles.all_states(model.space)))
        # States are numbered with the first unit slowest, so the groups are the axes.
        energies = energies.reshape([group.size for group in parts])
        a, b, c = (group.size for group in parts[:3])
        for z in range(parts.fixed.size):
            f, g, r, scale = factors.matrices(z, np.empty((a, b)), np.empty((a, c)))
            for factor in (f, g, r):
                assert factor.max() <= 1 + 1e-12
            product = np.einsum("ab,bc,ac->abc", f, g, r)
            weight = np.exp(form.constant - energies[..., z] - scale)
            np.testing.assert_allclose(product, weight, rtol=1e-10)


class TestCombine:
    def blocks(self, scales, rng):
        made = []
        for scale in scales:
            g = np.append(rng.random(2), 1)
            made.append(BlockSums(scale, rng.random() * np.outer(g, g)))
        return made

    def test_scales_far_apart(self):
        rng = np.random.default_rng(0)
        small, large, medium = self.blocks([-5000.0, 900.0, 890.0], rng)
        for order in ([small, large, medium], [large, medium, small], [medium, small, large]):
            totals = combine(iter(order))
            weights = [large.second[-1, -1], math.exp(-10) * medium.second[-1, -1]]
            assert totals.log_total == pytest.approx(900 + math.log(sum(weights)), rel=1e-14)
            second = large.second + math.exp(-10) * medium.second
            np.testing.assert_allclose(totals.mean, second[:-1, -1] / sum(weights), rtol=1e-13)
            assert totals.top_scale == 900
            expected = [block.scale - 900 + math.log(block.second[-1, -1]) for block in order]
            np.testing.assert_allclose(totals.block_logs, expected, rtol=1e-14)

    def test_blocks_that_lost_everything(self):
        (kept,) = self.blocks([3.0], np.random.default_rng(1))
        lost = BlockSums(100.0, np.zeros((3, 3)))
        totals = combine(iter([lost, lost]))
        assert totals.log_total == -math.inf
        assert totals.log_lost_share(8.0) == math.inf
        totals = combine(iter([lost, kept]))
        assert totals.block_logs[0] == -math.inf
        # The top scale is that of the lost block: what it may have held counts as lost.
        assert totals.top_scale == 100
