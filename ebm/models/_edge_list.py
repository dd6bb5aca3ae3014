"""Couplings of pairs of units as a list of edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebm._frames import frame
from ebm._types import Array
from ebm.errors import ModelError


def pair_columns(model: Any) -> dict[str, Any]:
    """The labels of both units of ``model.pairs``, (number of pairs,) each."""
    labels = np.array(model.space.labels, dtype=object)
    source, target = (labels[np.asarray(units)] for units in model.pairs)
    return {"source": source, "target": target}


def edge_frame(model: Any, errors: Array | None, **further: Array) -> Any:
    """A row for each pair: both units, the coupling, and columns (p,) of the parameters."""
    is_coupling = np.asarray(model.is_coupling, dtype=bool)
    if np.shape(getattr(model, "pairs", ())) != (2, int(is_coupling.sum())):
        raise ModelError(
            f"edges are pairs of units with one coupling each, which {type(model).__name__} does "
            "not have: to_frame() of a fit lists all its parameters by name"
        )
    columns = pair_columns(model) | {"coupling": np.asarray(model.parameters)[is_coupling]}
    if errors is not None:
        further = {"standard_error": errors, **further}
    return frame(columns | {name: values[is_coupling] for name, values in further.items()})


class EdgeList:
    """A model with one coupling for each of its pairs."""

    def to_frame(self) -> Any:
        """The couplings as a list of edges, a pandas frame; needs the extra ``data``.

        Returns
        -------
        pandas.DataFrame
            One row for each of ``pairs``; columns ``source``, ``target`` and ``coupling``, as
            networkx.from_pandas_edgelist reads them. ``FitResult.to_frame("couplings")`` has errors
            beside them.
        """
        return edge_frame(self, None)
