"""Updates of the action by optimizers of torch, and their state as arrays."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ebm._arrays import as_number
from ebm.errors import DivergenceError, ModelError
from ebm.networks._labelled_rows import Batches, LabelledRows, StepBlocks
from ebm.networks.action._energy import MLPEnergy, logits
from ebm.networks.action.action_expansion import series_of_block
from ebm.networks.action.modules import as_module, load_parameters, parameters_of
from ebm.networks.action.terms import HIGHEST_ORDER, closed_forms
from ebm.networks.series._surprise import surprise, surprise_series

OptimizerFactory = Callable[[nn.Sequential], torch.optim.Optimizer]
Schedule = float | Callable[[int], float]

#: Steps between checks of the losses on devices other than the CPU.
CHECK_EVERY = 32
#: Steps at which a schedule of the learning rate is evaluated for the settings of a checkpoint.
PROBES = (0, 1, 10, 100, 1000, 10_000)
#: Optimizers by name: class, and settings besides the learning rate.
NAMED: dict[str, tuple[Any, dict[str, Any]]] = {
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "lbfgs": (torch.optim.LBFGS, {"line_search_fn": "strong_wolfe"}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "sgd": (torch.optim.SGD, {}),
}
_NAMES = {"logits.weight": "U", "logits.bias": "c", "hidden.weight": "W", "hidden.bias": "b"}


class Updates:
    """A network of torch with its optimizer and the number of updates.

    An interrupted line search is undone as a whole; other updates delay Ctrl-C to their end.
    """

    def __init__(
        self,
        action: MLPEnergy,
        theta: Tensor,
        batches: Batches,
        make: str | OptimizerFactory,
        lr: Schedule | None,
    ) -> None:
        self._action, self._batches, self._lr = action, batches, lr
        self.network = as_module(action, theta)
        self.forward: Any = self.network
        self.mixed_precision = False
        self._optimizer = _made(make, self.network)
        set_rate(self._optimizer, lr, 0)
        step = inspect.signature(type(self._optimizer).step).parameters.get("closure")
        self._has_line_search = step is not None and step.default is inspect.Parameter.empty
        self._decay = action.prior_precision / action.scale
        self._per_epoch = batches.per_epoch()
        self._ahead: Iterator[StepBlocks] | None = None
        self._pending: list[Tensor] = []
        self._total, self._count = 0.0, 0
        #: θ and ∇S_E at the record before, and its step; a DivergenceError returns this θ.
        self.anchor: tuple[Tensor, Tensor] | None = None
        self.anchor_step = 0
        self.step = 0

    @property
    def theta(self) -> Tensor:
        """The parameters as they are now, (d,)."""
        return parameters_of(self.network)

    @property
    def rate(self) -> float:
        """The learning rate of the optimizer's first group; NaN if it has none."""
        return float(self._optimizer.param_groups[0].get("lr", math.nan))

    def settings(self) -> dict[str, str]:
        """The optimizer and its learning rate in words."""
        lr = self._lr
        return {
            "learning rate": str(_probed(lr) if callable(lr) else lr),
            "optimizer": " ".join(repr(self._optimizer).split()),
        }

    def update(self) -> None:
        """One update, whole or not at all."""
        on_cpu = self._action.device.type == "cpu"
        set_rate(self._optimizer, self._lr, self.step)
        batch = self._next_batch()
        if self._has_line_search:
            loss = self._search(batch)
        else:
            loss = self._loss(batch)
            # On other devices reading the loss would wait for the device.
            if on_cpu and not math.isfinite(loss):
                self._diverged(self.step + 1, f"the loss is {float(loss)}")
            with _held_off():
                try:
                    self._optimizer.step()
                except DivergenceError as error:
                    self._diverged(self.step + 1, str(error).split(":")[0])
                self.step += 1
        self._pending.append(torch.as_tensor(loss).detach())
        if on_cpu or len(self._pending) >= CHECK_EVERY or self.step % self._per_epoch == 0:
            self.check()

    def _next_batch(self) -> StepBlocks:
        number, within = divmod(self.step, self._per_epoch)
        if self._ahead is None or within == 0:
            self._ahead = self._batches.epoch(number, within)
        return next(self._ahead)

    def _search(self, batch: StepBlocks) -> Tensor:
        """A step that evaluates the loss repeatedly, as that of L-BFGS."""
        # An interrupt leaves the parameters at a trial point.
        before, memory, is_whole = self.theta, copy.deepcopy(self._optimizer.state_dict()), False
        # Torch annotates closures as returning floats, and works with tensors.
        step: Any = self._optimizer.step
        try:
            loss: Tensor = step(lambda: self._loss(batch))
            is_whole = True
        finally:
            if not is_whole:
                load_parameters(self._action, self.network, before)
                self._remember(memory)
                self._ahead = None
        self.step += 1
        return loss

    def _remember(self, memory: dict[str, Any]) -> None:
        """Restore a state of the optimizer."""
        self._optimizer.load_state_dict(memory)
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        for number, values in memory["state"].items():
            if isinstance(number, int):
                # torch has cast these to the dtype of the parameter, as mu_product of NAdam.
                tensors = {key: x for key, x in values.items() if isinstance(x, Tensor)}
                self._optimizer.state[parameters[number]] |= tensors

    @torch.enable_grad()
    def _loss(self, batch: StepBlocks) -> Tensor:
        """S on a batch, with the gradient of E/κ left in the parameters."""
        device, dtype = self._action.device, self._action.dtype
        self._optimizer.zero_grad()
        total = torch.zeros((), device=device, dtype=dtype)
        for block in batch():
            with torch.autocast(device.type, torch.bfloat16, enabled=self.mixed_precision):
                f = self.forward(block.inputs)
            loss = surprise(f.to(dtype), block.labels) @ block.weights
            loss.backward()
            total += loss.detach()
        if not self._decay:
            return total
        squares = [parameter.square().sum() for parameter in self.network.parameters()]
        prior = 0.5 * self._decay * torch.stack(squares).sum()
        prior.backward()
        # A line search needs the function whose gradient this is.
        return total + prior.detach() if self._has_line_search else total

    def check(self) -> None:
        """Raise DivergenceError for the first loss, or first parameters, that are not finite."""
        if not self._pending:
            return
        losses = torch.stack(self._pending).to("cpu", torch.float64)
        first = self.step - len(losses) + 1
        self._pending = []
        bad = (~torch.isfinite(losses)).nonzero().flatten().tolist()
        if bad:
            self._diverged(first + bad[0], f"the loss is {float(losses[bad[0]])}")
        sums = torch.stack([p.detach().sum() for p in self.network.parameters()])
        if not bool(torch.isfinite(sums).all()):
            for name, parameter in self.network.named_parameters():
                if not bool(torch.isfinite(parameter).all()):
                    self._diverged(self.step, f"{_NAMES[name]} is not finite after it")
        self._total += float(losses.sum())
        self._count += len(losses)

    def mean_loss(self) -> float:
        """Mean of S over the batches since the last call; NaN if there were none."""
        mean = self._total / self._count if self._count else math.nan
        self._total, self._count = 0.0, 0
        return mean

    def require_finite(self, name: str, value: float) -> None:
        """Refuse a measurement that is not finite."""
        if not math.isfinite(value):
            self._diverged(self.step, f"{name} is {value}")

    def _diverged(self, step: int, what: str) -> None:
        largest = {
            _NAMES[name]: float(p.detach().abs().nan_to_num(math.inf, math.inf).max())
            for name, p in self.network.named_parameters()
        }
        worst = max(largest, key=lambda name: largest[name])
        anchor = "" if self.anchor is None else f"; error.model holds θ at step {self.anchor_step}"
        raise DivergenceError(
            f"the minimization diverged at step {step}, with learning rate "
            f"{self.rate:g}: {what}, max|{worst}| = {largest[worst]:.3g}; take a "
            f"smaller lr, or scale the inputs{anchor}",
            update=step,
            parameter=worst,
            model=None if self.anchor is None else self.anchor[0].cpu().numpy(),
        )

    def arrays(self) -> dict[str, Callable[[], Any]]:
        """Functions that copy each part of the state, as tensors of torch change in place."""
        return {
            "theta": lambda: array_of(self.theta),
            "optimizer": lambda: _flat(self._optimizer.state_dict()),
            "step": lambda: self.step,
            "losses": lambda: np.array([self._total, self._count], dtype=np.float64),
            "anchor": lambda: stacked(self.anchor),
            "anchor_step": lambda: self.anchor_step,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state."""
        device = self._action.device
        load_parameters(self._action, self.network, torch.from_numpy(state["theta"]).to(device))
        self._remember(_nested(state["optimizer"], device))
        self.step, self.anchor_step = state["step"], state["anchor_step"]
        self._total, self._count = float(state["losses"][0]), int(state["losses"][1])
        anchor = torch.tensor(state["anchor"], device=device)
        self.anchor = (anchor[0], anchor[1]) if len(anchor) else None
        self._ahead, self._pending = None, []


@contextmanager
def _held_off() -> Iterator[None]:
    """Delay Ctrl-C to the end of an update."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[tuple[Any, Any]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught and callable(before):
        before(*caught[0])


def _made(make: str | OptimizerFactory, network: nn.Sequential) -> torch.optim.Optimizer:
    """The optimizer of a name, or the one that a function makes for the network."""
    if isinstance(make, str):
        if make not in NAMED:
            raise ModelError(
                f"optimizer must be one of {', '.join(NAMED)}, or a function from the network to a "
                f"torch.optim.Optimizer; got {make!r}"
            )
        kind, settings = NAMED[make]
        named: torch.optim.Optimizer = kind(network.parameters(), **settings)
        return named
    wanted = (
        "optimizer must be a function from the network to a torch.optim.Optimizer of its "
        "parameters, such as lambda network: torch.optim.SGD(network.parameters(), lr=0.1); "
    )
    if not callable(make):
        raise ModelError(f"{wanted}got {type(make).__name__}")
    try:
        optimizer = make(network)
    except TypeError as error:
        if isinstance(make, type):
            raise ModelError(f"{wanted}got the class {make.__name__}") from error
        raise
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ModelError(f"{wanted}it gave {type(optimizer).__name__}")
    known = {id(parameter) for parameter in network.parameters()}
    if not all(id(p) in known for group in optimizer.param_groups for p in group["params"]):
        raise ModelError(f"{wanted}it gave one with parameters that are not those of the network")
    return optimizer


def set_rate(optimizer: torch.optim.Optimizer, lr: Schedule | None, step: int) -> None:
    """Set the learning rate of an optimizer for a step; None leaves it unchanged."""
    if lr is None:
        return
    value = as_number(lr(step) if callable(lr) else lr, "lr")
    if not 0 <= value < math.inf:
        raise ModelError(
            f"lr must be a finite number that is not negative, got {value!r} at step {step}"
        )
    for group in optimizer.param_groups:
        group["lr"] = value


def _probed(schedule: Callable[[int], float]) -> list[float]:
    """Learning rates of a schedule at :data:`PROBES`, up to its last step."""
    rates = []
    for step in PROBES:
        try:
            rates.append(float(schedule(step)))
        except Exception:
            # A user's schedule may raise anything beyond the last step of its run.
            break
    return rates


def array_of(tensor: Tensor) -> Any:
    """A copy on the host."""
    return tensor.detach().cpu().numpy().copy()


def stacked(tensors: tuple[Tensor, ...] | None) -> Any:
    """Vectors as the rows of an array, (0,) for None."""
    return np.zeros(0) if tensors is None else np.stack([array_of(tensor) for tensor in tensors])


def _flat(state: Any) -> dict[str, Any]:
    """A nested state of an optimizer as arrays: its tensors by number, all else as a JSON text."""
    arrays: dict[str, Any] = {}

    def described(value: Any) -> Any:
        if isinstance(value, Tensor):
            name = str(len(arrays))
            arrays[name] = array_of(value)
            return {"tensor": name, "on_host": value.device.type == "cpu"}
        if isinstance(value, dict):
            return {"dict": [[key, described(part)] for key, part in value.items()]}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [described(part) for part in value]}
        return value

    text = json.dumps(described(state))
    return {"text": np.array(text), **arrays}


