"""Samplers: frozen settings that say how chains move, no state of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ebm.errors import ModelError
from ebm.forms import LayeredForm, QuadraticForm, energy_form
from ebm.model import EnergyModel, checked_space
from ebm.sampling._sweeps import (
    EnergySweeper,
    LayerSweeper,
    LevelsSweeper,
    MetropolisSweeper,
    Sweeper,
    pair_sweeper,
)
from ebm.spaces import Binary, FiniteSpace, Levels, Spins

__all__ = ["Gibbs", "Metropolis", "Sampler"]


class Sampler(Protocol):
    """What :func:`ebm.sample` asks of a sampler."""

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """How a block of chains of this model advances."""
        ...


@dataclass(frozen=True)
class Gibbs:
    """Heat bath: every unit in turn takes a value drawn from its distribution given all others.

    Models with a ``quadratic_form`` (dense or sparse) or a ``layered_form`` (layer by layer), the
    library's and a user's own, have compiled or vectorized sweeps; any other finite model is swept
    through its ``energy``, rightly but slowly. Where some states are forbidden (E = +∞), changes
    of one unit must lead from each allowed state to every other.

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
        form = energy_form(model)
        if isinstance(form, LayeredForm):
            return LayerSweeper(form, space)
        if isinstance(form, QuadraticForm) and isinstance(space, Binary | Spins):
            return pair_sweeper(form, space, n_chains)
        if isinstance(form, QuadraticForm) and isinstance(space, Levels):
            return LevelsSweeper(form, space)
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
