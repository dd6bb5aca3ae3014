"""The exact ensemble of a finite model."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_integer, in_base
from ebm._randomness import RandomSource, generator
from ebm._summary import Summary
from ebm._types import Array, Indices
from ebm.ensembles import Ensemble
from ebm.ensembles._mean_rows import mean_rows
from ebm.enumeration._limits import SECONDS_BY_STREAMING, Limits, describe_size, number_of_states
from ebm.enumeration._log_weights import Resolved, Scale
from ebm.enumeration._products import Totals
from ebm.errors import require_memory
from ebm.model import EnergyModel, checked_energy
from ebm.spaces import FiniteSpace

__all__ = ["ExactEnsemble"]

#: States whose sums cost next to nothing, even by energies that a user wrote.
SMALL = 2**16


class ExactEnsemble(Ensemble):
    """p(x) = exp(−E(x)) / Z over all states of a finite model; made by :func:`ebm.exact`.

    Attributes
    ----------
    model : EnergyModel
        The model that was enumerated.
    space : FiniteSpace
        The space of its states.
    log_partition : float
        ln Z.
    route : str
        How the sums were taken.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.exact(ebm.IsingModel([[0, 1], [1, 0]], [0, 0]))
    >>> round(pair.log_partition, 4), round(pair.entropy(base=2), 4)
    (1.8201, 1.5271)
    """

    model: EnergyModel
    space: FiniteSpace
    log_partition: float
    sample_size = math.inf
    kind = "exact"
    route = "sums over all states"

    _limits: Limits
    #: Log weights whose differences are exact, where energies are too large for plain sums.
    _resolved: Resolved | None
    #: The largest log weight or a bound of it, the energy that this is, and ln Z with energies
    #: counted from there: sums of large numbers that nearly cancel are never taken.
    _top: Scale
    _ground: float
    _log_relative: float
    #: Log weight of each block of states that draws are made from, up to a common constant.
    _block_log_weights: Array

    @abstractmethod
    def _draw_in_block(self, block: int, n_draws: int, rng: np.random.Generator) -> Array:
        """Independent states from one block, (n_draws, n)."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, log_partition={self.log_partition:.12g})"

    def _summary(self) -> Summary:
        title = f"exact ensemble of {type(self.model).__name__}"
        return replace(super()._summary(), title=title)

    def _summary_values(self) -> tuple[tuple[str, str], ...]:
        values = [("ln Z", f"{self.log_partition:.10g}")]
        if self._is_quick:
            values += [
                ("entropy", f"{self.entropy(base=2):.4f} bits"),
                ("mean energy", f"{self.mean_energy():.4f} k_B T"),
            ]
        return (*values, ("by", self.route))

    def _summary_rows(self, n_shown: int) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        if not self._is_quick:
            return (), ()
        means = self.expectation(lambda states: states)
        return mean_rows(self.space, means[:n_shown])

    @property
    def _is_quick(self) -> bool:
        """Whether sums over all states cost next to nothing."""
        return self.space.size <= SMALL

    @property
    def free_energy(self) -> float:
        """−ln Z in units of k_B T."""
        return -self.log_partition

    def log_probability(self, states: ArrayLike) -> Array:
        """ln p(x) = −E(x) − ln Z in nats, (..., n) -> (...); −inf where the energy is +inf.

        Examples
        --------
        >>> import ebm
        >>> machine = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
        >>> ebm.exact(machine).log_probability([0, 1]).round(4)
        np.float64(-1.3863)
        """
        return -self.space.map(self._relative_energies, states) - self._log_relative

    def mean_energy(self) -> float:
        """⟨E⟩ in units of k_B T, by a pass over all states unless the model is pairwise."""
        return self._ground + self._mean_relative_energy()

    def entropy(self, base: float | None = None) -> float:
        """Entropy S = ln Z + ⟨E⟩ in nats, or with a base of 2 in bits.

        Examples
        --------
        >>> import ebm
        >>> ebm.exact(ebm.IsingModel([[0, 0], [0, 0]], [0, 0])).entropy(base=2)
        2.0
        """
        # Rounding must not make a distribution more certain than certain.
        return in_base(max(0.0, self._log_relative + self._mean_relative_energy()), base)

    def _relative_energies(self, states: Array) -> Array:
        """E of checked states (..., n) counted from the ground, (...)."""
        if self._resolved is None:
            return checked_energy(self.model, states) - self._ground
        log_weights = self._resolved.log_weights(states.reshape(-1, self.space.n))
        return -log_weights.about(self._top).reshape(states.shape[:-1])

    def _mean_relative_energy(self) -> float:
        """⟨E⟩ counted from the ground."""
        return float(self.expectation(self._relative_energies))

    def _set_totals(self, totals: Totals, constant: float) -> None:
        """Take over sums of exp(−E), a constant in the energy left out."""
        self._top = totals.top_scale
        self._ground = float(constant - totals.top_scale)
        self._log_relative = totals.log_relative
        self.log_partition = totals.log_relative - self._ground
        self._block_log_weights = totals.block_logs

    @property
    def states(self) -> Array:
        """All states in the order of ``space.states_at``, (size, n), of 8 n · size bytes."""
        self._require_streaming(f"the table of all {describe_size(self.space)}", self.space.n)
        return self.space.states_at(np.arange(int(self.space.size)))

    @property
    def weights(self) -> Array:
        """Probabilities of all states in the order of ``space.states_at``, (size,)."""
        self._require_streaming(f"the distribution over {describe_size(self.space)}", 2)
        return np.concatenate([weights for _, weights in self.blocks()])

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """All states (m, n) and their probabilities (m,), block by block at constant memory."""
        self._require_streaming(f"streaming {describe_size(self.space)}", 0)
        for states in self.space.enumerate():
            yield states, np.exp(self.log_probability(states))

    def sample(self, n_draws: int, rng: RandomSource = None) -> Array:
        """Independent draws from p(x).

        Parameters
        ----------
        n_draws : int
            Number of draws.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, (n_draws, n)
            States in the coding of the space.

        Raises
        ------
        ShapeError
            If ``n_draws`` is not a positive integer.

        Examples
        --------
        >>> import ebm
        >>> ebm.exact(ebm.BoltzmannMachine([[0, 9], [9, 0]], [-4, -4])).sample(3, rng=1).shape
        (3, 2)
        """
        n_draws = as_integer(n_draws, "n_draws")
        require_memory(
            16.0 * n_draws * self.space.n,
            f"{n_draws} draws of {self.space.n} units",
            "draw fewer at a time, or raise max_memory",
            limit=self._limits.max_memory,
        )
        stream = generator(rng)
        logs = self._block_log_weights
        probabilities = np.exp(logs - logs.max())
        counts = stream.multinomial(n_draws, probabilities / probabilities.sum())
        drawn = [
            self._draw_in_block(int(block), int(counts[block]), stream)
            for block in np.flatnonzero(counts)
        ]
        # The blocks come in order; a permutation makes the draws exchangeable.
        return stream.permutation(np.concatenate(drawn))

    def _require_streaming(self, what: str, numbers_per_state: int) -> None:
        size = number_of_states(self.space)
        self._limits.require(
            what,
            SECONDS_BY_STREAMING * size,
            8.0 * numbers_per_state * size,
            "ask for moments, log_probability or draws, which need no pass over the states",
        )

    def _log_partition(self) -> float:
        return self.log_partition


def choose(weights: Array, n_draws: int, rng: np.random.Generator) -> Indices:
    """Indices drawn in proportion to non-negative weights, (n_draws,)."""
    cumulative = np.cumsum(weights.ravel())
    draws = np.searchsorted(cumulative, rng.random(n_draws) * cumulative[-1], side="right")
    # Rounding can put a draw past the last state of positive weight.
    last = int(np.flatnonzero(weights.ravel())[-1])
    return np.asarray(np.minimum(draws, last), dtype=np.intp)
