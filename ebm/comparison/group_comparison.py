"""What a comparison of groups of rows holds: fits, tests of equality, differences."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ebm._arrays import as_number, read_only
from ebm._jobs import Engine
from ebm._pictures import picture
from ebm._randomness import RandomSource
from ebm._summary import Printed
from ebm._types import Array, Flags
from ebm.comparison._covariances import (
    benjamini_hochberg,
    holm,
    normal_tails,
    strength_of,
)
from ebm.comparison._group_text import printed
from ebm.comparison._grouped_rows import Rows
from ebm.comparison._tied_fit import tied_conditionals, tied_fits, ties_where
from ebm.comparison.resampled_tests import Plan, ResampledTests, resampled_tests
from ebm.errors import (
    EbmError,
    require_extra,
)
from ebm.inversion import Pseudolikelihood
from ebm.learning import FitResult, Penalty
from ebm.learning.losses import Loss
from ebm.spaces._labels import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EqualityTest", "GroupComparison", "GroupDifferences", "parameter_names"]

#: Sums over all states are taken of so many two-valued units without being asked for.
EXACT_UNITS = 24


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
        χ² and its upper tail; of Wald's statistic that of Hotelling's T², as its covariance comes
        from the rows. None for penalized estimates, whose χ² is none, and where Wald's test has no
        more rows in a group than equalities.
    degrees_of_freedom : int
        Number of equalities.
    log_likelihood : float or None
        ln L of all rows where the parameters are equal, in nats; None for pseudo-likelihood.
    fits : tuple of FitResult
        The fit of each group with these parameters equal: the joint maximum of the likelihood, or
        the estimates of pseudo-likelihood weighted by their covariances, if there are enough rows.
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

        Returns
        -------
        ndarray, (2, k)
            Lower and upper ends.

        Raises
        ------
        EbmError
            If ``level`` is not between 0 and 1.
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
class GroupComparison(Printed):
    """Fits of several groups of rows, and what differs between them.

    Result of :func:`ebm.compare_groups`. ``print(comparison)`` prints tables, and
    ``comparison[label]`` is the fit of one group.

    Parameters
    ----------
    groups : tuple of str
        Labels of the groups; the first is the reference of differences.
    data : tuple of WeightedStates or IncompleteEnsemble
        The rows of each group, over the same units; if one lacks cells, all are incomplete rows.
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
    data: tuple[Rows, ...]
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
        names = tuple(np.array(parameter_names(self.model))[couples].tolist())
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
        """Σ|W| of each group and its standard error, for couplings that are not near zero."""
        couples = self._couples
        found = []
        for result, covariance in zip(self.fits, self.covariances, strict=True):
            of_couplings = covariance[np.ix_(couples, couples)]
            size, variance = strength_of(result.model.parameters[couples], of_couplings)
            found.append((size, float(np.sqrt(variance))))
        return tuple(found)

    def permutation_tests(
        self,
        n_draws: int = 999,
        *,
        rng: RandomSource = None,
        executor: Engine | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        max_seconds: float = 600.0,
        progress: bool = False,
    ) -> ResampledTests:
        """Test single couplings, all of them, and global strength by exchange of rows.

        Rows are dealt out to groups of the same sizes at random, and the groups fitted again. This
        is exact where the distributions of the groups are equal. That of couplings alone is tested
        through statistics that are divided by their standard errors: without that the test of
        equal couplings answers to biases that differ. Rows with missing cells are dealt out as
        they are, so that which cells are missing is the same in all groups under this hypothesis.

        Parameters
        ----------
        n_draws : int
            Number of permutations.
        rng : None, int, numpy.random.SeedSequence or numpy.random.Generator
            Source of randomness; results do not depend on the number of jobs.
        executor : object with submit, optional
            Runs permutations in parallel: a pool of :mod:`concurrent.futures`, or another engine.
        checkpoint : path-like, optional
            Folder to which finished permutations are written, and from which a later call with the
            same seed goes on.
        max_seconds : float
            Longest work, at the speed of the fits of the data on one processor.
        progress : bool
            Show the number of draws on the standard error stream.

        Returns
        -------
        ResampledTests
            Statistics with p = (1 + #{T* ≥ T}) / (1 + B).

        Raises
        ------
        LimitError
            If the work would take longer than ``max_seconds``, or there are 10⁹ rows.
        EbmError
            If frequencies of rows are no whole numbers.
        """
        settings = self._settings(executor, checkpoint, max_seconds, progress)
        return resampled_tests(self._plan(()), n_draws, rng, **settings)

    def parametric_tests(
        self,
        n_draws: int = 999,
        *,
        rng: RandomSource = None,
        executor: Engine | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        max_seconds: float = 600.0,
        progress: bool = False,
    ) -> ResampledTests:
        """The tests of :meth:`permutation_tests` against draws from a fit with equal couplings.

        Each group keeps its own biases, so that nothing but the couplings is tested. It is assumed
        that the model holds; where cells are missing, draws lack those that the rows of their
        group lack, whatever they hold. Up to 2²⁴ states the fit is the maximum of the likelihood,
        and draws are exact. Beyond, it is that of the loss, and each row of a draw is the end of a
        chain of its own, whose Gibbs sweeps from a uniform state are 20 autocorrelation times of
        the slowest unit and of the energy or more, at least 100.

        Parameters
        ----------
        n_draws : int
            Number of draws of all groups.
        rng, executor, checkpoint, max_seconds, progress
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
            If chains do not mix: split R-hat of 64 of them is above 1.1, or they would need more
            than 10 000 sweeps.
        """
        models = self._with_equal_couplings()
        settings = self._settings(executor, checkpoint, max_seconds, progress)
        return resampled_tests(self._plan(models), n_draws, rng, **settings)

    def _with_equal_couplings(self) -> tuple[Any, ...]:
        """The models of the joint fit."""
        for test in self.equalities:
            if test.equal == "couplings" and test.method == "likelihood ratio":
                return tuple(result.model for result in test.fits)
        ties = ties_where(self._couples, len(self.fits))
        if not is_summed(self.model.space) and isinstance(self.loss, Pseudolikelihood):
            return tied_conditionals(self.fits, self.data, ties, self.penalty)
        fits = tied_fits(self.fits, self.data, ties, self.penalty)
        return tuple(result.model for result in fits)

    def _plan(self, models: tuple[Any, ...]) -> Plan:
        names = self.differences[0].names
        parts = (self.model, self.loss, self.penalty, models, names)
        return Plan.of(self.groups, self.data, *parts, by_chains=not is_summed(self.model.space))

    def _settings(
        self, executor: Any, checkpoint: Any, max_seconds: Any, progress: bool
    ) -> dict[str, Any]:
        limit = as_number(max_seconds, "max_seconds")
        where = {"executor": executor, "checkpoint": checkpoint}
        return {**where, "max_seconds": limit, "progress": progress}

    def plot(self, *, level: float = 0.95, most: int = 40, ax: Axes | None = None) -> Axes:
        """Differences of couplings with their intervals, sorted.

        Parameters
        ----------
        level : float
            The coverage of the intervals, between 0 and 1.
        most : int
            Largest number of couplings: those with the largest differences in standard errors.
        ax : matplotlib.axes.Axes, optional
            Axes to draw into; a new figure if not given.

        Returns
        -------
        matplotlib.axes.Axes
            Those of :func:`ebm.plotting.group_differences`; needs the extra ``plot``.
        """
        axes: Axes = picture("group_differences", self, level=level, most=most, ax=ax)
        return axes


def is_summed(space: Any) -> bool:
    """Whether sums over all states are taken without being asked for."""
    values = getattr(space, "n_values", None)
    return values is None or float(np.log2(values).sum()) <= EXACT_UNITS


def parameter_names(model: Any) -> list[str]:
    """Their names, or their numbers where the model has none."""
    names = getattr(model, "parameter_names", None)
    return [str(k) for k in range(len(model.parameters))] if names is None else list(names)
