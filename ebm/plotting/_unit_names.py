"""Names of units in a figure, without markup, in any font installed, of limited length."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from ebm.errors import require_extra

#: Wider names lose their middle; characters of Chinese, Japanese and Korean are two columns wide.
MOST_COLUMNS = 20

#: The font of matplotlib that has a box for every character.
_OF_BOXES = "Last Resort High-Efficiency"


def as_drawn(names: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Different labels for different names, and the text properties that draw them as they are.

    Dollars and line breaks are drawn literally. Control characters, and those that no font draws,
    are escaped as in Python. A name wider than 20 columns loses its middle; where two labels would
    then be equal, all get the number of their unit.
    """
    wanted = {ord(character) for character in "".join(names) if _is_text(character)} | {ord("…")}
    families, drawn = _families(wanted)
    labels = [_shortened(_written(name, drawn)) for name in names]
    if len(set(labels)) < len(labels):
        labels = [f"{number}: {label}" for number, label in enumerate(labels)]
    return labels, {"parse_math": False, "usetex": False, "fontfamily": families}


def name_legend(ax: Any, names: Sequence[str], handles: Sequence[Any], **settings: Any) -> Any:
    """A legend of names, including those with a leading underscore, which matplotlib hides."""
    labels, properties = as_drawn(names)
    legend = ax.legend(handles, [str(number) for number in range(len(labels))], **settings)
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(text=label, **properties)
    return legend


def _is_text(character: str) -> bool:
    """Whether it is neither a control character nor a surrogate."""
    return unicodedata.category(character) not in ("Cc", "Cs")


def _written(name: str, drawn: frozenset[int]) -> str:
    """The name with characters that no font draws escaped, except line breaks."""
    return "".join(
        c if c == "\n" or (_is_text(c) and ord(c) in drawn) else ascii(c)[1:-1] for c in name
    )


def _columns(label: str) -> int:
    """Width in columns of a terminal."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in label)


def _shortened(label: str) -> str:
    """The label without its middle, if it is wide."""
    if _columns(label) <= MOST_COLUMNS:
        return label
    ends = ((label[:-half], label[half:]) for half in count(len(label) // 2))
    return next(a + "…" + b for a, b in ends if _columns(a + b) < MOST_COLUMNS)


def _families(wanted: set[int]) -> tuple[list[str], frozenset[int]]:
    """The font families set and those needed besides, and all characters that they draw."""
    families = list(require_extra("matplotlib", "plot").rcParams["font.family"])
    drawn = frozenset[int]().union(*map(_characters, families))
    while missing := wanted - drawn:
        manager = require_extra("matplotlib.font_manager", "plot").fontManager
        upright = (font for font in manager.ttflist if (font.style, font.weight) == ("normal", 400))
        at_hand = sorted({font.name for font in upright} - {_OF_BOXES})
        best = max(at_hand, key=lambda family: len(missing & _characters(family)))
        if not missing & _characters(best):
            break
        families.append(best)
        drawn |= _characters(best)
    return families, drawn


def _characters(family: str) -> frozenset[int]:
    """Code points that the font of a family has glyphs for."""
    fonts = require_extra("matplotlib.font_manager", "plot")
    return _characters_of(fonts.findfont(fonts.FontProperties(family=[family])))


@cache
def _characters_of(path: str) -> frozenset[int]:
    """Code points of a font file, none if it cannot be read."""
    try:
        return frozenset(require_extra("matplotlib.ft2font", "plot").FT2Font(path).get_charmap())
    except (RuntimeError, OSError):
        return frozenset()
