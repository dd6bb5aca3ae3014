"""The figures of the examples, published only when every panel of theirs is drawn."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot

__all__ = ["complete_figures", "empty_panels"]


def complete_figures(block: Any, block_vars: Any, gallery_conf: Any, **settings: Any) -> str:
    """What the gallery makes of the figures that are open at the end of a block of code."""
    from sphinx_gallery.scrapers import matplotlib_scraper

    for number in pyplot.get_fignums():
        empty = empty_panels(pyplot.figure(number))
        if empty:
            raise RuntimeError(
                f"{block_vars['src_file']}: panels {empty} of figure {number} are empty where a "
                "block of text ends the code that draws it: draw all panels in one block"
            )
    return str(matplotlib_scraper(block, block_vars, gallery_conf, **settings))


def empty_panels(figure: Any) -> list[int]:
    """Places of the panels that show axes and nothing else."""
    return [k for k, ax in enumerate(figure.axes) if ax.axison and not ax.has_data()]
