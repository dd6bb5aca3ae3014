"""The function :func:`ebm.compare_groups`: which parameters differ between groups of rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ebm._arrays import read_only
from ebm._types import Array, Flags, Indices
from ebm.comparison._covariances import (
    chi_square_tail,
    equalized,
    hotelling_tail,
    of_estimates,
)
from ebm.comparison._grouped_rows import Coding, Groups, Rows, of_group, read_groups
from ebm.comparison._tied_fit import tied_fits, ties_where, weighted_fits
from ebm.comparison.group_comparison import (
    EqualityTest,
    GroupComparison,
    is_summed,
    parameter_names,
)
from ebm.effective import CompletedRows
from ebm.ensembles import IncompleteEnsemble
from ebm.errors import (
    CodingError,
    EbmError,
    LimitError,
    MissingValueError,
    ModelError,
    NamesError,
    NoMaximumWarning,
    NotConvergedWarning,
)
from ebm.forms import has_pairs
from ebm.inversion import Pseudolikelihood
from ebm.learning import FitResult, Likelihood, Penalty, fit
from ebm.learning._level_features import LevelFeatures, has_pair_features
from ebm.learning._separation import is_affine
from ebm.learning.losses import Loss
from ebm.learning.penalties import as_penalty
from ebm.model import ParametricModel
from ebm.models import BoltzmannMachine, IsingModel
from ebm.spaces import Binary, Spins, StateSpace
from ebm.spaces._labels import shown

__all__ = ["compare_groups"]

#: What may be equal in all groups, by name.
KINDS = ("biases", "couplings", "all")

Equal = str | list[str | tuple[str, str]] | None


def compare_groups(
    data: Any,
    *,
    by: Any = None,
    equal: Equal = None,
    model: ParametricModel | None = None,
    loss: Loss | None = None,
    penalty: Penalty | float | None = None,
    space: Coding = None,
    missing_at_random: bool = False,
) -> GroupComparison:
    """Compare the couplings of groups of rows: fits, tests of equality, differences.

    Each group g is fitted by itself, and again with parameters in common, θ_g = D_g u. Twice the
    difference of the log-likelihoods, 2(ℓ − ℓ₀), is χ² with as many degrees of freedom as there
    are equalities. Up to 24 two-valued units, or as many states, likelihoods are exact; beyond,
    estimates are those of pseudo-likelihood, whose ratio is no χ², and their differences are tested
    by their covariance (Wald), which needs more rows in each group than there are equalities. Tests
    by permutation are methods of the result.

    Parameters
    ----------
    data : DataFrame, Table, array_like, mapping or sequence of Ensemble
        Rows of all groups with ``by``; or the rows of each group by its label,
        ``{"patients": rows, "controls": other_rows}``; or ensembles. All groups have the same
        units; named ones are aligned by name.
    by : str or array_like, (n_samples,), optional
        Name of the column of labels, which is no unit, or one label for each row. Of ensembles,
        one label for each.
    equal : str or list, optional
        What is tested for equality: ``"biases"``, ``"couplings"`` or ``"all"``, by default each of
        them in turn; or a list of units, whose biases, and of pairs of units, whose couplings are
        equal together. Biases are those at the center of the model, 0 if none is given.
    model : ParametricModel, optional
        The family of all groups, of energies affine in the parameters; by default a
        Boltzmann machine, or an Ising model for spins, with all pairs.
    loss : Loss, optional
        ``ebm.Likelihood()`` or ``ebm.inversion.Pseudolikelihood()``, by default the former up to
        2²⁴ states, and for other models than those of pairs.
    penalty : Penalty or float, optional
        l2 and l2_biases of every fit. Penalized fits have no χ²: resampling tests them.
    space : StateSpace or class, optional
        The coding of rows, by default that of ``model``, or ``ebm.Binary``.
    missing_at_random : bool
        Keep rows with missing cells, whose likelihood sums over what these might hold, as that of
        :class:`ebm.IncompleteEnsemble` does, which is taken as a group as well. They are refused
        otherwise, and by pseudo-likelihood.

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
    MissingValueError
        If cells are missing, and are not summed over.
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
    (9.744, 1, 0.0018)
    """
    coding = space if model is None else _coding_of(model, space)
    try:
        rows = read_groups(data, by, coding, missing_at_random=missing_at_random)
    except CodingError as error:
        if coding is not None:
            raise
        levels = "answers on a scale are compared with model=ebm.OrdinalModel(…)"
        raise CodingError(f"{error}; {levels}") from error
    family = _pairwise(next(iter(rows.values()))) if model is None else model
    loss = _loss(loss, family)
    _require_complete(rows, loss)
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


def _coding_of(model: Any, space: Any) -> StateSpace:
    """That of the model, which decides it."""
    if not isinstance(model, ParametricModel):
        raise ModelError(f"model must be a ParametricModel, got {type(model).__name__}")
    if space is not None:
        raise EbmError(f"space is that of the model, {model.space!r}: leave it out")
    return model.space


def _pairwise(rows: Rows) -> Any:
    """All pairs of two-valued units in the coding of the rows, with their names."""
    space = rows.space
    flat = np.zeros((space.n, space.n)), np.zeros(space.n)
    if isinstance(space, Binary):
        return BoltzmannMachine(*flat, names=space.names)
    if isinstance(space, Spins):
        return IsingModel(*flat, names=space.names)
    raise CodingError(
        f"without model= groups of two-valued units are compared, got {space!r}: give the "
        "family, such as model=ebm.OrdinalModel(…)"
    )


def _loss(loss: Any, family: Any) -> Loss:
    if loss is None:
        has_conditionals = has_pairs(family) or has_pair_features(family)
        large = has_conditionals and not is_summed(family.space)
        return Pseudolikelihood() if large else Likelihood()
    if loss == Pseudolikelihood() or loss == Likelihood():
        checked: Loss = loss
        return checked
    raise EbmError(
        "loss must be ebm.Likelihood() with exact sums, or ebm.inversion.Pseudolikelihood() with "
        f"tied couplings, got {loss!r}"
    )


def _require_complete(groups: Groups, loss: Loss) -> None:
    """Refuse missing cells where nothing sums over them."""
    if not isinstance(loss, Pseudolikelihood):
        return
    for label, rows in groups.items():
        if isinstance(rows, IncompleteEnsemble) and rows.is_missing.any():
            size = rows.sample_size
            raise MissingValueError(
                f"group {label!r}: {size - rows.n_complete:g} of {size:g} rows have missing cells, "
                "and pseudo-likelihood takes complete rows: leave the others out, or sum over what "
                "cells might hold with loss=ebm.Likelihood(), which takes about 28 two-valued units"
            )


def _strength(penalty: Any) -> Penalty:
    strength = as_penalty(penalty)
    if strength.has_l1 or strength.free is not None or strength.ties is not None:
        raise EbmError(
            "the penalty of groups has l2 and l2_biases alone, as zeros chosen in each group by "
            "itself have no differences with errors: which parameters are equal is said by equal=, "
            "and those that are held by model="
        )
    return strength


def _fitted(family: Any, loss: Loss, penalty: Penalty, label: str, rows: Rows) -> FitResult:
    """One group by itself, or a sentence that names it."""
    with of_group(label), warnings.catch_warnings():
        warnings.simplefilter("ignore", NoMaximumWarning)
        warnings.simplefilter("ignore", NotConvergedWarning)
        try:
            result = fit(family, rows, loss=loss, penalty=penalty)
        except LimitError as error:
            raise type(error)(
                f"{error}; that is one group: all are compared without sums by "
                "loss=ebm.inversion.Pseudolikelihood()"
            ) from error
        if not result.converged:
            raise EbmError("; ".join(dict.fromkeys([*result.warnings[:1], result.message])))
        if isinstance(loss, Likelihood):
            _require_affine(family, rows, result)
    return result


def _require_affine(family: Any, rows: Rows, result: FitResult) -> None:
    """Refuse families without a Fisher information that is the curvature of the likelihood."""
    name = type(family).__name__
    whole = CompletedRows(result.model, rows) if isinstance(rows, IncompleteEnsemble) else rows
    if not is_affine(family, whole):
        raise ModelError(
            f"groups are compared by energies that are affine in the parameters, those of {name} "
            "are not: such as with hidden units"
        )
    if result.fisher is None:
        why = "; ".join(result.warnings)
        raise ModelError(
            f"{name} has no exact Fisher information here, from which errors follow: {why}"
        )


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
    if not isinstance(equal, list):
        raise NamesError(
            "equal must be a list, ['a', 'b'] for the biases of two units and [('a', 'b')] for "
            f"the coupling of a pair, got {equal!r}"
        )
    names = parameter_names(model)
    if not equal:
        raise NamesError("equal must name at least one unit or pair, got none")
    flags = np.zeros(couples.shape, dtype=bool)
    for entry in equal:
        flags |= _named(entry, model, names)
    return [(", ".join(np.array(names)[flags].tolist()), flags)]


def _named(entry: Any, model: Any, names: Sequence[str]) -> Flags:
    """Which parameters are biases of a unit, couplings of a pair, or have this name, (p,)."""
    if isinstance(entry, str) and entry in names:
        return np.array([name == entry for name in names])
    labels, owners = model.space.labels, _owners(model)
    units = [str(unit) for unit in (entry if isinstance(entry, tuple | list) else [entry])]
    unknown = [unit for unit in units if unit not in labels]
    if unknown or len(units) > 2 or owners is None:
        known = labels if owners is not None else names
        raise NamesError(
            f"equal names {entry!r}, which is no unit or pair of units: known are {shown(known)}"
        )
    at = sorted(labels.index(unit) for unit in units)
    flags = (owners[:, 0] == at[0]) & (owners[:, 1] == (at[1] if len(at) == 2 else -1))
    if not flags.any():
        raise NamesError(f"equal names {entry!r}, a pair that has no coupling in this model")
    return np.asarray(flags)


def _owners(model: Any) -> Indices | None:
    """The unit of each bias with −1, and both units of each coupling, (p, 2); None if unknown."""
    if has_pair_features(model):
        features = LevelFeatures(model.space, model.pair_features())
        widths = [fields.shape[1] for fields in features.fields]
        units = np.repeat(np.arange(model.space.n), widths)
        first, second = (features.unit_of_feature[side] for side in features.pairs)
    elif getattr(model, "pairs", None) is not None:
        units, (first, second) = np.arange(model.space.n), model.pairs
    else:
        return None
    owners = np.full((len(model.parameters), 2), -1)
    n_pairs = len(units) + len(first)
    owners[: len(units), 0] = units
    owners[len(units) : n_pairs, 0], owners[len(units) : n_pairs, 1] = first, second
    return owners


def _test(
    name: str,
    equal: Flags,
    fits: Sequence[FitResult],
    covariances: Sequence[Array],
    data: Sequence[Rows],
    penalty: Penalty,
    *,
    exact: bool,
) -> EqualityTest:
    """Likelihood ratio of exact fits, Wald's test of others; none of penalized ones."""
    df = (len(fits) - 1) * int(equal.sum())
    is_free = not (penalty.l2 or penalty.l2_biases)
    if exact:
        tied = tied_fits(fits, data, ties_where(equal, len(fits)), penalty)
        free, held = _log_likelihood(fits), _log_likelihood(tied)
        test = EqualityTest(name, "likelihood ratio", None, df, None, held, tied)
        ratio = max(0.0, 2 * (free - held))
        p_value = float(chi_square_tail(ratio, df))
        return replace(test, statistic=ratio, p_value=p_value) if is_free else test
    test = EqualityTest(name, "Wald", None, df, None)
    size = min(rows.sample_size for rows in data)
    if size <= df:
        return test
    together = equalized(np.array([f.model.parameters for f in fits]), covariances, equal)
    test = replace(test, fits=weighted_fits(fits, data, together))
    if not is_free:
        return test
    p_value = hotelling_tail(together.statistic, df, size)
    return replace(test, statistic=together.statistic, p_value=p_value)


def _log_likelihood(fits: Sequence[FitResult]) -> float:
    """ln L of the rows of all groups, in nats."""
    return sum((each.log_likelihood or 0.0) * each.sample_size for each in fits)
