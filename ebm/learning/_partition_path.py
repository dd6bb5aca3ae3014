"""ln Z along the parameters of a fit, by chains that the gradient does not see."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._iterate import State
from ebm._parallel import single_threaded_blas
from ebm._randomness import generator_of, words_of
from ebm._types import Array
from ebm.ensembles import Estimate
from ebm.errors import EbmError, ModelError
from ebm.learning._families import joint_model
from ebm.model import checked_energy
from ebm.sampling import BennettRatio, ChainState, Gibbs, log_partition
from ebm.sampling._chains import advance
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.annealing import SHARE

#: Variance of ln w that one step along the way is to have, and the most steps between two entries.
VARIANCE_OF_STEP = 0.01
MOST_STEPS = 50


@dataclass(frozen=True)
class PartitionPath:
    """ln Z(θ') = ln Z(θ) + ln Σ_c w_c e^{Δu_c}, Δu = Σ_k E_k(x) − E_{k+1}(x) on the way to θ'.

    Chains are those of the method at θ, with their weights. They weigh and move at models between
    θ and θ', as in annealing, so that the estimate of Z(θ')/Z(θ) has no bias. The chains of the
    gradient would have one: θ' − θ is made of the same draws.
    """

    method: Any

    def __post_init__(self) -> None:
        if isinstance(self.method, BennettRatio) and self.method.annealing.device is not None:
            raise EbmError(
                "log_partition follows its chains from entry to entry on the host: leave out "
                f"device={self.method.annealing.device!r} of its annealing"
            )
        if isinstance(self.method, BennettRatio) and self.method.starts is None:
            return
        if isinstance(self.method, type) or not callable(self.method):
            raise ModelError(
                "log_partition must be ebm.sampling.BennettRatio(…), without starts, or a function "
                f"from a model to an ensemble, such as ebm.exact; got {self.method!r}"
            )

    def start(self, model: Any, random: np.random.Generator) -> State:
        """ln Z by the method, and chains that go on from here."""
        if not isinstance(self.method, BennettRatio):
            return {"value": float(log_partition(model, self.method).value)}
        # Of a generator that was stored, no others can be spawned.
        source = np.random.default_rng(random.integers(0, 2**63, 4))
        model = _joint(model)
        works = self.method.works(model, source)
        found, forward = self.method.answer(works), works.forward
        return {
            "value": float(found.value),
            "error": float(found.standard_error),
            "log_weights": np.log(forward.weights),
            "gains": np.zeros(len(forward.states)),
            "states": np.asarray(forward.states, dtype=np.float64),
            "streams": new_streams(source, len(block_slices(len(forward.states)))),
            "rng": words_of(random),
        }

    def follow(self, family: Any, before: Array, after: Array, state: State) -> State:
        """The same at θ'; begun again by the method where few chains hold the weight."""
        if not isinstance(self.method, BennettRatio):
            return self.start(family.with_parameters(after), np.random.default_rng(0))
        sampler = self.method.annealing.sampler or Gibbs()
        models = [_joint(family.with_parameters(theta)) for theta in (before, after)]
        chains, gains = ChainState(state["states"], state["streams"]), state["gains"]
        with single_threaded_blas():
            spread = _gain(models[0], models[1], chains.states).std()
            n_steps = int(np.clip(math.ceil(spread**2 / VARIANCE_OF_STEP), 1, MOST_STEPS))
            model = models[0]
            for k in range(1, n_steps + 1):
                theta = before + k / n_steps * (after - before)
                last, model = model, _joint(family.with_parameters(theta))
                gains = gains + _gain(last, model, chains.states)
                chains = advance(model, sampler, chains, self.method.annealing.sweeps)
        state = {**state, "gains": gains, "states": chains.states, "streams": chains.streams}
        weights = np.exp(_shifted(state["log_weights"] + gains))
        if weights.sum() ** 2 < SHARE * len(weights) * (weights @ weights):
            return self.start(models[1], generator_of(state["rng"]))
        return state

    def estimate(self, state: Mapping[str, Any]) -> Estimate:
        """ln Z with the errors of the method and of the way since."""
        if "gains" not in state:
            return Estimate(state["value"], 0.0)
        weights, gains = np.exp(state["log_weights"]), state["gains"]
        largest = float(gains.max())
        terms = weights * np.exp(gains - largest)
        ratio, n_chains = terms.sum(), len(terms)
        # What each chain contributes to the logarithm of the ratio.
        spread = n_chains * (terms / ratio - weights)
        value = state["value"] + largest + math.log(ratio)
        return Estimate(value, math.hypot(state["error"], spread.std(ddof=1) / math.sqrt(n_chains)))


def _joint(model: Any) -> Any:
    """The model whose sweeps are compiled: of a marginal the joint one, of the same ln Z."""
    joint = joint_model(model)
    return model if joint is None else joint


def _gain(before: Any, after: Any, states: Array) -> Array:
    """E(x) − E'(x), (chains,)."""
    return checked_energy(before, states) - checked_energy(after, states)


def _shifted(logs: Array) -> Array:
    """Logarithms less their largest."""
    return np.asarray(logs - logs.max())
