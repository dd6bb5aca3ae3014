"""Pairwise models as dimod's binary quadratic models and as QUBO coefficients, and back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ebm._types import Array
from ebm.errors import ModelError, NamesError, ShapeError, require_extra
from ebm.forms import QuadraticForm
from ebm.model import EnergyModel
from ebm.models import _couplings
from ebm.models._library import require_pair_machine
from ebm.models.graphs import names_of_labels, number_of
from ebm.models.pairwise import BoltzmannMachine, IsingModel
from ebm.spaces import Spins
from ebm.spaces._labels import as_names, positions, shown

__all__ = ["from_dimod", "from_qubo", "to_dimod", "to_qubo"]

#: What the linear and the quadratic coefficients are added up in, by places of units.
Pairs = Iterable[tuple[int, int, float]]

_CLASSES: dict[str, Any] = {"SPIN": IsingModel, "BINARY": BoltzmannMachine}


def to_dimod(model: EnergyModel) -> Any:
    """A model as a binary quadratic model of dimod, in the model's own coding.

    dimod has E = Σ_i a_i x_i + Σ_{i<j} B_ij x_i x_j + offset without the minus signs of this
    library: a = −h, B = −J for spins, and a = −b, B = −W for {0,1}.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or another with a quadratic form over two-valued units
        Dense or sparse. A dense one has an interaction where a coupling is not zero, a sparse one
        for every stored coupling. A center and self-couplings go to linear terms and the offset.

    Returns
    -------
    dimod.BinaryQuadraticModel
        Of vartype SPIN or BINARY, with the energies of the model in units of k_B T. Variables are
        the names of the units, or 0, …, n−1 without names. Needs the extra ``dimod``.

    Raises
    ------
    ModelError
        If the model has no quadratic form over two-valued units.
    MissingExtraError
        If dimod is not installed.

    Examples
    --------
    >>> import ebm
    >>> pair = ebm.IsingModel([[0, 2], [2, 0]], [0.5, 0], names=["a", "b"])
    >>> bqm = ebm.to_dimod(pair)
    >>> bqm.vartype.name, float(bqm.get_linear("a")), float(bqm.get_quadratic("a", "b"))
    ('SPIN', -0.5, -2.0)
    """
    machine = require_pair_machine(model)
    form, labels = _plain_form(machine), _labels(machine)
    vartype = "SPIN" if isinstance(machine.space, Spins) else "BINARY"
    bqm = require_extra("dimod", "dimod").BinaryQuadraticModel(vartype)
    # The linear terms first: variables are in the order in which they are added.
    bqm.add_linear_from(zip(labels, (-form.vector).tolist(), strict=True))
    bqm.add_quadratic_from((labels[i], labels[j], -weight) for i, j, weight in _pairs(form))
    bqm.offset = form.constant
    return bqm


def from_dimod(model: Any, *, sparse: bool = False) -> Any:
    """A binary quadratic model of dimod as a model: the inverse of :func:`to_dimod`.

    Parameters
    ----------
    model : dimod.BinaryQuadraticModel
        Of vartype SPIN or BINARY; its energies are taken to be in units of k_B T.
    sparse : bool
        Whether the interactions alone are parameters, not all pairs.

    Returns
    -------
    IsingModel or BoltzmannMachine
        Of spins or of {0,1} units by the vartype, with the same energies. Named by the variables,
        unless these are 0, …, n−1 in this order.

    Raises
    ------
    ModelError
        If ``model`` is no binary quadratic model, or a coefficient is no finite number.
    ShapeError
        If it has no variables.
    NamesError
        If two variables have the same name as text.

    Examples
    --------
    >>> import dimod, ebm
    >>> bqm = dimod.BinaryQuadraticModel({"a": 1.0}, {("a", "b"): -2.0}, 0.5, "BINARY")
    >>> machine = ebm.from_dimod(bqm)
    >>> machine.biases, float(machine.energy([1, 1])), float(bqm.energy({"a": 1, "b": 1}))
    (array([-1., -0.]), -0.5, -0.5)
    """
    cls = _CLASSES.get(getattr(getattr(model, "vartype", None), "name", ""))
    if cls is None or not all(hasattr(model, k) for k in ("variables", "linear", "quadratic")):
        raise ModelError(
            f"a dimod.BinaryQuadraticModel is wanted, got {type(model).__name__}: dimod.as_bqm "
            "makes one of a quadratic model whose variables are of one kind, constraints have to "
            "be turned into terms of the energy first, and terms of three variables or more and "
            "variables of more values are those of ebm.InteractionModel and ebm.PottsModel"
        )
    variables = list(model.variables)
    place = {variable: k for k, variable in enumerate(variables)}
    linear = [-number_of(model.linear[v], f"the linear term of {v!r}") for v in variables]
    pairs = (
        (place[u], place[v], number_of(value, f"the interaction of {u!r} and {v!r}"))
        for (u, v), value in model.quadratic.items()
    )
    matrix = _matrix(pairs, len(variables), sparse=sparse)
    offset, names = number_of(model.offset, "the offset"), names_of_labels(variables)
    return cls(matrix, linear, offset=offset, names=names)


def to_qubo(model: EnergyModel) -> tuple[dict[tuple[Hashable, Hashable], float], float]:
    """A model as QUBO coefficients: E(x) = Σ_{u≤v} Q_uv x_u x_v + offset over x ∈ {0,1}^n.

    Spins are converted exactly, x = (1 + s)/2, as by ``model.to_binary()``.

    Parameters
    ----------
    model : BoltzmannMachine, IsingModel or another with a quadratic form over two-valued units
        Dense or sparse, as for :func:`to_dimod`.

    Returns
    -------
    coefficients : dict
        Q by pairs of labels, the unit of the lower number first, and a diagonal entry for every
        unit. Labels are the names of the units, or 0, …, n−1 without names.
    offset : float
        The constant.

    Raises
    ------
    ModelError
        If the model has no quadratic form over two-valued units.

    Examples
    --------
    >>> import ebm
    >>> ebm.to_qubo(ebm.BoltzmannMachine([[0, 2], [2, 0]], [-1, 0.5], names=["a", "b"]))
    ({('a', 'a'): 1.0, ('b', 'b'): -0.5, ('a', 'b'): -2.0}, 0.0)
    """
    machine = require_pair_machine(model).to_binary()
    form, labels = _plain_form(machine), _labels(machine)
    linear = zip(labels, (-form.vector).tolist(), strict=True)
    coefficients = {(label, label): value for label, value in linear}
    coefficients |= {(labels[i], labels[j]): -weight for i, j, weight in _pairs(form)}
    return coefficients, form.constant


def from_qubo(
    coefficients: Mapping[tuple[Hashable, Hashable], float],
    offset: float = 0.0,
    *,
    names: Sequence[str] | None = None,
    sparse: bool = False,
) -> BoltzmannMachine:
    """QUBO coefficients as a Boltzmann machine: the inverse of :func:`to_qubo`.

    Parameters
    ----------
    coefficients : mapping
        Q by pairs of labels: (u, u) is linear, as x² = x. A pair in both orders counts with the
        sum of both numbers.
    offset : float
        The constant in units of k_B T.
    names : sequence of str, optional
        Labels in the order of the units, those of units without any coefficient among them. By
        default labels that are all integers are sorted, and others come in the order in which they
        first occur.
    sparse : bool
        Whether the pairs in ``coefficients`` alone are parameters, not all pairs.

    Returns
    -------
    BoltzmannMachine
        Named by the labels, unless these are 0, …, n−1.

    Raises
    ------
    ModelError
        If ``coefficients`` is no mapping from pairs to finite numbers.
    NamesError
        If a label is not among ``names``, or two labels are the same text.
    ShapeError
        If there are no units.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.from_qubo({("a", "a"): 1.0, ("a", "b"): -1.5, ("b", "a"): -0.5})
    >>> machine.names, machine.biases, machine.weights[0, 1]
    (('a', 'b'), array([-1., -0.]), np.float64(2.0))
    """
    if not isinstance(coefficients, Mapping):
        raise ModelError(
            f"coefficients must be a mapping such as {{(0, 1): -2.0}}, got "
            f"{type(coefficients).__name__}: of a matrix Q give "
            "{(i, j): Q[i, j] for i, j in zip(*Q.nonzero())}"
        )
    pairs_given: list[Any] = list(coefficients)
    for pair in pairs_given:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise ModelError(f"keys of coefficients must be pairs of labels, got {pair!r}")
    labels: list[Any] = list(dict.fromkeys(label for pair in pairs_given for label in pair))
    if labels and all(_is_integer(label) for label in labels):
        labels.sort()
    place, given = _places(labels, names)
    linear, pairs = np.zeros(len(place) if names is None else len(given or ())), []
    for (u, v), value in coefficients.items():
        number = number_of(value, f"the coefficient of {(u, v)!r}")
        if place[u] == place[v]:
            linear[place[u]] -= number
        else:
            pairs.append((place[u], place[v], number))
    matrix = _matrix(pairs, len(linear), sparse=sparse)
    return BoltzmannMachine(matrix, linear, offset=number_of(offset, "offset"), names=given)


def _places(
    labels: list[Hashable], names: Sequence[str] | None
) -> tuple[dict[Hashable, int], Sequence[str] | None]:
    """The place of each label, and the names of the units."""
    own = names_of_labels(labels)
    if names is None:
        return {label: k for k, label in enumerate(labels)}, own
    wanted, texts = as_names(names), [str(label) for label in labels]
    unknown = [text for text in texts if text not in wanted]
    if unknown:
        raise NamesError(f"names are {shown(wanted)}, coefficients have {shown(unknown)} besides")
    absent = [name for name in wanted if name not in texts]
    order = positions(wanted, [*texts, *absent], "names must be")
    return dict(zip(labels, order[: len(labels)].tolist(), strict=True)), wanted


def _is_integer(label: Any) -> bool:
    return isinstance(label, int | np.integer) and not isinstance(label, bool)


def _plain_form(machine: BoltzmannMachine | IsingModel) -> QuadraticForm:
    """The energy without self-couplings about 0."""
    return machine.quadratic_form().folded(machine.space).at_origin()


def _labels(machine: BoltzmannMachine | IsingModel) -> Sequence[Hashable]:
    names: Sequence[str] | None = machine.names
    return range(machine.n) if names is None else names


def _pairs(form: QuadraticForm) -> Pairs:
    """Units i < j with their coupling: all that are stored sparsely, else those that are not 0."""
    i, j = _couplings.free_pairs(form.matrix)
    weights: Array = _couplings.at_pairs(form.matrix, (i, j))
    is_there = np.ones(len(i), dtype=bool) if _couplings.is_sparse(form.matrix) else weights != 0
    columns = (array[is_there].tolist() for array in (i, j, weights))
    return zip(*columns, strict=True)


def _matrix(coefficients: Pairs, n: int, *, sparse: bool) -> Any:
    """The couplings A_ij = −B_ij of coefficients B, both orders of a pair summed."""
    if not n:
        raise ShapeError("there are no variables, a model has at least one unit")
    sums: dict[tuple[int, int], float] = {}
    for i, j, value in coefficients:
        pair = (i, j) if i < j else (j, i)
        sums[pair] = sums.get(pair, 0.0) - value
    first, second = np.array(list(sums), dtype=np.intp).reshape(-1, 2).T
    weights = np.array(list(sums.values()), dtype=np.float64)
    return _couplings.of_pairs((first, second), weights, np.zeros(n), sparse=sparse)
