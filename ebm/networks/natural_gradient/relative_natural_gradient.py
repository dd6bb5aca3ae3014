"""Gradient descent by relative Fisher information, layer by layer, as a torch optimizer."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from ebm._arrays import as_number
from ebm.errors import DivergenceError, EbmWarning, ModelError, require_memory, warn
from ebm.networks.natural_gradient._layers import (
    chosen_kinds,
    linear_layers,
    own_module,
    require_one_of,
)
from ebm.networks.natural_gradient._metrics import SCALES, LayerMetric, symmetric
from ebm.networks.natural_gradient._recording import ForwardPass, Recorder

__all__ = ["Damping", "LayerMetrics", "RelativeNaturalGradient"]

Schedule = float | Callable[[int], float]
#: What a step asks for, checked again where it has changed.
SETTINGS = ("lr", "period", "decay", "damping", "weight_decay", "damping_kind")


@dataclass(frozen=True)
class Damping:
    """What is added to the diagonal of a metric before it is inverted, ε s(G).

    Parameters
    ----------
    value : float or callable
        ε ≥ 0, or a function of the number of the step.
    kind : {"trace", "mean", "absolute"}
        Whether ε is relative to the trace of a block, to the mean of its diagonal, or to 1.

    Examples
    --------
    A tenth of the mean of the diagonal at first, half of that after 100 steps:

    >>> from ebm.networks import Damping
    >>> Damping(lambda step: 0.1 / (1 + step / 100), kind="mean").value(100)
    0.05
    """

    value: Schedule = 1e-4
    kind: str = "trace"


@dataclass(frozen=True)
class LayerMetrics:
    """Which metric the layers of a model get.

    Parameters
    ----------
    blocks : str or mapping, optional
        ``"neuron"`` (a block for each), ``"shared"`` (one block, ν = 1), ``"softmax"`` (last layer
        only: all of (diag η − ηηᵀ) ⊗ x̃x̃ᵀ, eq 10) or ``"plain"``, for all layers or by name. By
        default shared for first and last layers, neuron for those between.
    smoothing : float
        ω ≥ 0 of relu units; 0 is the kink, whose dead units want an absolute damping.
    output : {"softmax", "bernoulli", "gaussian"}
        The answer of last layers that no activation follows.
    unsupported : {"error", "plain"}
        Whether modules without a metric are refused or get the plain gradient.
    """

    blocks: str | Mapping[str, str] | None = None
    smoothing: float = 1.0
    output: str = "softmax"
    unsupported: str = "error"


#: The metrics that layers get if nothing else is asked for.
DEFAULT_METRICS = LayerMetrics()


class RelativeNaturalGradient(torch.optim.Optimizer):
    """W ← W − lr G⁻¹∇ with the relative Fisher information G of each layer; [RFIM] §4.

    Each step: (1) W ← W − lr G⁻¹∇; (2) the same batches, run again with the new weights, give
    G ← (1−λ) G + λ mean(ν x̃x̃ᵀ); (3) every T steps, the first included,
    G⁻¹ = (G + ε tr(G) I)⁻¹. G and G⁻¹ start at I. x̃ = (x, 1) is what a linear layer sees, ν the
    information of a unit's answer about its input a: sech² a for tanh, σ(a) σ(−a) for sigmoid,
    σ(a/ω)² for relu (whose forward pass stays as it is), f′(a)² for elu and silu.

    The model is watched for the batches that a backward pass goes through, since the last step or
    since all gradients were dropped. It runs twice a step, the second time without a gradient, with
    the same random numbers and mixed precision, its buffers left alone; until then inputs must stay
    as they are. Replicas of a model in several processes would see different metrics and drift
    apart. Batch normalization has the plain gradient; between a layer and its activation its
    moments are taken as fixed.

    Parameters
    ----------
    model : nn.Module
        Made of ``nn.Linear``, each called once; see ``LayerMetrics.unsupported``. Its ``forward``
        must have no branches that depend on values.
    lr : float or callable
        Learning rate. This, ``period``, ``decay`` and ``damping`` may be functions of the number
        of the step, from 0; a scheduler of torch wants a number.
    period : int or callable
        T ≥ 1.
    decay : float or callable
        λ in [0, 1]; 0 keeps G where it is.
    damping : float, callable or Damping
        ε ≥ 0, relative to the trace of a block if not said otherwise.
    weight_decay : float
        Adds ½ weight_decay |W|² to the loss, W without biases and batch normalization.
    metrics : LayerMetrics
        Which metric the layers get.

    Raises
    ------
    TypeError
        If ``model`` is no module, or a module in it with parameters has no metric.
    ModelError
        If a setting is out of range.
    MemoryLimitError
        If the metrics would take more than 4 GiB.

    Examples
    --------
    >>> import torch
    >>> import ebm.networks
    >>> from ebm.networks import RelativeNaturalGradient
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
        damping: Schedule | Damping = 1e-4,
        weight_decay: float = 0.0,
        metrics: LayerMetrics = DEFAULT_METRICS,
    ) -> None:
        damped = damping if isinstance(damping, Damping) else Damping(damping)
        require_one_of(damped.kind, "damping_kind", SCALES)
        self._schedules = {"lr": lr, "period": period, "decay": decay, "damping": damped.value}
        given = {**self._schedules, "weight_decay": weight_decay, "damping_kind": damped.kind}
        self._scheduled = settings_at(0, self._schedules, given)
        self._checked: list[Any] = []
        counters = {"n_steps": 0, "n_inversions": 0, "n_failures": 0, "last_inversion": None}
        self._model = own_module(model)
        self._metrics = _layer_metrics(self._model, metrics)
        shapes = [[metric.kind, *metric.inverse_shape] for metric in self._metrics]
        self._names = {p: name for name, p in self._model.named_parameters()}
        linear = [module for module in self._model.modules() if isinstance(module, nn.Linear)]
        self._decayed = {module.weight for module in linear}
        frozen = [p for module in linear for p in module.parameters() if not p.requires_grad]
        # Where plain gradients are fine, those of layers that learn later are, too.
        self._frozen = {p: self._names[p] for p in frozen if metrics.unsupported == "error"}
        self._recorder = Recorder(self._model, [metric.layer.module for metric in self._metrics])
        settings = {**self._scheduled, **counters, "metrics": shapes}
        super().__init__(self._model.parameters(), settings)

    @property
    def n_inversions(self) -> int:
        """How often the inverses were refreshed."""
        return int(self.param_groups[0]["n_inversions"])

    @property
    def n_failures(self) -> int:
        """How many blocks could not be factored with the damping asked for."""
        return int(self.param_groups[0]["n_failures"])

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
            If a gradient is not finite, no parameter has been changed then; or if what a layer saw
            is not finite or too large to be squared.
        ModelError
            If no backward pass has gone through the model since the last step, its inputs, its
            precision or what learns in it have changed meanwhile, or a setting is out of range.

        Warns
        -----
        EbmWarning
            If a block could be inverted with more damping only, or not at all.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad(), self._recorder.full_precision():
            self._update()
        return loss

    def _update(self) -> None:
        group = self.param_groups[0]
        number = group["n_steps"]
        self._set(group, number)
        metrics = [metric for metric in self._metrics if metric.has_gradient()]
        require_finite(self._names, number)
        require_frozen(self._frozen)
        observes = bool(metrics) and group["decay"] > 0
        if observes:
            self._recorder.require_passes()
        self._descend(metrics, group)
        group["n_steps"] = number + 1
        if observes:
            # G ← (1−λ) G + λ mean(ν x̃x̃ᵀ); a layer that was not called sees nothing.
            for metric, n_rows in self._seen(self._recorder.passes).items():
                if metric in metrics:
                    metric.keep(self._state_of(metric), n_rows, group["decay"])
        last = group["last_inversion"]
        if metrics and (last is None or number - last >= group["period"]):
            group["last_inversion"] = number
            self._invert(metrics, group)
        self._recorder.clear()

    def _set(self, group: dict[str, Any], number: int) -> None:
        """The settings of a step, checked where one is a function or was changed."""
        settings = [group[name] for name in SETTINGS]
        if settings == self._checked and not any(map(callable, self._schedules.values())):
            return
        require_untouched(self._schedules, group, self._scheduled)
        group.update(settings_at(number, self._schedules, group))
        self._scheduled, self._checked = dict(group), settings

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
            If there is no row, or a batch is neither a tensor nor a tuple.
        DivergenceError
            If a layer sees what is not finite, or too large to be squared.

        Examples
        --------
        >>> import torch
        >>> import ebm.networks
        >>> from ebm.networks import RelativeNaturalGradient
        >>> model = torch.nn.Linear(2, 2)
        >>> optimizer = RelativeNaturalGradient(model, lr=0.01)
        >>> optimizer.warm_start([torch.tensor([[1.0, 2.0], [3.0, 4.0]])])
        >>> optimizer.metric("")
        tensor([[[ 5.,  7.,  2.],
                 [ 7., 10.,  3.],
                 [ 2.,  3.,  1.]]])
        """
        n_rows = 0
        for batch in batches:
            if not isinstance(batch, Tensor | tuple):
                raise ModelError(
                    "batches must hold tensors, or tuples of what the model is called with; got "
                    f"{type(batch).__name__}: take the inputs out of what a loader gives"
                )
            arguments = batch if isinstance(batch, tuple) else (batch,)
            if not n_rows:
                for metric in self._metrics:
                    metric.start(self._state_of(metric))
            seen = self._seen([ForwardPass(self._model, arguments, {})])
            size = max(seen.values(), default=0)
            n_rows += size
            for metric, n in seen.items():
                # A weight of B/n at every batch makes a plain mean; the first drops the identity.
                metric.keep(self._state_of(metric), n, size / n_rows if n_rows else 0.0)
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
                state = metric.waiting(self._state_of(metric))
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
        measured = {p: metric for metric in self._metrics for p in metric.parameters}
        lines = []
        for parameter, name in self._names.items():
            plain = "plain" if parameter.requires_grad else "not learned"
            metric = measured.get(parameter)
            lines.append(f"{name}: {plain}" if metric is None else metric.describe())
        # Weight and bias gave the same line.
        return "\n".join(dict.fromkeys(lines))

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes; rows that wait for their average are copied."""
        by_parameter: dict[Any, LayerMetric] = {m.parameters[0]: m for m in self._metrics}
        order = {p: k for k, p in enumerate(self.param_groups[0]["params"])}
        saved: dict[str, Any] = super().state_dict()
        for parameter, state in self.state.items():
            saved["state"][order[parameter]] = by_parameter[parameter].waiting(state)
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state, whose tensors are copied; functions of the step are not in it.

        Parameters
        ----------
        state_dict : dict
            What ``state_dict`` returned.

        Raises
        ------
        ModelError
            If it is not from an optimizer with the same metrics.
        """
        require_same_metrics(state_dict, self.param_groups[0]["metrics"])
        super().load_state_dict(copy.deepcopy(state_dict))
        self._scheduled, self._checked = dict(self.param_groups[0]), []

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A copy would watch no model.
        raise ModelError(
            "a RelativeNaturalGradient can be neither copied nor pickled, as it watches its model: "
            "make a new one for the copied model and give it state_dict()"
        )

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
        state: dict[str, Any] = self.state[metric.parameters[0]]
        metric.require_state(state)
        return state

    def _descend(self, metrics: list[LayerMetric], group: dict[str, Any]) -> None:
        """W ← W − lr G⁻¹∇."""
        moves: dict[Tensor, Tensor] = {p: p.grad for p in self._names if p.grad is not None}
        if group["weight_decay"]:
            for p in self._decayed & moves.keys():
                moves[p] = moves[p].add(p, alpha=group["weight_decay"])
        for metric in metrics:
            gradients = [moves.pop(p) for p in metric.parameters]
            metric.descend(self._state_of(metric), gradients, group["lr"])
        for parameter, move in moves.items():
            parameter.add_(move, alpha=-group["lr"])

    def _seen(self, passes: list[ForwardPass]) -> dict[LayerMetric, int]:
        """How many rows each layer saw in some passes with the weights of now; they wait."""
        by_module: dict[nn.Module, LayerMetric] = {m.layer.module: m for m in self._metrics}
        seen: dict[LayerMetric, int] = {}

        def see(module: nn.Module, x: Tensor, output: Tensor) -> None:
            metric = by_module[module]
            seen[metric] = metric.see(self._state_of(metric), x, output, seen.get(metric, 0))

        self._recorder.replay(passes, see)
        return seen

    def _invert(self, metrics: list[LayerMetric], group: dict[str, Any]) -> None:
        """G⁻¹ = (G + ε s(G) I)⁻¹ for all layers."""
        group["n_inversions"] += 1
        for metric in metrics:
            state = self._state_of(metric)
            metric.average(state)
            n_failures, message = metric.invert(state, group["damping"], group["damping_kind"])
            if n_failures:
                group["n_failures"] += n_failures
                warn(message, EbmWarning)


def _layer_metrics(model: nn.Module, settings: LayerMetrics) -> list[LayerMetric]:
    """The metrics of the layers of a model in the order of their use; none for plain ones."""
    require_one_of(settings.output, "output", ("softmax", "bernoulli", "gaussian"))
    require_one_of(settings.unsupported, "unsupported", ("error", "plain"))
    omega = within(settings.smoothing, "smoothing")
    layers, others = linear_layers(model, smoothing=omega, output=settings.output)
    chosen = chosen_kinds(layers, others, settings.blocks, settings.unsupported)
    metrics = [LayerMetric(layer, kind) for layer, kind in chosen if kind != "plain"]
    total = 0.0
    for metric in metrics:
        total += metric.n_bytes
        require_memory(
            total,
            f"the metrics and inverses up to layer {metric.layer.name!r} ({metric.kind})",
            f"give blocks={{{metric.layer.name!r}: 'shared'}}",
        )
    return metrics


def within(value: Any, name: str, largest: float = float("inf")) -> float:
    """A number ≥ 0, finite and at most the largest."""
    number = as_number(value, name)
    if not (0 <= number <= largest and math.isfinite(number)):
        bounds = "≥ 0" if largest == float("inf") else f"in [0, {largest:g}]"
        raise ModelError(f"{name} must be a finite number {bounds}, got {value!r}")
    return number


def settings_at(
    number: int, schedules: Mapping[str, Any], group: Mapping[str, Any]
) -> dict[str, Any]:
    """All settings of a step, checked."""
    found = {
        name: _checked(value(number) if callable(value) else group[name], name)
        for name, value in schedules.items()
    }
    require_one_of(group["damping_kind"], "damping_kind", SCALES)
    found["weight_decay"] = within(group["weight_decay"], "weight_decay")
    return {**found, "damping_kind": group["damping_kind"]}


def _checked(value: Any, name: str) -> float:
    if name == "period":
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
            raise ModelError(f"period must be an integer ≥ 1, got {value!r}")
        return int(value)
    return within(value, name, 1.0 if name == "decay" else float("inf"))


def require_untouched(
    schedules: Mapping[str, Any], group: Mapping[str, Any], before: Mapping[str, Any]
) -> None:
    """Refuse a setting that is a function of the step and was changed by something else."""
    for name, value in schedules.items():
        if callable(value) and group[name] != before[name]:
            raise ModelError(
                f"{name} is a function of the step, but was set to {group[name]} by something "
                "else, such as a scheduler: give a number for that to change"
            )


def require_finite(names: Mapping[Parameter, str], number: int) -> None:
    """Name the first gradient that is not finite."""
    found = [(p, p.grad) for p in names if p.grad is not None]
    # One number to wait for; parameters may live on several devices.
    sums = [gradient.sum().to(found[0][1]) for _, gradient in found]
    if not sums or math.isfinite(float(torch.stack(sums).sum())):
        return
    for parameter, gradient in found:
        # A sum can overflow where all terms are finite.
        if not bool(gradient.isfinite().all()):
            name = names[parameter]
            raise DivergenceError(
                f"the gradient of {name!r} is not finite at step {number}; no parameter was "
                "changed: take a smaller lr or look at the inputs of this batch",
                update=number + 1,
                parameter=name,
            )


def require_frozen(names: Mapping[Parameter, str]) -> None:
    """Refuse a parameter that learns now, and did not when metrics were made."""
    for parameter, name in names.items():
        if parameter.requires_grad and parameter.grad is not None:
            raise ModelError(
                f"{name!r} was frozen when the optimizer was made, so it has no metric: make a new "
                "optimizer once it learns"
            )


def require_same_metrics(state_dict: Any, own: list[Any]) -> None:
    """Refuse the state of another optimizer, which would fit by chance or not at all."""
    try:
        saved = state_dict["param_groups"][0]["metrics"]
    except (KeyError, IndexError, TypeError) as error:
        raise ModelError(
            "the state is not that of a RelativeNaturalGradient: give what its state_dict() "
            "returned"
        ) from error
    if saved != own:
        raise ModelError(
            f"the state is of metrics {saved} (kind, number and size of blocks, layer by layer), "
            f"this optimizer has {own}: make it for the same layers and blocks"
        )
