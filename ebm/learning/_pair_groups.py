"""The couplings of each pair of units among the parameters of a family, and their length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Flags, Indices
from ebm.errors import ModelError, require_memory
from ebm.forms import has_pairs
from ebm.learning._level_features import has_pair_features, level_features


@dataclass(frozen=True, eq=False)
class PairGroups:
    """|W_ij| of each pair: the length of those of its couplings that a penalty acts on.

    Couplings of the pairs (i, j) stand behind the fields, from ``starts`` (P + 1,) on. A penalty
    acts on linear functions of them, so that the length of couplings w is |R w| with a triangular
    R of each pair, ``roots``; None where every pair has one coupling, and that is its length.
    """

    pairs: tuple[Indices, Indices]
    starts: Indices
    roots: tuple[Array, ...] | None

    @property
    def n_fields(self) -> int:
        """Number of parameters before the first coupling."""
        return int(self.starts[0])

    @property
    def noun(self) -> str:
        """What a penalty makes zero."""
        return "couplings" if self.roots is None else "pairs"

    @property
    def sizes(self) -> Indices:
        """Number of couplings of each pair, (P,)."""
        return np.diff(self.starts)

    def scaled(self, theta: Array) -> Array:
        """R w of all pairs, (p,) -> (number of couplings,)."""
        couplings = theta[self.n_fields :]
        return couplings if self.roots is None else np.asarray(self._root @ couplings)

    @cached_property
    def _root(self) -> Any:
        from scipy.sparse import block_diag

        roots: Any = self.roots
        return block_diag(roots, format="csr")

    def lengths(self, theta: Array) -> Array:
        """|W_ij| of all pairs, (P,)."""
        scaled = self.scaled(theta)
        if self.roots is None:
            return np.abs(scaled)
        return np.asarray(np.sqrt(np.add.reduceat(scaled**2, self.starts[:-1] - self.n_fields)))

    def slopes(self, theta: Array) -> Array:
        """∂ Σ_ij |W_ij| / ∂θ, zero where a length is, (p,)."""
        scaled, lengths = self.scaled(theta), np.repeat(self.lengths(theta), self.sizes)
        ways = np.divide(scaled, lengths, out=np.zeros_like(scaled), where=lengths > 0)
        by_couplings = ways if self.roots is None else self._root.T @ ways
        return np.concatenate([np.zeros(self.n_fields), by_couplings])

    def supports(self, parameters: Array) -> Flags:
        """Which pairs have a coupling that is not zero, (..., p) -> (..., P)."""
        flags: Flags = parameters[..., self.n_fields :] != 0
        if self.roots is None:
            return flags
        return np.logical_or.reduceat(flags, self.starts[:-1] - self.n_fields, axis=-1)

    def flags(self, of_pairs: Flags) -> Flags:
        """All fields, and the couplings of these pairs, (P,) -> (p,)."""
        fields = np.ones(self.n_fields, dtype=bool)
        return np.concatenate([fields, np.repeat(of_pairs, self.sizes)])


def has_pair_groups(model: Any) -> bool:
    """Whether the parameters of a family are fields and couplings of pairs of finite units."""
    return has_pairs(model) or has_pair_features(model)


def pair_groups(model: Any) -> PairGroups:
    """Those of a family of pairs of two-valued units or of levels."""
    if has_pairs(model):
        starts = model.space.n + np.arange(len(model.pairs[0]) + 1)
        return PairGroups(model.pairs, starts, None)
    if not has_pair_features(model):
        raise ModelError(
            f"{type(model).__name__} does not say which of its parameters couple which pair of "
            "units: group_l1 is for pairwise models such as ebm.PottsModel, and for families of "
            "levels with a method pair_features"
        )
    features = level_features(model)
    n_couplings = np.bincount(features.unit_of_feature, minlength=model.space.n)
    i, j = np.triu_indices(model.space.n, 1)
    sizes = n_couplings[i] * n_couplings[j]
    i, j, sizes = i[sizes > 0], j[sizes > 0], sizes[sizes > 0]
    starts = features.n_fields + np.concatenate([[0], np.cumsum(sizes)])
    require_memory(
        24.0 * float((sizes.astype(np.float64) ** 2).sum()),
        f"the lengths of the couplings of {len(sizes)} pairs",
        "take fewer units, or fewer values of each",
    )
    roots = _roots(model, starts) if len(sizes) else ()
    is_plain = all(root.shape == (1, 1) and root[0, 0] == 1 for root in roots)
    return PairGroups((i, j), starts, None if is_plain else roots)


def _roots(model: Any, starts: Indices) -> tuple[Array, ...]:
    """R of each pair, RᵀR = TᵀT with T w the numbers that a penalty on w acts on."""
    on, first, sizes = model.penalized(), starts[0], np.diff(starts)
    begins = starts[:-1] - first

    def squared(couplings: Array) -> Array:
        theta = np.concatenate([np.zeros(first), couplings])
        return np.asarray(on.transposed(np.where(on.is_coupling, on.of(theta), 0.0)))[first:]

    metrics = [np.zeros((size, size)) for size in sizes]
    for place in range(max(sizes, default=0)):
        # Pairs do not mix, so that one coupling of each is tried at a time.
        has_place = np.flatnonzero(sizes > place)
        tried = np.zeros(sizes.sum())
        tried[begins[has_place] + place] = 1.0
        columns = np.split(squared(tried), begins[1:])
        for pair in has_place:
            metrics[pair][:, place] = columns[pair]
    drawn = np.random.default_rng(0).normal(size=sizes.sum())
    parts = np.split(drawn, begins[1:])
    by_pairs = [metric @ part for metric, part in zip(metrics, parts, strict=True)]
    try:
        if not np.allclose(squared(drawn), np.concatenate(by_pairs), rtol=1e-9, atol=1e-12):
            raise np.linalg.LinAlgError
        return tuple(np.linalg.cholesky(metric).T for metric in metrics)
    except np.linalg.LinAlgError as error:
        raise ModelError(
            f"group_l1 needs a length of the couplings of each pair: {type(model).__name__}."
            "penalized() mixes those of different pairs, or leaves out some"
        ) from error
