"""The function :func:`ebm.thermodynamics` and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ebm._arrays import as_floats, as_integer, as_seconds
from ebm._pictures import picture
from ebm._randomness import RandomSource, generator
from ebm._summary import Summarized, Summary
from ebm._text import table
from ebm._types import Array
from ebm.ensembles import Estimate
from ebm.ensembles.ensemble import Observable
from ebm.enumeration._frontier import frontier_of
from ebm.enumeration._limits import Limits, describe_size
from ebm.errors import EbmError, ModelError, ShapeError, require_extra
from ebm.model import EnergyModel, checked_space
from ebm.sampling import ParallelTempering, TemperedSamples, sample
from ebm.sampling._block_errors import N_BLOCKS, jackknife_error
from ebm.sampling._tempered_models import tempered
from ebm.spaces import FiniteSpace
from ebm.temperature._by_frontier import by_frontier
from ebm.temperature._enumerated import by_enumeration, seconds_by_enumeration
from ebm.temperature._quantities import Values

__all__ = ["Thermodynamics", "thermodynamics"]

METHODS = ("auto", "exact", "tempering")


@dataclass(frozen=True, eq=False, repr=False)
class Thermodynamics(Summarized):
    """Quantities of a model at several temperatures with their errors.

    Made by :func:`ebm.thermodynamics`. ``record[name]`` is an :class:`ebm.Estimate` with one entry
    for each β, whose intervals are Student's with 19 degrees of freedom where it is drawn.

    Parameters
    ----------
    betas : ndarray, (k,)
        Inverse temperatures β, in the order given.
    values : dict of ndarray, (k,) or (k, …)
        Each quantity by name.
    errors : dict of ndarray
        Their standard errors; 0 where they are exact.
    method : str
        How they were computed, such as ``"exact: all 2^9 states"``.
    n_units : int
        Number of units n, by which totals are divided in figures.
    samples : TemperedSamples, optional
        The draws at all temperatures of the ladder, which ends at the lowest temperature asked for.
    """

    betas: Array
    values: Mapping[str, Array]
    errors: Mapping[str, Array]
    method: str
    n_units: int
    samples: TemperedSamples | None = None

    def __repr__(self) -> str:
        return f"Thermodynamics({len(self.betas)} temperatures, {self.method})"

    def __str__(self) -> str:
        """All quantities that are one number at each temperature, four in a line."""
        names, lines = self._numbers, [self.method]
        for start in range(0, len(names), 4):
            shown = names[start : start + 4]
            rows = [["T", *shown], *self._rows(shown)]
            lines += ["", *table(rows, ">" * len(rows[0]), indent=0)]
        return "\n".join(lines)

    def _summary(self) -> Summary:
        columns, rows = ("T", *self._numbers), tuple(map(tuple, self._rows(self._numbers)))
        return Summary(f"Thermodynamics, {self.method}", (), columns, rows)

    @property
    def _numbers(self) -> list[str]:
        """The quantities that are one number at each temperature."""
        return [name for name, values in self.values.items() if values.ndim == 1]

    def _rows(self, names: list[str]) -> list[list[str]]:
        """Temperature and quantities, each with its error."""
        rows = []
        for k, beta in enumerate(self.betas):
            pairs = [(self.values[name][k], self.errors[name][k]) for name in names]
            cells = [str(Estimate(*pair)) if pair[1] else f"{pair[0]:.6g}" for pair in pairs]
            rows.append([f"{1 / beta:.4g}", *cells])
        return rows

    def __getitem__(self, name: str) -> Estimate:
        if name not in tuple(self.values):
            raise EbmError(f"quantity must be one of {', '.join(self.values)}; got {name!r}")
        freedom = np.inf if self.is_exact else N_BLOCKS - 1
        return Estimate(self.values[name], self.errors[name], degrees_of_freedom=freedom)

    @property
    def is_exact(self) -> bool:
        """Whether nothing was drawn."""
        return self.samples is None

    def to_frame(self) -> Any:
        """A pandas frame with one row for each β; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            Columns ``beta``, ``temperature``, and for each quantity ``<name>`` and
            ``<name>_error``; entries of observables with several values are numbered.
        """
        columns: dict[str, Array] = {"beta": self.betas, "temperature": 1 / self.betas}
        for name, values in self.values.items():
            for entry in np.ndindex(values.shape[1:]):
                label = "_".join([name, *map(str, entry)])
                columns[label] = values[(slice(None), *entry)]
                columns[f"{label}_error"] = self.errors[name][(slice(None), *entry)]
        return require_extra("pandas", "data").DataFrame(columns)

    def plot(self, quantities: Any = None, *, ax: Any = None) -> NDArray[Any]:
        """Quantities against temperature, :func:`ebm.plotting.thermodynamics`."""
        panels: NDArray[Any] = picture("thermodynamics", self, quantities, ax=ax)
        return panels


def thermodynamics(
    model: EnergyModel,
    betas: ArrayLike,
    *,
    observables: Mapping[str, Observable] | None = None,
    method: str = "auto",
    n_draws: int = 2000,
    n_chains: int = 8,
    rng: RandomSource = None,
    max_seconds: float = 10.0,
) -> Thermodynamics:
    """Free energy, energy, heat capacity, entropy and magnetization at several temperatures.

    At inverse temperature β the model is ``model.scaled(beta)``, p ∝ exp(−βE). With totals over all
    units for the first five, and s = ±1 for two-valued units (s = 2x − 1 in {0,1}), m = Σ_i s_i/n:

        log_partition   ln Z            free_energy     F = −ln Z/β
        energy          U = ⟨E⟩         heat_capacity   C = β² Var E
        entropy         S = ln Z + βU   absolute_magnetization   ⟨|m|⟩
        susceptibility  χ = βn (⟨m²⟩ − ⟨|m|⟩²)
        binder_cumulant 1 − ⟨m⁴⟩ / 3⟨m²⟩².

    The last three are left out where units have more than two values. With a hidden layer E is the
    energy of both layers, of which the hidden one is summed over, and m that of the visible units.

    Parameters
    ----------
    model : EnergyModel
        A model over a finite space; [EBM] section 2.
    betas : array_like, (k,)
        Positive inverse temperatures in any order, 1 being that of the model.
    observables : mapping of str to callable, optional
        More quantities by name, functions from states (m, n) to (m,) or (m, …), averaged.
    method : str
        ``"exact"``: by a sum over all states or, for pairs of two-valued units, over the states of
        a frontier that passes through their graph. ``"tempering"``: by chains on a ladder of
        temperatures from the largest β to 0, reweighted to each β (MBAR), with errors by a
        jackknife over 20 blocks of draws. ``"auto"``: exact within ``max_seconds``, else tempering.
    n_draws : int
        Draws of each chain at each temperature of the ladder, after a fifth as many scans.
    n_chains : int
        Independent chains.
    rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
        Source of randomness of the chains.
    max_seconds : float
        Time that the exact sums may take.

    Returns
    -------
    Thermodynamics
        Values, errors, and the method that was taken.

    Raises
    ------
    EbmError
        If betas are not positive numbers, ``method`` is none of the three, or an observable has the
        name of a quantity.
    ModelError
        If the space is not finite, or chains are needed and hidden units have no ln Z at β = 0.
    EnumerationLimitError
        If exact sums are demanded and take longer than ``max_seconds``.

    Warns
    -----
    PoorMixingWarning
        If chains made fewer than ten round trips between the ends of the ladder.

    Examples
    --------
    >>> import ebm
    >>> ring = ebm.IsingModel([[0, 1, 1], [1, 0, 1], [1, 1, 0]], [0, 0, 0])
    >>> record = ebm.thermodynamics(ring, [0.5, 1.0])
    >>> record.method, record["log_partition"].value.round(4)
    ('exact: all 2^3 states', array([2.5339, 3.7466]))
    """
    space = checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(f"thermodynamics needs a finite space, got {space!r}")
    inverse = np.atleast_1d(as_floats(betas, "betas")).copy()
    if inverse.ndim != 1 or not len(inverse):
        raise ShapeError(f"betas must be a row of numbers, got shape {inverse.shape}")
    if not (np.isfinite(inverse) & (inverse > 0)).all():
        raise EbmError(
            f"betas must be positive, got {betas!r}; at beta = 0 all states have equal weight"
        )
    if method not in METHODS:
        raise EbmError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if not isinstance(observables or {}, Mapping):
        raise EbmError(f"observables must be functions by name, as {{'m': f}}, got {observables!r}")
    values = Values(model, dict(observables or {}))
    _require_new_names(values)
    n_draws, n_chains = as_integer(n_draws, "n_draws", least=20), as_integer(n_chains, "n_chains")
    limit = as_seconds(max_seconds)
    if method != "tempering":
        exact = _exact(values, inverse, limit, demanded=method == "exact")
        if exact is not None:
            return exact
    return _by_tempering(values, inverse, n_draws, n_chains, generator(rng))


def _require_new_names(values: Values) -> None:
    names = values.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise EbmError(f"observables must have names of their own, {twice[0]!r} is taken")
    for name, f in values.observables.items():
        if not isinstance(name, str):
            raise EbmError(f"observables must have names of text, got {name!r}")
        if not callable(f):
            raise EbmError(f"observables[{name!r}] must be a function of states, got {f!r}")


def _exact(values: Values, betas: Array, limit: float, demanded: bool) -> Thermodynamics | None:
    """The record by the quicker of two sums, if it is within the limit."""
    space: Any = values.model.space
    seconds = seconds_by_enumeration(values, len(betas))
    frontier = None if values.observables else frontier_of(values.model)
    if frontier is not None and not frontier.serves(betas):
        frontier = None
    by_states = frontier is None or seconds <= frontier.seconds(len(betas))
    if not by_states and frontier is not None:
        seconds = frontier.seconds(len(betas))
    if demanded:
        Limits(max_seconds=limit).require(
            f"sums over {describe_size(space)} at {len(betas)} temperatures",
            seconds,
            0.0,
            'take method="tempering"',
        )
    if seconds > limit:
        return None
    if by_states or frontier is None:
        log_partition, averages, references = by_enumeration(values, betas)
        method = f"exact: all {describe_size(space)}"
    else:
        log_partition, averages = by_frontier(frontier, values, betas)
        references = np.full(len(betas), values.reference)
        method = f"exact: sums over a frontier of {frontier.width} units"
    rows = [
        values.quantities(float(beta), float(log_partition[k]), averages[k], float(references[k]))
        for k, beta in enumerate(betas)
    ]
    found = _columns(values, rows)
    errors = {name: np.zeros_like(column) for name, column in found.items()}
    return Thermodynamics(betas, found, errors, method, space.n)


def _by_tempering(
    values: Values, betas: Array, n_draws: int, n_chains: int, source: np.random.Generator
) -> Thermodynamics:
    """The record from chains on a ladder from the largest β to 0."""
    largest, model = float(betas.max()), values.model
    cold = tempered(model, largest)
    try:
        tempered(cold, 0.0)
    except EbmError as error:
        raise ModelError(
            f"the chains' ladder ends at beta = 0, where this model has no ln Z ({error}): take "
            'method="exact", or ebm.sample with a ParallelTempering that ends above 0'
        ) from error
    placing, drawing = source.spawn(2)
    ladder = ParallelTempering.for_model(cold, rng=placing)
    samples: Any = sample(
        cold, ladder, n_draws=n_draws, n_chains=n_chains, burn_in=n_draws // 5, rng=drawing
    )
    draws = samples.slots.reshape(-1, model.space.n).astype(np.float64)
    energies = samples.energies.ravel() / largest if values.is_linear else None
    if energies is not None:
        is_possible = np.isfinite(energies)
        values.reference = float(energies[is_possible].mean())
        # Forbidden states occur at β = 0 alone, and have no weight at any other β.
        energies = np.where(is_possible, energies, values.reference)
    fixed, sums = values.of_states(draws), None
    found: list[list[Array]] = []
    errors: list[list[Array]] = []
    for beta in betas.tolist():
        ensemble = samples.at(min(1.0, beta / largest))
        # Where E_β is βE the values are the same at all temperatures.
        if sums is None or not values.is_linear:
            terms = np.concatenate([values.of_energy(beta, draws, energies), fixed], axis=1)
            sums = ensemble.reweighting.sums(terms)
        averages = ensemble.reweighting.averages(ensemble.potential, sums)
        rows = [
            values.quantities(beta, log_partition, average)
            for log_partition, average in zip(
                ensemble.log_partitions.tolist(), averages, strict=True
            )
        ]
        found.append(rows[0])
        errors.append([jackknife_error(np.array(column)) for column in zip(*rows[1:], strict=True)])
    method = (
        f"tempering: {len(samples.betas)} temperatures, {n_chains} chains of "
        f"{samples.chains.shape[1]} draws, {samples.round_trips} round trips"
    )
    return Thermodynamics(
        betas,
        _columns(values, found),
        _columns(values, errors),
        method,
        model.space.n,
        samples,
    )


def _columns(values: Values, rows: list[list[Array]]) -> dict[str, Array]:
    """One array for each quantity from one list of them for each β."""
    columns = zip(*rows, strict=True)
    return {name: np.array(column) for name, column in zip(values.names, columns, strict=True)}
