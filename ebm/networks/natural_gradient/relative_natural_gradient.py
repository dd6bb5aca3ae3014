"""Natural gradient descent in the relative Fisher metric of each layer, as a torch optimizer."""

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
#: Settings of a step, which are checked again after a change.
SETTINGS = ("lr", "period", "decay", "damping", "weight_decay", "damping_kind")


@dataclass(frozen=True)
class Damping:
    """The damping ε s(G) that is added to the diagonal of a metric before its inversion.

    Parameters
    ----------
    value : float or callable
        ε ≥ 0, or a function of the number of the step.
    kind : {"trace", "mean", "absolute"}
        s: the trace of a block, the mean of its diagonal, or 1.

    Examples
    --------
    A damping of a tenth of the mean of the diagonal, which is halved after 100 steps:

    >>> from ebm.networks import Damping
    >>> Damping(lambda step: 0.1 / (1 + step / 100), kind="mean").value(100)
    0.05
    """

    value: Schedule = 1e-4
    kind: str = "trace"


@dataclass(frozen=True)
class LayerMetrics:
    """The metrics of the layers of a model.

    Parameters
    ----------
    blocks : str or mapping of str to str, optional
        Kind of metric, for all layers or by name of the layer: ``"neuron"``, a block for each
        neuron; ``"shared"``, one block with ν = 1 for all neurons; ``"softmax"``, the whole
        (diag η − ηηᵀ) ⊗ x̃x̃ᵀ of [RFIM] eq 10, for the last layer; ``"plain"``, the plain gradient.
        By default first and last layers are shared, those between are neuron.
    smoothing : float
        ω ≥ 0 of relu units. With ω = 0, the kink, the blocks of inactive units vanish and need an
        absolute damping.
    output : {"softmax", "bernoulli", "gaussian"}
        Distribution of the output of last layers without an activation.
    unsupported : {"error", "plain"}
        Whether modules without a metric are refused or follow the plain gradient.
    """

    blocks: str | Mapping[str, str] | None = None
    smoothing: float = 1.0
    output: str = "softmax"
    unsupported: str = "error"


#: The default metrics.
DEFAULT_METRICS = LayerMetrics()


