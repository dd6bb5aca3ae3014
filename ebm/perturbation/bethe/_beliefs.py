"""What belief propagation says at its messages: fields, ln Z, joint beliefs of coupled pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ebm._types import Array
from ebm.perturbation.bethe._coupling_graph import CouplingGraph, log_cosh
from ebm.perturbation.bethe._loops import LoopCorrection
from ebm.perturbation.bethe._messages import FixedPoint

__all__ = ["Beliefs"]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """A fixed point of the messages, in spins, with what the loops add to it.

    Parameters
    ----------
    graph : CouplingGraph
        The couplings.
    fixed_point : FixedPoint
        The messages.
    """

    graph: CouplingGraph
    fixed_point: FixedPoint

    @cached_property
    def fields(self) -> Array:
        """H_i, (n,)."""
        return self.graph.total_fields(self.fixed_point.messages)

    @cached_property
    def cavity(self) -> Array:
        """h_{k→i}, (2E,)."""
        return self.graph.cavity_fields(self.fixed_point.messages)

    @property
    def mean(self) -> Array:
        """⟨s_i⟩ = tanh H_i, (n,)."""
        return np.tanh(self.fields)

    @cached_property
    def variance(self) -> Array:
        """1/cosh² H_i, (n,)."""
        return np.exp(-2 * log_cosh(self.fields))

    @cached_property
    def log_partition(self) -> float:
        """Minus the Bethe free energy."""
        graph = self.graph
        directed = log_cosh(graph.directed + self.cavity) + log_cosh(graph.directed - self.cavity)
        forward, backward = np.split(0.5 * directed, 2)
        pairs = forward + backward - self._log_tables + 2 * math.log(2)
        units = log_cosh(self.fields) + math.log(2)
        return float(units.sum() + pairs.sum()) - graph.constant

    @cached_property
    def pair_covariance(self) -> Array:
        """Covariances of coupled pairs by their joint beliefs, (E,)."""
        coupling = self.graph.couplings
        size = np.abs(coupling)
        # p₊₊p₋₋ − p₊₋p₋₊ without a difference.
        log_odds = 2 * size + np.log(-np.expm1(-4 * size)) + 2 * math.log(2)
        return np.asarray(np.sign(coupling) * np.exp(log_odds - 2 * self._log_tables))

    @cached_property
    def loops(self) -> LoopCorrection:
        """What the loops add to ln Z and to the means."""
        return LoopCorrection(self.graph, self.cavity)

    @cached_property
    def _log_tables(self) -> Array:
        """Logarithm of the sum of the four weights of each pair."""
        one, other = np.split(self.cavity, 2)
        coupling = self.graph.couplings
        alike, unlike = log_cosh(one + other), log_cosh(one - other)
        return np.asarray(math.log(2) + np.logaddexp(coupling + alike, unlike - coupling))
