"""The sampled likelihood of two layers with data, chains, parameters and products on a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ebm._devices import DeviceArrays
from ebm._iterate import State
from ebm._types import Array, Indices
from ebm.ensembles.ensemble import stored_type
from ebm.errors import EbmError, ModelError
from ebm.forms import LayeredForm, energy_form
from ebm.learning._batches import Batch, IndexedRows
from ebm.learning._families import layers_of
from ebm.learning._gauges import Gauge, LayerGauge, gauge_of
from ebm.learning._sampled_likelihood import SampledLikelihood
from ebm.learning.averages import ContrastiveDivergence, PersistentChains
from ebm.models._layers import are_two_valued, binary_layers, steps
from ebm.sampling._device_layers import DeviceLayers
from ebm.sampling._precision import single_precision_suffices
from ebm.sampling.gibbs import require_heat_bath


@dataclass(frozen=True, eq=False)
class DeviceLikelihood(SampledLikelihood):
    """∂L/∂θ = E_D[∂E/∂θ] − E_model[∂E/∂θ] + ∂R/∂θ in single precision, as tensors of a device.

    The data travel once, and the order of the rows once an epoch. Back come the length of each
    move, in which a divergence is seen, and at an entry of the history the parameters and the sum
    of the gradients. What is measured there is measured on the host, by the same monitor.
    """

    device: Any = None

    @classmethod
    def of(cls, problem: Any, steps: Any) -> Self:
        """The problem as gradient steps with these settings see it, refused where it cannot be."""
        _require_layers(problem.family, problem.device)
        loss = replace(super().of(problem, steps), device=problem.device)
        loss._require_what_is_there()
        return loss

    def _require_what_is_there(self) -> None:
        device = self.device
        if getattr(self.optimizer, "uses_metric", False):
            raise EbmError(
                f"device={device!r} has no metric of the parameters, which "
                f"{type(self.optimizer).__name__} asks for: give optimizer=ebm.Adam(0.001), or "
                "leave out device"
            )
        if self.penalty.is_tied:
            raise EbmError(
                f"free and ties have no place beside device={device!r}, where all parameters "
                "change: leave out device"
            )
        self._strengths  # noqa: B018  (refused before the work)

    @cached_property
    def _arrays(self) -> DeviceArrays:
        return DeviceArrays(self.device)

    @property
    def device_name(self) -> str:
        """The kind of the device: its random numbers differ from those of other kinds."""
        return str(self._arrays.device.type)

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Those of torch."""
        yield

    # -- parameters --------------------------------------------------------------------------------

    def load(self, theta: Array) -> Any:
        """Numbers of the host on the device, in single precision."""
        return self._arrays.load(theta)

    def read(self, array: Any) -> Array:
        """The inverse of :meth:`load`."""
        return self._arrays.read(array)

    def measured(self, theta: Any) -> Any:
        """The family at θ, brought to the host and refused where single precision fails it."""
        last_theta, model = self._last_measured
        if last_theta is not theta:
            model = self.family.with_parameters(self.read(theta))
            _require_single(model, self.device)
            self._last_measured[:] = [theta, model]
        return model

    @cached_property
    def _last_measured(self) -> list[Any]:
        return [None, None]

    def _made(self, theta: Any) -> DeviceLayers:
        """b − Uĥ, c − v̂·U and U at θ."""
        b, c, u = _split(theta, self._shape)
        visible_center, hidden_center = self._centers
        if hidden_center is not None:
            b = b - u @ hidden_center
        if visible_center is not None:
            c = c - visible_center @ u
        form = layers_of(self.family)
        of_units = steps(form.visible_units), steps(form.hidden_units)
        return DeviceLayers(self._arrays, u, b, c, *of_units)

    @cached_property
    def _shape(self) -> tuple[int, int]:
        n, m = layers_of(self.family).weights.shape
        return n, m

    @cached_property
    def _centers(self) -> tuple[Any, Any]:
        """v̂ and ĥ on the device, None of those that are zero."""
        form = layers_of(self.family)
        centers = form.visible_center, form.hidden_center
        loaded = (None if x is None or not x.any() else self.load(x) for x in centers)
        return next(loaded), next(loaded)

    @cached_property
    def gauge(self) -> Gauge:
        """The coordinates that steps are taken in, on the device where they depend on means."""
        gauge = gauge_of(self.family, self._mean, self.centering)
        return DeviceLayerGauge(gauge, self) if isinstance(gauge, LayerGauge) else gauge

    # -- the update --------------------------------------------------------------------------------

    @cached_property
    def stateful(self) -> Any:
        """The chains on the device."""
        return DeviceChains(self.average, self._arrays)

    @cached_property
    def _table(self) -> tuple[Any, Any, Any]:
        """Distinct states, which of them each row is, and the weights of the rows: sent once."""
        rows: Any = self.rows
        load = self._arrays.load
        states = load(rows.states, stored_type(rows.space))
        return states, load(rows.index, np.int64), load(rows.weights)

    @cached_property
    def _last_order(self) -> list[Any]:
        """The order of the rows in this epoch, on the host and on the device."""
        return [None, None]

    def _part(self, order: Indices, place: int) -> tuple[Any, float]:
        rows: Any = self.rows
        size: Any = self.batch_size
        if self._last_order[0] is not order:
            self._last_order[:] = [order, self._arrays.load(order, np.int64)]
        part = slice(place, place + size)
        here, there = order[part], self._last_order[1][part]
        return self._batch(rows, here, there), rows.share(here, size)

    @cached_property
    def _everything(self) -> Any:
        rows: Any = self.rows
        everything = np.arange(len(rows))
        return self._batch(rows, everything, self._arrays.load(everything, np.int64))

    def _batch(self, rows: IndexedRows, here: Indices, there: Any) -> DeviceBatch:
        """Some rows, named on the host and on the device."""
        states, index, weights = self._table
        shares, drawn = rows.weights[here], weights[there]
        size = float(shares.sum() ** 2 / (shares @ shares))
        return DeviceBatch(states[index[there]].float(), drawn / drawn.sum(), size)

    def sample(self, model: Any, batch: Any, chains: Any) -> tuple[Any, Any]:
        """The chains after their sweeps, and where they then stand."""
        draws: tuple[Any, Any] = self.stateful.step(model, batch, chains)
        return draws

    def difference(self, model: Any, batch: Any, ensemble: Any) -> tuple[Any, Any]:
        """E_D[∂E/∂θ] − E_model[∂E/∂θ], (p,), and the sum of both averages by the biases, (n + m,).

        −Σ_r s_r (v_r, h_r, (v_r − v̂)(h_r − ĥ)ᵀ), s the weights of the rows and minus those of the
        chains, h_r = E[h|v_r].
        """
        import torch

        v = torch.cat([batch.states, ensemble.states])
        s = torch.cat([batch.weights, -ensemble.weights])
        h = model.hidden_mean(v)
        visible, hidden = s @ v, s @ h
        both = torch.cat([s.abs() @ v, s.abs() @ h])
        visible_center, hidden_center = self._centers
        about = h if hidden_center is None else h - hidden_center
        products = v.T @ (about * s[:, None])
        if visible_center is not None:
            products = products - torch.outer(visible_center, hidden)
        return -torch.cat([visible, hidden, products.reshape(-1)]), -both

    def slopes_of_penalty(self, theta: Any) -> Any:
        """∂R/∂θ = l2 θ + l1 sign θ of each kind of parameter, (p,)."""
        squares, absolutes = self._strengths
        return squares * theta + absolutes * theta.sign()

    @cached_property
    def _strengths(self) -> tuple[Any, Any]:
        strengths = self.penalty.strengths()
        if strengths is None:
            raise EbmError(
                f"the penalty of {type(self.family).__name__} is not one on its parameters as they "
                f"are, which device={self.device!r} takes: leave out device"
            )
        return self.load(strengths[0]), self.load(strengths[1])

    def _drawn_at_end(self, state: State) -> Batch:
        """The chains after another step, on the host."""
        probe: Any = self._probe
        space = self.family.space
        parts = self.load(probe.states), self.load(probe.weights)
        batch = DeviceBatch(*parts, probe.sample_size)
        draws = self.sample(self.model(state["theta"]), batch, state["chains"])[0]
        drawn, weights = self.read(draws.states), self.read(draws.weights)
        states: NDArray[Any] = drawn.astype(stored_type(space))
        return Batch(space, states, weights / weights.sum(), draws.sample_size)


