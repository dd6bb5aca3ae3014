"""Walks over graphs: in the normal approximation at the full mode, corrected by exact evidences.

At the mode of the full graph the posterior is about normal with precision H. Setting the couplings
of absent edges to zero in it (the ratio of Savage and Dickey) gives the weight of every graph,

    ln q(g) = ½ b_Sᵀ H_SS⁻¹ b_S − ½ ln det H_SS + ½ Σ_S ln λ + |edges| ln π/(1−π),   b = H θ̂,

with S the fields and the edges of g, which single edges change by one pivot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ebm._jobs import Answer
from ebm._types import Array, Flags
from ebm.inversion._graph_evidence import GraphPosterior, Mode, solved

#: Updates of single edges in a proposal, for each edge; they are halved while few are accepted.
UPDATES = 2
#: Share of the draws that are made before, to adjust proposals, and proposals between adjustments.
BURN_IN, TRIALS = 0.1, 20
#: Share of accepted proposals below which the next ones are shorter.
FEW = 0.25
#: Proposals after which the table is made anew: pivots collect rounding.
FRESH = 50


@dataclass(eq=False)
class NormalGraphs:
    """The weights q(g) of all graphs from the mode of the full one."""

    posterior: GraphPosterior
    full: Mode
    edge_probability: float
    #: Evidences that are known already.
    known: dict[bytes, float] = field(default_factory=dict)

    @property
    def log_prior_odds(self) -> float:
        """ln π/(1−π)."""
        return math.log(self.edge_probability) - math.log1p(-self.edge_probability)

    def table(self, graph: Flags) -> Array:
        """(H, b; bᵀ, 0) with the fields and the edges of a graph swept in."""
        from ebm._kernels.graph_sums import sweep

        hessian, slope = self.full.hessian, self._slope
        table = np.block([[hessian, slope[:, None]], [slope, np.zeros(1)]])
        for k in self.posterior.features(graph):
            sweep(table, k, False)
        return table

    def log_weight(self, graph: Flags) -> float:
        """ln q(g), up to a constant."""
        on = self.posterior.features(graph)
        slope = self._slope[on]
        root, mean = solved(self.full.hessian[np.ix_(on, on)], slope)
        log_prior = 0.5 * np.log(self.posterior.precision[on]).sum()
        edges = self.log_prior_odds * np.count_nonzero(graph)
        return float(0.5 * slope @ mean - np.log(root.diagonal()).sum() + log_prior + edges)

    def start(self, graph: Flags) -> Array:
        """The conditional mean, from which the mode of a graph is a few steps away."""
        on = self.posterior.features(graph)
        return solved(self.full.hessian[np.ix_(on, on)], self._slope[on])[1]

    def log_posterior(self, graph: Flags) -> float:
        """ln m(g) + ln prior(g), the exact likelihood at its mode; each graph is fitted once."""
        key = np.packbits(graph).tobytes()
        value = self.known.get(key)
        if value is None:
            evidence = self.posterior.mode(graph, self.start(graph)).log_evidence
            n_edges, n_pairs = np.count_nonzero(graph), len(graph)
            absent = (n_pairs - n_edges) * math.log1p(-self.edge_probability)
            value = evidence + n_edges * math.log(self.edge_probability) + absent
            self.known[key] = value
        return value

    @cached_property
    def _slope(self) -> Array:
        """b = H θ̂."""
        return self.full.hessian @ self.full.theta

    @cached_property
    def _gains(self) -> Array:
        """½ ln λ + ln π/(1−π)."""
        return 0.5 * np.log(self.posterior.precision) + self.log_prior_odds

    # -- one chain -------------------------------------------------------------------------------

    def exact_chain(self, n_draws: int, seed: int) -> Answer:
        """Draws from the exact evidences: Metropolis steps whose proposals are walks in q.

        A walk of random single-edge heat baths is reversible in q, so that it is accepted with
        min(1, w(g′)/w(g)), w = m/q.
        """
        random = np.random.default_rng(seed)
        n_pairs = len(self.posterior.pairs[0])
        whole = np.ones(n_pairs, dtype=bool)
        graph, _ = self._walked(self.table(whole), whole, 10 * n_pairs, random)
        value, table = self.log_posterior(graph), self.table(graph)
        n_updates, n_accepted, n_recent = UPDATES * n_pairs, 0, 0
        n_before = max(TRIALS, math.ceil(BURN_IN * n_draws))
        draws = np.empty((n_draws, n_pairs), dtype=bool)
        for step in range(-n_before, n_draws):
            if step % FRESH == 0:
                table = self.table(graph)
            moved = table.copy()
            other, change = self._walked(moved, graph, n_updates, random)
            following = self.log_posterior(other)
            if math.log(1 - random.random()) < following - value - change:
                graph, value, table = other, following, moved
                n_accepted += step >= 0
                n_recent += 1
            if step < 0 and (step + n_before) % TRIALS == TRIALS - 1:
                n_updates = max(1, n_updates // 2) if n_recent < FEW * TRIALS else n_updates
                n_recent = 0
            if step >= 0:
                draws[step] = graph
        visited = np.unique(draws, axis=0)
        return {
            "graphs": np.packbits(draws, axis=1),
            "visited": np.packbits(visited, axis=1),
            "log_weights": np.array([self.log_posterior(graph) for graph in visited]),
            "accepted": np.array(n_accepted / n_draws),
        }

    def normal_chain(self, n_draws: int, seed: int) -> Answer:
        """Draws from q itself, with the probability of each edge given all others."""
        from scipy.special import expit

        from ebm._kernels.graph_sums import all_log_odds

        random = np.random.default_rng(seed)
        n, n_pairs = self.posterior.n, len(self.posterior.pairs[0])
        graph = np.ones(n_pairs, dtype=bool)
        table = self.table(graph)
        graph, _ = self._walked(table, graph, 10 * n_pairs, random)
        odds = np.empty(n + n_pairs)
        draws = np.empty((n_draws, n_pairs), dtype=bool)
        probabilities = np.empty((n_draws, n_pairs))
        for step in range(n_draws):
            if step % FRESH == 0:
                table = self.table(graph)
            graph, _ = self._walked(table, graph, UPDATES * n_pairs, random)
            all_log_odds(table, self._is_in(graph), self._gains, odds)
            draws[step], probabilities[step] = graph, expit(odds[n:])
        return {"graphs": np.packbits(draws, axis=1), "probabilities": probabilities}

    def _walked(
        self, table: Array, graph: Flags, n_updates: int, random: np.random.Generator
    ) -> tuple[Flags, float]:
        """The graph after updates of random edges, and the change of ln q; changes the table."""
        from ebm._kernels.graph_sums import flip_edges

        n, n_pairs = self.posterior.n, len(self.posterior.pairs[0])
        is_in = self._is_in(graph)
        edges = n + random.integers(0, n_pairs, n_updates)
        thresholds = random.logistic(size=n_updates)
        change = flip_edges(table, is_in, edges, thresholds, self._gains)
        return is_in[n:], float(change)

    def _is_in(self, graph: Flags) -> Flags:
        return np.concatenate([np.ones(self.posterior.n, dtype=bool), graph])
