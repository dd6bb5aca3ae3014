"""The joint information of a chain of subsystems from their relative ones; [RFIM] Theorem 3."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_floats, as_integer
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.errors import ModelError, ShapeError, require_memory
from ebm.information.layers import BlockDiagonalInformation, shares
from ebm.information.relative import relative_fisher
from ebm.information.subsystems import Layer, SoftmaxLayer

__all__ = ["chain_fisher"]


def chain_fisher(
    layers: Sequence[Layer | SoftmaxLayer],
    inputs: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    n_draws: int | None = None,
    rng: RandomSource = None,
) -> BlockDiagonalInformation:
    """The Fisher information of p(h_1, …, h_L | x) = Π_l p(h_l | θ_l, h_{l−1}); [RFIM] Theorem 3.

    diag(E[g^{h_1}(θ_1)], …, E[g^{h_L}(θ_L)]), the relative information of each layer averaged over
    the states of the layer below, h_0 = x. This belongs to the *joint* distribution of all layers;
    the information of the predictive distribution p(h_L | x), with the inner layers summed out, is
    smaller and has no zero blocks.

    Parameters
    ----------
    layers : sequence of Layer or SoftmaxLayer
        Stochastic layers from the inputs up. The states of a softmax layer are the m unit vectors.
    inputs : array_like, (..., n_inputs)
        x.
    sample_weight : array_like, optional
        Weights of the inputs, equal by default.
    n_draws : int, optional
        Number of draws of all layers for each input. By default all states of the inner layers are
        enumerated, 2^m for a layer of m two-valued units.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of the draws.

    Returns
    -------
    BlockDiagonalInformation
        One block for each layer.

    Raises
    ------
    ShapeError
        If there are no layers, their widths do not fit, or ``n_draws`` is no positive integer.
    ModelError
        If an element of ``layers`` is no layer, or has continuous states that cannot be enumerated.
    MemoryLimitError
        If the draws, or the probabilities of all states, would take more than 4 GiB.

    Examples
    --------
    >>> from ebm.information import Layer, Tanh, chain_fisher
    >>> chain = [Layer([[0.0]], response=Tanh()), Layer([[0.0]], [0.0])]
    >>> chain_fisher(chain, [2.0]).dense()
    array([[4.  , 0.  , 0.  ],
           [0.  , 0.25, 0.  ],
           [0.  , 0.  , 0.25]])
    """
    _require_chain(layers)
    references = as_floats(inputs, "inputs")
    layers[0].augmented(references)
    references = references.reshape(-1, layers[0].weights.shape[1])
    share = shares(sample_weight, len(references))
    if n_draws is not None:
        copies = _copies(layers, len(references), n_draws)
        references, share = np.repeat(references, copies, axis=0), np.repeat(share, copies)
    stream = None if n_draws is None else generator(rng)
    blocks = []
    for number, layer in enumerate(layers):
        blocks.append(relative_fisher(layer, references, sample_weight=share))
        if number + 1 < len(layers):
            inputs_above = layer.inputs(layer.augmented(references))
            if stream is not None:
                references = _drawn(layer, inputs_above, stream)
            else:
                references, share = _answers(layer, inputs_above, share)
    return BlockDiagonalInformation(blocks)


def _require_chain(layers: Any) -> None:
    """Refuse what is no sequence of layers whose widths fit."""
    if not isinstance(layers, Sequence):
        raise ModelError(f"layers must be a list of layers, got {type(layers).__name__}")
    if not layers:
        raise ShapeError("layers must hold at least one layer")
    for layer in layers:
        if not isinstance(layer, Layer | SoftmaxLayer):
            raise ModelError(
                f"layers must hold Layer and SoftmaxLayer only, got {type(layer).__name__}"
            )
    for number, (below, above) in enumerate(pairwise(layers)):
        if above.weights.shape[1] != below.n_units:
            raise ShapeError(
                f"layer {number} has {below.n_units} units, but layer {number + 1} above it "
                f"{above.weights.shape[1]} inputs"
            )


def _copies(layers: Sequence[Any], n_references: int, n_draws: Any) -> int:
    """The checked number of draws for each input, for which there is memory."""
    copies = as_integer(n_draws, "n_draws")
    require_memory(
        8.0 * n_references * copies * max(max(layer.weights.shape) for layer in layers),
        f"{copies:.3g} draws for each of {n_references} inputs",
        "take fewer draws",
    )
    return copies


def _drawn(layer: Any, inputs: Array, rng: np.random.Generator) -> Array:
    """One state of a layer for each of its inputs, (R, m) -> (R, m)."""
    if isinstance(layer, Layer):
        return np.asarray(layer.response.draw(inputs, rng))
    # The index of the largest of logits with Gumbel noise has the probabilities of the softmax.
    chosen = (inputs + rng.gumbel(size=inputs.shape)).argmax(axis=1)
    return np.asarray(np.eye(layer.n_units)[chosen])


def _answers(layer: Any, inputs: Array, share: Array) -> tuple[Array, Array]:
    """All states of a layer, and their probabilities averaged over its references."""
    if isinstance(layer, SoftmaxLayer):
        p = np.exp(inputs - inputs.max(axis=1, keepdims=True))
        return np.eye(layer.n_units), share @ (p / p.sum(axis=1, keepdims=True))
    values = layer.response.values
    if values is None:
        raise ModelError(
            f"the states of a layer of {layer.response!r} are continuous and cannot be enumerated: "
            "give n_draws to draw them"
        )
    m, (low, high) = layer.n_units, values
    require_memory(
        8.0 * (len(inputs) + m) * 2.0**m,
        f"the probabilities of all states of {m} units given {len(inputs)} references",
        "give n_draws to draw states",
    )
    upper, lower = (layer.response.probability(sign * inputs) for sign in (1, -1))
    probability = np.ones((len(inputs), 1))
    for unit in range(m):
        both = np.stack([lower[:, unit], upper[:, unit]], axis=1)
        probability = (probability[:, :, None] * both[:, None, :]).reshape(len(inputs), -1)
    bits = np.arange(2**m)[:, None] >> np.arange(m - 1, -1, -1) & 1
    return np.where(bits, high, low), share @ probability
