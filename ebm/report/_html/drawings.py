"""The figures of a page: the panels of the report, the network, and the probabilities of edges."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ebm.plotting import edge_network, network
from ebm.plotting.figures import report_panels
from ebm.plotting.item_panels import items_panels
from ebm.report._html.elements import escaped
from ebm.report._html.svg import drawn

#: Most couplings and units of a network that is drawn.
MOST_COUPLINGS, MOST_UNITS = 60, 60
#: Inches of the height of a panel, and of each of many items.
_HEIGHT, _ROW = 3.2, 0.16

#: Headings and captions of panels.
CAPTIONS = {
    "rates": (
        "Rates",
        "Probability that each unit is active: data with standard errors (points), model (bars).",
    ),
    "pairs": (
        "Covariances of pairs",
        "Model against data, with standard errors. The gray line is equality, which a maximum of "
        "the likelihood without a penalty attains.",
    ),
    "triples": (
        "Triples",
        "Connected moments of three units, which were not fitted: model against data.",
    ),
    "counts": (
        "Numbers of active units",
        "Probability P(K) that K units are active at once: data, model, and independent units of "
        "the same rates.",
    ),
    "patterns": (
        "Patterns",
        "Frequency of each observed pattern against its probability in the model; the gray band "
        "is two binomial standard errors about equality.",
    ),
    "shares": ("Shares of categories", "The first category of each item is palest."),
    "sums": (
        "Sums of levels",
        "Distribution of the sum: data with standard errors, the ordinal model, and independent "
        "items.",
    ),
}


def panels(report: Any) -> Iterator[str]:
    """The panels of the report as figures of the page, each with its caption."""
    is_ordinal = hasattr(report, "thresholds")
    height = max(_HEIGHT, _ROW * report.data.space.n + 1) if is_ordinal else _HEIGHT
    shown = items_panels(report) if is_ordinal else report_panels(report)
    for name, draw in shown.items():
        heading, caption = CAPTIONS.get(name) or ("Couplings", _of_couplings(report))
        graphic = drawn(draw, name, heading, (3.6, height))
        yield figure(graphic, heading, caption)


def _of_couplings(report: Any) -> str:
    """What the matrix of couplings holds."""
    if report.result is None:
        return "Those of the first-order inversion."
    if getattr(report, "inversion", None) is None:
        return "Those of the fit."
    return "Those of the fit above the diagonal, of the first-order inversion below it."


def figure(graphic: str, heading: str, caption: str) -> str:
    """A figure of the page with a heading and a caption."""
    return (
        f"<figure>{graphic}<figcaption><strong>{escaped(heading)}.</strong> "
        f"{escaped(caption)}</figcaption></figure>"
    )


def network_figure(report: Any) -> str:
    """The fitted couplings as a network; of many the strongest, and nothing of many units."""
    fitted, errors = _fitted(report)
    if fitted is None or not 1 < fitted.space.n <= MOST_UNITS:
        return ""
    theta, couples = np.array(fitted.parameters), np.asarray(fitted.is_coupling)
    sizes = np.where(couples, np.abs(theta), 0.0)
    n_couplings = int(np.count_nonzero(sizes))
    if not n_couplings:
        return ""
    weak = np.argsort(-sizes, kind="stable")[MOST_COUPLINGS:]
    theta[weak] = np.where(couples[weak], 0.0, theta[weak])
    draw = partial(network, fitted.with_parameters(theta), errors=errors)
    caption = "Positive couplings are blue, negative ones vermilion and dashed."
    if errors is not None:
        caption += " Those within two standard errors of zero are paler."
    if n_couplings > MOST_COUPLINGS:
        caption += f" The {MOST_COUPLINGS} strongest of {n_couplings} are drawn."
    return figure(drawn(draw, "network-drawing", "Network", (4.8, 4.2)), "Network", caption)


def _fitted(report: Any) -> tuple[Any, Any]:
    """The model of pairs and its standard errors; the inversion has errors of another kind."""
    if report.result is None:
        return report.model, None
    return report.result.model, report.result.standard_errors


def edges_figure(report: Any) -> str:
    """The network of the probable edges, where these were asked for."""
    posterior = getattr(report, "posterior", None)
    if posterior is None:
        return ""
    graphic = drawn(partial(edge_network, posterior), "edge-drawing", "Probable edges", (4.4, 4.4))
    caption = "Each edge is as wide as it is probable; dashed ones are undecided."
    return figure(graphic, "Probable edges", caption)
