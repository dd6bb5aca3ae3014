"""Kernels against their own Python, and against the definitions of what they compute."""

import numpy as np
import pytest

from ebm._kernels import heat_bath


def stream(seed=0, lanes=4):
    return np.random.default_rng(seed).integers(0, 2**64, (4, lanes), dtype=np.uint64)


def xoshiro(state, count):
    """xoshiro256++ in plain Python integers."""
    mask, s = 2**64 - 1, [int(v) for v in state]

    def rotate(x, k):
        return ((x << k) | (x >> (64 - k))) & mask

    out = []
    for _ in range(count):
        out.append((rotate((s[0] + s[3]) & mask, 23) + s[0]) & mask)
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
    return out


def test_words_are_xoshiro256pp_in_every_lane():
    start = stream(1)
    words = np.empty(20, np.uint64)
    heat_bath.fill_words(start.copy(), words)
    for lane in range(4):
        assert [int(w) for w in words[lane::4]] == xoshiro(start[:, lane], 5)


def test_thresholds_are_logits_of_the_bits():
    words, thresholds = np.empty(4096, np.uint64), np.empty(8192, np.float32)
    heat_bath.fill_thresholds(stream(2), words, thresholds)
    u = (words.view(np.uint32).astype(float) + 0.5) / 2**32
    np.testing.assert_allclose(thresholds, np.log(u) - np.log1p(-u), rtol=3e-6, atol=3e-7)


def test_thresholds_reach_both_tails():
    bits = np.array([0, 1, 2**32 - 2, 2**32 - 1], np.uint32)
    pairs = zip(np.float32(bits + 0.5), np.float32(~bits + 0.5), strict=True)
    logits = [heat_bath.log_ratio(own, other) for own, other in pairs]
    u = (bits + 0.5) / 2**32
    np.testing.assert_allclose(logits, np.log(u) - np.log1p(-u), rtol=1e-6)


def pair_machine(n, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n, n)).astype(np.float32)
    weights = weights + weights.T
    np.fill_diagonal(weights, 0)
    return weights, rng.normal(size=n).astype(np.float32), rng


@pytest.mark.parametrize("chains", [1, 5])
def test_compiled_sweeps_make_the_draws_of_their_python(chains):
    weights, biases, rng = pair_machine(9)
    states = (rng.random((9, chains)) < 0.5).astype(np.float32)
    results = []
    for kernel in (heat_bath.update_sites, heat_bath.update_sites.py_func):
        work, source, fields = states.copy(), stream(3), weights @ states
        with np.errstate(over="ignore"):
            kernel(fields, biases, weights, source, work)
        results.append((work, source))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_few_and_many_chains_have_the_same_conditionals():
    """With the thresholds of one chain both layouts make the same draws."""
    weights, biases, rng = pair_machine(12, seed=4)
    start = (rng.random(12) < 0.5).astype(np.float32)
    many, few = start[:, None].copy(), start[None, :].copy()
    heat_bath.update_sites(weights @ many, biases, weights, stream(5), many)
    heat_bath.sweep_dense_few(few, few @ weights + biases, weights, stream(5), 1)
    np.testing.assert_array_equal(many[:, 0], few[0])


def test_kernels_are_compiled_once_for_all_sizes():
    counts = []
    for n in (3, 17):
        weights, biases, _ = pair_machine(n)
        work = np.zeros((n, 2), np.float32)
        heat_bath.update_sites(weights @ work, biases, weights, stream(), work)
        counts.append(len(heat_bath.update_sites.signatures))
    assert counts[0] == counts[1]
