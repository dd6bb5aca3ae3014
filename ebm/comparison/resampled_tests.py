"""Tests of equal couplings by draws: rows change groups, or come from a fit with them equal."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_integer, read_only
from ebm._checkpoints import fingerprint, fingerprints
from ebm._frames import frame
from ebm._jobs import Answer, Engine, loop, number_of_workers, run_jobs
from ebm._parallel import single_threaded_blas
from ebm._progress import ticker
from ebm._randomness import RandomSource, generator
from ebm._summary import Printed
from ebm._types import Array
from ebm.comparison._covariances import (
    benjamini_hochberg,
    heterogeneity,
    holm,
    scale_of_estimates,
    weighted_mean,
)
from ebm.comparison._group_text import printed_tests
from ebm.comparison._grouped_rows import Rows, of_group
from ebm.ensembles import Ensemble, IncompleteEnsemble, WeightedStates
from ebm.ensembles.incomplete import MISSING
from ebm.enumeration import exact
from ebm.errors import EbmError, EbmWarning, LimitError, MemoryLimitError
from ebm.inversion._rows import MOST_CASES, whole_counts
from ebm.learning import Likelihood, Penalty, fit
from ebm.learning.losses import Loss
from ebm.sampling import SamplingRun, effective_sample_size, sample, split_r_hat
from ebm.sampling.chain_estimate import LARGEST_R_HAT

__all__ = ["GlobalTest", "Plan", "ResampledTests", "resampled_tests"]

#: Statistics that differ by less, relatively, are equal.
ROUNDING = 1e-9
#: Sweeps of a chain for one row: in autocorrelation times, at least, and at most.
FADED, LEAST_SWEEPS, MOST_SWEEPS = 20, 100, 10_000


@dataclass(frozen=True)
class GlobalTest:
    """One statistic of all couplings with its p-value.

    Parameters
    ----------
    statistic : float
        The statistic of the data.
    p_value : float
        (1 + #{T* ≥ T}) / (1 + B).
    """

    statistic: float
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class ResampledTests(Printed):
    """Statistics of the differences between groups, with p-values (1 + #{T* ≥ T}) / (1 + B).

    The statistic of a coupling is √Q, Q = Σ_g (W_g − W̄)²/σ_g² about the weighted mean; of two
    groups it is ``|W − W'| / √(σ² + σ'²)``. σ is the standard error of a likelihood, and of a
    pseudo-likelihood √(H⁻¹/N), which is smaller than it by about √2 but steady where units are
    rarely on together: divided by sandwich errors, which are too small there, permutations raise
    false alarms in 48 % of cases that were tried, and no setting asks for them. ``print(tests)``
    prints tables.

    Parameters
    ----------
    null : str
        ``"permutations"`` of rows between groups, or ``"equal couplings"``, draws from the fit that
        has them.
    n_draws : int
        Number B of draws.
    n_failed : int
        Draws without an estimate at finite parameters. They count as at least as extreme as the
        data, so that p-values are no smaller than they would be with it.
    names : tuple of str, (k,)
        Names of the couplings.
    statistics, p_values : ndarray, (k,)
        Of single couplings, each by itself.
    p_max : ndarray, (k,)
        Against the largest statistic of each draw (maxT): any false alarm at all.
    structure : GlobalTest
        Largest statistic of all couplings.
    strength : GlobalTest
        √Q of the global strengths W̄ᵀW_g, the couplings of each group along their weighted mean W̄.
        Σ|W| of estimates is mostly noise where most couplings are near zero, and more of it in
        groups with fewer rows.
    n_sweeps : int or None
        Gibbs sweeps of the chain at whose end each row of a draw is; None without chains.
    """

    null: str
    n_draws: int
    n_failed: int
    names: tuple[str, ...]
    statistics: Array
    p_values: Array
    p_max: Array
    structure: GlobalTest
    strength: GlobalTest
    n_sweeps: int | None = None

    @property
    def p_holm(self) -> Array:
        """``p_values`` by Holm's procedure :cite:`holm1979`: any false alarm at all, (k,)."""
        return holm(self.p_values)

    @property
    def p_benjamini_hochberg(self) -> Array:
        """``p_values`` for a share of false alarms :cite:`benjamini1995`, (k,)."""
        return benjamini_hochberg(self.p_values)

    def __str__(self) -> str:
        return printed_tests(self)

    def __repr__(self) -> str:
        return (
            f"ResampledTests({self.null}, {self.n_draws} draws: structure "
            f"p={self.structure.p_value:.4g}, "
            f"strength p={self.strength.p_value:.4g})"
        )

    def to_frame(self) -> Any:
        """A pandas frame, one row for each coupling (needs the extra ``data``)."""
        columns = {
            "statistic": self.statistics,
            "p": self.p_values,
            "p_max": self.p_max,
            "p_holm": self.p_holm,
            "p_benjamini_hochberg": self.p_benjamini_hochberg,
        }
        return frame({"coupling": self.names, **columns}, "coupling")


@dataclass(frozen=True, eq=False)
class Plan:
    """What a draw is made of: distinct rows with their counts in each group, and how to fit them.

    Rows change groups where ``models`` are none; otherwise each group is drawn from its model,
    exactly, or by a chain of ``n_sweeps`` for each row, and lacks the cells that its rows lack.
    ``cells`` are states, or levels where cells are missing.
    """

    cells: NDArray[Any]
    counts: NDArray[np.int64]
    family: Any
    loss: Loss
    penalty: Penalty
    models: tuple[Any, ...]
    names: tuple[str, ...]
    by_chains: bool = False
    n_sweeps: int | None = None
    is_incomplete: bool = False

    @staticmethod
    def of(
        groups: Sequence[str],
        data: Sequence[Rows],
        family: Any,
        loss: Loss,
        penalty: Penalty,
        models: tuple[Any, ...],
        names: tuple[str, ...],
        by_chains: bool = False,
    ) -> Plan:
        """Equal rows of all groups together."""
        is_incomplete = isinstance(data[0], IncompleteEnsemble)
        cells = [
            rows.levels if isinstance(rows, IncompleteEnsemble) else rows.states for rows in data
        ]
        different, place = np.unique(np.concatenate(cells), axis=0, return_inverse=True)
        counts = np.zeros((len(data), len(different)))
        for g, rows in enumerate(np.split(place.ravel(), np.cumsum([len(each) for each in cells]))):
            if g < len(data):
                counts[g, rows] = data[g].weights * data[g].sample_size
        whole = np.empty(counts.shape, dtype=np.int64)
        for g, label in enumerate(groups):
            with of_group(label):
                whole[g] = whole_counts(counts[g], "rows are drawn")
        if not models and whole.sum() >= MOST_CASES:
            raise LimitError(
                f"permutations are drawn of fewer than {MOST_CASES:g} rows, got {whole.sum():g}: "
                "take the tests of equality"
            )
        parts = (different, whole, family, loss, penalty, models, names, by_chains)
        return Plan(*parts, is_incomplete=is_incomplete)

    @property
    def is_exact(self) -> bool:
        """Whether sums over all states are taken."""
        return isinstance(self.loss, Likelihood)

    def drawn(self, random: np.random.Generator) -> list[Rows]:
        """Groups of the same sizes."""
        sizes = self.counts.sum(axis=1)
        if self.models:
            try:
                return [
                    self._sampled(model, counts, random)
                    for model, counts in zip(self.models, self.counts, strict=True)
                ]
            except MemoryLimitError as error:
                raise MemoryLimitError(
                    f"each draw has as many rows as the data, {int(sizes.max())} in a group: take "
                    "the tests of equality, or divide the frequencies by a common factor"
                ) from error
        left = self.counts.sum(axis=0)
        groups: list[Rows] = []
        for size in sizes:
            counts = random.multivariate_hypergeometric(left, int(size))
            left = left - counts
            groups.append(self.rows(counts))
        return groups

    def _sampled(self, model: Any, counts: NDArray[np.int64], random: np.random.Generator) -> Rows:
        """Rows of a model, without the cells that the rows of a group lack."""
        states, space = self._states(model, int(counts.sum()), random), self.family.space
        if not self.is_incomplete:
            return Ensemble.from_data(states, space=space)
        is_missing = np.repeat(self.cells == MISSING, counts, axis=0)
        return IncompleteEnsemble.from_data(np.where(is_missing, np.nan, states), space=space)

    def _states(self, model: Any, size: int, random: np.random.Generator) -> NDArray[Any]:
        """Independent rows of a model: exact ones, or the ends of as many chains."""
        if not self.by_chains:
            return exact(model).sample(size, random)
        run = SamplingRun(n_jobs=1)
        draws = sample(model, n_draws=1, n_chains=size, burn_in=self.n_sweeps, rng=random, run=run)
        return draws.chains[:, 0]

    def checked(self, random: np.random.Generator) -> Plan:
        """With as many sweeps as chains need, which are refused where they do not mix."""
        if not (self.models and self.by_chains):
            return self
        n_sweeps = max(_sweeps_needed(model, random) for model in self.models)
        return replace(self, n_sweeps=n_sweeps)

    def rows(self, counts: NDArray[np.int64]) -> Rows:
        """The ensemble of the rows with these counts."""
        seen, total = counts > 0, int(counts.sum())
        cells, shares = self.cells[seen], counts[seen] / total
        shared: Any = {"space": self.family.space, "sample_size": float(total), "n_rows": total}
        if self.is_incomplete:
            return IncompleteEnsemble(levels=cells, weights=shares, **shared)
        return WeightedStates(states=cells, weights=shares, **shared)

    def estimates(self, groups: Sequence[Rows]) -> tuple[Array, Array]:
        """Couplings of groups that are fitted anew, (G, k), and their scales, (G, k, k)."""
        couples = np.asarray(self.family.is_coupling, dtype=bool)
        couplings, scales = [], []
        for rows in groups:
            result = fit(self.family, rows, loss=self.loss, penalty=self.penalty)
            if not result.converged:
                raise EbmError(result.message)
            couplings.append(result.model.parameters[couples])
            scale = scale_of_estimates(result, rows, self.penalty)
            scales.append(scale[np.ix_(couples, couples)])
        return np.array(couplings), np.array(scales)


def studentized(couplings: Array, scales: Array) -> tuple[Array, float]:
    """√Q of each coupling, (k,), and of the strengths W̄ᵀW_g, from (G, k) and (G, k, k).

    W̄ is the mean of all groups. Its errors and those of the differences are about independent.
    """
    variances = np.einsum("gkk->gk", scales)
    mean = weighted_mean(couplings, variances)
    of_strengths = np.einsum("k,gkl,l->g", mean, scales, mean)
    of_all = heterogeneity((couplings @ mean)[:, None], of_strengths[:, None])
    return heterogeneity(couplings, variances), float(of_all[0])


def resampled_tests(
    plan: Plan,
    n_draws: int,
    rng: RandomSource,
    *,
    executor: Engine | None,
    checkpoint: str | os.PathLike[str] | None,
    max_seconds: float,
    progress: bool = False,
) -> ResampledTests:
    """The statistics of the data among those of draws, one seed for each draw."""
    n_draws = as_integer(n_draws, "n_draws", least=1)
    with loop(), single_threaded_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore", EbmWarning)
        seeds = generator(rng).integers(0, 2**63, n_draws)
        plan = plan.checked(np.random.default_rng([int(seeds[0]), 1]))
        began = time.perf_counter()
        pairs, strength = studentized(*plan.estimates([plan.rows(row) for row in plan.counts]))
        plan.drawn(np.random.default_rng(0))
        seconds = n_draws * (time.perf_counter() - began) / number_of_workers(executor)
        if not seconds <= max_seconds:
            is_faster = plan.is_exact and not plan.is_incomplete
            faster = " loss=ebm.inversion.Pseudolikelihood()," if is_faster else ""
            raise LimitError(
                f"{n_draws} draws would take about {seconds:.0f} s, the limit is max_seconds="
                f"{max_seconds:g}: take fewer draws,{faster} or raise max_seconds and give an "
                "executor"
            )
    with loop(), single_threaded_blas():
        advance, close = ticker(progress, n_draws, "draw")
        try:
            answers = run_jobs(
                _drawn,
                seeds.tolist(),
                shared=(plan,),
                executor=executor,
                checkpoint=checkpoint,
                settings=_settings(plan, seeds),
                progress=lambda done: advance(),
            )
        finally:
            close()
    drawn = [answer for answer in answers if "pairs" in answer]
    of_pairs = np.array([answer["pairs"] for answer in drawn]).reshape(-1, len(pairs))
    of_strengths = np.array([float(answer["strength"]) for answer in drawn])
    largest = of_pairs.max(axis=1)
    p = partial(_p_value, n_draws=n_draws, n_failed=n_draws - len(drawn))
    return ResampledTests(
        null="equal couplings" if plan.models else "permutations",
        n_draws=n_draws,
        n_failed=n_draws - len(drawn),
        names=plan.names,
        statistics=read_only(pairs),
        p_values=read_only(p(of_pairs, pairs)),
        p_max=read_only(p(largest[:, None], pairs)),
        structure=GlobalTest(float(pairs.max()), float(p(largest, pairs.max()))),
        strength=GlobalTest(strength, float(p(of_strengths, strength))),
        n_sweeps=plan.n_sweeps,
    )


def _sweeps_needed(model: Any, random: np.random.Generator) -> int:
    """20 autocorrelation times of units and energy, of chains from uniform states that agree."""
    pilot = sample(model, n_draws=400, n_chains=64, rng=random, run=SamplingRun(n_jobs=1)).chains
    series = np.concatenate([pilot, model.energy(pilot)[..., None]], axis=-1)
    r_hat = float(np.nanmax(split_r_hat(series), initial=1.0))
    # Of units that never change the time is unknown, of slow ones it must not be.
    times = pilot.shape[0] * pilot.shape[1] / effective_sample_size(series)
    needed = FADED * float(np.nanmax(times, initial=1.0))
    if r_hat > LARGEST_R_HAT or not needed <= MOST_SWEEPS:
        raise EbmError(
            f"chains of the fit with equal couplings do not mix: split R-hat {r_hat:.3g}, and "
            f"{needed:.3g} sweeps for an independent row, where {LARGEST_R_HAT} and {MOST_SWEEPS} "
            "are the limits: take permutation_tests, which exchange rows"
        )
    return max(LEAST_SWEEPS, math.ceil(needed))


def _drawn(plan: Plan, seed: int) -> Answer:
    """The statistics of one draw, or why it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EbmWarning)
        groups = plan.drawn(np.random.default_rng(seed))
        try:
            pairs, strength = studentized(*plan.estimates(groups))
        except (EbmError, np.linalg.LinAlgError) as error:
            return {"failure": np.array(f"{type(error).__name__}: {error}")}
    return {"pairs": pairs, "strength": np.array(strength)}


def _p_value(drawn: Array, observed: Any, *, n_draws: int, n_failed: int) -> Any:
    """(1 + #{T* ≥ T}) / (1 + B); a draw without a statistic counts among the larger ones."""
    least = np.asarray(observed) * (1 - ROUNDING)
    return (1 + n_failed + (drawn >= least).sum(axis=0)) / (1 + n_draws)


def _settings(plan: Plan, seeds: NDArray[np.int64]) -> dict[str, str]:
    parts = (plan.cells, plan.counts, *(model.parameters for model in plan.models))
    return {
        "null hypothesis": "equal couplings" if plan.models else "permutations",
        "data": " ".join(fingerprint(part) for part in parts),
        "model": f"{type(plan.family).__name__} over {plan.family.space!r}",
        "loss": repr(plan.loss),
        "strength": "couplings along their mean",
        **fingerprints(plan.penalty),
        **({"sweeps": str(plan.n_sweeps)} if plan.n_sweeps else {}),
        # With more draws the first of them are the same.
        "rng": fingerprint(seeds[:2]),
    }
