"""The loop of a minimization: batches, updates, records, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebm.errors import DivergenceError
from ebm.networks import _stored_runs
from ebm.networks._plans import Bar, Plan
from ebm.networks._rows import Batches, StepBlocks
from ebm.networks._torch_optimizers import made, needs_closure, probed, rate, set_rate
from ebm.networks.action._energy import MLPEnergy
from ebm.networks.action.modules import as_module, load_parameters, parameters_of
from ebm.networks.series._surprise import surprise
from ebm.networks.training_record import Monitor, TrainingRecord, angle

__all__ = ["Descent"]

#: Steps between looks at the losses on other devices than the CPU.
CHECK_EVERY = 32
_NAMES = {"logits.weight": "U", "logits.bias": "c", "hidden.weight": "W", "hidden.bias": "b"}


class Descent:
    """A minimization that can be stopped and taken up."""

    def __init__(
        self,
        action: MLPEnergy,
        theta: Tensor,
        batches: Batches,
        monitor: Monitor,
        plan: Plan,
        marks: Callable[[], Mapping[str, str]],
    ) -> None:
        self._action, self._batches, self._monitor, self._plan = action, batches, monitor, plan
        self._network = as_module(action, theta)
        self._forward: Any = torch.compile(self._network) if plan.compiled else self._network
        self._optimizer = made(plan.optimizer, self._network, plan.lr)
        self._needs_closure = needs_closure(self._optimizer)
        self._marks = self._all_marks(marks) if plan.checkpoint is not None else {}
        self._decay = action.prior_precision / action.scale
        self._before: Tensor | None = None
        self._pending: list[Tensor] = []
        self._batch_total, self._batch_count = 0.0, 0
        self._best: Tensor | None = None
        self._best_step, self._best_action = 0, math.inf
        self._anchor: tuple[Tensor, Tensor] | None = None
        self._calm = 0
        self.step = 0
        self.records: list[TrainingRecord] = []
        self.seconds = self.monitor_seconds = 0.0

    def theta(self) -> Tensor:
        """The parameters as they are now."""
        return parameters_of(self._network)

    def best(self) -> tuple[Tensor, int]:
        """The parameters at the lowest S_E of the records, or the last ones, and their step."""
        return (self.theta(), self.step) if self._best is None else (self._best, self._best_step)

    def run(self, progress: bool) -> str:
        """Go on until the end."""
        path = self._plan.checkpoint
        if path is not None and Path(path).exists():
            self._resume(_stored_runs.read(path, self._marks, self._action.device))
        elif path is not None:
            _stored_runs.require_writable(path)
        bar = Bar(progress, self._plan.n_steps, self.step, self.seconds)
        since, before = time.perf_counter(), self.seconds
        try:
            if self._plan.monitor_every and not self.records:
                self._record(bar)
            while self.step < self._plan.n_steps and not self._is_calm():
                self._epoch(bar, lambda: before + time.perf_counter() - since)
            if self._plan.monitor_every and self.records[-1].step < self.step:
                self._record(bar)
        except KeyboardInterrupt:
            if self._before is not None:
                load_parameters(self._action, self._network, self._before)
            return "interrupted"
        finally:
            self.seconds = before + time.perf_counter() - since
            bar.close()
        return "stopped" if self._is_calm() else "epochs"

    def sentence(self, reason: str) -> str:
        """Why the loop ended, and what the records took."""
        words = {
            "epochs": f"{self.step} steps done",
            "stopped": f"stopped after {self.step} steps: S_E no longer fell in {self._calm} "
            "records in a row",
            "interrupted": f"interrupted after {self.step} steps",
        }
        share = self.monitor_seconds / self.seconds if self.seconds else 0.0
        return f"{words[reason]}; records took {share:.0%} of {self.seconds:.3g} s"

    def _epoch(self, bar: Bar, elapsed: Callable[[], float]) -> None:
        """The rest of an epoch."""
        plan = self._plan
        number, skip = divmod(self.step, plan.per_epoch)
        for batch in self._batches.epoch(number, skip):
            self._update(batch)
            bar.tick()
            if plan.monitor_every and self.step % plan.monitor_every == 0:
                self._record(bar)
            if plan.checkpoint is not None and (
                self.step % plan.checkpoint_every == 0
                or self.step == plan.n_steps
                or self._is_calm()
            ):
                self._check()
                self.seconds = elapsed()
                _stored_runs.write(plan.checkpoint, self._marks, self._state())
            if self._is_calm():
                return
        self._check()

    def _update(self, batch: StepBlocks) -> None:
        on_cpu = self._action.device.type == "cpu"
        set_rate(self._optimizer, self._plan.lr, self.step)
        if self._needs_closure:
            # A line search leaves the parameters at a trial point when it is interrupted.
            self._before = self.theta()
            # Torch says that a closure returns a float, and works with tensors.
            step: Any = self._optimizer.step
            loss: Tensor = step(lambda: self._loss(batch))
            self._before = None
        else:
            loss = self._loss(batch)
            # Elsewhere a look would wait for the device.
            if on_cpu and not math.isfinite(loss):
                self._diverged(self.step + 1, f"the loss is {float(loss)}")
            try:
                self._optimizer.step()
            except DivergenceError as error:
                self._diverged(self.step + 1, str(error).split(":")[0])
        self.step += 1
        self._pending.append(torch.as_tensor(loss).detach())
        if on_cpu or len(self._pending) >= CHECK_EVERY:
            self._check()

    @torch.enable_grad()
    def _loss(self, batch: StepBlocks) -> Tensor:
        """S on a batch, with the gradient of E/κ left in the parameters."""
        device, dtype = self._action.device, self._action.dtype
        self._optimizer.zero_grad()
        total = torch.zeros((), device=device, dtype=dtype)
        for block in batch():
            with torch.autocast(device.type, torch.bfloat16, enabled=self._plan.mixed_precision):
                logits = self._forward(block.inputs)
            loss = surprise(logits.to(dtype), block.labels) @ block.weights
            loss.backward()
            total += loss.detach()
        if not self._decay:
            return total
        squares = [parameter.square().sum() for parameter in self._network.parameters()]
        prior = 0.5 * self._decay * torch.stack(squares).sum()
        prior.backward()
        # A line search needs what the gradient belongs to.
        return total + prior.detach() if self._needs_closure else total

    def _check(self) -> None:
        """Stop at the first loss, or the first parameters, that are not finite."""
        if not self._pending:
            return
        losses = torch.stack(self._pending).to("cpu", torch.float64)
        first = self.step - len(losses) + 1
        self._pending = []
        bad = (~torch.isfinite(losses)).nonzero().flatten().tolist()
        if bad:
            self._diverged(first + bad[0], f"the loss is {float(losses[bad[0]])}")
        sums = torch.stack([p.detach().sum() for p in self._network.parameters()])
        if not bool(torch.isfinite(sums).all()):
            self._require_finite_parameters()
        self._batch_total += float(losses.sum())
        self._batch_count += len(losses)

    def _require_finite_parameters(self) -> None:
        for name, parameter in self._network.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                self._diverged(self.step, f"{_NAMES[name]} is not finite after it")

    def _diverged(self, step: int, what: str) -> None:
        largest = {
            _NAMES[name]: float(p.detach().abs().nan_to_num(math.inf, math.inf).max())
            for name, p in self._network.named_parameters()
        }
        worst = max(largest, key=lambda name: largest[name])
        anchor = self.records[-1].step if self._anchor is not None and self.records else None
        kept = "" if anchor is None else f"; error.model holds θ at step {anchor}"
        raise DivergenceError(
            f"the minimization diverged at step {step}, with learning rate "
            f"{rate(self._optimizer):g}: {what}, max|{worst}| = {largest[worst]:.3g}; take a "
            f"smaller lr, or scale the inputs{kept}",
            update=step,
            parameter=worst,
            model=None if self._anchor is None else self._anchor[0].cpu().numpy(),
        )

    def _record(self, bar: Bar) -> None:
        started = time.perf_counter()
        self._check()
        theta = self.theta()
        here, there = self._monitor.measure(theta)
        for name, found in (("S_T", here), ("S_E", there)):
            if found is not None and not math.isfinite(found.action):
                self._diverged(self.step, f"{name} is {found.action}")
        gradient = torch.zeros_like(theta) if there is None else there.gradient
        product, cosine = (math.nan, math.nan) if there is None else angle(here.gradient, gradient)
        moved = math.nan
        if there is not None and self._anchor is not None:
            moved = float(self._anchor[1] @ (theta - self._anchor[0]))
            self._calm = self._calm + 1 if moved >= 0 else 0
        series, terms = self._monitor.series(theta)
        record = TrainingRecord(
            step=self.step,
            epoch=self.step / self._plan.per_epoch,
            learning_rate=rate(self._optimizer),
            batch_action=self._batch_total / self._batch_count if self._batch_count else math.nan,
            training_action=here.action,
            validation_action=math.nan if there is None else there.action,
            training_accuracy=here.accuracy,
            validation_accuracy=math.nan if there is None else there.accuracy,
            gradient_product=product,
            gradient_cosine=cosine,
            update_product=moved,
            series=series,
            terms=terms,
        )
        self.records.append(record)
        self._anchor, self._batch_total, self._batch_count = (theta, gradient), 0.0, 0
        if there is not None and there.action < self._best_action:
            self._best, self._best_step, self._best_action = theta, self.step, there.action
        self.monitor_seconds += time.perf_counter() - started
        bar.show(record, self.monitor_seconds)

    def _is_calm(self) -> bool:
        return self._plan.patience is not None and self._calm >= self._plan.patience

    def _state(self) -> dict[str, Any]:
        """All that changes."""
        return {
            "theta": self.theta(),
            "key": self._batches.key,
            "optimizer": self._optimizer.state_dict(),
            "step": self.step,
            "records": [asdict(record) for record in self.records],
            "anchor": None if self._anchor is None else list(self._anchor),
            "best": self._best,
            "best_step": self._best_step,
            "best_action": self._best_action,
            "calm": self._calm,
            "batches": [self._batch_total, self._batch_count],
            "seconds": [self.seconds, self.monitor_seconds],
        }

    def _resume(self, state: Mapping[str, Any]) -> None:
        load_parameters(self._action, self._network, state["theta"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step, self._calm = state["step"], state["calm"]
        self.records = [TrainingRecord(**record) for record in state["records"]]
        anchor = state["anchor"]
        self._anchor = None if anchor is None else (anchor[0], anchor[1])
        self._best, self._best_step = state["best"], state["best_step"]
        self._best_action = state["best_action"]
        self._batch_total, self._batch_count = state["batches"]
        self.seconds, self.monitor_seconds = state["seconds"]

    def _all_marks(self, marks: Callable[[], Mapping[str, str]]) -> dict[str, str]:
        action, lr = self._action, self._plan.lr
        shapes = ", ".join(f"{name} {shape}" for name, shape in action.shapes.items())
        return {
            **marks(),
            "model": f"{shapes}, {action.activation.name}, scale {action.scale}, "
            f"prior_precision {action.prior_precision}, {action.dtype}",
            "rows": _stored_runs.digest_of(action.rows),
            "learning rate": str(probed(lr) if callable(lr) else lr),
            "optimizer": " ".join(repr(self._optimizer).split()),
            "monitor_every": str(self._plan.monitor_every),
            "mixed_precision": str(self._plan.mixed_precision),
            "compiled": str(self._plan.compiled),
        }
