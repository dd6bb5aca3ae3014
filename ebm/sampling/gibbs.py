"""Samplers: frozen settings that say how chains move, no state of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ebm.errors import ModelError
from ebm.model import (
    EnergyModel,
    LayeredForm,
    QuadraticForm,
    checked_form,
    checked_layers,
    checked_space,
    is_layered,
    is_pairwise,
)
from ebm.models import _couplings
from ebm.models._layered import LayeredModel
from ebm.models._pairwise import PairwiseModel
from ebm.models.potts import PottsModel
from ebm.sampling._sweeps import (
    DenseSweeper,
    EnergySweeper,
    FewChainsSweeper,
    LayerSweeper,
    LevelsSweeper,
    MetropolisSweeper,
    PreciseLayerSweeper,
    PrecisePairSweeper,
    SparseSweeper,
    Sweeper,
    log_odds,
    require_sums,
    single_precision_suffices,
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
    ``energy``, rightly but slowly. Where some states are forbidden (E = +∞), changes of one unit
    must lead from each allowed state to every other.

    Log-odds are summed in single precision where it keeps three decimals of them,
    |b_i| + Σ_j |W_ij| below about 8000, and in double precision beyond, some times slower.

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
            return _layer_sweeper(model, space)
        if isinstance(model, PairwiseModel) and _couplings.is_sparse(model.coupling_matrix):
            return _sparse_sweeper(model)
        if is_pairwise(model) and isinstance(space, Binary | Spins):
            return _dense_sweeper(model, space, n_chains)
        if is_pairwise(model) and isinstance(space, Levels):
            return _levels_sweeper(model, space)
        return EnergySweeper(model, space)


@dataclass(frozen=True)
class Metropolis:
    """Every unit in turn is offered another of its values and takes it with min(1, exp(−ΔE)).

    One offer in four, drawn at random, is left out: with moves of equal energy always taken and
    units in a fixed order, two free spins would otherwise visit two of their four states. For any
    finite model, through ``energy``. Where some states are forbidden (E = +∞), changes of one unit
    must lead from each allowed state to every other.

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
        raise ModelError(
            f"Gibbs and Metropolis need a finite space, got {space!r}; over ebm.Reals use "
            "ebm.sample_continuous with ebm.Langevin or ebm.HamiltonianMonteCarlo"
        )
    return space


def checked_sampler(sampler: Any, *, carries_copies: bool = True) -> Any:
    """A sampler, or an error that says what one is.

    Parameters
    ----------
    sampler : Sampler or None
        What a caller gave.
    carries_copies : bool
        Whether one will do that carries copies of each chain along.

    Returns
    -------
    Sampler or None
        The same.

    Raises
    ------
    ModelError
        If it is a class, no sampler, or one with copies where there is no place for them.

    Examples
    --------
    >>> import ebm
    >>> from ebm.sampling.gibbs import checked_sampler
    >>> checked_sampler(ebm.Gibbs())
    Gibbs()
    """
    if sampler is None:
        return None
    if isinstance(sampler, type):
        raise ModelError(
            f"sampler must be one such as ebm.Gibbs(), got the class: write {sampler.__name__}()"
        )
    if not callable(getattr(sampler, "sweeper", None)):
        # Langevin and Hamiltonian chains follow a gradient, which a finite space has not.
        hint = ": that one is for ebm.sample_continuous" if hasattr(sampler, "n_leapfrog") else ""
        raise ModelError(f"sampler must be one such as ebm.Gibbs(), got {sampler!r}{hint}")
    if not carries_copies and getattr(sampler, "carries_copies", False):
        raise ModelError(
            f"sampler must move one state of each chain, as ebm.Gibbs() does, got {sampler!r}, "
            "which carries copies along"
        )
    return sampler


def _form(model: Any, space: FiniteSpace) -> QuadraticForm:
    """The energy of a pairwise model; what the library has checked itself is not checked again."""
    if not isinstance(model, PairwiseModel | PottsModel):
        return checked_form(model, space)
    return model.quadratic_form()


def _levels_sweeper(model: Any, space: FiniteSpace) -> Sweeper:
    form = _form(model, space)
    require_sums(form.matrix, form.vector, name="the model")
    return LevelsSweeper(form, space)


def _layer_sweeper(model: Any, space: FiniteSpace) -> Sweeper:
    if not isinstance(model, LayeredModel):
        form = checked_layers(model, space)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            form = model.layered_form()
    if single_precision_suffices(form.weights, form.visible, form.hidden):
        return LayerSweeper(form, space)
    visible, hidden = np.zeros(len(form.visible)), np.zeros(len(form.hidden))
    if isinstance(model, LayeredModel):
        # About their centers, biases do not hold sums of weights.
        biases = model.visible_biases, model.hidden_biases
        form = LayeredForm(model.weights, *biases, model.offset)
        visible, hidden = model.visible_center, model.hidden_center
    return PreciseLayerSweeper(form, visible, hidden, space)


def _dense_sweeper(model: Any, space: FiniteSpace, n_chains: int) -> Sweeper:
    with np.errstate(over="ignore", invalid="ignore"):
        form = _form(model, space)
        weights, biases = log_odds(form, space)
    if single_precision_suffices(weights, biases):
        kind = FewChainsSweeper if n_chains <= FEW_CHAINS else DenseSweeper
        return kind(weights, biases, space)
    if isinstance(model, PairwiseModel):
        return _precise_sweeper(model)
    return PrecisePairSweeper(form.matrix, form.vector, np.zeros(space.n), space)


def _sparse_sweeper(model: PairwiseModel) -> Sweeper:
    """Log-odds of a sparse machine without ever forming a dense matrix."""
    matrix = model.coupling_matrix
    own = _couplings.diagonal(matrix)
    weights = _couplings.without_diagonal(matrix)
    with np.errstate(over="ignore", invalid="ignore"):
        vector = model.linear_form()
        if isinstance(model.space, Spins):
            row_sums = _couplings.apply(weights, 1.0 + 0 * vector)
            weights, biases = 4 * weights, 2 * vector - 2 * row_sums
        else:
            biases = vector + own / 2
    if single_precision_suffices(weights, biases):
        return SparseSweeper(weights, biases, model.space)
    return _precise_sweeper(model)


def _precise_sweeper(model: PairwiseModel) -> Sweeper:
    """About its own center, where the linear parameters do not hold sums of couplings."""
    vector = model.parameters[: model.n]
    return PrecisePairSweeper(model.coupling_matrix, vector, model.feature_center, model.space)
