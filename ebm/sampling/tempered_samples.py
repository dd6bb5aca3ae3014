"""Draws of all temperatures of a ladder, and the ensemble at any temperature between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_finite, as_floats
from ebm._types import Array
from ebm.ensembles import Ensemble, Estimate
from ebm.ensembles.ensemble import Observable, observed
from ebm.errors import (
    MEMORY_LIMIT,
    EbmError,
    ModelError,
    PoorMixingWarning,
    PoorWeightsWarning,
    require_memory,
    warn,
)
from ebm.model import EnergyModel, checked_energy
from ebm.sampling._block_errors import N_BLOCKS, block_numbers, jackknife_error
from ebm.sampling._mbar import Reweighting
from ebm.sampling._tempered_models import is_linear, tempered
from ebm.sampling.samples import Samples
from ebm.spaces import FiniteSpace, StateSpace

__all__ = ["ReweightedSamples", "TemperedSamples"]

#: Effective number of draws below which weights are said to be poor.
FEWEST_DRAWS = 50
#: Rejection from which on two temperatures do not exchange states.
LARGEST_REJECTION = 0.98
#: Fewer round trips than this are no evidence that all valleys were visited.
FEWEST_ROUND_TRIPS = 10
#: Digits, counted from the largest energy, in which energies are equal.
DIGITS = 13


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TemperedSamples(Samples):
    """Draws of :class:`ebm.ParallelTempering`: those of the model, and of all other temperatures.

    As an ensemble it is that of the model, β = 1; :meth:`at` gives the others.

    Parameters
    ----------
    model : EnergyModel
        The model that was sampled, at β = 1.
    betas : ndarray, (slot,)
        Inverse temperatures of the ladder, falling from 1.
    slots : ndarray, (slot, chain, draw, n)
        The draws at each of them.
    rejection : ndarray, (slot − 1,)
        r_k, the mean of one less the probability that a swap of slots k and k + 1 is accepted; NaN
        where none was tried.
    round_trips : int
        How often a state went from β = 1 to the hottest slot and back, over all chains.
    n_scans : int
        Scans of all chains together in which these were counted.

    Examples
    --------
    >>> import ebm, numpy as np
    >>> magnet = ebm.IsingModel(0.5 * (np.ones((12, 12)) - np.eye(12)), np.zeros(12))
    >>> ladder = ebm.ParallelTempering([0.7, 0.4, 0.2, 0.0])
    >>> samples = ebm.sample(magnet, ladder, n_draws=1000, rng=0)
    >>> samples.round_trips > 10, bool(samples.barrier < 3)
    (True, True)
    >>> squares = samples.at(0.1).estimate(lambda s: s.mean(axis=1) ** 2)
    >>> exact = ebm.exact(magnet.scaled(0.1)).expectation(lambda s: s.mean(axis=1) ** 2)
    >>> bool(abs(squares.value - exact) < 4 * squares.standard_error)
    True
    """

    model: EnergyModel
    betas: Array
    slots: NDArray[Any]
    rejection: Array
    round_trips: int
    n_scans: int
    _remedy = "place temperatures by ebm.ParallelTempering.for_model(model)"

    def __repr__(self) -> str:
        n_slots, n_chains, n_draws, _ = self.slots.shape
        return (
            f"TemperedSamples({n_chains} chains x {n_draws} draws at {n_slots} temperatures, "
            f"{self.round_trips} round trips, {self.space!r})"
        )

    def _summary_values(self) -> tuple[tuple[str, str], ...]:
        trips = f"{self.round_trips} by {len(self.betas)} temperatures"
        return (*super()._summary_values(), ("round trips", trips))

    @property
    def swap_rates(self) -> Array:
        """Mean probability that a swap of neighboring slots is accepted, (slot − 1,)."""
        return 1 - self.rejection

    @property
    def barrier(self) -> float:
        """The communication barrier Λ = Σ_k r_k :cite:`syed2022`.

        It belongs to the path of temperatures and hardly to the slots placed on it; about 2Λ + 1
        slots serve best.
        """
        return float(self.rejection.sum())

    @property
    def round_trip_rate(self) -> float:
        """Round trips for each scan of a chain, all its replicas together."""
        return self.round_trips / self.n_scans

    @property
    def round_trip_bound(self) -> float:
        """The rate 1 / (2 + 2 Σ r_k/(1 − r_k)) that a sweep which forgets the energy would reach.

        A rate below half of it says that sweeps between swaps are too few.
        """
        with np.errstate(divide="ignore"):
            return float(1 / (2 + 2 * (self.rejection / (1 - self.rejection)).sum()))

    def at(self, beta: float) -> ReweightedSamples:
        """The ensemble at an inverse temperature of the ladder, or at any between them.

        All draws of all temperatures are weighted to β by MBAR :cite:`shirts2008`.

        Parameters
        ----------
        beta : float
            β, between the hottest of the ladder and 1: the model is ``model.scaled(beta)``.

        Returns
        -------
        ReweightedSamples
            An ensemble whose estimates have errors, with ln Z where the ladder ends at β = 0.

        Raises
        ------
        EbmError
            If β is not within the ladder, or there are fewer than 20 draws of all chains.
        ConvergenceError
            If draws of neighboring temperatures have no weight for each other.
        ModelError
            If clamped units have other values in other chains, which are then of different
            distributions.
        MemoryLimitError
            If the potentials of all draws would take more than 8 GiB.

        Warns
        -----
        PoorWeightsWarning
            If the weights are worth fewer than 50 draws.
        PoorMixingWarning
            Once, if neighboring temperatures exchange next to no states, or if states made fewer
            than ten round trips between the ends of the ladder.
        """
        beta = as_finite(beta, "beta")
        if not self.betas[-1] <= beta <= 1:
            raise EbmError(
                f"beta must be between {self.betas[-1]:g} and 1, the ends of the ladder, got "
                f"{beta:g}; for lower temperatures sample model.scaled(beta)"
            )
        self._warn_of_few_exchanges()
        ensemble = ReweightedSamples(
            space=self.space,
            beta=beta,
            states=self.slots.reshape(-1, self.space.n),
            reweighting=self._reweighting,
            potential=self._potential(beta),
            log_size=self._log_size,
        )
        if ensemble.effective_number < FEWEST_DRAWS:
            warn(
                f"at beta={beta:g} the draws of the ladder are worth only "
                f"{ensemble.effective_number:.3g} draws, fewer than {FEWEST_DRAWS}, so that errors "
                "are not to be trusted: draw more, or place a temperature there",
                PoorWeightsWarning,
            )
        return ensemble

    def _warn_of_few_exchanges(self) -> None:
        if self.__dict__.get("_said_few_exchanges"):
            return
        object.__setattr__(self, "_said_few_exchanges", True)
        poor = np.flatnonzero(self.rejection > LARGEST_REJECTION)
        if len(poor):
            k = int(poor[0])
            warn(
                f"states hardly pass between beta={self.betas[k]:.4g} and {self.betas[k + 1]:.4g}: "
                f"{self.rejection[k]:.1%} of the swaps are rejected, so that their free energies "
                "cannot be compared; take more temperatures, "
                "ebm.ParallelTempering.for_model(model) finds them",
                PoorMixingWarning,
            )
        elif self.round_trips < FEWEST_ROUND_TRIPS:
            warn(
                f"the chains made {self.round_trips} round trips between the ends of the ladder, "
                f"fewer than {FEWEST_ROUND_TRIPS}, so that valleys may have been missed and errors "
                "are not to be trusted: raise n_draws or n_chains",
                PoorMixingWarning,
            )

    @cached_property
    def _is_linear(self) -> bool:
        """Whether E_β is βE, so that one energy of a draw stands for all temperatures."""
        return is_linear(self.model)

    @cached_property
    def _pooled(self) -> tuple[Array, Any]:
        """Distinct energies and the place of each draw; without βE the draws themselves."""
        draws = self.slots.reshape(-1, self.space.n)
        if not self._is_linear:
            return np.empty(0), np.arange(len(draws))
        energies = np.concatenate([checked_energy(self.model, x) for x in _pieces(draws)])
        # At β = 0 forbidden states, of infinite energy, are like all others.
        largest = float(np.abs(energies[np.isfinite(energies)]).max(initial=1.0))
        scale = 10.0 ** (math.ceil(math.log10(largest)) - DIGITS)
        levels, place = np.unique(np.rint(energies / scale), return_inverse=True)
        return levels * scale, place.ravel()

    @cached_property
    def energies(self) -> Array:
        """E of the model at every draw, (slot, chain, draw); with a hidden layer the effective one.

        To 13 digits of the largest where E_β is βE.
        """
        levels, place = self._pooled if self._is_linear else (self._potential(1.0), self._pooled[1])
        return np.asarray(levels[place].reshape(self.slots.shape[:-1]))

    def _potential(self, beta: float) -> Array:
        """E_β of every place, (place,)."""
        if self._is_linear:
            levels = self._pooled[0]
            return np.asarray(beta * levels if beta else np.zeros(len(levels)))
        draws, model = self.slots.reshape(-1, self.space.n), tempered(self.model, beta)
        return np.concatenate([checked_energy(model, x) for x in _pieces(draws)])

    @cached_property
    def _reweighting(self) -> Reweighting:
        """The pooled draws of all slots."""
        if self.clamped:
            held = self.slots[..., list(self.clamped)]
            if (held != held[:1, :1, :1]).any():
                raise ModelError(
                    "chains whose clamped units differ are of different distributions, which have "
                    "no common weights: clamp all chains at the same values"
                )
        place = self._pooled[1]
        n_places = len(self._pooled[0]) if self._is_linear else len(place)
        require_memory(
            # The potentials, and what a step of Newton's method makes of them.
            32.0 * len(self.betas) * n_places,
            f"weights of {len(place)} draws at {len(self.betas)} temperatures",
            "draw fewer, or raise thin",
            limit=2 * MEMORY_LIMIT,
        )
        n_slots, n_chains, n_draws, _ = self.slots.shape
        if n_chains * n_draws < N_BLOCKS:
            raise EbmError(
                f"errors are from {N_BLOCKS} blocks of draws, and there are only "
                f"{n_chains * n_draws} draws of all chains: draw more"
            )
        block = np.tile(block_numbers(n_chains, n_draws).ravel(), n_slots)
        potentials = np.stack([self._potential(beta) for beta in self.betas])
        return Reweighting(potentials, place, block)

    @cached_property
    def _log_size(self) -> float | None:
        """ln Z of the first slot where it follows from that of the last, at β = 0."""
        if self.betas[-1] > 0 or self.clamped or not isinstance(self.space, FiniteSpace):
            return None
        hottest = self._reweighting.potentials[-1]
        if np.ptp(hottest) > 1e-9 * (1 + np.abs(hottest).max()):
            return None
        return math.log(self.space.size) - float(hottest[0])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReweightedSamples(Ensemble):
    """Draws of a ladder of temperatures with weights for one; made by :meth:`TemperedSamples.at`.

    Parameters
    ----------
    space : StateSpace
        Coding and names of the units.
    beta : float
        The inverse temperature.
    states : ndarray, (n_draws, n)
        The draws of all temperatures.
    reweighting : Reweighting
        Their solution of MBAR.
    potential : ndarray
        E_β of each distinct energy, or of each draw.
    log_size : float, optional
        ln Z at β = 0, if the ladder reaches it.
    """

    space: StateSpace
    beta: float
    states: NDArray[Any]
    reweighting: Reweighting
    potential: Array
    log_size: float | None = None
    kind = "tempering"

    def __repr__(self) -> str:
        return (
            f"ReweightedSamples({len(self.states)} draws worth {self.effective_number:.4g} at "
            f"beta={self.beta:g}, {self.space!r})"
        )

    @cached_property
    def weights(self) -> Array:
        """Weights of the draws, summing to 1, (n_draws,)."""
        return self.reweighting.log_ratio_and_weights(self.potential)[1][self.reweighting.place]

    @property
    def effective_number(self) -> float:
        """1 / Σ w², how many draws of equal weight these are worth, were they independent."""
        return float(1 / (self.weights**2).sum())

    @cached_property
    def sample_size(self) -> float:  # type: ignore[override]
        """The smallest number of independent draws with the error of a mean, over the features."""
        features = self.space.features
        mean = self.estimate(features)
        variance = self.expectation(lambda x: (features(x) - mean.value) ** 2)
        varies = mean.standard_error > 0
        sizes = variance[varies] / mean.standard_error[varies] ** 2
        return float(sizes.min(initial=self.effective_number))

    @cached_property
    def log_partition(self) -> Estimate | None:
        """ln Z at β; None where the ladder does not end at β = 0, where it is known."""
        if self.log_size is None:
            return None
        values = self.log_partitions
        error = float(jackknife_error(values[1:]))
        return Estimate(float(values[0]), error, degrees_of_freedom=N_BLOCKS - 1)

    @cached_property
    def log_partitions(self) -> Array:
        """ln Z from all draws, and with each block left out; up to a constant without β = 0."""
        hottest, of = self.reweighting.potentials[-1], self.reweighting.log_ratio_and_weights
        blocks = (None, *range(N_BLOCKS))
        ratios = [of(self.potential, block)[0] - of(hottest, block)[0] for block in blocks]
        return (self.log_size or 0.0) + np.array(ratios)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The draws (m, n) and their weights (m,)."""
        start = 0
        for piece in _pieces(self.states):
            yield piece, self.weights[start : start + len(piece)]
            start += len(piece)

    def estimate(self, f: Observable, of: Callable[[Array], ArrayLike] | None = None) -> Estimate:
        """E[f(x)], or a function of it, with its error by a jackknife over 20 blocks of draws.

        The blocks are of all temperatures together; the weights are made anew without each. The
        error has 19 degrees of freedom, which its ``interval`` regards.

        Parameters
        ----------
        f : callable
            Maps states (m, n) to values (m,) or (m, …).
        of : callable, optional
            A function of the average, such as the ratio of two of its entries.

        Returns
        -------
        Estimate
            E[f], or ``of(E[f])``.
        """
        values = np.concatenate([observed(f, piece) for piece in _pieces(self.states)])
        if not np.isfinite(values).all():
            values[self.weights == 0] = 0.0
        sums = self.reweighting.sums(values.reshape(len(values), -1))
        averages = self.reweighting.averages(self.potential, sums)
        averages = averages.reshape(len(averages), *values.shape[1:])
        results = averages
        if of is not None:
            if not callable(of):
                raise EbmError(f"of must be a function of the average, got {of!r}")
            results = np.stack([as_floats(of(average), "what of returns") for average in averages])
        error = jackknife_error(results[1:])[()]
        return Estimate(results[0][()], error, degrees_of_freedom=N_BLOCKS - 1)

    def _log_partition(self) -> float | None:
        return None if self.log_partition is None else self.log_partition.value


def _pieces(states: NDArray[Any]) -> Iterator[Array]:
    """States in blocks of floats that do not take much memory."""
    rows = max(1, 2**22 // states.shape[1])
    for start in range(0, len(states), rows):
        yield states[start : start + rows].astype(np.float64)
