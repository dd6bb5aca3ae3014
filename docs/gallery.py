"""The examples by need, and their figures, published only when every panel is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot

__all__ = ["ORDER", "ByNeed", "complete_figures", "empty_panels"]

#: Tutorials and examples, those first that most readers need.
ORDER = """
    spikes questionnaires spin_systems rbms_and_networks teaching
    plot_fit_spikes plot_five_spins plot_sparse_network plot_population_counts plot_landscapes
    plot_inversion_methods plot_digits plot_bars_and_stripes plot_deep_machine plot_own_model
    plot_natural_gradient plot_first_order_inversion plot_expansion_error plot_diagrams
    plot_relative_natural_gradient plot_natural_gradient_rates plot_action plot_action_moments
    plot_action_dominance plot_action_elements plot_action_directions plot_action_early_stopping
    plot_action_power_law
""".split()


class ByNeed:
    """The place of a script in the gallery; one that the order does not name is an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> int:
        """Its position in ``ORDER``."""
        return ORDER.index(Path(filename).stem)


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
