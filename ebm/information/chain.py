"""Theorem 3 of [RFIM]: the joint information of a chain of subsystems is made of relative ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm.errors import ModelError, ShapeError, require_memory
from ebm.information.layers import BlockDiagonalInformation, shares
from ebm.information.metric import MEMORY_LIMIT
from ebm.information.relative import relative_fisher
from ebm.information.subsystems import Layer, SoftmaxLayer
from ebm.randomness import RandomSource, generator

__all__ = ["chain_fisher"]

Array = NDArray[np.float64]


def chain_fisher(
    layers: Sequence[Layer | SoftmaxLayer],
    inputs: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    n_draws: int | None = None,
    rng: RandomSource = None,
) -> BlockDiagonalInformation:
    """The Fisher information of p(h_1, …, h_L | x) = Π_l p(h_l | θ_l, h_{l−1}); [RFIM] Theorem 3.

    diag(E[g^{h_1}(θ_1)], …, E[g^{h_L}(θ_L)]), the relative information of each layer averaged over
    the answers of the one below, h_0 = x. This is the information of the *joint* distribution, all
    layers seen. That of the predictive distribution p(h_L | x), inner layers summed out, is smaller
    and has no zero blocks.

    Parameters
    ----------
    layers : sequence of Layer or SoftmaxLayer
        From the inputs up; each answers at random. A softmax layer answers with one of m unit
        vectors.
    inputs : array_like, (..., n_inputs)
        x.
    weights : array_like, optional
        Of the inputs; equal if not given.
    n_draws : int, optional
        Draws of all layers for each input. If not given every answer of the inner layers is
        enumerated, 2^m for a layer of m two-valued units.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of the draws.

    Returns
    -------
    BlockDiagonalInformation
        A block for each layer.

    Raises
    ------
    ShapeError
        If there are no layers, or ``n_draws`` is no positive integer.

    Examples
    --------
    >>> from ebm.information import Layer, Tanh, chain_fisher
    >>> chain = [Layer([[0.0]], response=Tanh()), Layer([[0.0]], [0.0])]
    >>> chain_fisher(chain, [2.0]).dense()
    array([[4.  , 0.  , 0.  ],
           [0.  , 0.25, 0.  ],
           [0.  , 0.  , 0.25]])
    """
    if not layers:
        raise ShapeError("layers must hold at least one layer")
    references = np.asarray(inputs)
    references = references.reshape(-1, references.shape[-1] if references.ndim else 1)
    share = shares(weights, len(references))
    stream = None
    if n_draws is not None:
        if isinstance(n_draws, bool) or not hasattr(n_draws, "__index__") or n_draws < 1:
            raise ShapeError(f"n_draws must be a positive integer, got {n_draws!r}")
        references, share = np.repeat(references, n_draws, axis=0), np.repeat(share, n_draws)
        stream = generator(rng)
    blocks = []
    for number, layer in enumerate(layers):
        blocks.append(relative_fisher(layer, references, weights=share))
        if number + 1 < len(layers):
            inputs_above = layer.inputs(layer.augmented(references))
            if stream is not None:
                references = _drawn(layer, inputs_above, stream)
            else:
                references, share = _answers(layer, inputs_above, share)
    return BlockDiagonalInformation(blocks)


def _drawn(layer: Any, inputs: Array, rng: np.random.Generator) -> Array:
    """An answer of a layer at each of its inputs."""
    if isinstance(layer, Layer):
        return np.asarray(layer.response.draw(inputs, rng))
    # The largest of logits with Gumbel noise is distributed as the softmax.
    chosen = (inputs + rng.gumbel(size=inputs.shape)).argmax(axis=1)
    return np.asarray(np.eye(layer.n_units)[chosen])


def _answers(layer: Any, inputs: Array, share: Array) -> tuple[Array, Array]:
    """All answers of a layer, and their probabilities over all of its references."""
    if isinstance(layer, SoftmaxLayer):
        p = np.exp(inputs - inputs.max(axis=1, keepdims=True))
        return np.eye(layer.n_units), share @ (p / p.sum(axis=1, keepdims=True))
    values = layer.response.values
    if values is None:
        raise ModelError(
            f"the answers of {layer.response!r} cannot be enumerated: give n_draws to draw them"
        )
    m, (low, high) = layer.n_units, values
    require_memory(
        8.0 * (len(inputs) + m) * 2.0**m,
        MEMORY_LIMIT,
        f"the probabilities of all answers of {m} units to {len(inputs)} references",
        "give n_draws to draw answers",
    )
    upper, lower = (layer.response.probability(sign * inputs) for sign in (1, -1))
    probability = np.ones((len(inputs), 1))
    for unit in range(m):
        both = np.stack([lower[:, unit], upper[:, unit]], axis=1)
        probability = (probability[:, :, None] * both[:, None, :]).reshape(len(inputs), -1)
    bits = np.arange(2**m)[:, None] >> np.arange(m - 1, -1, -1) & 1
    return np.where(bits, high, low), share @ probability
