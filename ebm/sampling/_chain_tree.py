"""Chains as a tree of labelled arrays, in the schema that ArviZ reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ebm._arrays import read_only
from ebm._names import PACKAGE
from ebm._version import __version__
from ebm.errors import require_extra

#: Dimensions, and values along them, of a variable.
Variable = tuple[tuple[str, ...], Any]
#: Dimensions whose places are numbers.
_NUMBERED: tuple[str, ...] = ("chain", "draw")
#: Who made the tree, as ArviZ writes it.
_ORIGIN = {
    "creation_library": PACKAGE,
    "creation_library_version": __version__,
    "creation_library_language": "Python",
    "inference_library": PACKAGE,
    "inference_library_version": __version__,
}


def chain_tree(
    groups: Mapping[str, Mapping[str, Variable]],
    coordinates: Mapping[str, Any],
    attributes: Mapping[str, Any],
) -> Any:
    """An ``xarray.DataTree`` of groups of variables; chains and draws are numbered."""
    xarray = require_extra("xarray", "xarray")
    about = {**_ORIGIN, **attributes}
    datasets = {}
    for group, variables in groups.items():
        sizes = {
            name: size
            for dims, values in variables.values()
            for name, size in zip(dims, np.shape(values), strict=True)
        }
        places = {name: np.arange(sizes[name]) for name in _NUMBERED if name in sizes}
        places |= {name: values for name, values in coordinates.items() if name in sizes}
        # What is written into the tree must not change the chains that it was made of.
        views = {
            name: (dims, read_only(np.asarray(values).view()))
            for name, (dims, values) in variables.items()
        }
        datasets[group] = xarray.Dataset(views, places, about)
    tree = xarray.DataTree.from_dict(datasets)
    tree.attrs.update(about)
    return tree
