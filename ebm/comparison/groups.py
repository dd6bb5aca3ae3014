"""The function :func:`ebm.compare_groups`: which parameters differ between groups of rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._arrays import as_number, read_only
from ebm._randomness import RandomSource
from ebm._types import Array, Flags
from ebm.comparison._covariances import (
    benjamini_hochberg,
    chi_square_tail,
    heterogeneity,
    holm,
    normal_tails,
    of_estimates,
    wald,
)
from ebm.comparison._group_text import printed
from ebm.comparison._grouped_rows import Coding, Groups, of_group, read_groups
from ebm.comparison._tied_fit import tied_fits
from ebm.comparison.resampled_tests import Plan, ResampledTests, resampled_tests
from ebm.ensembles import WeightedStates
from ebm.errors import (
    CodingError,
    EbmError,
    ModelError,
    NamesError,
    NoMaximumWarning,
    NotConvergedWarning,
    require_extra,
)
from ebm.inversion import Pseudolikelihood
from ebm.learning import FitResult, Likelihood, Penalty, fit
from ebm.learning.losses import Loss
from ebm.learning.penalties import as_penalty
from ebm.model import ParametricModel
from ebm.models import BoltzmannMachine, IsingModel
from ebm.spaces import Binary, Spins
from ebm.spaces._labels import shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EqualityTest", "GroupComparison", "GroupDifferences", "compare_groups"]

#: Largest number of units whose likelihood is summed exactly without being asked for.
EXACT_UNITS = 24
#: What may be equal in all groups, by name.
KINDS = ("biases", "couplings", "all")

Equal = str | Sequence[str | tuple[str, str]] | None


@dataclass(frozen=True, eq=False)
class EqualityTest:
    """A test that some parameters are the same in all groups.

    Parameters
    ----------
    equal : str
        What is equal: ``"biases"``, ``"couplings"``, ``"all"``, or the names of the parameters.
    method : str
        ``"likelihood ratio"``, twice the difference of the log-likelihoods of both fits, or
        ``"Wald"``, the differences of the estimates in units of their covariance.
    statistic, p_value : float or None
        χ² and its upper tail; None for penalized estimates, whose χ² is none.
    degrees_of_freedom : int
        Number of equalities.
    log_likelihood : float or None
        ln L of all rows where the parameters are equal, in nats; None for pseudo-likelihood.
    fits : tuple of FitResult
        The fit of each group with these parameters equal; empty for pseudo-likelihood.
    """

    equal: str
    method: str
    statistic: float | None
    degrees_of_freedom: int
    p_value: float | None
    log_likelihood: float | None = None
    fits: tuple[FitResult, ...] = ()


@dataclass(frozen=True, eq=False)
class GroupDifferences:
    """Differences of the couplings of one group from those of the first, the reference.

    Parameters
    ----------
    reference, group : str
        Labels of the two groups.
    names : tuple of str, (k,)
        Names of the couplings.
    values, standard_errors : ndarray, (k,)
        Coupling of the group minus that of the reference, and its standard error
        √(σ² + σ'²).
    """

    reference: str
    group: str
    names: tuple[str, ...]
    values: Array
    standard_errors: Array

    @property
    def z(self) -> Array:
        """Differences in standard errors, (k,)."""
        return self.values / self.standard_errors

    @property
    def p_values(self) -> Array:
        """P(|normal| ≥ |z|) of each coupling by itself, (k,)."""
        return normal_tails(self.z)

    @property
    def p_holm(self) -> Array:
        """``p_values`` by Holm's procedure :cite:`holm1979`: any false alarm at all, (k,)."""
        return holm(self.p_values)

    @property
    def p_benjamini_hochberg(self) -> Array:
        """``p_values`` for a share of false alarms :cite:`benjamini1995`, (k,)."""
        return benjamini_hochberg(self.p_values)

    def interval(self, level: float = 0.95) -> Array:
        """Normal intervals of the differences, each by itself, (2, k).

        Parameters
        ----------
        level : float
            The coverage, between 0 and 1.
        """
        if not 0 < as_number(level, "level") < 1:
            raise EbmError(f"level must be between 0 and 1, got {level!r}")
        from scipy.special import ndtri

        width = float(ndtri(0.5 + level / 2)) * self.standard_errors
        return np.array([self.values - width, self.values + width])

    def to_frame(self) -> Any:
        """A pandas frame, one row for each coupling (needs the extra ``data``)."""
        pandas = require_extra("pandas", "data")
        columns = {
            "difference": self.values,
            "standard_error": self.standard_errors,
            "z": self.z,
            "p": self.p_values,
            "p_holm": self.p_holm,
            "p_benjamini_hochberg": self.p_benjamini_hochberg,
        }
        return pandas.DataFrame(columns, index=pandas.Index(self.names, name="coupling"))


@dataclass(frozen=True, eq=False, repr=False)
class GroupComparison:
    """Fits of several groups of rows, and what differs between them.

    Result of :func:`ebm.compare_groups`. ``print(comparison)`` prints tables, and
    ``comparison[label]`` is the fit of one group.

    Parameters
    ----------
    groups : tuple of str
        Labels of the groups; the first is the reference of differences.
    data : tuple of WeightedStates
        The rows of each group, over the same units.
    fits : tuple of FitResult
        The fit of each group by itself.
    covariances : tuple of ndarray, (p, p)
        Covariance of the parameters of each of these fits.
    equalities : tuple of EqualityTest
        Tests that parameters are equal in all groups.
    loss : Loss
        ``ebm.Likelihood()`` or ``ebm.inversion.Pseudolikelihood()``.
    penalty : Penalty
        The penalty of all fits.
    """

    groups: tuple[str, ...]
    data: tuple[WeightedStates, ...]
    fits: tuple[FitResult, ...]
    covariances: tuple[Array, ...]
    equalities: tuple[EqualityTest, ...]
    loss: Loss
    penalty: Penalty

    def __getitem__(self, label: Any) -> FitResult:
        """The fit of the group of this label."""
        if str(label) not in self.groups:
            raise KeyError(f"no group is called {label!r}, the groups are {shown(self.groups)}")
        return self.fits[self.groups.index(str(label))]

    def __str__(self) -> str:
        return printed(self)

    def __repr__(self) -> str:
        sizes = zip(self.groups, self.data, strict=True)
        rows = ", ".join(f"{label}: {part.sample_size:g} rows" for label, part in sizes)
        return f"GroupComparison({rows}; {self.data[0].space!r})"

    @property
    def model(self) -> Any:
        """The model of the first group, whose names and order of parameters are those of all."""
        return self.fits[0].model

    @property
    def _couples(self) -> Flags:
        return np.asarray(self.model.is_coupling, dtype=bool)

    @cached_property
    def differences(self) -> tuple[GroupDifferences, ...]:
        """Couplings of each other group minus those of the first."""
        couples = self._couples
        names = tuple(np.array(_parameter_names(self.model))[couples].tolist())
        values = [result.model.parameters[couples] for result in self.fits]
        variances = [covariance.diagonal()[couples] for covariance in self.covariances]
        return tuple(
            GroupDifferences(
                self.groups[0],
                self.groups[g],
                names,
                read_only(values[g] - values[0]),
                read_only(np.sqrt(variances[g] + variances[0])),
            )
            for g in range(1, len(self.groups))
        )

    @property
    def strengths(self) -> tuple[tuple[float, float], ...]:
        """Σ|W| of each group and its standard error, for couplings that are not zero."""
        couples, both = self._couples, zip(self.fits, self.covariances, strict=True)
        found = []
        for result, covariance in both:
            couplings = result.model.parameters[couples]
            sign = np.sign(couplings)
            variance = sign @ covariance[np.ix_(couples, couples)] @ sign
            found.append((float(np.abs(couplings).sum()), float(np.sqrt(variance))))
        return tuple(found)

    def permutation_tests(
        self,
        n_draws: int = 999,
        *,
        rng: RandomSource = None,
        executor: Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        max_seconds: float = 600.0,
    ) -> ResampledTests:
        """Test single couplings, all of them, and global strength by exchange of rows.

        Rows are dealt out to groups of the same sizes at random, and the groups fitted again. This
        is exact where the distributions of the groups are equal. That of couplings alone is tested
        through statistics that are divided by their standard errors: without that the test of
        equal couplings answers to biases that differ.

        Parameters
        ----------
        n_draws : int
            Number of permutations.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness; results do not depend on the number of jobs.
        executor : concurrent.futures.Executor, optional
            Executor that runs permutations in parallel.
        checkpoint : path-like, optional
            File to which finished permutations are written, and from which a later call with the
            same seed goes on.
        max_seconds : float
            Longest work, at the speed of the fits of the data on one processor.

        Returns
        -------
        ResampledTests
            Statistics with p = (1 + #{T* ≥ T}) / (1 + B).

        Raises
        ------
        LimitError
            If the work would take longer than ``max_seconds``.
        EbmError
            If frequencies of rows are no whole numbers.
        """
        settings = self._settings(executor, checkpoint, max_seconds)
        return resampled_tests(self._plan(()), n_draws, rng, **settings)

    def parametric_tests(
        self,
        n_draws: int = 999,
        *,
        rng: RandomSource = None,
        executor: Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        max_seconds: float = 600.0,
    ) -> ResampledTests:
        """The tests of :meth:`permutation_tests` against draws from a fit with equal couplings.

        Each group keeps its own biases, so that nothing but the couplings is tested. It is assumed
        that the model holds.

        Parameters
        ----------
        n_draws : int
            Number of draws of all groups.
        rng, executor, checkpoint, max_seconds
            As in :meth:`permutation_tests`.

        Returns
        -------
        ResampledTests
            Statistics with p = (1 + #{T* ≥ T}) / (1 + B).

        Raises
        ------
        LimitError
            If the work would take longer than ``max_seconds``.
        EbmError
            If the groups were compared by pseudo-likelihood.
        """
        if not isinstance(self.loss, Likelihood):
            raise EbmError(
                "draws from a fit with equal couplings need an exact likelihood: compare groups "
                "with loss=ebm.Likelihood(), or take permutation_tests"
            )
        models = tuple(result.model for result in self._with_equal_couplings())
        settings = self._settings(executor, checkpoint, max_seconds)
        return resampled_tests(self._plan(models), n_draws, rng, **settings)

    def _with_equal_couplings(self) -> tuple[FitResult, ...]:
        for test in self.equalities:
            if test.equal == "couplings":
                return test.fits
        return tied_fits(self.fits, self.data, self._couples, self.penalty)

    def _plan(self, models: tuple[Any, ...]) -> Plan:
        return Plan.of(self.groups, self.data, self.model, self.loss, self.penalty, models)

    def _settings(self, executor: Any, checkpoint: Any, max_seconds: Any) -> dict[str, Any]:
        limit = as_number(max_seconds, "max_seconds")
        return {"executor": executor, "checkpoint": checkpoint, "max_seconds": limit}

    def figure(self, **settings: Any) -> Figure:
        """Differences of couplings with their intervals, sorted; needs the extra ``plot``.

        Parameters
        ----------
        **settings
            Those of :func:`ebm.plotting.group_differences`.
        """
        from ebm.plotting import group_differences

        figure: Figure = group_differences(self, **settings).figure
        return figure


def compare_groups(
    data: Any,
    *,
    by: Any = None,
    equal: Equal = None,
    model: ParametricModel | None = None,
    loss: Loss | None = None,
    penalty: Penalty | float | None = None,
    space: Coding = None,
) -> GroupComparison:
    """Compare the couplings of groups of rows: fits, tests of equality, differences.

    Each group g is fitted by itself, and again with parameters in common, θ_g = D_g u. Twice the
    difference of the log-likelihoods, 2(ℓ − ℓ₀), is χ² with as many degrees of freedom as there
    are equalities. Up to 24 units likelihoods are exact; beyond, estimates are those of
    pseudo-likelihood, whose ratio is no χ², and their differences are tested by their covariance
    (Wald). Tests by permutation are methods of the result.

    Parameters
    ----------
    data : DataFrame, Table, array_like, mapping or sequence of Ensemble
        Rows of all groups with ``by``; or the rows of each group by its label,
        ``{"patients": rows, "controls": other_rows}``; or ensembles. All groups have the same
        units; named ones are aligned by name.
    by : str or array_like, (n_samples,), optional
        Name of the column of labels, which is no unit, or one label for each row. Of ensembles,
        one label for each.
    equal : str or sequence, optional
        What is tested for equality: ``"biases"``, ``"couplings"`` or ``"all"``, by default each of
        them in turn; or a list of units, whose biases, and of pairs of units, whose couplings are
        equal together. Biases are those at the center of the model, 0 if none is given.
    model : ParametricModel, optional
        The family of all groups, of energies affine in the parameters; by default a
        Boltzmann machine, or an Ising model for spins, with all pairs.
    loss : Loss, optional
        ``ebm.Likelihood()`` or ``ebm.inversion.Pseudolikelihood()``, by default the former up to 24
        units.
    penalty : Penalty or float, optional
        l2 and l2_biases of every fit. Penalized fits have no χ²: resampling tests them.
    space : StateSpace or class, optional
        The coding of rows, by default ``ebm.Binary``.

    Returns
    -------
    GroupComparison
        Fits of all groups, tests of equality, differences with standard errors; ``str()`` of it
        are tables.

    Raises
    ------
    ShapeError
        If there are fewer than two groups, one has no rows, or numbers of units differ.
    NamesError
        If groups have different units, or ``by`` or ``equal`` name none.
    ConstantUnitError
        If a unit never changes within a group.
    EbmError
        If a group has no estimate at finite parameters.

    Examples
    --------
    >>> import ebm
    >>> patients = [[1, 1], [0, 0], [1, 1], [0, 0], [1, 0], [0, 1]] * 30
    >>> controls = [[1, 1], [0, 0], [1, 0], [0, 1]] * 40
    >>> groups = ebm.compare_groups({"controls": controls, "patients": patients})
    >>> (test,) = [test for test in groups.equalities if test.equal == "couplings"]
    >>> round(test.statistic, 3), test.degrees_of_freedom, round(test.p_value, 4)
    (9.843, 1, 0.0017)
    """
    rows = read_groups(data, by, space)
    family = _family(model, next(iter(rows.values())))
    loss = _loss(loss, family)
    strength = _strength(penalty)
    fits = tuple(_fitted(family, loss, strength, *group) for group in rows.items())
    hypotheses = _hypotheses(equal, fits[0].model)
    covariances = []
    for (label, part), result in zip(rows.items(), fits, strict=True):
        with of_group(label):
            covariances.append(read_only(of_estimates(result, part, strength)))
    parts = tuple(rows.values())
    tests = [
        _test(name, flags, fits, covariances, parts, strength, exact=isinstance(loss, Likelihood))
        for name, flags in hypotheses
    ]
    return GroupComparison(
        tuple(rows), parts, fits, tuple(covariances), tuple(tests), loss, strength
    )


def _family(model: Any, rows: WeightedStates) -> Any:
    """The family given, or the pairwise one of the coding, with the names of the data."""
    space = rows.space
    if model is None:
        flat = np.zeros((space.n, space.n)), np.zeros(space.n)
        if isinstance(space, Binary):
            return BoltzmannMachine(*flat, names=space.names)
        if isinstance(space, Spins):
            return IsingModel(*flat, names=space.names)
        raise CodingError(
            f"without model= groups of two-valued units are compared, got {space!r}: give the "
            "family, such as model=ebm.PottsModel(…)"
        )
    if not isinstance(model, ParametricModel):
        raise ModelError(f"model must be a ParametricModel, got {type(model).__name__}")
    return model


def _loss(loss: Any, family: Any) -> Loss:
    if loss is None:
        is_pairwise = isinstance(family, BoltzmannMachine | IsingModel)
        large = is_pairwise and family.space.n > EXACT_UNITS
        return Pseudolikelihood() if large else Likelihood()
    if loss == Pseudolikelihood() or loss == Likelihood():
        checked: Loss = loss
        return checked
    raise EbmError(
        "loss must be ebm.Likelihood() with exact sums, or ebm.inversion.Pseudolikelihood() with "
        f"tied couplings, got {loss!r}"
    )


def _strength(penalty: Any) -> Penalty:
    strength = as_penalty(penalty)
    if strength.l1 or strength.free is not None or strength.ties is not None:
        raise EbmError(
            "the penalty of groups has l2 and l2_biases alone: which parameters are equal is said "
            "by equal=, and those that are held by model="
        )
    return strength


def _fitted(
    family: Any, loss: Loss, penalty: Penalty, label: str, rows: WeightedStates
) -> FitResult:
    """One group by itself, or a sentence that names it."""
    with of_group(label), warnings.catch_warnings():
        warnings.simplefilter("ignore", NoMaximumWarning)
        warnings.simplefilter("ignore", NotConvergedWarning)
        result = fit(family, rows, loss=loss, penalty=penalty)
        if not result.converged:
            raise EbmError("; ".join([*result.warnings[:1], result.message]))
        if isinstance(loss, Likelihood) and result.fisher is None:
            raise ModelError(
                f"{type(family).__name__} has no exact Fisher information here, from which "
                "errors follow: give a family of fewer parameters and affine energies"
            )
    return result


def _hypotheses(equal: Any, model: Any) -> list[tuple[str, Flags]]:
    """Names of what is tested, and the flags of the parameters that are equal, (p,)."""
    couples = np.asarray(model.is_coupling, dtype=bool)
    if not couples.any():
        raise ModelError("the model has no couplings to compare")
    of_kind = {"biases": ~couples, "couplings": couples, "all": np.full(couples.shape, True)}
    if equal is None:
        return [(kind, flags) for kind, flags in of_kind.items() if flags.any()]
    if isinstance(equal, str):
        if equal not in of_kind:
            raise NamesError(
                f"equal must be one of {shown(KINDS)}, or a list of units and pairs of units such "
                f"as [('a', 'b')], got {equal!r}"
            )
        return [(equal, of_kind[equal])]
    names = _parameter_names(model)
    places = [_place(entry, model, names) for entry in equal]
    if not places:
        raise NamesError("equal must name at least one unit or pair, got none")
    flags = np.zeros(couples.shape, dtype=bool)
    flags[places] = True
    return [(", ".join(np.array(names)[flags].tolist()), flags)]


def _place(entry: Any, model: Any, names: Sequence[str]) -> int:
    """Which parameter is the bias of a unit, the coupling of a pair, or has this name."""
    if isinstance(entry, str) and entry in names:
        return names.index(entry)
    labels, pairs = model.space.labels, getattr(model, "pairs", None)
    units = [entry] if isinstance(entry, str | int | np.integer) else list(entry)
    unknown = [str(unit) for unit in units if str(unit) not in labels]
    if unknown or len(units) > 2 or pairs is None:
        known = labels if pairs is not None else names
        raise NamesError(
            f"equal names {entry!r}, which is no unit or pair of units: known are {shown(known)}"
        )
    at = sorted(labels.index(str(unit)) for unit in units)
    if len(at) == 1:
        return at[0]
    wanted = np.flatnonzero((pairs[0] == at[0]) & (pairs[1] == at[1]))
    if not len(wanted):
        raise NamesError(f"equal names {entry!r}, a pair that has no coupling in this model")
    return len(labels) + int(wanted[0])


def _parameter_names(model: Any) -> list[str]:
    names = getattr(model, "parameter_names", None)
    return [str(k) for k in range(len(model.parameters))] if names is None else list(names)


def _test(
    name: str,
    equal: Flags,
    fits: Sequence[FitResult],
    covariances: Sequence[Array],
    data: Sequence[WeightedStates],
    penalty: Penalty,
    *,
    exact: bool,
) -> EqualityTest:
    """Likelihood ratio of exact fits, Wald's test of others; none of penalized ones."""
    df = (len(fits) - 1) * int(equal.sum())
    is_free = not (penalty.l2 or penalty.l2_biases)
    if not exact:
        values = np.array([result.model.parameters[equal] for result in fits])
        covariances = [covariance[np.ix_(equal, equal)] for covariance in covariances]
        chi_square = wald(values, covariances) if is_free else None
        test = EqualityTest(name, "Wald", chi_square, df, None)
    else:
        tied = tied_fits(fits, data, equal, penalty)
        free, held = (sum(f.log_likelihood * f.sample_size for f in of) for of in (fits, tied))
        ratio = max(0.0, 2 * (free - held)) if is_free else None
        test = EqualityTest(name, "likelihood ratio", ratio, df, None, held, tied)
    if test.statistic is None:
        return test
    return replace(test, p_value=float(chi_square_tail(test.statistic, df)))