def _nested(flat: Mapping[str, Any], device: torch.device) -> Any:
    """The inverse of :func:`_flat`."""

    def restored(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            tensor = torch.from_numpy(np.array(flat[value["tensor"]]))
            return tensor if value["on_host"] else tensor.to(device)
        ((kind, parts),) = value.items()
        if kind == "dict":
            return {key: restored(part) for key, part in parts}
        return (list if kind == "list" else tuple)(restored(part) for part in parts)

    return restored(json.loads(str(flat["text"])))


class Measurement:
    """S in nats, the weighted accuracy, and ∇S, (d,), on the rows of a system."""

    def __init__(self, system: MLPEnergy, theta: Tensor) -> None:
        leaf = theta.detach().clone().requires_grad_()
        self.gradient = torch.zeros_like(theta)
        self.action = self.accuracy = 0.0
        for block in system.rows.blocks(system.block_size()):
            with torch.enable_grad():
                f = logits(system.blocks_of(leaf), block.inputs, system.activation)
                share = surprise(f, block.labels) @ block.weights
            (slope,) = torch.autograd.grad(share, leaf)
            self.gradient += slope
            self.action += float(share.detach())
            self.accuracy += float(((f.argmax(-1) == block.labels) * block.weights).sum())


def series_of(
    system: MLPEnergy, theta: Tensor, order: int | None
) -> tuple[list[float], dict[str, float]]:
    """S_0 … S_K along the ray through θ and the closed forms by name; empty without an order.

    There is no warning if t = 1 lies outside the radius of convergence, as it does at nearly every
    trained θ.
    """
    if order is None:
        return [], {}
    blocks, total = system.blocks_of(theta), theta.new_zeros(order + 1)
    with torch.no_grad():
        for block in system.rows.blocks(system.block_size(order=order)):
            _, orders = series_of_block(system, blocks, block, order)
            total += surprise_series(orders, block)
        terms = closed_forms(system, theta, min(order, HIGHEST_ORDER)).terms
    return total.tolist(), dict(terms)


def digest_of(rows: LabelledRows) -> str:
    """A digest of rows that is the same in every process."""
    digest = hashlib.blake2b(digest_size=8)
    for block in rows.blocks(4096):
        for part in block:
            digest.update(array_of(part).tobytes())
    return f"{rows.n_rows}, {rows.n_inputs}, {digest.hexdigest()}"
