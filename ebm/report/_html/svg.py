"""Figures of matplotlib as elements of a page, in the colors of its text and its paper."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from ebm._names import PACKAGE
from ebm.errors import require_extra
from ebm.report._html.elements import escaped

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_GRAY = re.compile(r"#([0-9a-f]{2})\1\1")
#: Grays that are at most as light as this are ink, and areas at least as light as this are pale.
_INK, _PALE = 0x66, 0xB0
#: Largest number of cells of a matrix that are drawn one by one.
_MOST_CELLS = 2500
#: Everything that could differ between two runs is set.
_SETTINGS = {"svg.hashsalt": PACKAGE, "svg.fonttype": "path", "svg.image_inline": True}


def drawn(
    draw: Callable[..., Any], name: str, label: str, size: tuple[float, float] = (3.6, 3.2)
) -> str:
    """What ``draw(ax=ax)`` draws on a figure of this size in inches, as an SVG element."""
    matplotlib = require_extra("matplotlib", "plot")
    figures = require_extra("matplotlib.figure", "plot")
    file = io.BytesIO()
    with matplotlib.rc_context(_SETTINGS):
        figure = figures.Figure(figsize=size, layout="constrained")
        draw(ax=figure.subplots())
        for ax in figure.axes:
            _draw_cells(ax)
        meta = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        how = {"format": "svg", "transparent": True, "metadata": meta, "dpi": 200}
        # Legends and names beside a network may stand outside of its axes.
        figure.savefig(file, bbox_inches="tight", pad_inches=0.04, **how)
    return _as_element(file.getvalue(), name, label)


def _draw_cells(ax: Any) -> None:
    """Draw matrices as squares, which stay sharp, in place of an image."""
    for image in list(ax.images):
        values = image.get_array()
        if values.ndim == 2 and values.size <= _MOST_CELLS:
            ax.pcolormesh(values, cmap=image.cmap, norm=image.norm).set(
                transform=_shifted(ax), edgecolor="face", linewidth=0.2
            )
            image.remove()


def _shifted(ax: Any) -> Any:
    """Cells are centered at their numbers."""
    transforms = require_extra("matplotlib.transforms", "plot")
    return transforms.Affine2D().translate(-0.5, -0.5) + ax.transData


def _as_element(source: bytes, name: str, label: str) -> str:
    """The drawing without what a page must not hold twice: identifiers, styles, metadata."""
    for prefix, space in (("", _SVG), ("xlink", _LINK)):
        ElementTree.register_namespace(prefix, space)
    root = ElementTree.fromstring(source)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    used = set()
    for element in root.iter():
        used |= {key for value in element.attrib.values() for key in _REFERENCE.findall(value)}
        link = element.get(f"{{{_LINK}}}href", "")
        used |= {link[1:]} if link.startswith("#") else set()
    for element in root.iter():
        _as_attributes(element)
        _rename(element, f"{name}-", used)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "fill": "currentColor", "class": "drawing"}
    text = ElementTree.tostring(root, encoding="unicode")
    # Here the label is escaped as all others are.
    return text.replace("<svg", f'<svg aria-label="{escaped(label)}"', 1)


def _as_attributes(element: Any) -> None:
    """A style written as attributes, which a page may forbid styles to hold."""
    for setting in filter(None, element.attrib.pop("style", "").split(";")):
        key, _, value = (part.strip() for part in setting.partition(":"))
        element.set(key, value)
    for key in ("fill", "stroke"):
        value = element.get(key, "")
        match = _GRAY.fullmatch(value)
        if value == "#ffffff":
            element.attrib.pop(key)
            element.set("class", f"{element.get('class', '')} paper-{key}".strip())
        elif match is not None and int(match[1], 16) <= _INK:
            element.set(key, "currentColor")
        elif match is not None and key == "fill" and int(match[1], 16) >= _PALE:
            element.attrib.pop(key)
            element.set("class", f"{element.get('class', '')} pale-fill".strip())


def _rename(element: Any, prefix: str, used: set[str]) -> None:
    """Identifiers that nothing else on the page has, and none that are not used."""
    identifier = element.attrib.pop("id", None)
    if identifier in used:
        element.set("id", prefix + identifier)
    for key, value in list(element.attrib.items()):
        element.set(key, _REFERENCE.sub(rf"url(#{prefix}\1)", value))
    link = element.get(f"{{{_LINK}}}href", "")
    if link.startswith("#"):
        element.set(f"{{{_LINK}}}href", f"#{prefix}{link[1:]}")
