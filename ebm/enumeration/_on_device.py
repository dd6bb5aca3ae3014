"""The three products of :mod:`ebm.enumeration._products` on a device of torch, in double precision.

Factors are made on the device from the small tables of the groups, and only sums of blocks come
back, some blocks at a time, so that the host never waits for a single one. What underflow may take
is bounded as on the host: :mod:`ebm.enumeration._factors` says how.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from ebm._devices import chosen_device
from ebm._types import Array
from ebm.enumeration._factors import CERTIFIED, N_STARTS
from ebm.enumeration._limits import Limits, describe_size, number_of_states
from ebm.enumeration._log_weights import cut_form
from ebm.enumeration._products import BlockSums, Buffers, Totals, combine
from ebm.enumeration._quadratic import PairwiseEnumeration
from ebm.enumeration._splitting import Split, own_log_weights, sizes_of_groups, split
from ebm.errors import EbmError, ModelError
from ebm.forms import LayeredForm, QuadraticForm, offered_form, summable_form
from ebm.model import EnergyModel
from ebm.models._layers import pairs_of_layers
from ebm.spaces import FiniteSpace
from ebm.units import Gaussian

__all__ = ["enumerated_on_device"]

#: Bits of a group on the CPU, and on a device that larger products keep busier.
BITS_ON_CPU, BITS_ON_DEVICE = 10, 12
#: Seconds per state that no device is expected to fall below: six operations at 60 TFLOPS.
LEAST_SECONDS = 1e-13
#: Sums of so many blocks are brought back together.
TOGETHER = 64


def enumerated_on_device(
    model: EnergyModel, space: Any, device: Any, n_jobs: int | None, limits: Limits
) -> PairwiseEnumeration:
    """The ensemble of a pairwise model over finite units; refused for other models."""
    if n_jobs is not None:
        raise EbmError(
            f"n_jobs is the number of threads without a device, got {n_jobs} beside device="
            f"{device!r}: leave out one of them; threads of torch are torch.set_num_threads"
        )
    kind, form = offered_form(model), None
    if isinstance(space, FiniteSpace) and kind in (QuadraticForm, LayeredForm):
        form = summable_form(model)
        if isinstance(form, LayeredForm) and isinstance(form.hidden_units, Gaussian):
            form = pairs_of_layers(form)
    if not isinstance(form, QuadraticForm):
        raise ModelError(
            f"device={device!r} sums pairwise models over finite units by matrix products, and "
            f"{type(model).__name__} over {space!r} has no such form: leave out device"
        )
    return DeviceEnumeration(model, space, form, limits, device)


class DeviceEnumeration(PairwiseEnumeration):
    """Sums and draws by products on a device.

    Models of at most 2^12 states, and energies that need the log domain, are summed on the host.
    """

    def __init__(
        self,
        model: EnergyModel,
        space: FiniteSpace,
        form: QuadraticForm,
        limits: Limits,
        device: Any,
    ) -> None:
        self._device = chosen_device(device)
        self._group_bits = BITS_ON_CPU if self._device.type == "cpu" else BITS_ON_DEVICE
        require_possible(space, limits, self._group_bits)
        super().__init__(model, space, cut_form(form), limits, 1)
        self.route = (
            "sums in the log domain on the host"
            if self._parts is None
            else f"three matrix products on {self._device}"
        )

    def _groups(self) -> Split:
        return split(self.space, self._group_bits)

    def _certified(self, parts: Split) -> tuple[Totals, bool] | None:
        """Totals by products on the device; a block is timed before all others are summed."""
        n_states = math.prod(float(group.size) for group in parts)
        for with_potential in (False, True):
            factors = DeviceFactors(self._form, parts, self._device, with_potential)
            blocks = factors.sums()
            first = next(blocks)
            if parts.fixed.size > 1:
                start = time.perf_counter()
                next(factors.sums())
                self._limits.require(
                    f"enumerating {describe_size(self.space)} on {self._device}",
                    (time.perf_counter() - start) * parts.fixed.size,
                    0.0,
                    "take fewer units; beyond enumeration there are ebm.sample and "
                    "ebm.log_partition",
                )
            totals = combine(chain([first], blocks))
            if totals.log_lost_share(n_states) < CERTIFIED:
                return totals, with_potential
        return None

    def _factors_of(self, block: int, parts: Split, buffers: Buffers) -> tuple[Array, Array, Array]:
        """F, G and P_ac of a block, brought to the host."""
        factors = DeviceFactors(self._form, parts, self._device, self._with_potential)
        f, g, r, _ = factors.matrices(block)
        f, g, p_ac = (x.cpu().numpy() for x in (f, g, r * (f @ g)))
        return f, g, p_ac


def require_possible(space: FiniteSpace, limits: Limits, group_bits: int) -> None:
    """Refuse what no device does in time, and groups too large for ten tables over two of them."""
    sizes = sizes_of_groups(space.named(None), group_bits, math.inf)
    groups = np.split(space.n_values, np.cumsum(sizes)[:-1])
    largest = max(float(np.prod(group[:64], dtype=np.float64)) for group in groups[:3])
    limits.require(
        f"enumerating {describe_size(space)} on a device",
        LEAST_SECONDS * number_of_states(space),
        80.0 * largest**2,
        "take fewer units; beyond enumeration there are ebm.sample and ebm.log_partition",
    )


class DeviceFactors:
    """The matrices of :class:`ebm.enumeration._factors.Factors`, and sums over them, as tensors."""

    def __init__(
        self, form: QuadraticForm, parts: Split, device: Any, with_potential: bool
    ) -> None:
        import torch

        self._torch, self._device, self._parts = torch, device, parts
        self._with_potential = with_potential
        groups = a, b, c, fixed = parts
        self._own = [self._sent(own_log_weights(form, group)) for group in groups]
        self._tables = [self._sent(group.table_and_one) for group in groups]
        # What each state of the fixed units adds to the linear terms, (fixed, features of a group).
        self._pulls = [
            self._sent(fixed.table @ form.matrix[fixed.features, group.features])
            for group in (a, b, c)
        ]
        self._logs = [
            self._tables[i][:, :-1]
            @ self._sent(form.matrix[groups[i].features, groups[j].features])
            @ self._tables[j][:, :-1].T
            for i, j in ((0, 1), (1, 2), (0, 2))
        ]

    def _sent(self, array: Array) -> Any:
        """A table on the device."""
        return self._torch.from_numpy(np.array(array, dtype=np.float64)).to(self._device)

    def matrices(self, z: int) -> tuple[Any, Any, Any, Any]:
        """F, G, R ≤ 1 for row z of the fixed group's table, and the log that they leave out."""
        torch = self._torch
        a, b, c = (
            own + table[:, :-1] @ pulls[z]
            for own, table, pulls in zip(self._own, self._tables, self._pulls, strict=False)
        )
        log_f, log_g, log_r = self._logs[0] + b, self._logs[1], self._logs[2] + a[:, None] + c
        if self._with_potential:
            potential = self._potential(log_f, log_g, log_r)
            log_f, log_g = log_f + potential, log_g - potential[:, None]
        of_rows, of_columns = torch.amax(log_f, 1, True), torch.amax(log_g, 0, True)
        log_r = log_r + of_rows + of_columns
        scale = log_r.max()
        f, g = torch.exp(log_f - of_rows), torch.exp(log_g - of_columns)
        return f, g, torch.exp(log_r - scale), scale + self._own[3][z]

    def sums(self) -> Iterator[BlockSums]:
        """Sums over each state of the fixed units, in their order."""
        numbers = iter(range(self._parts.fixed.size))
        # The first one alone, so that it can be timed.
        together = 1
        while some := list(islice(numbers, together)):
            made = [self._block(z) for z in some]
            scales = self._torch.stack([scale for scale, _ in made]).cpu().numpy()
            seconds = self._torch.stack([second for _, second in made]).cpu().numpy()
            yield from map(BlockSums, scales.tolist(), seconds)
            together = TOGETHER

    def _block(self, z: int) -> tuple[Any, Any]:
        """The scale and Σ p g gᵀ of a block, as ``sums_of_marginals`` arranges it."""
        torch, tables = self._torch, self._tables
        f, g, r, scale = self.matrices(z)
        # Σ p over the third group, and its product with the second one's table.
        thin = (
            (0, 1, (f * (r @ g.T)) @ tables[1]),
            (1, 2, (g * (f.T @ r)) @ tables[2]),
            (2, 0, (r * (f @ g)).T @ tables[0]),
        )
        places = [group.features for group in self._parts]
        d = places[3].stop
        second = torch.zeros((d + 1, d + 1), dtype=f.dtype, device=f.device)
        for i, j, p in thin:
            own, other, table = places[i], places[j], tables[i][:, :-1]
            both = table.T @ p
            second[own, own] = table.T @ (table * p[:, -1:])
            second[own, other], second[other, own] = both[:, :-1], both[:, :-1].T
            second[own, -1] = second[-1, own] = both[:, -1]
        second[-1, -1] = p[:, -1].sum()
        if self._parts.fixed.size > 1:
            own, state = places[3], tables[3][z, :-1]
            second[own, -1] = second[-1, own] = second[-1, -1] * state
            second[:, own] = second[:, -1:] * state
            second[own] = second[:, own].T
        return scale, second

    def _potential(self, log_f: Any, log_g: Any, log_r: Any) -> Any:
        """v_b = ½(ln G[b, c*] − ln F[a*, b]) at an approximate mode (a*, b*, c*)."""
        starts, (n_b, n_c) = np.random.default_rng(0), log_g.shape
        i, j, k = (
            self._torch.from_numpy(starts.integers(0, size, N_STARTS)).to(self._device)
            for size in (len(log_f), n_b, n_c)
        )
        for _ in range(10):
            i = (log_f[:, j] + log_r[:, k]).argmax(0)
            j = (log_f[i].T + log_g[:, k]).argmax(0)
            k = (log_g[j].T + log_r[i].T).argmax(0)
        best = int((log_f[i, j] + log_g[j, k] + log_r[i, k]).argmax())
        return (log_g[:, k[best]] - log_f[i[best]]) / 2