class DeviceBatch(NamedTuple):
    """States (k, n) and weights (k,) that sum to 1, as tensors."""

    states: Any
    weights: Any
    sample_size: float


@dataclass(frozen=True, eq=False)
class DeviceChains:
    """The chains of an average, swept on a device by the numbers of its generator.

    They start where those of the host do.
    """

    average: PersistentChains | ContrastiveDivergence
    arrays: DeviceArrays

    @property
    def follows_model(self) -> bool:
        """Whether the draws are those of the model."""
        return isinstance(self.average, PersistentChains)

    def start(self, model: Any, data: Any, rng: np.random.Generator) -> Mapping[str, Any]:
        """The first states, if chains go on from update to update, and the random numbers."""
        begun: dict[str, Any] = {}
        if isinstance(self.average, PersistentChains):
            begun["states"] = self.arrays.load(self.average.start(model, data, rng).states)
        self.arrays.seed(int(rng.spawn(1)[0].integers(0, 2**63)))
        return {**begun, "stream": self.arrays.stream}

    def step(
        self, model: DeviceLayers, batch: DeviceBatch, state: Mapping[str, Any]
    ) -> tuple[DeviceBatch, Mapping[str, Any]]:
        """The chains after their sweeps, and the next state."""
        self.arrays.stream = state["stream"]
        if isinstance(self.average, ContrastiveDivergence):
            draws = batch._replace(states=model.swept(batch.states, self.average.k))
            return draws, {"stream": self.arrays.stream}
        states = state["states"]
        if self.average.restarts:
            states = self._restarted(states, batch, self.average.restarts)
        states = model.swept(states, self.average.sweeps)
        n = len(states)
        draws = DeviceBatch(states, states.new_full((n,), 1 / n), float(n))
        return draws, {"states": states, "stream": self.arrays.stream}

    def _restarted(self, states: Any, batch: DeviceBatch, share: float) -> Any:
        """Chains of which about a share begins again at rows drawn by their weights."""
        n = len(states)
        begins, place = self.arrays.uniform((n,)) < share, self.arrays.uniform((n,))
        # A count stands for the search in a sorted list.
        chosen = (place[:, None] >= batch.weights.cumsum(0)[:-1]).sum(1)
        return batch.states[chosen].where(begins[:, None], states)