class RelativeNaturalGradient(torch.optim.Optimizer):
    """W ← W − lr G⁻¹∇ with the relative Fisher information G of each layer; [RFIM] §4.

    Each step: (1) W ← W − lr G⁻¹∇; (2) the same batches, run again with the new weights, give
    G ← (1−λ) G + λ mean(ν x̃x̃ᵀ); (3) every T steps, the first included,
    G⁻¹ = (G + ε tr(G) I)⁻¹. G and G⁻¹ start at I. x̃ = (x, 1) is the input of a linear layer, ν the
    information of the output of a unit about its input a: sech² a for tanh, σ(a) σ(−a) for sigmoid,
    σ(a/ω)² for relu (whose forward pass has no ω), f′(a)² for elu and silu.

    Hooks on the model collect the batches of all backward passes since the last step, or since all
    gradients were set to None. The model runs twice per step, the second time without gradients,
    with the same random numbers and mixed precision, and with its buffers restored; inputs must not
    change before that. Replicas of a model in several processes would have different metrics and
    diverge from each other. Batch normalization follows the plain gradient; between a layer and its
    activation its moments are taken as constant.

    Parameters
    ----------
    model : nn.Module
        Model whose parameters are those of ``nn.Linear``, each called once, and of batch
        normalization; see ``LayerMetrics.unsupported`` for others. Its ``forward`` must not branch
        on values.
    lr : float or callable
        Learning rate. ``lr``, ``period``, ``decay`` and ``damping`` may be functions of the number
        of the step, from 0; a scheduler of torch needs a number.
    period : int or callable
        T ≥ 1, number of steps between inversions.
    decay : float or callable
        λ in [0, 1]; with 0 G does not change.
    damping : float, callable or Damping
        ε ≥ 0, relative to the trace of a block unless it is a :class:`Damping` of another kind.
    weight_decay : float
        Coefficient of the penalty ½ weight_decay |W|² on all weights of linear layers.
    metrics : LayerMetrics
        Metrics of the layers.

    Raises
    ------
    TypeError
        If ``model`` is no module, or has a module with parameters but without a metric.
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
        # With unsupported="plain" a layer that learns later may follow the plain gradient, too.
        self._frozen = {p: self._names[p] for p in frozen if metrics.unsupported == "error"}
        self._recorder = Recorder(self._model, [metric.layer.module for metric in self._metrics])
        settings = {**self._scheduled, **counters, "metrics": shapes}
        super().__init__(self._model.parameters(), settings)

    @property
    def n_inversions(self) -> int:
        """Number of times that the metrics were inverted."""
        return int(self.param_groups[0]["n_inversions"])

    @property
    def n_failures(self) -> int:
        """Number of blocks that could not be factored with the damping asked for."""
        return int(self.param_groups[0]["n_failures"])

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters, then the metrics.

        Parameters
        ----------
        closure : callable, optional
            Function that computes the gradient and returns the loss; it is called once.

        Returns
        -------
        Tensor or None
            The loss that the closure returned.

        Raises
        ------
        DivergenceError
            If a gradient is not finite, before any parameter changes; or if inputs or outputs of a
            layer are not finite, or too large to be squared.
        ModelError
            If there was no backward pass through the model since the last step, if its inputs, its
            precision or the set of its trainable parameters changed since then, or if a setting is
            out of range.

        Warns
        -----
        EbmWarning
            If a block needed more damping, or could not be inverted and keeps its old inverse.
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
            # G ← (1−λ) G + λ mean(ν x̃x̃ᵀ), for the layers that were called.
            for metric, n_rows in self._seen(self._recorder.passes).items():
                if metric in metrics:
                    metric.keep(self._state_of(metric), n_rows, group["decay"])
        last = group["last_inversion"]
        if metrics and (last is None or number - last >= group["period"]):
            group["last_inversion"] = number
            self._invert(metrics, group)
        self._recorder.clear()

    def _set(self, group: dict[str, Any], number: int) -> None:
        """Evaluate and check the settings of a step, if one is a function or was changed."""
        settings = [group[name] for name in SETTINGS]
        if settings == self._checked and not any(map(callable, self._schedules.values())):
            return
        require_untouched(self._schedules, group, self._scheduled)
        group.update(settings_at(number, self._schedules, group))
        self._scheduled, self._checked = dict(group), settings

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients, and the batches collected for the metrics.

        Parameters
        ----------
        set_to_none : bool
            Whether gradients become None rather than 0.
        """
        self._recorder.clear()
        super().zero_grad(set_to_none)

    def warm_start(self, batches: Iterable[Any]) -> None:
        """Set G = mean(ν x̃x̃ᵀ) over inputs, and G⁻¹ from it, instead of starting at I.

        All rows have equal weights. The model remains in its mode, of training or evaluation.

        Parameters
        ----------
        batches : iterable of Tensor or tuple
            Inputs of the model; a tuple holds its positional arguments.

        Raises
        ------
        ModelError
            If there is no row, or a batch is neither a tensor nor a tuple.
        DivergenceError
            If inputs or outputs of a layer are not finite, or too large to be squared.

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
                # A decay of B/n at every batch gives the plain mean; at the first it is 1.
                metric.keep(self._state_of(metric), n, size / n_rows if n_rows else 0.0)
        if not n_rows:
            raise ModelError("batches must hold at least one row to start from")
        self._invert(self._metrics, self.param_groups[0])

    def metric(self, layer: str) -> Tensor:
        """G of a layer, without damping.

        Parameters
        ----------
        layer : str
            Name of the layer in the model.

        Returns
        -------
        Tensor, (n, D, D)
            One block for each neuron, or a single one.

        Raises
        ------
        ModelError
            If no layer with a metric has that name.
        """
        for metric in self._metrics:
            if metric.layer.name == layer:
                # A copy, so that reading does not change when the waiting rows are averaged.
                state = metric.waiting(self._state_of(metric))
                state["metric"] = state["metric"].clone()
                metric.average(state)
                return symmetric(metric.matrices(state))
        names = [metric.layer.name for metric in self._metrics]
        raise ModelError(f"layer must be one of {names}, which have a metric; got {layer!r}")

    def describe(self) -> str:
        """The metrics of all parameters.

        Returns
        -------
        str
            One line for each layer: its parameters, kind of metric, number and size of the blocks.
        """
        measured = {p: metric for metric in self._metrics for p in metric.parameters}
        lines = []
        for parameter, name in self._names.items():
            plain = "plain" if parameter.requires_grad else "not learned"
            metric = measured.get(parameter)
            lines.append(f"{name}: {plain}" if metric is None else metric.describe())
        # Weight and bias of a layer give the same line.
        return "\n".join(dict.fromkeys(lines))

    def state_dict(self) -> dict[str, Any]:
        """The state for :meth:`load_state_dict`, with copies of rows not yet averaged."""
        by_parameter: dict[Any, LayerMetric] = {m.parameters[0]: m for m in self._metrics}
        order = {p: k for k, p in enumerate(self.param_groups[0]["params"])}
        saved: dict[str, Any] = super().state_dict()
        for parameter, state in self.state.items():
            saved["state"][order[parameter]] = by_parameter[parameter].waiting(state)
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved state, which does not include functions of the step.

        Parameters
        ----------
        state_dict : dict
            State from :meth:`state_dict`, whose tensors are copied.

        Raises
        ------
        ModelError
            If the state is not that of an optimizer with the same metrics.
        """
        require_same_metrics(state_dict, self.param_groups[0]["metrics"])
        super().load_state_dict(copy.deepcopy(state_dict))
        self._scheduled, self._checked = dict(self.param_groups[0]), []

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A copy would have no hooks on a model.
        raise ModelError(
            "a RelativeNaturalGradient can be neither copied nor pickled, as it watches its model: "
            "make a new one for the copied model and give it state_dict()"
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse a second group, as the parameters are those of the model.

        Parameters
        ----------
        param_group : dict
            The group that the constructor adds.

        Raises
        ------
        ModelError
            If there is a group already.
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
        """Number of rows of each layer in passes with the current weights; the rows are stored."""
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
    """The metrics of all layers of a model that are not plain, in the order of their use."""
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
    # A single transfer from the device; parameters may be on several devices.
    sums = [gradient.sum().to(found[0][1]) for _, gradient in found]
    if not sums or math.isfinite(float(torch.stack(sums).sum())):
        return
    for parameter, gradient in found:
        # A sum of finite terms may overflow.
        if not bool(gradient.isfinite().all()):
            name = names[parameter]
            raise DivergenceError(
                f"the gradient of {name!r} is not finite at step {number}; no parameter was "
                "changed: take a smaller lr or look at the inputs of this batch",
                update=number + 1,
                parameter=name,
            )


def require_frozen(names: Mapping[Parameter, str]) -> None:
    """Refuse a gradient of a parameter that was frozen when the metrics were made."""
    for parameter, name in names.items():
        if parameter.requires_grad and parameter.grad is not None:
            raise ModelError(
                f"{name!r} was frozen when the optimizer was made, so it has no metric: make a new "
                "optimizer once it learns"
            )


def require_same_metrics(state_dict: Any, own: list[Any]) -> None:
    """Refuse a state with other kinds or shapes of metrics."""
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
