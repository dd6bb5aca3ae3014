"""A model as factors: −E(x) = Σ_a t_a(x_a) + constant, a table t_a for each scope."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ebm._arrays import as_csr
from ebm._types import Array, Indices
from ebm.forms import FactorForm, LayeredForm, QuadraticForm, TermForm, offered_form, summable_form
from ebm.models._layers import are_two_valued
from ebm.spaces import FiniteSpace
from ebm.units import Spin


class GraphFactors(NamedTuple):
    """Numbers of states of all units, (N,), and log weights t_a by scope, −E less a constant.

    The first N scopes are the units one by one; hidden units of a layered machine come last.
    """

    n_values: Indices
    scopes: list[tuple[int, ...]]
    tables: list[Array]
    constant: float


def with_scopes(factors: GraphFactors, scopes: Sequence[tuple[int, ...]]) -> GraphFactors:
    """The same factors with a table of zeros over each of these scopes."""
    zeros = [np.zeros(np.asarray(factors.n_values)[list(scope)]) for scope in scopes]
    return factors._replace(scopes=[*factors.scopes, *scopes], tables=[*factors.tables, *zeros])


def factors_of(model: Any, space: FiniteSpace) -> GraphFactors | None:
    """The factors of a model; None where it is not given by terms of few units."""
    kind = offered_form(model)
    if kind is None:
        return None
    form = summable_form(model)
    if isinstance(form, QuadraticForm):
        return _of_pairs(form, space)
    if isinstance(form, LayeredForm):
        return _of_layers(form, space) if are_two_valued(form) else None
    if isinstance(form, TermForm) and form.count is None:
        return _of_terms(form, space)
    return _of_tables(form, space) if isinstance(form, FactorForm) else None


def _of_pairs(form: QuadraticForm, space: FiniteSpace) -> GraphFactors:
    origin = form.at_origin()
    matrix = as_csr(origin.matrix).tocoo()
    ends = np.cumsum(space.widths)
    starts, unit_of = ends - space.widths, np.repeat(np.arange(space.n), space.widths)
    features = [np.asarray(space.features_of(unit)) for unit in range(space.n)]
    tables = [
        f @ origin.vector[start:end] for f, start, end in zip(features, starts, ends, strict=True)
    ]
    blocks: dict[tuple[int, int], Array] = {}
    for row, column, value in zip(matrix.row, matrix.col, matrix.data, strict=True):
        i, j = int(unit_of[row]), int(unit_of[column])
        if value and i <= j:
            block = blocks.get((i, j))
            if block is None:
                block = blocks[i, j] = np.zeros((space.widths[i], space.widths[j]))
            block[row - starts[i], column - starts[j]] += value
    scopes: list[tuple[int, ...]] = [(unit,) for unit in range(space.n)]
    for (i, j), block in blocks.items():
        table = features[i] @ block @ features[j].T
        if i == j:
            tables[i] = tables[i] + 0.5 * table.diagonal()
        else:
            scopes.append((i, j))
            tables.append(table)
    return GraphFactors(space.n_values, scopes, tables, -origin.constant)


def _of_layers(form: LayeredForm, space: FiniteSpace) -> GraphFactors:
    origin = form.at_origin()
    (n, m), v = origin.weights.shape, space.values_of(0)
    h = np.array([-1.0, 1.0]) if isinstance(form.hidden_units, Spin) else np.array([0.0, 1.0])
    scopes: list[tuple[int, ...]] = [(unit,) for unit in range(n + m)]
    tables = [b * v for b in origin.visible] + [c * h for c in origin.hidden]
    pair = np.outer(v, h)
    for i, j in np.argwhere(origin.weights).tolist():
        scopes.append((i, n + j))
        tables.append(origin.weights[i, j] * pair)
    return GraphFactors(np.full(n + m, 2), scopes, tables, -origin.constant)


def _of_terms(form: TermForm, space: FiniteSpace) -> GraphFactors:
    values = space.values_of(0)
    tables = [np.zeros(2) for _ in range(space.n)]
    scopes: list[tuple[int, ...]] = [(unit,) for unit in range(space.n)]
    for units, coefficient in form.terms.items():
        table = coefficient * reduce(np.multiply.outer, [values] * len(units))
        if len(units) == 1:
            tables[units[0]] = tables[units[0]] + table
        elif coefficient:
            scopes.append(units)
            tables.append(table)
    return GraphFactors(np.asarray(space.n_values), scopes, tables, -form.constant)


def _of_tables(form: FactorForm, space: FiniteSpace) -> GraphFactors:
    units = range(space.n)
    joint = {key: -table for key, table in form.tables.items() if len(key) > 1}
    tables = [-form.tables.get((unit,), np.zeros(space.n_values[unit])) for unit in units]
    scopes = [*((unit,) for unit in units), *joint]
    return GraphFactors(
        np.asarray(space.n_values), scopes, [*tables, *joint.values()], -form.constant
    )