class DeviceLayerGauge(Gauge):
    """A :class:`LayerGauge` on a device."""

    def __init__(self, gauge: LayerGauge, loss: DeviceLikelihood) -> None:
        self._loss, self._shape = loss, loss._shape
        self._visible, self._hidden = (loss.load(x) for x in gauge.shifts)

    def start(self, hidden_mean: Array) -> Any:
        """The hidden means of the data."""
        return self._loss.load(hidden_mean)

    def gradient(self, gradient: Any, center: Any) -> Any:
        """∂L/∂U' = ∂L/∂U + (∂L/∂b)(ĥ − ĥ')ᵀ + (v̂ − m)(∂L/∂c)ᵀ."""
        import torch

        b, c, u = _split(gradient, self._shape)
        moved = u + torch.outer(b, self._hidden - center) + torch.outer(self._visible, c)
        return torch.cat([b, c, moved.reshape(-1)])

    def moved(self, theta: Any, move: Any, center: Any) -> Any:
        """Δb = Δb' + ΔU (ĥ − ĥ'), Δc = Δc' + ΔUᵀ (v̂ − m)."""
        import torch

        b, c, u = _split(move, self._shape)
        biases = torch.cat([b + u @ (self._hidden - center), c + self._visible @ u])
        return theta + torch.cat([biases, u.reshape(-1)])

    def slid(self, center: Any, both: Any) -> Any:
        """A step towards the mean of both hidden means."""
        return LayerGauge.between(center, both[self._shape[0] :])


def _split(theta: Any, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
    """b (n,), c (m,) and U (n, m) of parameters (p,)."""
    n, m = shape
    return theta[:n], theta[n : n + m], theta[n + m :].reshape(n, m)


def require_average(average: Any, device: Any) -> None:
    """Refuse averages that are not swept on a device."""
    if not isinstance(average, PersistentChains | ContrastiveDivergence):
        name = getattr(average, "__name__", type(average).__name__)
        raise EbmError(
            f"device={device!r} sweeps the chains of ebm.PersistentChains() or "
            f"ebm.ContrastiveDivergence(), got {name}: give one of them, or leave out device "
            '(exact sums on a device are lambda model: ebm.exact(model, device="cuda"))'
        )
    require_heat_bath(average.sampler, device)


def _require_layers(family: Any, device: Any) -> None:
    """Refuse families whose parameters are not those of two layers of two-valued units."""
    form = energy_form(family)
    is_layered = isinstance(form, LayeredForm) and are_two_valued(form)
    n, m = form.weights.shape if isinstance(form, LayeredForm) else (0, 0)
    if not is_layered or len(family.parameters) != n + m + n * m:
        raise ModelError(
            f"device={device!r} learns machines of two layers of two-valued units, such as "
            f"ebm.RestrictedBoltzmannMachine, got {family!r}: leave out device"
        )
    _require_single(family, device)


def _require_single(model: Any, device: Any) -> None:
    """Refuse weights with which single precision does not keep three decimals of log-odds."""
    with np.errstate(over="ignore", invalid="ignore"):
        origin = binary_layers(layers_of(model)).at_origin()
        suffices = single_precision_suffices(origin.weights, origin.visible, origin.hidden)
    if not suffices:
        raise ModelError(
            f"log-odds of {model!r} are too large for the single precision of device={device!r}: "
            "give a penalty (penalty=ebm.Penalty(l2=…)), or leave out device"
        )
