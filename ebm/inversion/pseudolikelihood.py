"""Maximum pseudo-likelihood: every unit predicted from all others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebm._arrays import as_flag
from ebm._types import Array
from ebm.ensembles import Ensemble, Moments
from ebm.errors import (
    EbmError,
    FewSamplesWarning,
    ModelError,
)
from ebm.inversion._conditional_problem import ConditionalProblem
from ebm.inversion._conditionals import ConditionalLoss
from ebm.inversion._level_problem import (
    LevelProblem,
    level_problem,
    log_likelihood_of_levels,
)
from ebm.inversion._local_loss import LocalLoss, logistic
from ebm.inversion._local_problem import (
    LocalProblem,
    local_problem,
    require_rule,
    require_same_units,
)
from ebm.inversion._rows import DistinctRows, read_rows
from ebm.inversion._sandwich import Sandwich
from ebm.inversion._separate_level_pairs import separate_levels
from ebm.inversion._sparse_level_pairs import SparseLevelPseudolikelihood, sparse_levels
from ebm.inversion.truncated_newton import TruncatedNewton
from ebm.learning import fit
from ebm.learning._existence import (
    empty_cells,
    gentle_penalty,
    listed,
    require_changing_units,
)
from ebm.learning._families import (
    center_of,
    diagonal_input,
    has_pairs,
    pairs_of,
    require_own_pairs,
)
from ebm.learning._level_features import has_pair_features
from ebm.learning.penalties import AppliedPenalty, Penalty
from ebm.learning.result import FitResult
from ebm.models import BoltzmannMachine, IsingModel
from ebm.models._library import pair_machine
from ebm.spaces import Spins, StateSpace
from ebm.spaces._labels import shown

__all__ = ["Pseudolikelihood", "log_pseudolikelihood", "pseudolikelihood"]


@dataclass(frozen=True)
class Pseudolikelihood:
    """Minus the mean log pseudo-likelihood, L(θ) = −Σ_α E_D[ln p(x_α | rest)], in nats.

    The conditional probabilities are those of [EBM] eq 13. No sum over states is needed; the cost
    is proportional to the number of rows and to n². The estimator is consistent at any coupling
    :cite:`nguyen2017`.

    Parameters
    ----------
    node_wise : bool
        Whether each unit has its own regression, logistic or of levels, and each coupling is the
        mean of two estimates. By default both are one parameter, which is more accurate.
    rule : str
        What is zero after node-wise regressions with an l1, each of which has all of it: with
        ``"and"`` a coupling of which one estimate is zero, with ``"or"`` one of which both are.

    Raises
    ------
    EbmError
        If ``node_wise`` is neither True nor False, or ``rule`` is neither "and" nor "or", or "or"
        without ``node_wise``.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> start = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> ebm.fit(start, rows, loss=ebm.inversion.Pseudolikelihood()).model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """

    node_wise: bool = False
    rule: str = "and"

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_wise", as_flag(self.node_wise, "node_wise"))
        require_rule(self.rule, self.node_wise)

    def sparse(self, model: Any, data: Any, penalty: Penalty) -> LocalProblem:
        """The same for any strength of l1, (model, data, penalty) as in :meth:`of`."""
        return local_problem(
            model, data, penalty, link=logistic, shared=not self.node_wise, rule=self.rule
        )

    def of(
        self, model: Any, data: Any, penalty: Penalty
    ) -> PseudolikelihoodProblem | LevelProblem | LocalProblem | SparseLevelPseudolikelihood:
        """The pseudo-likelihood of a pairwise model on rows.

        Parameters
        ----------
        model : BoltzmannMachine, IsingModel, OrdinalModel or PottsModel
            The family: its center, diagonal, scores, names and pattern of couplings are kept. A
            user's own family of levels has the method ``pair_features`` of
            :class:`ebm.model.PairFeatures`.
        data : Ensemble
            The rows; moments do not suffice.
        penalty : Penalty
            The penalty of the parameters.

        Returns
        -------
        PseudolikelihoodProblem, LevelProblem, LocalProblem or SparseLevelPseudolikelihood
            What :func:`ebm.fit` solves; the last two, by :class:`ebm.ProximalNewton`, with an l1.

        Raises
        ------
        ModelError
            If the model is not pairwise in two-valued units or levels, or ``data`` are moments.
        ConstantUnitError
            If a unit never changes and ``penalty.l2_biases`` is zero.
        EbmError
            If the penalty has ties together with an l1, or, without one, free or tied parameters
            together with ``node_wise``; if l1 is given in place of group_l1 where a pair has
            several couplings.
        """
        if not has_pairs(model) and has_pair_features(model):
            if self.node_wise:
                return separate_levels(model, data, penalty, logistic, self.rule)
            if penalty.has_l1:
                return sparse_levels(model, data, penalty)
            return level_problem(model, data, AppliedPenalty(model, penalty))
        if not has_pairs(model):
            name = type(model).__name__
            if pair_machine(model) is not None:
                raise ModelError(
                    f"{name} does not say which couplings are its parameters: to be fitted by "
                    "pseudo-likelihood, its parameters must be the vector v and the couplings A_ij "
                    "of its quadratic_form, and its attribute pairs the index arrays (i, j), i < j"
                )
            raise ModelError(
                f"{name} has no pseudo-likelihood here: give a pairwise model of "
                "two-valued units, such as ebm.BoltzmannMachine or ebm.IsingModel, or of levels, "
                "such as ebm.OrdinalModel or ebm.PottsModel"
            )
        require_own_pairs(model)
        if penalty.has_l1:
            return self.sparse(model, data, penalty)
        rows = read_rows(data)
        require_same_units(rows.space, model.space)
        problem = PseudolikelihoodProblem(model, rows, AppliedPenalty(model, penalty), self)
        if self.node_wise and problem.ways is not None:
            raise EbmError(
                "node_wise regressions have all couplings and tie none: give a model with all "
                "couplings and a penalty without free and ties, or node_wise=False"
            )
        require_changing_units(rows.moments, problem.penalty)
        return problem


def pseudolikelihood(
    data: Any,
    *,
    penalty: Penalty | float | None = None,
    node_wise: bool = False,
    space: StateSpace | type[StateSpace] | None = None,
    sample_weight: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    solver: TruncatedNewton | None = None,
) -> FitResult:
    """Fit a pairwise model by maximum pseudo-likelihood.

    The maximum of Σ_α E_D[ln p(x_α | rest)] − R(θ) with the conditional probabilities of [EBM]
    eq 13, by :func:`ebm.fit` with ``loss=ebm.inversion.Pseudolikelihood()``. The model is a
    Boltzmann machine with all couplings and its center at the means of the data, or for spins an
    Ising model.

    Parameters
    ----------
    data : array_like, DataFrame, Table or Ensemble
        Rows, or an ensemble of states; moments do not suffice.
    penalty : Penalty or float, optional
        ``ebm.Penalty(l2=…)``, or its ``l2`` alone, for the couplings in the coding of the data and
        the biases at the center of the data means, or the fields of spins.
    node_wise : bool
        Whether each unit has its own logistic regression, as in :class:`Pseudolikelihood`.
    space : StateSpace or class, optional
        The coding of rows, by default ``ebm.Binary``.
    sample_weight : array_like, (n_samples,), optional
        Frequencies of the rows.
    names : sequence of str, optional
        Names of the units, if the rows have none.
    solver : TruncatedNewton, optional
        The solver with its tolerance and largest number of steps.

    Returns
    -------
    FitResult
        The model, with standard errors that are computed on first use. Where the
        pseudo-likelihood has no maximum the result is not ``converged``, and a
        :class:`ebm.errors.NoMaximumWarning` names the units.

    Raises
    ------
    EbmError
        If a setting is out of range.
    ModelError
        If ``data`` are moments.
    CodingError
        If values are outside the coding, or units are not two-valued.
    ConstantUnitError
        If a unit never changes and ``penalty.l2_biases`` is zero.

    Notes
    -----
    For more than about 10 000 parameters standard errors are refused as too costly, and
    :func:`ebm.inversion.bootstrap` takes their place.

    Examples
    --------
    >>> import ebm
    >>> rows = [[0, 0], [0, 1], [1, 0], [1, 1], [1, 1], [0, 0]]
    >>> ebm.inversion.pseudolikelihood(rows).model.weights.round(4)
    array([[0.    , 1.3863],
           [1.3863, 0.    ]])
    """
    rows = read_rows(data, space=space, weights=sample_weight, names=names)
    n, flat = rows.space.n, np.zeros((rows.space.n,) * 2)
    family: Any = IsingModel(flat, np.zeros(n), names=rows.space.names)
    if not isinstance(rows.space, Spins):
        center = rows.weights @ rows.states
        family = BoltzmannMachine(flat, np.zeros(n), center=center, names=rows.space.names)
    loss = Pseudolikelihood(node_wise)
    return fit(family, rows.ensemble(), loss=loss, penalty=penalty, solver=solver)


def log_pseudolikelihood(model: Any, data: Any) -> float:
    """Σ_α E_D[ln p(x_α | rest)] of a pairwise model, in nats per sample; [EBM] eq 13.

    −n ln 2 where all parameters are zero.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel, OrdinalModel or PottsModel
        A pairwise model of two-valued units or of levels.
    data : array_like, DataFrame, Table or Ensemble
        Rows in the coding of the model, or an ensemble of states.

    Returns
    -------
    float
        The sum over all units.

    Raises
    ------
    ModelError
        If the model is not a pairwise model of two-valued units or of levels.
    NamesError
        If the units of an ensemble have other names.

    Examples
    --------
    >>> import ebm
    >>> flat = ebm.BoltzmannMachine([[0, 0], [0, 0]], [0, 0])
    >>> ebm.inversion.log_pseudolikelihood(flat, [[0, 1], [1, 1]])
    -1.3862943611198906
    """
    machine = pair_machine(model)
    is_of_levels = machine is None and has_pair_features(model)
    if machine is None and not is_of_levels:
        raise ModelError(
            "model must be a BoltzmannMachine or an IsingModel, have a quadratic_form over "
            "two-valued units, or be a pairwise model of levels such as ebm.OrdinalModel, got "
            f"{type(model).__name__}"
        )
    with warnings.catch_warnings():
        # A single row has a value too.
        warnings.simplefilter("ignore", FewSamplesWarning)
        coding = None if isinstance(data, Ensemble | Moments) else model.space
        rows = read_rows(data, space=coding, two_valued=not is_of_levels)
    if machine is None:
        return log_likelihood_of_levels(model, rows)
    require_same_units(rows.space, model.space)
    spins = isinstance(model.space, Spins)
    inputs = machine.input(2 * rows.states - 1 if spins else rows.states) * (2 if spins else 1)
    margins = (2 * rows.states - 1) * inputs
    return -float(rows.weights @ np.logaddexp(0, -margins).sum(axis=1))


@dataclass(frozen=True, eq=False)
class PseudolikelihoodProblem(ConditionalProblem):
    """The conditionals of a pairwise family on rows.

    Steps are taken in (b, B): biases and weights of a machine of {0,1} units whose center is at
    the means x̂ of the rows. They are affine in the family's linear parameters v and couplings A at
    its center c: b_i = v_i + Σ_j A_ij (x̂_j − c_j) + A_ii (½ − c_i), B = A for {0,1} units, and
    b_i = 2 v_i + 2 Σ_j A_ij (ŝ_j − c_j) with ŝ = 2x̂ − 1, B = 4A for spins.
    """

    conditions: Pseudolikelihood

    @cached_property
    def _factors(self) -> tuple[int, int]:
        """∂b_i/∂v_i and ∂B_ij/∂A_ij."""
        return (2, 4) if isinstance(self.family.space, Spins) else (1, 1)

    @cached_property
    def _shift(self) -> Array:
        """x̂ − c, or ŝ − c, (n,)."""
        mean = self.rows.weights @ self.rows.states
        coded = 2 * mean - 1 if isinstance(self.family.space, Spins) else mean
        return np.asarray(coded - center_of(self.family))

    @cached_property
    def _diagonal(self) -> Array:
        """A_ii (½ − c_i), what a diagonal adds to b, (n,)."""
        return diagonal_input(pairs_of(self.family), self.family.space)

    def coordinates(self) -> Array:
        """(b, B) of the family as given, (n, n + 1)."""
        n, (i, j), (unit, pair) = self.family.space.n, self.family.pairs, self._factors
        theta = self.family.parameters
        coupled = np.zeros((n, n))
        coupled[i, j] = coupled[j, i] = theta[n:]
        biases = unit * (theta[:n] + coupled @ self._shift) + self._diagonal
        return np.column_stack([biases, pair * coupled])

    def parameters(self, theta: Array) -> Array:
        """The inverse of :meth:`coordinates`: v and A of the pairs, (p,)."""
        unit, pair = self._factors
        coupled = (theta[:, 1:] + theta[:, 1:].T) / (2 * pair)
        linear = (theta[:, 0] - self._diagonal) / unit - coupled @ self._shift
        return np.concatenate([linear, coupled[self.family.pairs]])

    @cached_property
    def ways(self) -> Array | None:
        """Changes of (b, B_ij for i < j) that the parameters allow, (P, q); None for all."""
        n, (i, j) = self.family.space.n, self.family.pairs
        directions = self.penalty.directions
        if directions is None and len(i) == n * (n - 1) // 2:
            return None
        moves = np.eye(n + len(i)) if directions is None else directions
        upper = np.zeros((n, n), dtype=np.intp)
        upper[np.triu_indices(n, 1)] = n + np.arange(n * (n - 1) // 2)
        unit, pair = self._factors
        ways = np.zeros((n * (n + 1) // 2, moves.shape[1]))
        ways[upper[i, j]] = pair * moves[n:]
        ways[:n] = moves[:n]
        np.add.at(ways, i, self._shift[j, None] * moves[n:])
        np.add.at(ways, j, self._shift[i, None] * moves[n:])
        ways[:n] *= unit
        return ways

    @cached_property
    def loss(self) -> ConditionalLoss:
        """Penalties act in the coding of the family: v = θt + u."""
        n, strength, (unit, pair) = self.family.space.n, self.penalty.strength, self._factors
        allowed = basis = None
        if self.ways is None:
            pass
        elif self.penalty.is_tied:
            basis = _basis(n, self.ways)
        else:
            i, j = self.family.pairs
            allowed = np.zeros((n, n + 1), dtype=bool)
            allowed[:, 0] = allowed[i, j + 1] = allowed[j, i + 1] = True
        return ConditionalLoss(
            self.rows.states,
            self.rows.weights,
            tied=not self.conditions.node_wise,
            l2=strength.l2 / pair**2,
            l2_biases=strength.l2_biases,
            linear=np.append(1 / unit, -self._shift / pair),
            offset=-self._diagonal,
            allowed=allowed,
            basis=basis,
        )

    def regressions(self, theta: Array) -> Array | None:
        """Those of each unit by itself, where they are separate."""
        return theta[:, 1:] / self._factors[1] if self.conditions.node_wise else None

    def log_pseudolikelihood(self, theta: Array) -> float:
        """Of the averaged couplings, without penalty."""
        loss = self.loss
        if loss.tied:
            return loss.penalty(theta) - loss.point(theta).value
        both = theta.copy()
        both[:, 1:] = (theta[:, 1:] + theta[:, 1:].T) / 2
        return -replace(loss, tied=True, l2=0.0, l2_biases=0.0).evaluate(both).value

    @cached_property
    def _local(self) -> LocalProblem:
        """The same loss in the coding of the family, without ties."""
        strength = self.penalty.strength
        if self.penalty.is_tied:
            strength = Penalty(strength.l2, strength.l2_biases)
        penalty = AppliedPenalty(self.family, strength)
        shared = not self.conditions.node_wise
        return LocalProblem(self.family, penalty, self.rows, logistic, shared)

    def in_parameters(self) -> LocalLoss:
        """The loss whose coordinates are the parameters of the family."""
        local = self._local
        smooth, moved = local.smooth, local.center - center_of(self.family)
        return replace(smooth, features=smooth.features + smooth.constant * moved)

    def sandwich(self, theta: Array) -> Sandwich:
        """That of the parameters of the family at (b, B)."""
        if self.penalty.is_tied:
            ways = np.asarray(self.penalty.directions)
            return Sandwich(self.in_parameters(), self.parameters(theta), ways, ways)
        local, (unit, pair) = self._local, self._factors
        couplings = theta[:, 1:] / pair
        biases = (theta[:, 0] - self._diagonal) / unit
        biases += couplings @ (local.center - local.mean)
        coordinates = local.smooth.coordinates(biases, couplings)
        return local.sandwich(coordinates, None if local.shared else local.mean)

    def missing_maximum(self, growing: Array | None) -> str:
        """Cells that never occur, or what a direction without end separates."""
        rows = self.rows
        cells = empty_cells(rows.moments, self.family.pairs, self.penalty)
        if cells:
            return _no_maximum(listed(cells), rows)
        if growing is None:
            return ""
        if math.isinf(rows.sample_size):
            # All states have weight: there is a maximum, where probabilities are rounded.
            return (
                "stopped before the maximum, where couplings are so strong that probabilities of "
                "this ensemble are rounding; add a small penalty, ebm.Penalty(l2=…)"
            )
        return _no_maximum(_separation(growing, self.loss, rows.space), rows)


def _no_maximum(reason: str, rows: DistinctRows) -> str:
    return (
        f"the pseudo-likelihood has no maximum at finite parameters: {reason}. Add a penalty on "
        f"couplings, such as penalty=ebm.Penalty(l2={gentle_penalty(rows.sample_size)})"
    )


def _separation(growing: Array, loss: ConditionalLoss, space: StateSpace) -> str:
    """What the direction without end separates."""
    lowest, highest = loss.margins(growing)
    moved = np.flatnonzero(highest > 0.3 * highest.max())
    perfect = [space.labels[k] for k in moved if lowest[k] > 1e-3 * highest.max()]
    if perfect:
        subject, verb = ("unit", "is") if len(perfect) == 1 else ("units", "are")
        return f"{subject} {shown(perfect)} {verb} predicted without error by the other units"
    units = shown([space.labels[k] for k in moved])
    return f"some values of {units} are predicted without error by the other units"


def _basis(n: int, ways: Array) -> Array:
    """The ways as an orthonormal basis of arrays (n, n + 1), flat, (n (n + 1), q)."""
    arrays = np.zeros((n, n + 1, ways.shape[1]))
    arrays[:, 0] = ways[:n]
    i, j = np.triu_indices(n, 1)
    arrays[i, j + 1] = arrays[j, i + 1] = ways[n:]
    return np.linalg.qr(arrays.reshape(n * (n + 1), -1))[0]
