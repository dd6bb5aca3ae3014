"""The couplings of a pairwise model as the edges that messages run along, in spins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ebm._types import Array, Indices
from ebm.errors import ModelError
from ebm.forms import FactorForm, TermForm, offered_form
from ebm.models._couplings import at_pairs, diagonal, free_pairs
from ebm.models._library import joint_machine, library_model
from ebm.spaces import FiniteSpace


@dataclass(frozen=True, eq=False)
class CouplingGraph:
    """E(s) = −Σ_{i<j} J_ij s_i s_j − Σ h_i s_i + constant over the E couplings that are not zero.

    ``first`` and ``second`` hold i < j, (E,). Each coupling has two directions, i→j at its place
    and j→i E places later.
    """

    fields: Array
    first: Indices
    second: Indices
    couplings: Array
    constant: float

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.fields)

    @cached_property
    def source(self) -> Indices:
        """Where each message comes from, (2E,)."""
        return np.concatenate([self.first, self.second])

    @cached_property
    def target(self) -> Indices:
        """Where it goes to, (2E,)."""
        return np.concatenate([self.second, self.first])

    @cached_property
    def directed(self) -> Array:
        """J of each message, (2E,)."""
        return np.concatenate([self.couplings, self.couplings])

    @cached_property
    def _tanh(self) -> Array:
        return np.tanh(self.directed)

    @cached_property
    def gathering(self) -> Any:
        """Sums of messages by their targets, CSR (n, 2E)."""
        from scipy.sparse import csr_array

        places = np.arange(len(self.target))
        ones = np.ones(len(places))
        return csr_array((ones, (self.target, places)), shape=(self.n, len(places)))

    @cached_property
    def is_forest(self) -> bool:
        """Whether there is no loop."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        ones = np.ones(len(self.first))
        matrix = coo_array((ones, (self.first, self.second)), shape=(self.n, self.n))
        n_parts, _ = connected_components(matrix, directed=False)
        return bool(len(self.first) == self.n - n_parts)

    def reversed(self, values: Array) -> Array:
        """Values of the opposite directions, (2E, ...)."""
        return np.roll(values, len(self.first), axis=0)

    def total_fields(self, messages: Array) -> Array:
        """H_i = h_i + Σ_k u_{k→i}, (n,)."""
        incoming = np.bincount(self.target, weights=messages, minlength=self.n)
        return np.asarray(self.fields + incoming)

    def cavity_fields(self, messages: Array) -> Array:
        """h_{k→i} for each message k→i, (2E,)."""
        return np.asarray(self.total_fields(messages)[self.source] - self.reversed(messages))

    def sent(self, cavity: Array) -> Array:
        """u = atanh(tanh J tanh h), right to rounding at any J and h, (2E,)."""
        smaller = np.minimum(np.abs(self.directed), np.abs(cavity))
        is_large = smaller >= 1
        messages = np.arctanh(np.where(is_large, 0.0, self._tanh * np.tanh(cavity)))
        if is_large.any():
            # Where both are large the product rounds to one.
            coupling, field = self.directed[is_large], cavity[is_large]
            tails = np.log1p(np.exp(-2 * np.abs(coupling + field)))
            tails -= np.log1p(np.exp(-2 * np.abs(coupling - field)))
            sign = np.sign(coupling) * np.sign(field)
            messages[is_large] = sign * smaller[is_large] + 0.5 * tails
        return np.asarray(messages)


def log_cosh(x: Array) -> Array:
    """ln cosh x at any x."""
    return np.asarray(np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - np.log(2))


def coupling_graph(model: Any) -> tuple[CouplingGraph, FiniteSpace]:
    """The graph of a pairwise model of two-valued units, and the coding of the answers.

    Of any center and diagonal; a restricted machine is taken with both its layers.
    """
    machine = joint_machine(model)
    if machine is None and offered_form(model) in (TermForm, FactorForm):
        # Says which term is of more than two units.
        machine = library_model(model) and library_model(model).to_ising()
    if machine is None:
        raise ModelError(
            "model must be a BoltzmannMachine, an IsingModel or a RestrictedBoltzmannMachine, or "
            f"offer such a form, got {type(model).__name__}: messages are between two-valued units "
            "in pairs"
        )
    space: FiniteSpace = machine.space
    ising = machine.to_spins()
    pairs = free_pairs(ising.couplings)
    values = at_pairs(ising.couplings, pairs)
    first, second = (ends[values != 0] for ends in pairs)
    # s² = 1 makes the diagonal a constant.
    constant = ising.offset - 0.5 * float(diagonal(ising.couplings).sum())
    return CouplingGraph(
        np.asarray(ising.fields), first, second, values[values != 0], constant
    ), space
