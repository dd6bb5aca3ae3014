"""How probable each edge of a network is, given data and a prior."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from ebm._arrays import as_integer, as_number, as_seconds, read_only
from ebm._checkpoints import fingerprint
from ebm._frames import frame
from ebm._jobs import Answer, Engine, loop, run_jobs
from ebm._parallel import single_threaded_blas
from ebm._pictures import picture
from ebm._randomness import RandomSource, generator
from ebm._summary import MOST_ROWS, Summarized, Summary
from ebm._types import Array, Flags
from ebm.ensembles import Moments
from ebm.errors import (
    EbmError,
    LimitError,
    ModelError,
    PoorMixingWarning,
    warn,
)
from ebm.inversion._graph_evidence import HADAMARD_UNITS, GraphPosterior
from ebm.inversion._graph_walk import BURN_IN, NormalGraphs
from ebm.inversion._rows import as_ensemble
from ebm.sampling import effective_sample_size, split_r_hat
from ebm.spaces import Spins
from ebm.spaces._fixed_units import unit_position

__all__ = ["EdgePosterior", "EdgePrior", "edge_posterior"]

#: Most units, and most of which all graphs are summed.
MOST_UNITS, ALL_GRAPHS = 24, 5
#: Chains, and graphs of the normal approximation that are corrected exactly.
N_CHAINS, N_CORRECTED = 4, 100
#: Draws of the walk that are taken without being asked for.
N_DRAWS = 2000
#: Share of their weight in which the heaviest graphs may differ on an edge that they agree on.
AGREED = 0.05
#: Newton steps of a fit, seconds of one beside its sums, for each state and bit, and by products.
STEPS, SECONDS, SECONDS_PER_STATE, SECONDS_BY_PRODUCTS = 5, 1e-4, 3e-9, 4e-9
#: Acceptance and R-hat that a walk is not trusted beyond, and what chance adds to R̂² of short ones.
LEAST_ACCEPTED, MOST_R_HAT, BY_CHANCE = 0.05, 1.1, 6.0


@dataclass(frozen=True)
class EdgePrior:
    """Normal fields, and couplings that are absent, or normal, in ±1 units.

    h_i ~ N(0, s_h²); J_ij ~ N(0, s_J²) with probability π, else J_ij = 0. In ±1 units it does not
    matter which of its two values of a unit is called 1; W = 4J for {0,1} units.

    Parameters
    ----------
    field_width : float
        s_h.
    coupling_width : float
        s_J.
    edge_probability : float
        π, between 0 and 1.

    Raises
    ------
    EbmError
        If a width is not positive, or the probability is not between 0 and 1.

    Examples
    --------
    >>> import ebm
    >>> ebm.inversion.EdgePrior(edge_probability=0.2)
    EdgePrior(field_width=1.0, coupling_width=0.5, edge_probability=0.2)
    """

    field_width: float = 1.0
    coupling_width: float = 0.5
    edge_probability: float = 0.5

    def __post_init__(self) -> None:
        for name in ("field_width", "coupling_width"):
            if not 0 < as_number(getattr(self, name), name) < math.inf:
                raise EbmError(f"{name} must be positive, got {getattr(self, name)!r}")
        if not 0 < as_number(self.edge_probability, "edge_probability") < 1:
            raise EbmError(
                f"edge_probability must be between 0 and 1, got {self.edge_probability!r}"
            )


@dataclass(frozen=True, eq=False, repr=False)
class EdgePosterior(Summarized):
    """Probabilities of the edges of a network, given data and a prior.

    Parameters
    ----------
    space : Spins
        The units with their names.
    probabilities : ndarray, (n (n−1)/2,)
        P(edge | data) of the pairs i < j, row by row.
    errors : ndarray, (n (n−1)/2,)
        Standard error of each: Monte-Carlo error of the walk over graphs, and above 16 units the
        error of the normal approximation, too; 0 where all graphs were summed.
    prior : EdgePrior
        The prior, without which these probabilities have no meaning.
    sample_size : float
        Number of samples.
    graphs : ndarray of bool, (k, n (n−1)/2)
        The graphs of largest weight whose evidence was computed, at most 1024.
    log_evidences : ndarray, (k,)
        ln m(g) + ln prior(g) of each, in falling order.
    acceptance : float
        Share of accepted proposals of the walk; 1 where there was none.
    warnings : tuple of str
        Sentences that qualify the result.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.6, 0], [0.6, 0, 0], [0, 0, 0]], [0.1, 0.2, 0.0])
    >>> rows = ebm.Ensemble.from_data(ebm.exact(truth).sample(300, rng=1), space=ebm.Spins)
    >>> result = ebm.inversion.edge_posterior(rows)
    >>> result.matrix.round(2)
    array([[0.  , 1.  , 0.11],
           [1.  , 0.  , 0.15],
           [0.11, 0.15, 0.  ]])
    """

    space: Spins
    probabilities: Array
    errors: Array
    prior: EdgePrior
    sample_size: float
    graphs: Flags
    log_evidences: Array
    acceptance: float = 1.0
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"EdgePosterior({self.space.n} units, {self.probabilities.sum():.3g} of "
            f"{len(self.probabilities)} edges expected, largest error {self.errors.max():.2g}, "
            f"{self.prior!r})"
        )

    def _summary(self) -> Summary:
        pairs = list(itertools.combinations(self.space.labels, 2))
        values = (
            ("units", str(self.space)),
            ("rows", f"{self.sample_size:.6g}"),
            ("edges expected", f"{self.probabilities.sum():.3g} of {len(pairs)}"),
        )
        most = np.argsort(-self.probabilities, kind="stable")[:MOST_ROWS]
        rows = tuple(
            (" – ".join(pairs[k]), f"{self.probabilities[k]:.3f}", f"{self.errors[k]:.3f}")
            for k in most.tolist()
        )
        columns = ("edge", "probability", "Monte-Carlo error")
        return Summary(
            "EdgePosterior", values, columns, rows, len(pairs), notes=tuple(self.warnings)
        )

    def plot(self) -> Any:
        """The network beside the probabilities, :func:`ebm.plotting.edge_posterior`."""
        return picture("edge_posterior", self)

    @property
    def matrix(self) -> Array:
        """P(edge | data) of all pairs, (n, n), with a zero diagonal."""
        n = self.space.n
        matrix = np.zeros((n, n))
        matrix[np.triu_indices(n, 1)] = self.probabilities
        return matrix + matrix.T

    def probability(self, first: int | str, second: int | str) -> float:
        """P(edge | data) of a pair of units by number or by name.

        Raises
        ------
        EbmError
            If both are the same unit.
        """
        i, j = (unit_position(unit, self.space, "pair") for unit in (first, second))
        if i == j:
            raise EbmError(f"an edge joins two units, got {first!r} twice")
        return float(self.matrix[i, j])

    def to_frame(self) -> Any:
        """One row for each pair with its probability and error; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Columns ``source``, ``target``, ``probability`` and ``standard_error``.
        """
        i, j = np.triu_indices(self.space.n, 1)
        labels = np.array(self.space.labels, dtype=object)
        columns = {
            "source": labels[i],
            "target": labels[j],
            "probability": self.probabilities,
            "standard_error": self.errors,
        }
        return frame(columns)


def edge_posterior(
    data: Any,
    prior: EdgePrior | None = None,
    *,
    n_draws: int = N_DRAWS,
    rng: RandomSource = None,
    executor: Engine | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    max_seconds: float = 300.0,
) -> EdgePosterior:
    """Posterior probability of every edge of an Ising network.

    P(edge | data) = Σ_{g with the edge} m(g) prior(g) / Σ_g m(g) prior(g). The evidence m(g) of a
    graph is Laplace's approximation at the mode θ̂ of the *exact* likelihood, ln m =
    ln p(data | θ̂) + ln prior(θ̂) + (d/2) ln 2π − ½ ln det(N F + Λ) :cite:`mackay2003`. Up to five
    units all graphs are summed; up to 16 a Metropolis walk visits them, its proposals from the
    normal approximation at the mode of the full graph; up to 24 the walk is in this approximation,
    and the 100 heaviest graphs are corrected exactly, and the log odds of edges on which these
    agree by two more.

    Parameters
    ----------
    data : array_like, DataFrame, Table, Ensemble or Moments
        Rows of two-valued units in either coding, or their moments with a sample size.
    prior : EdgePrior, optional
        ``EdgePrior()`` if not given: widths 1 and 0.5 in ±1 units, edges with probability ½.
    n_draws : int
        Draws of the walk, from four chains. The error of a probability p is about √(p(1−p)/n_draws)
        where most proposals are accepted.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness; not used up to five units.
    executor : object with submit, optional
        Runs the chains in parallel: a pool of :mod:`concurrent.futures`, or of another engine.
    checkpoint : path-like, optional
        Folder to which finished chains are written, and from which a later call goes on.
    max_seconds : float
        Work that would take more seconds is refused before it begins.

    Returns
    -------
    EdgePosterior
        Probabilities with their errors, the prior, and the heaviest graphs.

    Raises
    ------
    LimitError
        If there are more than 24 units, or the work would exceed ``max_seconds``.
    CodingError
        If units are not two-valued.
    EbmError
        If the data are exact, have fewer than two units, or a setting is out of range.

    Notes
    -----
    Probabilities are calibrated where the prior is that of the couplings: of edges said to be there
    with probability .9, nine in ten are. With couplings all of one size they are off by up to .16.
    Rows count as independent. Below about 100 rows Laplace's approximation itself may be off by
    .01.

    Examples
    --------
    >>> import ebm
    >>> truth = ebm.IsingModel([[0, 0.6, 0], [0.6, 0, 0], [0, 0, 0]], [0.1, 0.2, 0.0])
    >>> rows = ebm.Ensemble.from_data(ebm.exact(truth).sample(300, rng=1), space=ebm.Spins)
    >>> print(round(ebm.inversion.edge_posterior(rows).probability(0, 1), 3))
    1.0
    """
    prior = _checked_prior(prior)
    n_draws = as_integer(n_draws, "n_draws", least=4 * N_CHAINS)
    limit = as_seconds(max_seconds)
    moments = _moments_of(data)
    n = moments.space.n
    require_affordable(n, limit, n_draws)
    known = GraphPosterior.of(moments, prior.field_width, prior.coupling_width)
    everything = np.ones(n * (n - 1) // 2, dtype=bool)
    seeds = generator(rng).integers(0, 2**63, N_CHAINS).tolist()
    with loop(), single_threaded_blas():
        full = known.mode(everything)
        graphs = NormalGraphs(known, full, prior.edge_probability)
        if n <= ALL_GRAPHS:
            return _by_all_graphs(graphs, moments, prior)
        per_chain = -(-n_draws // N_CHAINS)
        is_exact = n <= HADAMARD_UNITS
        settings = {
            "data": " ".join(fingerprint(x) for x in (known.mean, known.sample_size)),
            "prior": fingerprint(prior),
            "n_draws": str(per_chain),
            "rng": fingerprint(np.array(seeds)),
        }
        answers = run_jobs(
            _chain_of,
            seeds,
            shared=(graphs, per_chain, is_exact),
            executor=executor,
            checkpoint=checkpoint,
            settings=settings,
        )
        if is_exact:
            return _by_exact_chains(answers, moments, prior)
        return _by_normal_chains(answers, graphs, moments, prior)


def _chain_of(graphs: NormalGraphs, n_draws: int, is_exact: bool, seed: int) -> Answer:
    """One chain over graphs, on their exact or their normal posterior."""
    return (graphs.exact_chain if is_exact else graphs.normal_chain)(n_draws, seed)


def _by_all_graphs(graphs: NormalGraphs, moments: Moments, prior: EdgePrior) -> EdgePosterior:
    """The sum over all graphs of few units."""
    n_pairs = moments.space.n * (moments.space.n - 1) // 2
    every = np.array(list(itertools.product((False, True), repeat=n_pairs)))
    values = np.array([graphs.log_posterior(graph) for graph in every])
    weights = _normalized(values)
    order = np.argsort(-values, kind="stable")
    return EdgePosterior(
        space=_spins(moments),
        probabilities=read_only(np.clip(weights @ every, 0, 1)),
        errors=read_only(np.zeros(n_pairs)),
        prior=prior,
        sample_size=moments.sample_size,
        graphs=every[order],
        log_evidences=read_only(values[order]),
    )


def _by_exact_chains(answers: list[Answer], moments: Moments, prior: EdgePrior) -> EdgePosterior:
    """Frequencies of edges along the chains."""
    n_pairs = moments.space.n * (moments.space.n - 1) // 2
    chains = np.array([_unpacked(answer["graphs"], n_pairs) for answer in answers])
    acceptance = float(np.mean([answer["accepted"] for answer in answers]))
    visited = np.concatenate([_unpacked(answer["visited"], n_pairs) for answer in answers])
    values = np.concatenate([answer["log_weights"] for answer in answers])
    visited, first = np.unique(visited, axis=0, return_index=True)
    values = values[first]
    order = np.argsort(-values, kind="stable")[: 2 ** (ALL_GRAPHS * (ALL_GRAPHS - 1) // 2)]
    errors, doubts = _errors_of(chains.astype(np.float64), acceptance)
    return EdgePosterior(
        space=_spins(moments),
        probabilities=read_only(chains.mean(axis=(0, 1))),
        errors=read_only(errors),
        prior=prior,
        sample_size=moments.sample_size,
        graphs=visited[order],
        log_evidences=read_only(values[order]),
        acceptance=acceptance,
        warnings=doubts,
    )


def _by_normal_chains(
    answers: list[Answer], graphs: NormalGraphs, moments: Moments, prior: EdgePrior
) -> EdgePosterior:
    """Conditional probabilities along the chains, shifted by what exact evidences change.

    P = P_q + w (P_m − P_q on the heaviest graphs), w their share of the draws; edges on which these
    agree have their log odds shifted. The error is what is not known of the other graphs: their
    share, whose log is off by as much as evidences of the heaviest vary about those of q, and the
    shift within them, as large as that of this edge; and for every edge the usual shift of log
    odds, which is too much where the heaviest graphs are nearly all.
    """
    n_pairs = moments.space.n * (moments.space.n - 1) // 2
    chains = np.array([answer["probabilities"] for answer in answers])
    drawn = np.concatenate([_unpacked(answer["graphs"], n_pairs) for answer in answers])
    visited, counts = np.unique(drawn, axis=0, return_counts=True)
    approximate = np.array([graphs.log_weight(graph) for graph in visited])
    heaviest = np.argsort(-approximate, kind="stable")[:N_CORRECTED]
    chosen, approximate = visited[heaviest], approximate[heaviest]
    values = np.array([graphs.log_posterior(graph) for graph in chosen])
    share = counts[heaviest].sum() / counts.sum()
    by_chains = chains.mean(axis=(0, 1))
    errors, doubts = _errors_of(chains, 1.0)
    among = _normalized(approximate) @ chosen
    shift = _normalized(values) @ chosen - among
    agreed = np.minimum(among, 1 - among) < AGREED
    log_odds = np.zeros(n_pairs)
    log_odds[~agreed] = (shift / np.maximum(among * (1 - among), AGREED**2))[~agreed]
    log_odds[agreed] = [_log_odds_shift(graphs, chosen[0], int(k)) for k in np.flatnonzero(agreed)]
    probabilities = np.where(
        agreed, _shifted(by_chains, log_odds), np.clip(by_chains + share * shift, 0, 1)
    )
    usual = math.sqrt(float((log_odds[~agreed] ** 2).mean())) if not agreed.all() else 0.0
    others = np.delete(visited, heaviest, axis=0)
    weights = np.delete(counts, heaviest)
    elsewhere = weights @ others / max(1, weights.sum())
    unknown = (
        share * (1 - share) * float((values - approximate).std()) * (among - elsewhere),
        np.where(agreed, probabilities - by_chains, (1 - share) * shift),
        usual * probabilities * (1 - probabilities),
        errors,
    )
    order = np.argsort(-values, kind="stable")
    return EdgePosterior(
        space=_spins(moments),
        probabilities=read_only(probabilities),
        errors=read_only(np.linalg.norm(unknown, axis=0)),
        prior=prior,
        sample_size=moments.sample_size,
        graphs=chosen[order],
        log_evidences=read_only(values[order]),
        warnings=doubts,
    )


def _log_odds_shift(graphs: NormalGraphs, graph: Flags, edge: int) -> float:
    """What the exact evidence changes in the log odds of an edge, the others as in this graph."""
    present, absent = graph.copy(), graph.copy()
    present[edge], absent[edge] = True, False
    exact = graphs.log_posterior(present) - graphs.log_posterior(absent)
    return exact - graphs.log_weight(present) + graphs.log_weight(absent)


def _shifted(probabilities: Array, log_odds: Array) -> Array:
    """p eᵟ / (p eᵟ + 1 − p), by logarithms that neither side overflows."""
    larger = np.maximum(log_odds, 0.0)
    one = probabilities * np.exp(log_odds - larger)
    other = (1 - probabilities) * np.exp(-larger)
    return np.asarray(one / (one + other))


def _errors_of(chains: Array, acceptance: float) -> tuple[Array, tuple[str, ...]]:
    """Monte-Carlo errors of the means, (chain, draw, edge) -> (edge,), and doubts about them.

    An edge that never changed has p = ½ of a draw, and the fewest effective draws of the others.
    """
    n_draws = chains.shape[0] * chains.shape[1]
    size = effective_sample_size(chains)
    fewest = np.nanmin(size) if np.isfinite(size).any() else max(1.0, acceptance * n_draws)
    is_constant = ~np.isfinite(size)
    size = np.where(is_constant, fewest, size)
    p = 0.5 / (n_draws + 1)
    variance = np.where(is_constant, p * (1 - p), chains.var(axis=(0, 1)))
    r_hat = split_r_hat(chains)
    largest = float(np.nanmax(r_hat)) if np.isfinite(r_hat).any() else 1.0
    return np.sqrt(variance / size), _doubts(acceptance, largest, chains.shape[1] // 2)


def _doubts(acceptance: float, r_hat: float, length: int) -> tuple[str, ...]:
    """Warn of walks that have not mixed."""
    notes = []
    if acceptance < LEAST_ACCEPTED:
        notes.append(
            f"the walk over graphs accepted {acceptance:.1%} of its proposals: errors of the "
            "probabilities may be too small; take a larger n_draws"
        )
    if r_hat**2 > MOST_R_HAT**2 + BY_CHANCE / length:
        notes.append(
            f"the chains over graphs differ (R-hat {r_hat:.2f}): errors of the probabilities may "
            "be too small; take a larger n_draws"
        )
    for note in notes:
        warn(note, PoorMixingWarning)
    return tuple(notes)


def _moments_of(data: Any) -> Moments:
    """Moments of ±1 with a number of samples."""
    moments: Moments = as_ensemble(data).moments()
    if not math.isfinite(moments.sample_size) or not moments.sample_size > 0:
        raise EbmError(
            "a posterior needs a number of samples, and these moments are exact: set sample_size "
            "in the Moments, or sample from the model"
        )
    moments = moments.two_valued().to(Spins)
    if moments.space.n < 2:
        raise EbmError("an edge joins two units, and the data have only one")
    return moments


def _checked_prior(prior: Any) -> EdgePrior:
    if prior is None:
        return EdgePrior()
    if not isinstance(prior, EdgePrior):
        raise ModelError(f"prior must be ebm.inversion.EdgePrior(…), got {prior!r}")
    return prior


def require_affordable(n: int, max_seconds: float, n_draws: int = N_DRAWS) -> tuple[float, float]:
    """Exact fits and seconds at most; more units than 24 and work beyond the limit are refused."""
    if n > MOST_UNITS:
        raise LimitError(
            f"the posterior of the edges of {n} units would need the exact likelihood of each "
            f"graph, the limit is {MOST_UNITS} units: choose fewer, or take "
            "ebm.inversion.bootstrap of a pseudo-likelihood"
        )
    n_pairs = n * (n - 1) // 2
    n_features = n + n_pairs
    if n <= HADAMARD_UNITS:
        n_fits = 2**n_pairs if n <= ALL_GRAPHS else (1 + BURN_IN) * n_draws
        one = SECONDS + SECONDS_PER_STATE * n * 2**n + 1e-10 * n_features**3
    else:
        n_fits = N_CORRECTED + n_pairs
        one = SECONDS_BY_PRODUCTS * 2**n + 1e-10 * n_features**3
    walk = 0.0 if n <= ALL_GRAPHS else n_draws * n_pairs * n_features**2 * 3e-10
    seconds = STEPS * n_fits * one + walk
    if seconds > max_seconds:
        raise LimitError(
            f"the posterior of {n_pairs} edges would take up to {n_fits:.0f} exact fits and about "
            f"{seconds:.0f} s, allowed are {max_seconds:.0f} s: raise max_seconds, lower n_draws, "
            "or choose fewer units"
        )
    return float(n_fits), seconds


def _normalized(logs: Array) -> Array:
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _unpacked(bits: Any, n_pairs: int) -> Flags:
    return np.asarray(np.unpackbits(bits, axis=1, count=n_pairs).astype(bool))


def _spins(moments: Moments) -> Spins:
    return Spins(moments.space.n, names=moments.space.names)
