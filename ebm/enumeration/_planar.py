"""The exact ensemble of two-valued pairs without field on a planar graph or a torus.

Z = 2^n Π cosh K · P, P = Σ over even subgraphs of Π tanh K: a Pfaffian on the plane, half the sum
of four signed ones on a torus. ⟨s_u s_v⟩ of a bond = t + (1 − t²) ∂ln P/∂t, and of any two sites
Π t of a way between them, times P with t → 1/t along it, over P.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._randomness import RandomSource
from ebm._types import Array, Indices
from ebm.ensembles import Moments
from ebm.ensembles.moments import moments_of
from ebm.enumeration._limits import Limits, describe_size
from ebm.enumeration._named_units import unit_pairs
from ebm.enumeration._pfaffian import UNIT, PfaffianElimination
from ebm.enumeration._planar_graph import Bonds, Drawing, drawn, work_of
from ebm.enumeration._real_ensemble import RealEnsemble
from ebm.errors import EnumerationLimitError, PrecisionError
from ebm.model import EnergyModel
from ebm.spaces import FiniteSpace
from ebm.spaces._fixed_units import unit_position

__all__ = ["PlanarEnsemble", "planar_ensemble"]

#: Largest error of ln Z that is accepted, in nats.
TOLERANCE = 1e-9
#: Digits of decimals where double precision does not suffice.
DIGITS = (40, 80, 160)
#: Seconds for each pair of half-bonds held and of a step, and around these for each bond.
SECONDS_BY_ENTRY, SECONDS_BY_STEP = 1.2e-8, 1.5e-4
SLOWER_IN_DECIMALS = 60


class PlanarEnsemble(RealEnsemble):
    """Pairs of two-valued units without field on the plane or a torus; made by :func:`ebm.exact`.

    With E = −Σ_k K_k s_u s_v and t = tanh K, ``Z = 2^n Π cosh K · P``, P = Σ over even subgraphs of
    Π t: a Pfaffian on the plane, half the sum of four signed ones on a torus. There is no list of
    states, and there are no draws.

    Parameters
    ----------
    model : EnergyModel
        The model that was summed.
    bonds : Bonds
        The couplings K_k and the units of each.
    drawing : Drawing
        The graph as it lies on the plane or the torus.
    limits : Limits
        Time and memory of this and of all later sums.

    Attributes
    ----------
    log_partition_error : float
        A bound of the error of ln Z by rounding, to first order, in nats.

    Examples
    --------
    >>> import ebm
    >>> glass = ebm.from_graph(ebm.lattice((12, 12), negative=0.5, rng=1))
    >>> torus = ebm.exact(glass)
    >>> torus.route, round(torus.log_partition, 6), torus.log_partition_error < 1e-9
    ('4 Pfaffians', 220.347004, True)
    >>> torus.bonds.shape, round(torus.pair_average(0, 5), 6)
    ((288, 2), -0.012045)
    """

    log_partition_error: float

    def __init__(self, model: EnergyModel, bonds: Bonds, drawing: Drawing, limits: Limits) -> None:
        sizes = np.abs(bonds.couplings)
        self._bonds, self._drawing = bonds, drawing
        self._log_sum, self._slopes, self.log_partition_error = self._certified(limits)
        # Energies are counted from the sum of all couplings satisfied.
        relative = float(bonds.n * np.log(2) + (np.log1p(np.exp(-2 * sizes)) - np.log(2)).sum())
        ground = bonds.constant - float(sizes.sum())
        super().__init__(model, limits, float(relative + self._log_sum - ground))
        self._ground, self._log_relative = ground, relative + self._log_sum
        self.route = f"{len(drawing.factors)} Pfaffian{'s' * (len(drawing.factors) > 1)}"

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, route={self.route!r})"

    @property
    def bonds(self) -> Indices:
        """The coupled pairs of units, on a torus that lacks bonds all its neighbors, (m, 2)."""
        return self._bonds.ends

    @cached_property
    def bond_averages(self) -> Array:
        """⟨s_u s_v⟩ = t + (1 − t²) ∂ln P/∂t of the pairs in ``bonds``, in ±1, (m,)."""
        couplings = self._bonds.couplings
        return np.asarray(np.tanh(couplings) + self._slopes)

    def pair_average(self, first: int | str, second: int | str) -> float:
        """⟨s_i s_j⟩ of any two units in ±1, in which there is no mean.

        Parameters
        ----------
        first, second : int or str
            Units by number or name.

        Returns
        -------
        float
            The average: that of a bond at no cost, of another pair by a Pfaffian, 0 where no bonds
            join the units.

        Raises
        ------
        ShapeError, NamesError
            If one of these is no unit.
        PrecisionError
            If couplings are so large that rounding hides the correlation.
        """
        first = unit_position(first, self.space, "first")
        second = unit_position(second, self.space, "second")
        if first == second:
            return 1.0
        bond = self._bond_of.get(frozenset((first, second)))
        if bond is not None:
            return float(self.bond_averages[bond])
        way = self._way(first, second)
        if way is None:
            return 0.0
        if self._is_in_decimals:
            raise self._uncertain(first, second)
        odd = np.tanh(self._bonds.couplings)
        even = np.ones(len(odd))
        odd[way], even[way] = 1.0, odd[way]
        on_bridge = np.isin(way, self._drawing.bridges)
        factor = float(np.prod(even[way[on_bridge]]))
        even[way[on_bridge]] = 1.0
        sign, log, _, error = _sum_of(self._drawing, odd, even)
        ratio = factor * sign * float(np.exp(log - self._log_sum))
        if not abs(ratio) * (error + self.log_partition_error) <= TOLERANCE:
            raise self._uncertain(first, second)
        return min(1.0, max(-1.0, ratio))

    @cached_property
    def _bond_of(self) -> dict[frozenset[int], int]:
        return {frozenset(ends): k for k, ends in enumerate(self.bonds.tolist())}

    def _uncertain(self, first: int, second: int) -> PrecisionError:
        pair = f"{self.space.labels[first]} and {self.space.labels[second]}"
        return PrecisionError(
            "at couplings of this size double precision does not tell the correlation of units "
            f"{pair}: ask for bond_averages, or take chains, ebm.sample"
        )

    def means(self) -> Array:
        """The middle of both values, by symmetry, (n,)."""
        return np.full(self._bonds.n, sum(float(value) for value in self.space.values) / 2)

    def covariances(self, i: ArrayLike, j: ArrayLike) -> Array:
        """E[x_i x_j] − E[x_i] E[x_j] of pairs of units in the coding of the space, (k,).

        Parameters
        ----------
        i, j : array_like, (k,)
            Units by number or name, the k-th pair ``(i[k], j[k])``.

        Returns
        -------
        ndarray, (k,)
            Covariances: those of bonds at no cost, any other by a Pfaffian.

        Raises
        ------
        ShapeError, NamesError
            If these are no units, or not one for each pair.
        EnumerationLimitError
            If pairs without a bond are too many for the limits.
        PrecisionError
            If couplings are so large that rounding hides a correlation.
        """
        first, second = unit_pairs(i, j, self.space)
        pairs = list(zip(first.tolist(), second.tolist(), strict=True))
        others = sum(a != b and frozenset((a, b)) not in self._bond_of for a, b in pairs)
        self._limits.require(
            f"correlations of {others} pairs without a bond by Pfaffians",
            others * _seconds(self._drawing),
            16.0 * len(pairs),
            "ask for bond_averages, or pair_average(i, j) of single pairs",
        )
        low, high = (float(value) for value in self.space.values)
        averages = [self.pair_average(*pair) for pair in pairs]
        return ((high - low) / 2) ** 2 * np.array(averages, dtype=np.float64)

    def moments(self) -> Moments:
        """Means and all covariances, one Pfaffian for each pair of units, and ln Z."""
        n = self._bonds.n
        pairs = n * (n - 1) / 2
        self._limits.require(
            f"correlations of all {pairs:.0f} pairs by Pfaffians",
            pairs * _seconds(self._drawing),
            16.0 * n * n,
            "ask for bond_averages, or pair_average(i, j) of single pairs",
        )
        second = np.eye(n)
        for i in range(n):
            for j in range(i):
                second[i, j] = second[j, i] = self.pair_average(i, j)
        low, high = (float(value) for value in self.space.values)
        half = (high - low) / 2
        mean = np.full(n, (high + low) / 2)
        return moments_of(self.space, mean, half**2 * second, self.log_partition)

    def sample(self, n_draws: int, rng: RandomSource = None) -> Array:
        """Refused: determinants give averages, not draws."""
        raise EnumerationLimitError(
            "sums by Pfaffians give ln Z and averages, no independent draws: take chains, "
            "ebm.sample(model, n_draws=…)"
        )

    def _drawn(self, n_draws: int, rng: np.random.Generator) -> Array:
        raise NotImplementedError

    def _require_streaming(self, what: str, numbers_per_state: int) -> None:
        raise EnumerationLimitError(
            f"{describe_size(self.space)} cannot be listed: ask for bond_averages, pair_average, "
            "mean_energy, entropy or log_probability, and for other averages take ebm.sample"
        )

    def _mean_relative_energy(self) -> float:
        couplings = self._bonds.couplings
        return float(np.abs(couplings) @ (1 - np.sign(couplings) * self.bond_averages))

    def _certified(self, limits: Limits) -> tuple[float, Array, float]:
        """ln P, (1 − t²) ∂ln P/∂t, a bound of the error of ln P; in decimals where doubles fail."""
        couplings = self._bonds.couplings
        self._is_in_decimals = False
        if not len(couplings):
            return 0.0, np.zeros(0), 0.0
        odd = np.tanh(couplings)
        sign, log, slopes, error = _sum_of(self._drawing, odd, np.ones(len(odd)))
        # The tanh themselves are rounded, too.
        error += UNIT * float(np.abs(slopes * odd).sum())
        if sign > 0 and error <= TOLERANCE:
            small = np.exp(-2 * np.abs(couplings))
            return log, slopes * 4 * small / (1 + small) ** 2, error
        self._is_in_decimals = True
        limits.require(
            f"{len(couplings)} bonds in decimals, since double precision does not suffice,",
            SLOWER_IN_DECIMALS * _seconds(self._drawing),
            _bytes(self._drawing),
            "lower the couplings",
        )
        for digits in DIGITS:
            with decimal.localcontext(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX):
                powers = np.array([(-2 * abs(Decimal(k))).exp() for k in couplings.tolist()])
                odd = np.where(couplings > 0, 1, -1) * (1 - powers) / (1 + powers)
                one: Any = np.full(len(odd), Decimal(1), dtype=object)
                sign, log, slopes, error = _sum_of(self._drawing, odd, one)
                damped = np.asarray(slopes * (1 - odd * odd), dtype=np.float64)
            if sign > 0 and error <= TOLERANCE:
                return log, damped, error
        raise PrecisionError(
            f"couplings up to {np.abs(couplings).max():.3g} leave no certain digit of ln Z in "
            f"{DIGITS[-1]} digits: lower them"
        )

    def _way(self, first: int, second: int) -> Indices | None:
        """Bonds of a shortest way between two units; None if there is none."""
        beside: dict[int, list[tuple[int, int]]] = {}
        for k, (u, v) in enumerate(self._bonds.ends.tolist()):
            beside.setdefault(u, []).append((v, k))
            beside.setdefault(v, []).append((u, k))
        came: dict[int, tuple[int, int]] = {first: (-1, -1)}
        queue = [first]
        for u in queue:
            for v, k in beside.get(u, []):
                if v not in came:
                    came[v] = (u, k)
                    queue.append(v)
        if second not in came:
            return None
        way, unit = list[int](), second
        while unit != first:
            unit, bond = came[unit]
            way.append(bond)
        return np.array(way, dtype=np.intp)


def planar_ensemble(
    model: EnergyModel, space: FiniteSpace, limits: Limits
) -> PlanarEnsemble | None:
    """The ensemble by Pfaffians; None where there are fields or neither a plane nor a torus."""
    on_the_plane = drawn(model)
    if isinstance(on_the_plane, str):
        return None
    bonds, drawing = on_the_plane
    limits.require(
        f"Pfaffians of {len(bonds.couplings)} bonds",
        _seconds(drawing),
        _bytes(drawing),
        "take fewer units",
    )
    return PlanarEnsemble(model, bonds, drawing, limits)


def why_not_planar(model: EnergyModel) -> str:
    """The sentence why :func:`planar_ensemble` has nothing for a model."""
    return (
        "pairs without field on a planar graph, or on a square or triangular lattice on the torus, "
        f"would be summed by Pfaffians, but {drawn(model)}"
    )


def _seconds(drawing: Drawing) -> float:
    steps = SECONDS_BY_STEP * len(drawing.ends) * len(drawing.factors)
    return steps + SECONDS_BY_ENTRY * work_of(drawing)[1]


def _bytes(drawing: Drawing) -> float:
    """Decimals or doubles of the rows of all steps, and of the front."""
    width = work_of(drawing)[0]
    return 400.0 * width**2 + 300.0 * width * len(drawing.ends)


def _sum_of(drawing: Drawing, odd: Any, even: Any) -> tuple[int, float, Any, float]:
    """Sign of P, ln |P|, ∂ln P/∂t of each bond, and a bound of the error of ln |P|."""
    parts = [PfaffianElimination(drawing, signs, odd, even) for signs in drawing.signs]
    unit: Any
    logs: list[Any]
    if odd.dtype == object:
        unit = Decimal(10) ** (1 - decimal.getcontext().prec)
        logs = [sum((abs(p).ln() for p in part.pivots), Decimal(0)) for part in parts]
        peak = max(logs)
        weights: Any = [(log - peak).exp() for log in logs]
    else:
        unit = UNIT
        logs = [float(np.log(np.abs(part.pivots)).sum()) for part in parts]
        peak = max(logs)
        weights = np.exp(np.array(logs) - peak)
    signed = [f * part.sign * w for f, part, w in zip(drawing.factors, parts, weights, strict=True)]
    total = sum(signed) / (2 if len(parts) > 1 else 1)
    if total == 0:
        return 0, -np.inf, np.zeros_like(odd), np.inf
    share = [s / total / (2 if len(parts) > 1 else 1) for s in signed]
    with np.errstate(over="ignore", invalid="ignore"):
        answers = [part.back() for part in parts]
        slopes = sum(s * answer[0] for s, answer in zip(share, answers, strict=True))
        bounds = (
            abs(s) * (answer[1] / 2 + len(part.pivots))
            for s, answer, part in zip(share, answers, parts, strict=True)
        )
        error = float(sum(bounds) * unit)
    error = error if np.isfinite(error) else np.inf
    log = float(abs(total).ln() + peak) if odd.dtype == object else float(np.log(abs(total)) + peak)
    return (1 if total > 0 else -1), log, slopes, error
