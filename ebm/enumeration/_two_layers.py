"""The exact ensemble of a restricted machine: one layer enumerated, the other summed out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np

from ebm._checkpoints import fingerprint
from ebm._jobs import Answer
from ebm._parallel import awaited, single_threaded_blas
from ebm._types import Array
from ebm.ensembles import Moments
from ebm.enumeration._layer_sums import LayerWeights, Workspace, block_bits
from ebm.enumeration._limits import SECONDS_BY_STREAMING, Limits, describe_size, number_of_states
from ebm.enumeration._log_weights import Cut, Resolution, inputs_of, resolved_layers
from ebm.enumeration._products import (
    HERE,
    BlockSums,
    Elsewhere,
    Totals,
    added,
    added_by_jobs,
    answer_of,
    combine,
    in_chunks,
)
from ebm.enumeration.exact_ensemble import ExactEnsemble, choose
from ebm.forms import LayeredForm
from ebm.model import EnergyModel
from ebm.spaces import Binary

__all__ = ["LayerMoments", "RestrictedEnumeration"]

#: Number, log weights and probabilities of a block, and buffers, to sums over its states.
OfBlock = Callable[[int, Array, Array, Workspace], tuple[Array, ...]]

#: Means of units of the other layer held at a time by one thread.
CHUNK = 2**19
#: Factors of a job, about two seconds of one thread.
FACTORS_OF_A_JOB = 2**32
#: Below this many factors one thread is fastest.
SMALL = 2**18
#: Seconds per state; per state and unit of the other layer for its factor, for its mean, and for
#: either with an exponential; per state and pair of units; per visible state and hidden unit
#: through ``energy``.
SECONDS_PER_STATE = 4e-8
SECONDS_BY_PRODUCTS = 6e-10
SECONDS_BY_MEANS = 2e-9
SECONDS_BY_LOGS = 2.5e-8
SECONDS_BY_PAIRS = 1e-10
SECONDS_BY_ENERGY = 4e-8


class LayerMoments(NamedTuple):
    """E[v] (n,), E[h] (m,) and E[v hᵀ] (n, m), the averages of the learning rule."""

    visible_mean: Array
    hidden_mean: Array
    products: Array


class RestrictedEnumeration(ExactEnsemble):
    """ln Z and moments of both layers from the states of one: 2^min(n, m) of them.

    Where the hidden layer was enumerated the visible distribution is the mixture Σ_h p(h) p(v|h):
    moments, log probabilities and draws need no visible states. Entropy, ``expectation``,
    ``covariance``, ``states``, ``weights`` and ``blocks`` do, and raise
    :class:`ebm.errors.EnumerationLimitError` where there are too many of them.

    It enumerates the smaller layer where ``layer`` does not name one.
    """

    space: Binary

    route = "sums over the states of one layer"

    def __init__(
        self,
        model: EnergyModel,
        space: Binary,
        cut: Cut[LayeredForm],
        limits: Limits,
        n_jobs: int,
        elsewhere: Elsewhere = HERE,
        *,
        layer: Literal["visible", "hidden"] | None = None,
    ) -> None:
        self.model, self.space, self._limits = model, space, limits
        self._resolved = resolved_layers(cut)
        n, self._n_hidden = cut.whole.weights.shape
        self.layer = layer or ("visible" if n <= self._n_hidden else "hidden")
        forms = cut.parts
        if self.layer == "hidden":
            forms = tuple(part.transposed() for part in forms)
        #: In one part or two, the enumerated layer first.
        self._forms = forms
        self._k, self._n_other = forms[0].weights.shape
        own_space = Binary(self._k)
        self._n_states = number_of_states(own_space)
        self._is_small = self._n_states * self._n_other < SMALL
        self._n_jobs = 1 if self._is_small else n_jobs
        self._what = f"the {describe_size(own_space)} of the {self.layer} layer"
        # Scales of energies in two parts are no plain numbers.
        is_short = self._n_states * self._n_other <= FACTORS_OF_A_JOB
        is_divided = not is_short and self._resolved is None
        at_a_time = elsewhere.at_a_time(self._n_jobs) if is_divided else self._n_jobs
        seconds = SECONDS_BY_PRODUCTS * self._n_other
        self._require(f"enumerating {self._what}", seconds, at_a_time=at_a_time)
        self._layer = self._layer_weights(forms)
        self._in_log_domain = SECONDS_BY_LOGS * len(forms) * self._layer.n_in_log_domain
        seconds = self._in_log_domain
        self._require(f"enumerating {self._what} in the log domain", seconds, at_a_time=at_a_time)
        self._totals = self._sum_by_jobs(elsewhere) if is_divided else self._sum()
        self._set_totals(self._totals, cut.whole.constant)
        if self._resolved is not None:
            self._require_resolution(cut.resolution)

    @property
    def _blocks_of_a_job(self) -> int:
        """Of factors of units of the other layer as many as take a few seconds."""
        states = 2 ** sum(block_bits(self._k))
        return max(1, int(FACTORS_OF_A_JOB // (states * self._n_other)))

    def _sum(self) -> Totals:
        with self._blas():
            return combine(in_chunks(self._sums, range(self._layer.n_blocks), self._n_jobs))

    def _sum_by_jobs(self, elsewhere: Elsewhere) -> Totals:
        """The same in jobs of a few seconds, which do not depend on where they run."""
        form = self._forms[0]
        numbers = form.weights, form.visible, form.hidden
        settings = {"energy function": " ".join(fingerprint(part) for part in numbers)}
        cut = self._layer.n_blocks, self._blocks_of_a_job
        shared = (self._layer,)
        return added_by_jobs(_job, shared, cut, self._n_jobs, elsewhere, settings)

    def _layer_weights(self, forms: tuple[LayeredForm, ...]) -> LayerWeights:
        """The log weights of the enumerated layer, the other one summed out."""
        return LayerWeights(forms)

    def moments(self) -> Moments:
        """Means and covariances of the visible units, and ln Z.

        Known where the visible layer was enumerated; else a pass over the hidden states, with n
        exponentials and n² products for each.
        """
        return self._own_moments if self.layer == "visible" else self._other_moments

    def hidden_moments(self) -> Moments:
        """Means and covariances of the hidden units over {0,1}^m, as :meth:`moments`."""
        return self._own_moments if self.layer == "hidden" else self._other_moments

    def layer_moments(self) -> LayerMoments:
        """E[v], E[h] and E[v hᵀ], the averages of the learning rule, [EBM] eq 11, at center 0.

        One pass over the enumerated states.
        """
        seconds = SECONDS_BY_MEANS * self._n_other + self._in_log_domain
        self._require(f"E[v hᵀ] from {self._what}", seconds)
        products, other = self._averages(
            lambda block, _, p, work: self._layer.sums_of_other(block, p, work)
        )
        if self.layer == "visible":
            return LayerMoments(self._totals.mean, other, products)
        return LayerMoments(other, self._totals.mean, products.T)

    def _require_resolution(self, resolution: Resolution) -> None:
        """Refuse energies whose rounding leaves the weights of low states undetermined."""
        if resolution.suffices:
            return
        near = 0
        for block, logs, _, __ in self._distribution(range(self._layer.n_blocks)):
            close = np.flatnonzero(logs.ravel() > -resolution.gap)
            near += len(close)
            # Given the lowest state, each unit of the other layer must be on or off.
            inputs = inputs_of(self._forms, self._layer.states(block)[close])
            near += int(np.count_nonzero(np.abs(inputs.leading + inputs.rest) < resolution.gap))
        if near > 1:
            raise resolution.refused()

    def _mean_relative_energy(self) -> float:
        """⟨E_eff⟩ counted from the ground, a pass over the visible states."""
        if self.layer == "hidden":
            return super()._mean_relative_energy()
        (log_weight,) = self._averages(lambda _, logs, p, __: (np.array([np.vdot(p, logs)]),))
        return -float(log_weight[0])

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """All visible states (m, n) and their probabilities (m,), block by block."""
        if self.layer == "hidden":
            yield from super().blocks()
            return
        self._require_streaming(f"streaming {describe_size(self.space)}", 0)
        for block, _, p, _ in self._distribution(range(self._layer.n_blocks)):
            yield self._layer.states(block), p.ravel()

    def _distribution(self, blocks: range) -> Iterator[tuple[int, Array, Array, Workspace]]:
        """Number, log weights and probabilities of blocks of the enumerated layer, and buffers."""
        work = self._layer.workspace()
        for block in awaited(blocks):
            logs = self._layer.log_weights(block, work, self._totals.top_scale)
            yield block, logs, np.exp(logs - self._totals.log_relative), work

    def _sums(self, blocks: range) -> list[BlockSums]:
        return _sums_of(self._layer, blocks)

    def _averages(self, of_block: OfBlock) -> list[Array]:
        """Sums over all states from those of each block, added in one order by any threads."""

        def sums(blocks: range) -> list[tuple[Array, ...]]:
            return [
                _added(
                    (np.asarray(p.sum()), *of_block(block, logs, p, work))
                    for block, logs, p, work in self._distribution(blocks)
                )
            ]

        with self._blas():
            total, *parts = _added(in_chunks(sums, range(self._layer.n_blocks), self._n_jobs))
        # Rounding of ln Z leaves a sum of probabilities that is not quite 1.
        return [part / total for part in parts]

    def _blas(self) -> AbstractContextManager[None]:
        # BLAS takes one thread for small products anyway, and the hold costs as much as they do.
        return nullcontext() if self._is_small else single_threaded_blas()

    @cached_property
    def _own_moments(self) -> Moments:
        return self._as_moments(self._totals.mean, self._totals.second, self.layer)

    @cached_property
    def _other_moments(self) -> Moments:
        """Of the layer summed out, a mixture of independent units: E[σσᵀ] off the diagonal."""
        m, other = self._n_other, "visible" if self.layer == "hidden" else "hidden"
        self._require(
            f"the moments of the {other} layer from {self._what}",
            m * (SECONDS_BY_LOGS + m * SECONDS_BY_PAIRS),
            8.0 * (2 * m * m + 4 * CHUNK) * (self._n_jobs + 1),
        )
        rows = max(1, CHUNK // m)

        def sums(block: int, _: Array, p: Array, __: Workspace) -> tuple[Array, ...]:
            states, weights = self._layer.states(block), p.reshape(-1, 1)
            mean, second = np.zeros(m), np.zeros((m, m))
            for start in range(0, len(states), rows):
                part = slice(start, start + rows)
                sigma = self._layer.other_means(states[part])
                weighted = sigma * weights[part]
                mean += weighted.sum(axis=0)
                second += sigma.T @ weighted
            return mean, second

        mean, second = self._averages(sums)
        return self._as_moments(mean, second, other)

    def _as_moments(self, mean: Array, second: Array, layer: str) -> Moments:
        """Moments of one layer from E[x] and, off the diagonal, E[xxᵀ]."""
        covariance = second - np.outer(mean, mean)
        # x² = x.
        np.fill_diagonal(covariance, mean * (1 - mean))
        space = self.space if layer == "visible" else Binary(len(mean))
        return Moments(space, mean, (covariance + covariance.T) / 2, self.log_partition)

    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        logs = self._layer.log_weights(block, self._layer.workspace(), self._totals.top_scale)
        drawn = choose(np.exp(logs - logs.max()), n_draws, rng)
        states = self._layer.states(block)[drawn]
        if self.layer == "visible":
            return states
        visible = np.empty((n_draws, self.space.n))
        rows = max(1, CHUNK // self.space.n)
        for start in range(0, n_draws, rows):
            means = self._layer.other_means(states[start : start + rows])
            visible[start : start + rows] = rng.random(means.shape) < means
        return visible

    def _require(
        self,
        what: str,
        seconds_per_state: float,
        n_bytes: float = 0.0,
        at_a_time: int | None = None,
    ) -> None:
        workers = at_a_time or self._n_jobs
        seconds = self._n_states * (SECONDS_PER_STATE + seconds_per_state) / workers
        rows, columns = (2**bits for bits in block_bits(self._k))
        block = 6 * rows * columns * self._n_jobs
        tables = 5 * self._n_other * (columns + rows * self._n_jobs)
        self._limits.require(
            what,
            seconds,
            8.0 * (block + tables) + n_bytes,
            "take fewer units; beyond enumeration there are ebm.sample and ebm.log_partition",
        )

    def _require_streaming(self, what: str, numbers_per_state: int) -> None:
        if self.layer == "visible":
            super()._require_streaming(what, numbers_per_state)
            return
        size = number_of_states(self.space)
        self._limits.require(
            f"{what} of the visible layer, of which ln Z has no need as it came from {self._what},",
            (SECONDS_BY_STREAMING + SECONDS_BY_ENERGY * self._n_hidden) * size,
            8.0 * numbers_per_state * size,
            "ask for moments, log_probability or draws, which need no pass over visible states",
        )


def _sums_of(layer: LayerWeights, blocks: range) -> list[BlockSums]:
    work = layer.workspace()
    return [layer.sums(block, work) for block in awaited(blocks)]


def _job(layer: LayerWeights, n_jobs: int, blocks: tuple[int, int]) -> Answer:
    """The sum over a run of blocks of the enumerated layer."""
    return answer_of(added(in_chunks(partial(_sums_of, layer), range(*blocks), n_jobs)))


def _added(parts: Iterable[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Sums of tuples of arrays, in their order."""
    total: tuple[Array, ...] | None = None
    for part in parts:
        total = part if total is None else tuple(map(np.add, total, part))
    return total or ()
