"""Samplers: frozen settings that say how chains move, no state of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ebm.errors import ModelError
from ebm.model import EnergyModel, checked_space, is_layered, is_pairwise
from ebm.models import couplings
from ebm.models.pairwise import PairwiseModel
from ebm.sampling.general import EnergySweeper, LevelsSweeper, MetropolisSweeper
from ebm.sampling.sweepers import (
    DenseSweeper,
    FewChainsSweeper,
    LayerSweeper,
    SparseSweeper,
    Sweeper,
    log_odds,
)
from ebm.spaces import Binary, FiniteSpace, Levels, Spins

__all__ = ["Gibbs", "Metropolis", "Sampler"]

#: Up to so many chains, fields that change only with a flip are faster than matrix products.
FEW_CHAINS = 16


class Sampler(Protocol):
    """What :func:`ebm.sample` asks of a sampler."""

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """How a block of chains of this model advances."""
        ...


@dataclass(frozen=True)
class Gibbs:
    """Heat bath: every unit in turn takes a value drawn from its distribution given all others.

    Boltzmann machines and Ising models (dense or sparse), restricted machines (layer by layer) and
    Potts models have compiled or vectorized sweeps; any other finite model is swept through its
    ``energy``, rightly but slowly.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
    >>> ebm.sample(machine, ebm.Gibbs(), n_draws=5, rng=0).chains.shape
    (4, 5, 2)
    """

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """The fastest sweep that is right for a model.

        Parameters
        ----------
        model : EnergyModel
            Over a finite space.
        n_chains : int
            How many chains will run.

        Returns
        -------
        Sweeper
            Advances blocks of chains.
        """
        space = _finite_space(model)
        if is_layered(model):
            layered: Any = model
            return LayerSweeper(layered.layered_form(), space)
        if isinstance(model, PairwiseModel) and couplings.is_sparse(model.coupling_matrix):
            return _sparse_sweeper(model)
        if is_pairwise(model) and isinstance(space, Binary | Spins):
            pairwise: Any = model
            weights, biases = log_odds(pairwise.quadratic_form(), space)
            kind = FewChainsSweeper if n_chains <= FEW_CHAINS else DenseSweeper
            return kind(weights, biases, space)
        if is_pairwise(model) and isinstance(space, Levels):
            pairwise = model
            return LevelsSweeper(pairwise.quadratic_form(), space)
        return EnergySweeper(model, space)


@dataclass(frozen=True)
class Metropolis:
    """Every unit in turn is offered another of its values and takes it with min(1, exp(−ΔE)).

    For any finite model, through ``energy``.

    Examples
    --------
    >>> import ebm
    >>> table = ebm.TabularModel([0.0, 1.0, 2.0, 0.5], ebm.Binary(2))
    >>> ebm.sample(table, ebm.Metropolis(), n_draws=5, rng=0).chains.shape
    (4, 5, 2)
    """

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """Metropolis sweeps of a model.

        Parameters
        ----------
        model : EnergyModel
            Over a finite space.
        n_chains : int
            How many chains will run.

        Returns
        -------
        Sweeper
            Advances blocks of chains.
        """
        return MetropolisSweeper(model, _finite_space(model))


def _finite_space(model: EnergyModel) -> FiniteSpace:
    space = checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(f"Gibbs and Metropolis need a finite space, got {space!r}")
    return space


def _sparse_sweeper(model: PairwiseModel) -> Sweeper:
    """Log-odds of a sparse machine without ever forming a dense matrix."""
    matrix = model.coupling_matrix
    own = couplings.diagonal(matrix)
    weights = couplings.without_diagonal(matrix)
    vector = model.linear_form()
    if isinstance(model.space, Spins):
        row_sums = couplings.apply(weights, 1.0 + 0 * vector)
        return SparseSweeper(4 * weights, 2 * vector - 2 * row_sums, model.space)
    return SparseSweeper(weights, vector + own / 2, model.space)
