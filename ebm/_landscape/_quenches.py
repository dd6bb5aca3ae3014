"""Valleys met by quenches from random states and from draws, and what was missed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ebm._jobs import Engine
from ebm._landscape._descent import Descent, Neighbors, distinct
from ebm._landscape._energies import TIE, seconds_per_energy
from ebm._landscape._rows import states_of
from ebm._landscape._tree import ValleyEdges, in_order
from ebm._types import Array, Indices
from ebm.ensembles import Estimate
from ebm.enumeration._limits import Limits
from ebm.errors import ShapeError
from ebm.forms import offered_form
from ebm.model import EnergyModel
from ebm.sampling import ParallelTempering, Samples, SamplingRun, sample
from ebm.spaces import FiniteSpace

#: Independent chains of draws, scans before the first draw and from one draw to the next.
N_CHAINS, BURN_IN, THIN = 128, 200, 5
#: Scans that place the temperatures, and seconds of a call of a model's own energy.
N_TRIALS, SECONDS_PER_CALL = 1550, 3e-4
#: Share of states missed from which on a list of minima is completed: rounds of quenches from
#: changed minima within half of the time, until several in a row find nothing new.
NEARLY_ALL, ROUNDS, PATIENCE = 0.1, 100, 20
#: Groups of quenches that must have met a valley for an error of its share.
FEWEST = 5
#: Seconds of one distance between two minima, for each unit, and of its place among them.
SECONDS_TO_COMPARE, SECONDS_TO_SORT = 5e-10, 1e-7
#: Nearest minima to which paths are tried, and the deepest ones to which all others try theirs:
#: fewer of very many minima, about so many paths in all.
N_NEAREST, N_DEEPEST, N_PATHS = 12, 3, 30_000


class Quenched(NamedTuple):
    """Minima (k, n), energies, degeneracies, shares and weights, (k,), and what was missed."""

    descent: Descent
    minima: Indices
    energies: Array
    degeneracies: Indices
    shares: Estimate
    weights: Estimate
    missed_share: Estimate
    missed_weight: Estimate
    n_draws: int


def given_draws(space: FiniteSpace, samples: Any) -> Array:
    """Draws in independent groups, (groups, draws, n): chains, or rows by themselves."""
    rows = states_of(space, samples, "samples")
    if rows.ndim != (3 if isinstance(samples, Samples) else 2) or len(rows) < 2:
        raise ShapeError(
            f"samples must be two independent chains, or rows, or more, got shape {rows.shape}: "
            "one chain does not tell what it missed; draw with n_chains=8"
        )
    return np.asarray(rows if rows.ndim == 3 else rows[:, None])


def tempered_draws(
    model: EnergyModel, space: FiniteSpace, n_quenches: int, max_seconds: float, rng: Any
) -> Array:
    """Draws by parallel tempering, (chains, draws, n)."""
    n_sweeps = BURN_IN + THIN * n_quenches / N_CHAINS
    if offered_form(model) is None:
        # One call for each unit of about ten temperatures, and of the trials of the ladder.
        calls = 10.0 * space.n * (N_TRIALS + n_sweeps)
        energies = 10.0 * space.n * N_CHAINS * n_sweeps
        Limits(max_seconds=max_seconds).require(
            f"parallel tempering of {space.n} units by their energies",
            calls * SECONDS_PER_CALL + energies * seconds_per_energy(model),
            0.0,
            'give draws, such as those of a joint model, as samples, with method="quenches"',
        )
    placing, drawing = rng.spawn(2)
    n_draws = -(-n_quenches // N_CHAINS)
    ladder = ParallelTempering.for_model(model, rng=placing)
    options: dict[str, Any] = {"n_chains": N_CHAINS, "burn_in": BURN_IN, "rng": drawing}
    drawn = sample(model, ladder, n_draws=n_draws, run=SamplingRun(thin=THIN), **options)
    return np.asarray(space.check(drawn.chains))


def quench(
    model: EnergyModel,
    space: FiniteSpace,
    draws: Array,
    n_quenches: int,
    n_rounds: int,
    rng: Any,
    executor: Engine | None = None,
) -> Quenched:
    """Steepest descent from draws, from uniform states, and from minima of which units are changed.

    Shares, weights and what was missed are estimated from draws and uniform states alone.
    """
    uniform = rng.integers(space.n_values, size=(n_quenches, space.n))
    starts = np.concatenate([uniform, space.levels(draws).reshape(-1, space.n)])
    neighbors = Neighbors(model, space)
    energies = neighbors.energies(starts)
    possible = energies[np.isfinite(energies)]
    descent = Descent(neighbors, TIE * float(np.abs(possible).max(initial=0)), executor)
    ends, counts = descent.descend(starts)
    known, first, places = distinct(ends)
    sizes = counts[first]
    is_nearly_all = missed(places[:n_quenches, None]).value <= NEARLY_ALL
    in_vain = 0 if is_nearly_all else PATIENCE
    for _ in range(n_rounds):
        if in_vain == PATIENCE:
            break
        # Small basins lie beside others: of all that are known some units are drawn anew.
        kicked = known[rng.integers(len(known), size=n_quenches)]
        is_drawn = rng.random(kicked.shape) < rng.uniform(0, 1, (n_quenches, 1))
        anew = rng.integers(space.n_values, size=kicked.shape)
        more, of_more = descent.descend(np.where(is_drawn, anew, kicked))
        before, all_sizes = len(known), np.concatenate([sizes, of_more])
        known, first, _ = distinct(np.concatenate([known, more]))
        sizes = all_sizes[first]
        in_vain = in_vain + 1 if len(known) == before else 0
    depths = neighbors.energies(known)
    order = in_order(depths, descent.tie)
    labels = distinct(np.concatenate([known, ends]))[2][len(known) :]
    place = np.argsort(order)[labels]
    of_uniform = place[:n_quenches, None]
    of_draws = place[n_quenches:].reshape(draws.shape[:2])
    k = len(known)
    return Quenched(
        descent,
        known[order],
        depths[order],
        sizes[order],
        shares_of(of_uniform, k),
        shares_of(of_draws, k),
        missed(of_uniform),
        missed(of_draws),
        of_draws.size,
    )


def affordable(
    model: EnergyModel, space: FiniteSpace, n_starts: int, n_quenches: int, max_seconds: float
) -> tuple[int, int]:
    """Rounds of quenches, and paths between minima, for which there is time.

    Refused before it begins is what leaves no time for one path from each minimum.
    """
    near = Neighbors(model, space)
    # A quench changes about a third of the units, a path at most half of them, there and back.
    per_quench, per_path = near.seconds(1.0, 3 + space.n / 3), near.seconds(2.0, space.n / 2)
    distances = n_starts**2 * (SECONDS_TO_SORT + SECONDS_TO_COMPARE * space.n)
    least = n_starts * (per_quench + per_path) + distances
    Limits(max_seconds=max_seconds).require(
        f"{n_starts} quenches of {space.n} units, and paths between their minima,",
        least,
        0.0,
        "lower n_quenches",
    )
    spare = max_seconds - least
    n_rounds = int(min(ROUNDS, 0.5 * spare / (n_quenches * per_quench)))
    spare -= n_rounds * n_quenches * per_quench
    return n_rounds, int(min(N_PATHS, n_starts + spare / per_path))


def shares_of(labels: Indices, k: int) -> Estimate:
    """Share of each valley, the mean over independent groups of labels (groups, draws), (k,).

    The error is that between groups, NaN of valleys that fewer than five have met, or ever left.
    """
    n_groups, n_draws = labels.shape
    groups = np.arange(n_groups)[:, None]
    counts = np.bincount((groups * k + labels).ravel(), minlength=n_groups * k)
    shares = counts.reshape(n_groups, k) / n_draws
    errors = shares.std(axis=0, ddof=1) / math.sqrt(n_groups)
    n_met, n_left = (shares > 0).sum(axis=0), (shares < 1).sum(axis=0)
    is_rare = np.minimum(n_met, n_left) < FEWEST
    note = (
        f"{is_rare.sum()} valleys were met, or left, too rarely for an error"
        if is_rare.any()
        else ""
    )
    freedom = n_groups - 1
    mean = shares.mean(axis=0)
    return Estimate(mean, np.where(is_rare, np.nan, errors), degrees_of_freedom=freedom, note=note)


def missed(labels: Indices) -> Estimate:
    r"""Probability that a new draw lies in a valley that no draw was in (Good and Turing).

    Of independent groups c = 1 … G, each with shares w_c of the valleys, it is the mean over
    groups of what lies in valleys that no other group has met, Σ_{met by one} w_c / G. Its error is
    √(Σ_{met by one} w_c² + 2 Σ_{met by c, d alone} w_c w_d) / G, and no less than 1/G.
    """
    n_groups, n_draws = labels.shape
    k = int(labels.max()) + 1
    keys, counts = np.unique(np.arange(n_groups)[:, None] * k + labels, return_counts=True)
    valley, share = keys % k, counts / n_draws
    n_met = np.bincount(valley, minlength=k)
    total, square = np.bincount(valley, share, k), np.bincount(valley, share**2, k)
    one, two = n_met == 1, n_met == 2
    value = float(total[one].sum()) / n_groups
    variance = float(square[one].sum()) + float((total[two] ** 2 - square[two]).sum())
    return Estimate(value, math.sqrt(max(variance, 1.0)) / n_groups)


def bounds_on_passes(quenched: Quenched, n_paths: int) -> tuple[ValleyEdges, Indices]:
    """Upper bounds by paths from each minimum to its nearest and to the deepest; highest states."""
    minima = quenched.minima
    k = len(minima)
    n_deepest = min(k, max(1, min(N_DEEPEST, n_paths // (4 * k))))
    # In a model whose paths take long those to the deepest are all.
    fewest = 3 if n_paths == N_PATHS else 0
    n_nearest = max(fewest, min(N_NEAREST, n_paths // k - n_deepest))
    pairs = {(deep, i) for deep in range(n_deepest) for i in range(deep + 1, k)}
    packed = minima.astype(np.min_scalar_type(int(minima.max(initial=0))))
    for i in range(k):
        distances = (packed != packed[i]).sum(axis=1)
        for j in np.argsort(distances, kind="stable")[1 : n_nearest + 1].tolist():
            pairs.add((min(i, j), max(i, j)))
    ends = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    heights, tops = np.empty(len(ends)), np.empty((len(ends), minima.shape[1]), np.int64)
    for start in range(0, len(ends), 2**10):
        block = slice(start, start + 2**10)
        there, back = minima[ends[block, 0]], minima[ends[block, 1]]
        both = quenched.descent.highest_between(
            np.concatenate([there, back]), np.concatenate([back, there])
        )
        height, top = both[0].reshape(2, -1), both[1].reshape(2, len(there), -1)
        lower = height.argmin(axis=0)
        heights[block] = height.min(axis=0)
        tops[block] = top[lower, np.arange(len(there))]
    # Of forbidden states between two minima nothing is known.
    is_path = np.isfinite(heights)
    return ValleyEdges(ends[is_path], heights[is_path], np.flatnonzero(is_path)), tops
