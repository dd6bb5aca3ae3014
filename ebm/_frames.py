"""Results as frames of pandas, from named columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebm.errors import require_extra


def frame(columns: Mapping[str, Any], index: str | Sequence[str] | None = None) -> Any:
    """A frame of these columns, one of them or several as the labels of its rows."""
    table = require_extra("pandas", "data").DataFrame(dict(columns))
    return table if index is None else table.set_index(index)


def states_frame(columns: Mapping[str, Any], states: Any, space: Any) -> Any:
    """Columns about states beside a column for each unit, whose name may be any."""
    pandas = require_extra("pandas", "data")
    units = pandas.DataFrame(states, columns=list(space.labels))
    return pandas.concat([pandas.DataFrame(dict(columns)), units], axis=1)
