"""ln Z from annealing both ways: Bennett's acceptance ratio, and thermodynamic integration."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ebm._jobs import Engine, require_engine
from ebm._parallel import single_threaded_blas
from ebm._progress import ticker
from ebm._randomness import RandomSource, generator
from ebm._types import Array
from ebm.ensembles import Estimate
from ebm.enumeration import exact
from ebm.errors import EbmError, LimitError, ModelError, ShapeError
from ebm.model import EnergyModel
from ebm.sampling._annealed_chains import annealed_back, positions_of, steps_or_jobs, swept_at_end
from ebm.sampling._annealing_paths import path_to
from ebm.sampling._chains import require_allowed
from ebm.sampling._streams import block_slices, new_streams
from ebm.sampling.annealing import (
    ROUGH,
    SHARE,
    AnnealedSamples,
    Annealing,
    annealed,
)
from ebm.sampling.partition_estimate import LogPartition
from ebm.sampling.samples import ChainState

__all__ = ["BennettRatio", "ThermodynamicIntegration"]

#: Seconds that exact sums may take in place of an estimate, or for the starts of reverse chains.
AFFORDABLE = 5.0
#: Chains of either direction that must hold an estimate, for its error to cover ln Z.
FEWEST_SHARED = 10
#: Sweeps between the two directions where the chains turn round, in steps of one of them.
TURN = 0.25


@dataclass(frozen=True, eq=False)
class Works:
    """u = ln Z₀ + ln w of chains to a model and back from it; ⟨e^u⟩ = Z, and 1/⟨e^−u⟩ back."""

    forward: AnnealedSamples
    down: Array
    #: Weights of the states that the reverse chains started from, summing to 1, (n_reverse,).
    weights: Array
    #: Whether reverse chain c is the continuation of forward chain c.
    turned: bool
    #: What the reverse chains started from.
    origin: str

    @property
    def up(self) -> Array:
        """u of the forward chains, (n_chains,)."""
        return self.forward.log_weights

    @property
    def bounds(self) -> tuple[Estimate, Estimate]:
        """⟨u⟩ forward ≤ ln Z ≤ ⟨u⟩ reverse, on average."""
        middle = float(self.weights @ self.down)
        spread = len(self.down) * self.weights * (self.down - middle)
        return (
            Estimate(float(self.up.mean()), self.error(self.up, np.zeros(1))),
            Estimate(middle, self.error(np.zeros(1), spread)),
        )

    def error(self, up: Array, down: Array) -> float:
        """Standard error of a sum of two means, with that of the first step of the path."""
        parts = [up + down] if self.turned else [up, down]
        variances = [x.var(ddof=1) / len(x) for x in parts if len(x) > 1]
        start = self.forward.start
        return math.sqrt(sum(variances) + start.relative_error**2 + start.size**-2)

    @property
    def effective_size(self) -> float:
        """1/Σw² of the weights of the reverse starts."""
        return float(1 / (self.weights @ self.weights))


@dataclass(frozen=True)
class _TwoWayAnnealing(ABC):
    """Chains to a model and back from it along the same path, in the same steps."""

    annealing: Annealing = field(default_factory=lambda: Annealing(n_steps=500))
    starts: Any = None

    #: The name of the method in its answer.
    _name = ""

    def __post_init__(self) -> None:
        if not isinstance(self.annealing, Annealing):
            raise ModelError(f"annealing must be ebm.Annealing(…), got {self.annealing!r}")

    def log_partition(
        self,
        model: EnergyModel,
        rng: RandomSource = None,
        *,
        progress: bool = False,
        executor: Engine | None = None,
    ) -> LogPartition:
        """ln Z from chains to the model and back from it; jobs are blocks of 256 chains one way."""
        return self.answer(self.works(model, generator(rng), progress, executor))

    @abstractmethod
    def _estimate(self, works: Works) -> tuple[float, float, float, str]:
        """ln Z, its error, the number of chains that hold it, and why the error may be wrong."""

    def answer(self, works: Works) -> LogPartition:
        """ln Z of works, and whether its error is to be trusted, in a sentence."""
        n_chains, n_steps = len(works.up), len(positions_of(self.annealing)) - 1
        how = (
            f"annealing of {n_chains} chains in {n_steps} steps, and of {len(works.down)} back "
            f"from {works.origin}"
        )
        value, error, size, doubt = self._estimate(works)
        first = works.forward.start.effective_size
        if first < SHARE * n_chains:
            doubt = f"{first:.1f} starts are effective at the first step"
        if works.turned and works.effective_size < SHARE * n_chains:
            doubt = (
                f"{works.effective_size:.1f} of {n_chains} chains are effective where they turn "
                f"round, and {SHARE:.0%} had to be"
            )
        if size < FEWEST_SHARED:
            doubt = f"{size:.1f} chains hold the estimate, and {FEWEST_SHARED} had to"
        error *= ROUGH if works.turned else 1.0
        if doubt:
            error, doubt = math.nan, f"{doubt}: raise n_steps, or n_chains"
        return LogPartition(value, error, self._name, size, *works.bounds, how, note=doubt)

    @single_threaded_blas()
    def works(
        self,
        model: EnergyModel,
        source: np.random.Generator,
        progress: bool = False,
        executor: Engine | None = None,
    ) -> Works:
        """Chains both ways."""
        require_engine(executor)
        settings, path = self.annealing, path_to(model, source)
        tick, close = ticker(progress, *steps_or_jobs(settings, executor, 2))
        samples = annealed(settings, path, source, tick, executor=executor)
        states, origin = self._drawn(model, source)
        turned = states is None
        if turned:
            sweeps = max(1, round(TURN * settings.sweeps * len(positions_of(settings))))
            streams = new_streams(source, len(block_slices(len(samples.states))))
            chains = ChainState(samples.states, streams)
            states = swept_at_end(settings, path, chains, sweeps)
            origin = f"their ends, {sweeps} sweeps on, by their weights"
        down = annealed_back(settings, path, states, source, tick, executor)
        close()
        down += path.log_partition + samples.start.log_mean
        weights = samples.weights if turned else np.full(len(states), 1 / len(states))
        return Works(samples, down, weights, turned, origin)

    def _drawn(self, model: EnergyModel, source: np.random.Generator) -> tuple[Any, str]:
        """States that are draws of the model, if there are any, and what they are."""
        if self.starts is not None:
            try:
                states = model.space.check(self.starts)
            except EbmError as problem:
                raise type(problem)(f"starts of reverse chains: {problem}") from problem
            if states.ndim != 2 or len(states) < 2:
                raise ShapeError(
                    f"starts must be at least two states (n_starts, {model.space.n}), got "
                    f"{states.shape}"
                )
            require_allowed(model, states)
            return states, "the starts given"
        try:
            draws = exact(model, max_seconds=AFFORDABLE).sample(self.annealing.n_chains, source)
        except (LimitError, ModelError):
            return None, ""
        return draws, "exact draws"


@dataclass(frozen=True)
class BennettRatio(_TwoWayAnnealing):
    """ln Z by Bennett's acceptance ratio between annealing to a model and back from it.

    Σ_forward σ(u − f − m) = Σ_reverse σ(f + m − u) at f = ln Z, with u = ln Z₀ + ln w of a chain, w
    as in :class:`ebm.Annealing`, and m = ln(N_forward / N_reverse) :cite:`bennett1976,crooks2000`.
    Reverse chains start from exact draws where these take less than five seconds. Elsewhere they
    are the forward chains turned round, with their weights, and both bounds rest on the forward
    chains.

    The error is that of the ratio, √(N_f Var a + N_r Var b) / Σ(a(1 − a) + b(1 − b)), a and b the
    summands of both sides. It is NaN where fewer than ten chains of either direction hold the sum,
    and where less than 70 % of the chains are effective when they turn round; where more are it is
    taken 1.1 times, as that of :class:`ebm.Annealing`.

    Parameters
    ----------
    annealing : Annealing
        Path, chains, steps and sweeps of either direction: 100 chains and 500 steps if not given,
        as many sweeps in all as of ``ebm.Annealing()``.
    starts : array_like, (n_starts, n), optional
        Draws from the model for reverse chains, such as the last states of long chains. That they
        are such draws is not tested.

    Raises
    ------
    ModelError
        If ``annealing`` is not an :class:`ebm.Annealing`.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> ratio = ebm.sampling.BennettRatio(ebm.Annealing(n_chains=400, n_steps=20))
    >>> estimate = ratio.log_partition(pair, rng=0)
    >>> bool(estimate.lower.value < ebm.exact(pair).log_partition < estimate.upper.value)
    True
    """

    _name = "Bennett's ratio"

    def _estimate(self, works: Works) -> tuple[float, float, float, str]:
        value, up, down, size = bennett(works.up, works.down, works.weights)
        return value, works.error(up, down), size, ""


@dataclass(frozen=True)
class ThermodynamicIntegration(_TwoWayAnnealing):
    """ln Z by integration of ⟨−∂E/∂s⟩ along the path of annealing, there and back.

    ln Z = ½(⟨u⟩_f + ⟨u⟩_r) + (Var_f u − Var_r u)/12, u as in :class:`ebm.sampling.BennettRatio`:
    the trapezoidal rule with the difference of its end slopes. What chains lag behind their model
    has opposite signs on both ways. The error is NaN where the correction is more than half of it,
    so that terms beyond it matter.

    Parameters
    ----------
    annealing, starts
        As of :class:`ebm.sampling.BennettRatio`.

    Raises
    ------
    ModelError
        If ``annealing`` is not an :class:`ebm.Annealing`.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.BoltzmannMachine([[0, 2], [2, 0]], [0.5, -1])
    >>> estimate = ebm.log_partition(pair, ebm.sampling.ThermodynamicIntegration(), rng=0)
    >>> bool(abs(estimate.value - ebm.exact(pair).log_partition) < 5 * estimate.standard_error)
    True
    """

    _name = "thermodynamic integration"

    def _estimate(self, works: Works) -> tuple[float, float, float, str]:
        up, down, weights = works.up, works.down, works.weights
        middle = float(weights @ down)
        # Summands of the two halves, whose means are ½⟨u⟩ ± Var u / 12.
        first = up / 2 + (up - up.mean()) ** 2 / 12
        second = down / 2 - (down - middle) ** 2 / 12
        value = float(first.mean() + weights @ second)
        correction = value - (float(up.mean()) + middle) / 2
        spread = len(down) * weights * (second - weights @ second)
        error = works.error(first, spread)
        doubt = ""
        if abs(correction) > error / 2:
            doubt = f"end slopes contribute {correction:.2g}, and terms beyond are not small"
        return value, error, min(float(len(up)), works.effective_size), doubt


def bennett(up: Array, down: Array, weights: Array) -> tuple[float, Array, Array, float]:
    """f with Σ_up σ(u − f − m) = N_down Σ_down w σ(f + m − u), m = ln(N_up/N_down).

    N_down is the effective number of weights w. Then what each chain contributes to the error of f,
    up and down, (n_up,) and (n_down,), and the effective number of chains that hold the smaller of
    both sums.
    """
    from scipy.special import expit

    n_up, n_down = len(up), float(1 / (weights @ weights))
    m = math.log(n_up / n_down)
    finite = up[np.isfinite(up)]
    # Counted from a work, f keeps its digits where ln Z is large.
    origin = float(finite.max())
    up, down, finite = up - origin, down - origin, finite - origin
    low = float(min(finite.min(), down.min())) - 50
    high = float(max(finite.max(), down.max())) + 50
    f = high
    while high - low > 1e-12 * max(1.0, abs(high)) and low < (low + high) / 2 < high:
        f = (low + high) / 2
        balance = expit(up - f - m).sum() - n_down * (weights @ expit(f + m - down))
        low, high = (f, high) if balance > 0 else (low, f)
    a, b = expit(up - f - m), expit(f + m - down)
    slope = (a * (1 - a)).sum() + n_down * (weights @ (b * (1 - b)))
    # Far from both, σ is exponential and its slope is its size.
    parts = n_up * (a - a.mean()), -n_down * len(down) * weights * (b - weights @ b)
    shares = a / a.sum(), weights * b / (weights @ b)
    size = min(float(1 / (share @ share)) for share in shares)
    return origin + f, parts[0] / slope, parts[1] / slope, size
