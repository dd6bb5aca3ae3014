"""The picture of a result by name: results stand below the functions that draw them."""

from __future__ import annotations

import importlib
from typing import Any

from ebm._names import PACKAGE


def picture(name: str, *arguments: Any, **settings: Any) -> Any:
    """What the function of this name in ``ebm.plotting`` draws."""
    return getattr(importlib.import_module(f"{PACKAGE}.plotting"), name)(*arguments, **settings)
