"""Theorem 3: blocks of the joint information are relative ones, and no others are there."""

import itertools

import numpy as np
import pytest

from ebm.errors import MemoryLimitError, ModelError, ShapeError
from ebm.information import Layer, Relu, Sigmoid, SoftmaxLayer, Tanh, TwoLayers, chain_fisher

RNG = np.random.default_rng(3)
CHAIN = [
    Layer(RNG.normal(size=(2, 3)), RNG.normal(size=2), response=Tanh()),
    Layer(RNG.normal(size=(2, 2)), response=Sigmoid()),
    SoftmaxLayer(RNG.normal(size=(3, 2)), RNG.normal(size=3)),
]
X, WEIGHTS = RNG.normal(size=(4, 3)), np.array([1.0, 2.0, 0.5, 1.0])


def paths(x):
    """(probability, score by all parameters, last answer) of every chain of answers."""
    one, two, last = CHAIN
    augmented = np.append(x, 1.0)
    t = np.tanh(one.weights @ x + one.biases)
    for h in itertools.product((-1.0, 1.0), repeat=2):
        h = np.array(h)
        p_h = np.prod((1 + h * t) / 2)
        s = 1 / (1 + np.exp(-two.weights @ h))
        for g in itertools.product((0.0, 1.0), repeat=2):
            g = np.array(g)
            p_g = np.prod(np.where(g == 1, s, 1 - s))
            logits = last.weights @ g + last.biases
            eta = np.exp(logits) / np.exp(logits).sum()
            for y in range(3):
                scores = [np.outer(h - t, augmented), np.outer(g - s, h)]
                scores.append(np.outer(np.eye(3)[y] - eta, np.append(g, 1.0)))
                flat = np.concatenate([score.ravel() for score in scores])
                yield p_h * p_g * eta[y], flat, y


def by_paths():
    """Fisher information of the joint and of the predictive distribution."""
    joint = predictive = 0.0
    for x, weight in zip(X, WEIGHTS / WEIGHTS.sum(), strict=True):
        p_y, score_y = np.zeros(3), np.zeros((3, 8 + 4 + 9))
        for p, score, y in paths(x):
            joint = joint + weight * p * np.outer(score, score)
            p_y[y] += p
            score_y[y] += p * score
        predictive = predictive + weight * score_y.T @ (score_y / p_y[:, None])
    return joint, predictive


def test_the_joint_information_is_that_of_all_chains_of_answers():
    """Blocks and the zeros between them."""
    found = chain_fisher(CHAIN, X, sample_weight=WEIGHTS)
    joint, _ = by_paths()
    np.testing.assert_allclose(found.dense(), joint, rtol=1e-11, atol=1e-15)
    cross = joint.copy()
    for part in found.parts:
        cross[part, part] = 0
    assert np.abs(cross).max() < 1e-15
    assert [part.stop - part.start for part in found.parts] == [8, 4, 9]


def test_that_of_the_predictive_distribution_is_another():
    """Its cross blocks do not vanish, and it is smaller."""
    found = chain_fisher(CHAIN, X, sample_weight=WEIGHTS).dense()
    _, predictive = by_paths()
    assert np.abs(predictive[:8, 8:]).max() > 1e-3
    assert np.abs(predictive[8:12, 12:]).max() > 1e-2
    assert np.trace(predictive) < 0.6 * np.trace(found)
    assert np.linalg.eigvalsh(found - predictive).min() > -1e-12


def test_draws_agree_with_all_answers():
    """Within five standard errors of the mean over draws of a block of the second layer."""
    exact = chain_fisher(CHAIN, X, sample_weight=WEIGHTS).dense()
    runs = np.array(
        [
            chain_fisher(CHAIN, X, sample_weight=WEIGHTS, n_draws=50, rng=k).dense()
            for k in range(40)
        ]
    )
    error = runs.std(axis=0) / np.sqrt(len(runs))
    assert (np.abs(runs.mean(axis=0) - exact) < 5 * error + 1e-12).all()
    again = chain_fisher(CHAIN, X, sample_weight=WEIGHTS, n_draws=50, rng=0).dense()
    np.testing.assert_array_equal(again, runs[0])


def test_a_softmax_layer_in_the_middle():
    """It answers with one of the unit vectors; drawn or enumerated."""
    chain = [SoftmaxLayer(RNG.normal(size=(3, 3))), Layer(RNG.normal(size=(2, 3)))]
    exact = chain_fisher(chain, X)
    logits = X @ chain[0].weights.T
    eta = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    s = 1 / (1 + np.exp(-chain[1].weights.T))
    wanted = [np.diag(eta.mean(axis=0) * (s * (1 - s))[:, unit]) for unit in range(2)]
    block = exact.blocks[1].dense()
    np.testing.assert_allclose(block[:3, :3], wanted[0], rtol=1e-12)
    np.testing.assert_allclose(block[3:, 3:], wanted[1], rtol=1e-12)
    drawn = chain_fisher(chain, X, n_draws=5000, rng=0)
    np.testing.assert_allclose(drawn.blocks[1].dense(), block, atol=0.01)


def test_continuous_answers_are_drawn():
    """They cannot be enumerated."""
    chain = [Layer(CHAIN[0].weights, response=Relu()), Layer(CHAIN[1].weights)]
    with pytest.raises(ModelError, match="cannot be enumerated: give n_draws"):
        chain_fisher(chain, X)
    assert np.isfinite(chain_fisher(chain, X, n_draws=10, rng=0).dense()).all()


def test_refusals():
    """No layers, no draws, too many answers."""
    with pytest.raises(ShapeError, match="at least one layer"):
        chain_fisher([], X)
    with pytest.raises(ShapeError, match="n_draws must be a positive integer, got 0"):
        chain_fisher(CHAIN, X, n_draws=0)
    with pytest.raises(ModelError, match="layers must be a list of layers, got Layer"):
        chain_fisher(CHAIN[0], X)
    with pytest.raises(ModelError, match="Layer and SoftmaxLayer only, got TwoLayers"):
        chain_fisher([TwoLayers(*CHAIN[:2])], X)
    with pytest.raises(ShapeError, match="layer 1 has 2 units, but layer 2 above it 3 inputs"):
        chain_fisher([*CHAIN[:2], CHAIN[0]], X)
    with pytest.raises(ShapeError, match=r"must have shape \(\.\.\., 3\), got \(0,\)"):
        chain_fisher(CHAIN, [])
    with pytest.raises(MemoryLimitError, match=r"1e\+12 draws for each of 4 inputs"):
        chain_fisher(CHAIN, X, n_draws=10**12)
    wide = [Layer(np.zeros((40, 3)), response=Tanh()), Layer(np.zeros((1, 40)))]
    with pytest.raises(MemoryLimitError, match=r"all states of 40 units.*give n_draws"):
        chain_fisher(wide, X)
