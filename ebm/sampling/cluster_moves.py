"""Cluster moves, which take units across barriers together: Swendsen–Wang and Wolff."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import as_csr, as_integer
from ebm._types import Array, Indices, Words
from ebm.errors import ModelError, PoorMixingWarning, warn
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.models._library import pair_machine
from ebm.sampling._streams import portions
from ebm.sampling.sweeper import Sweeper
from ebm.spaces import HomogeneousSpace

__all__ = ["SwendsenWang", "Wolff"]


class ClusterMoves(ABC):
    """A sampler by J and h of the model, its space, and the units that move where not all do."""

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """Clusters of each chain."""
        return self._sweeper_of(*_spins(model))

    def partial_sweeper(self, model: EnergyModel, n_chains: int, units: Indices) -> Sweeper:
        """Clusters that hold a unit not among these stay as they are."""
        return self._sweeper_of(*_spins(model), units)

    @abstractmethod
    def _sweeper_of(self, *parts: Any) -> Sweeper:
        """The sweeper of its kind."""


@dataclass(frozen=True)
class SwendsenWang(ClusterMoves):
    """Clusters of all units at once, each flipped with probability ½ :cite:`swendsen1987`.

    Of −E = Σ_⟨ij⟩ J_ij s_i s_j + Σ_i h_i s_i a bond with J_ij s_i s_j > 0 is drawn with probability
    1 − exp(−2|J_ij|); fields are bonds to one more spin that does not flip. {0,1} units have
    J = W/4. The distribution is left unchanged for every sign of J and h. Large clusters cross
    barriers between ordered states, as of a ferromagnet near its critical temperature; where bonds
    are frustrated the clusters are nearly all of the units, and hardly anything else moves.

    Raises
    ------
    ModelError
        When chains start, if the model is not one of two-valued units in pairs.

    Warns
    -----
    PoorMixingWarning
        When chains start, if couplings and fields are frustrated.

    Examples
    --------
    >>> import ebm
    >>> cold = ebm.from_graph(ebm.lattice((16, 16), coupling=0.6))
    >>> samples = ebm.sample(cold, ebm.SwendsenWang(), n_draws=500, rng=0)
    >>> magnetization = samples.chains.mean(axis=2)
    >>> bool((abs(magnetization) > 0.8).mean() > 0.9), bool(abs(magnetization.mean()) < 0.2)
    (True, True)
    """

    def _sweeper_of(self, *parts: Any) -> Sweeper:
        return BondSweeper(*parts)


@dataclass(frozen=True)
class Wolff(ClusterMoves):
    """Clusters that grow one after the other from random units :cite:`wolff1989`.

    A cluster takes up neighbors by the bonds of :class:`SwendsenWang` and is flipped, unless a
    field holds it. Large clusters are grown more often than small ones, so that near a critical
    temperature fewer updates are wasted.

    Parameters
    ----------
    n_clusters : int
        Number of clusters in a sweep, of which in every other sweep, at random, there is one more:
        units without bonds would else return to each state after even numbers of sweeps alone.

    Raises
    ------
    ShapeError
        If ``n_clusters`` is not a positive integer.
    ModelError
        When chains start, of models that :class:`SwendsenWang` refuses.

    Warns
    -----
    PoorMixingWarning
        When chains start, where :class:`SwendsenWang` warns.

    Examples
    --------
    >>> import ebm
    >>> critical = ebm.from_graph(ebm.lattice((16, 16), coupling=0.44))
    >>> ebm.sample(critical, ebm.Wolff(n_clusters=4), n_draws=100, rng=0).chains.shape
    (4, 100, 256)
    """

    n_clusters: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_clusters", as_integer(self.n_clusters, "n_clusters"))

    def _sweeper_of(self, *parts: Any) -> Sweeper:
        return GrowthSweeper(*parts, n_clusters=self.n_clusters)


class SpinSweeper(Sweeper):
    """Layout (chains, n): ±1, the upper value of the model +1."""

    def __init__(
        self, form: QuadraticForm, space: HomogeneousSpace, units: Indices | None = None
    ) -> None:
        low, high = (int(value) for value in space.values)
        self._center, self._step = (low + high) / 2, (high - low) / 2
        self._rows = as_csr(form.matrix)
        is_clamped = np.full(space.n, units is not None)
        if units is not None:
            is_clamped[units] = False
        self._of_units = form.vector, is_clamped

    def load(self, states: Array) -> NDArray[np.int8]:
        """States (chains, n) as spins."""
        return np.where(states > self._center, 1, -1).astype(np.int8)

    def read(self, work: NDArray[np.int8]) -> NDArray[np.int8]:
        """The inverse of :meth:`load`."""
        return (self._center + self._step * work).astype(np.int8)


class BondSweeper(SpinSweeper):
    """Swendsen–Wang."""

    def advance(self, work: Any, stream: Words, n_sweeps: int) -> None:
        """Sweeps of all clusters."""
        from ebm._kernels.spin_clusters import sweep_bonds

        bonds = self._rows.tocoo()
        once = bonds.row < bonds.col
        parts = bonds.row[once], bonds.col[once], bonds.data[once], *self._of_units
        for sweeps in portions(n_sweeps, len(work) * (bonds.nnz + work.shape[1])):
            sweep_bonds(work, *parts, stream, sweeps)


class GrowthSweeper(SpinSweeper):
    """Wolff."""

    def __init__(self, *parts: Any, n_clusters: int) -> None:
        super().__init__(*parts)
        self._n_clusters = n_clusters

    def advance(self, work: Any, stream: Words, n_sweeps: int) -> None:
        """Sweeps of some clusters."""
        from ebm._kernels.spin_clusters import grow_clusters

        rows = self._rows
        parts = rows.indptr, rows.indices, rows.data, *self._of_units
        for sweeps in portions(n_sweeps, work.size * self._n_clusters):
            grow_clusters(work, *parts, stream, self._n_clusters, sweeps)


def _spins(model: EnergyModel) -> tuple[QuadraticForm, HomogeneousSpace]:
    """J and h of a model of two-valued units in pairs, and its space; frustration is warned of."""
    from ebm._kernels.spin_clusters import is_balanced

    machine = pair_machine(model)
    if machine is None:
        raise ModelError(
            "clusters are flipped of two-valued units in pairs, a BoltzmannMachine, an IsingModel "
            f"or a model with a quadratic_form, got {type(model).__name__}: sample it by "
            "ebm.Gibbs(), or by ebm.ParallelTempering()"
        )
    spins = machine.to_spins()
    form = spins.quadratic_form().folded(spins.space)
    rows = as_csr(form.matrix)
    if not is_balanced(rows.indptr, rows.indices, rows.data, form.vector):
        warn(
            "couplings and fields are frustrated, no state satisfies all of them: clusters then "
            "are nearly all of the units and cross no barrier; take ebm.ParallelTempering()",
            PoorMixingWarning,
        )
    return form, machine.space
