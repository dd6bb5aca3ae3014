"""Gradient descent by relative Fisher information, layer by layer, as a torch optimizer."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ebm.errors import DivergenceError, ModelError
from ebm.networks.layer_kinds import (
    chosen_kinds,
    description,
    require_metric_memory,
    require_one_of,
    scheduled,
    within,
)
from ebm.networks.layer_states import SCALES, LayerMetric, symmetric
from ebm.networks.linear_layers import linear_layers
from ebm.networks.recording import Recorder

__all__ = ["RelativeNaturalGradient"]

Schedule = float | Callable[[int], float]


class RelativeNaturalGradient(torch.optim.Optimizer):
    """W ← W − lr G⁻¹∇ with the relative Fisher information G of each layer; [RFIM] §4.

    Each step: (1) W ← W − lr G⁻¹∇; (2) the same batches, run again with the new weights, give
    G ← (1−λ) G + λ mean(ν x̃x̃ᵀ); (3) every T steps, the first included,
    G⁻¹ = (G + ε tr(G) I)⁻¹. G and G⁻¹ start at I. x̃ = (x, 1) is what a linear layer sees, ν the
    information of a unit's answer about its input a: sech² a for tanh, σ(a) σ(−a) for sigmoid,
    σ(a/ω)² for relu (whose forward pass stays as it is), f′(a)² for elu and silu.

    The model is watched for the batches that a backward pass goes through. It runs twice a step,
    the second time without a gradient, with the same dropped units, its buffers left alone.
    Batch normalization has the plain gradient; between a layer and its activation its moments are
    taken as fixed.

    Parameters
    ----------
    model : nn.Module
        Made of ``nn.Linear``, each called once; see ``unsupported``. Its ``forward`` must have no
        branches that depend on values.
    lr : float or callable
        Learning rate. This, ``period``, ``decay`` and ``damping`` may be functions of the number
        of the step, from 0.
    period : int or callable
        T ≥ 1.
    decay : float or callable
        λ in [0, 1]; 0 keeps G where it is.
    smoothing : float
        ω ≥ 0 of relu units; 0 is the kink, ν = 0 or 1.
    damping : float or callable
        ε ≥ 0.
    damping_kind : {"trace", "mean", "absolute"}
        Whether ε is relative to the trace of a block, to the mean of its diagonal, or to 1.
    weight_decay : float
        Adds ½ weight_decay |W|² to the loss, W without biases and batch normalization.
    blocks : str or mapping, optional
        ``"neuron"`` (a block for each), ``"shared"`` (one block, ν = 1), ``"softmax"`` (last layer
        only: all of (diag η − ηηᵀ) ⊗ x̃x̃ᵀ, eq 10) or ``"plain"``, for all layers or by name. By
        default shared for first and last layers, neuron for those between.
    output : {"softmax", "bernoulli", "gaussian"}
        The answer of last layers that no activation follows.
    unsupported : {"error", "plain"}
        Whether modules without a metric are refused or get the plain gradient.

    Raises
    ------
    TypeError
        If a module with parameters has no metric.
    ModelError
        If a setting is out of range.
    MemoryLimitError
        If the metrics would take more than 4 GiB.

    Examples
    --------
    >>> import torch
    >>> import ebm.networks
    >>> from ebm.networks.relative_natural_gradient import RelativeNaturalGradient
    >>> model = torch.nn.Sequential(
    ...     torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 5), torch.nn.Tanh(),
    ...     torch.nn.Linear(5, 2),
    ... )
    >>> optimizer = RelativeNaturalGradient(model, lr=0.01)
    >>> loss = torch.nn.functional.cross_entropy(model(torch.eye(3)), torch.tensor([0, 1, 1]))
    >>> loss.backward()
    >>> optimizer.step()
    >>> print(optimizer.describe())
    0.weight, 0.bias: shared, 1 block of 4 × 4
    2.weight, 2.bias: neuron (tanh), 5 blocks of 6 × 6
    4.weight, 4.bias: shared, 1 block of 6 × 6
    """

    def __init__(
        self,
        model: nn.Module,
        lr: Schedule,
        *,
        period: int | Callable[[int], int] = 100,
        decay: Schedule = 0.005,
        smoothing: float = 1.0,
        damping: Schedule = 1e-4,
        damping_kind: str = "trace",
        weight_decay: float = 0.0,
        blocks: str | Mapping[str, str] | None = None,
        output: str = "softmax",
        unsupported: str = "error",
    ) -> None:
        require_one_of(damping_kind, "damping_kind", SCALES)
        require_one_of(output, "output", ("softmax", "bernoulli", "gaussian"))
        require_one_of(unsupported, "unsupported", ("error", "plain"))
        omega = within(smoothing, "smoothing")
        self._schedules = {"lr": lr, "period": period, "decay": decay, "damping": damping}
        settings = {
            **{name: scheduled(value, name, 0) for name, value in self._schedules.items()},
            "weight_decay": within(weight_decay, "weight_decay"),
            "damping_kind": damping_kind,
            "n_steps": 0,
            "n_inversions": 0,
            "n_failures": 0,
            "last_inversion": None,
        }
        layers, others = linear_layers(model, smoothing=omega, output=output)
        chosen = chosen_kinds(layers, others, blocks, unsupported)
        self._metrics = [LayerMetric(layer, kind) for layer, kind in chosen if kind != "plain"]
        require_metric_memory(self._metrics)
        self._names = {p: name for name, p in model.named_parameters()}
        self._decayed = {m.weight for m in model.modules() if isinstance(m, nn.Linear)}
        self._recorder = Recorder(model, [metric.layer.module for metric in self._metrics])
        super().__init__(model.parameters(), settings)

    @property
    def n_inversions(self) -> int:
        """How often the inverses were refreshed."""
        return int(self.param_groups[0]["n_inversions"])

    @property
    def n_failures(self) -> int:
        """How many blocks could not be factored with the damping asked for."""
        return int(self.param_groups[0]["n_failures"])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step.

        Parameters
        ----------
        closure : callable, optional
            Computes the gradient and returns the loss; called once.

        Returns
        -------
        Tensor or None
            What the closure returned.

        Raises
        ------
        DivergenceError
            If a gradient is not finite; no parameter has been changed.
        ModelError
            If no backward pass has gone through the model since the last step.

        Warns
        -----
        EbmWarning
            If a block could be inverted with more damping only, or not at all.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        number = group["n_steps"]
        for name, value in self._schedules.items():
            if callable(value):
                group[name] = scheduled(value, name, number)
        metrics = [metric for metric in self._metrics if metric.has_gradient()]
        self._require_finite(number)
        if metrics and group["decay"] > 0 and not self._recorder.batches:
            raise ModelError(
                "no forward and backward pass went through the model since the last step, so there "
                "is no batch for the metric: call the model itself, then backward, then step"
            )
        self._descend(metrics, group)
        group["n_steps"] = number + 1
        if metrics and group["decay"] > 0:
            self._observe(metrics, group["decay"])
        last = group["last_inversion"]
        if metrics and (last is None or number - last >= group["period"]):
            group["last_inversion"] = number
            self._invert(metrics, group)
        self._recorder.clear()
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, and the batches they came from.

        Parameters
        ----------
        set_to_none : bool
            Whether they become None rather than 0.
        """
        self._recorder.clear()
        super().zero_grad(set_to_none)

    def warm_start(self, batches: Iterable[Any]) -> None:
        """Start the running averages at the mean over inputs, instead of at I.

        Sets G = mean(ν x̃x̃ᵀ), each row with the same weight, and G⁻¹ from it. The model stays in
        the mode it is in.

        Parameters
        ----------
        batches : iterable
            Inputs of the model; a tuple is its positional arguments.

        Raises
        ------
        ModelError
            If there is none.

        Examples
        --------
        >>> import torch
        >>> import ebm.networks
        >>> from ebm.networks.relative_natural_gradient import RelativeNaturalGradient
        >>> model = torch.nn.Linear(2, 2)
        >>> optimizer = RelativeNaturalGradient(model, lr=0.01)
        >>> optimizer.warm_start([torch.tensor([[1.0, 2.0], [3.0, 4.0]])])
        >>> optimizer.metric("")
        tensor([[[ 5.,  7.,  2.],
                 [ 7., 10.,  3.],
                 [ 2.,  3.,  1.]]])
        """
        n_rows = 0
        for metric in self._metrics:
            metric.start(self._state_of(metric))
        for batch in batches:
            arguments = batch if isinstance(batch, tuple) else (batch,)
            self._recorder.batches[:] = [(arguments, {}, None)]
            rows = self._seen()
            size = max((len(x) for seen in rows.values() for x, _ in seen), default=0)
            n_rows += size
            for metric, seen in rows.items():
                # A weight of B/n at every batch makes a plain mean; the first drops the identity.
                metric.keep(self._state_of(metric), seen, size / n_rows if n_rows else 0.0)
        self._recorder.clear()
        if not n_rows:
            raise ModelError("batches must hold at least one row to start from")
        self._invert(self._metrics, self.param_groups[0])

    def metric(self, layer: str) -> Tensor:
        """G of a layer, without damping.

        Parameters
        ----------
        layer : str
            Its name in the model.

        Returns
        -------
        Tensor, (n, D, D)
            One block for each neuron, or a single one.

        Raises
        ------
        ModelError
            If that layer has none.
        """
        for metric in self._metrics:
            if metric.layer.name == layer:
                # A copy: reading must not change when waiting rows are averaged.
                state = dict(self._state_of(metric))
                state["metric"] = state["metric"].clone()
                metric.average(state)
                return symmetric(metric.matrices(state))
        names = [metric.layer.name for metric in self._metrics]
        raise ModelError(f"layer must be one of {names}, which have a metric; got {layer!r}")

    def describe(self) -> str:
        """Which parameters have which metric, a line each.

        Returns
        -------
        str
            To be printed.
        """
        return description(self._metrics, self._names)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state, whose tensors are copied; functions of the step are not in it.

        Parameters
        ----------
        state_dict : dict
            What ``state_dict`` returned.
        """
        super().load_state_dict(copy.deepcopy(state_dict))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse another group: the parameters are those of the model.

        Parameters
        ----------
        param_group : dict
            The first, from the constructor.

        Raises
        ------
        ModelError
            If there is one already.
        """
        if self.param_groups:
            raise ModelError(
                "the parameters are those of the model: make a new optimizer for a changed model"
            )
        super().add_param_group(param_group)

    def _state_of(self, metric: LayerMetric) -> dict[str, Any]:
        state: dict[str, Any] = self.state[metric.layer.module.weight]
        if not state:
            metric.start(state)
        return state

    def _require_finite(self, number: int) -> None:
        """Name the first gradient that is not finite."""
        found = [(p, p.grad) for p in self._names if p.grad is not None]
        # One number to wait for; parameters may live on several devices.
        sums = [gradient.sum().to(found[0][1]) for _, gradient in found]
        if not sums or math.isfinite(float(torch.stack(sums).sum())):
            return
        for parameter, gradient in found:
            # A sum can overflow where all terms are finite.
            if not bool(gradient.isfinite().all()):
                name = self._names[parameter]
                raise DivergenceError(
                    f"the gradient of {name!r} is not finite at step {number}; no parameter was "
                    "changed: take a smaller lr or look at the inputs of this batch",
                    update=number + 1,
                    parameter=name,
                )

    def _descend(self, metrics: list[LayerMetric], group: dict[str, Any]) -> None:
        """W ← W − lr G⁻¹∇."""
        moves: dict[Tensor, Tensor] = {
            p: self._gradient(p, group) for p in self._names if p.grad is not None
        }
        for metric in metrics:
            gradients = [moves[p] for p in metric.parameters]
            natural = metric.natural(self._state_of(metric), gradients)
            moves.update(zip(metric.parameters, natural, strict=True))
        for parameter, move in moves.items():
            parameter.add_(move, alpha=-group["lr"])

    def _gradient(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        gradient = parameter.grad
        if gradient is None or not group["weight_decay"] or parameter not in self._decayed:
            return torch.empty(0) if gradient is None else gradient
        return gradient.add(parameter, alpha=group["weight_decay"])

    def _seen(self) -> dict[LayerMetric, list[tuple[Tensor, Tensor | None]]]:
        """x̃ and ν of the recorded batches with the weights of now."""
        by_module: dict[nn.Module, LayerMetric] = {m.layer.module: m for m in self._metrics}
        rows: dict[LayerMetric, list[tuple[Tensor, Tensor | None]]] = {}

        def seen(module: nn.Module, x: Tensor, output: Tensor) -> None:
            metric = by_module[module]
            rows.setdefault(metric, []).append(metric.rows(x, output))

        self._recorder.replay(seen)
        return rows

    def _observe(self, metrics: list[LayerMetric], decay: float) -> None:
        """G ← (1−λ) G + λ mean(ν x̃x̃ᵀ)."""
        rows = self._seen()
        for metric in metrics:
            metric.keep(self._state_of(metric), rows[metric], decay)

    def _invert(self, metrics: list[LayerMetric], group: dict[str, Any]) -> None:
        """G⁻¹ = (G + ε s(G) I)⁻¹ for all layers."""
        group["n_inversions"] += 1
        for metric in metrics:
            state = self._state_of(metric)
            metric.average(state)
            group["n_failures"] += metric.invert(state, group["damping"], group["damping_kind"])
