"""Sums over linked multisets of centered terms, to any order.

ln Z_k = Σ κ(V_1, …, V_k) / Π m!,  ⟨f⟩_k = Σ κ(f, V_1, …, V_k) / Π m!, and the covariance with two
legs f: over the multisets of k terms, m being how often a term is in them. A joint cumulant is
Σ_π (−1)^{r−1} (r−1)! Π_blocks E[Π] over partitions π into r blocks.
"""

from __future__ import annotations

import numpy as np

from ebm._types import Array
from ebm.perturbation.clusters._centered_terms import (
    CenteredProducts,
    CenteredTables,
    CenteredTerms,
)
from ebm.perturbation.clusters._multisets import TermGraph, linked_multisets, require_affordable
from ebm.perturbation.clusters._product_clusters import add_products
from ebm.perturbation.clusters._table_clusters import add_tables

#: Clusters that are summed at a time.
ROWS = 2**13


def cluster_sums(
    terms: CenteredTerms, order: int, n_legs: int, what: str, max_seconds: float
) -> Array:
    """Orders 1 … K of ln Z, (K,), of means, (K, n, w), or of covariances, (K, n, w, n, w).

    So many features stand beside the terms. Covariances are those of different units.
    """
    n, width = terms.space.n, terms.width
    total = np.zeros((order, *(n, width) * n_legs))
    graph = TermGraph(terms.term_units, n)
    if not len(graph.units):
        return total
    require_affordable(graph, order, n_legs, width, what, max_seconds)
    for k, rows in enumerate(linked_multisets(graph, order, n_legs)):
        for start in range(0, len(rows), ROWS):
            part = rows[start : start + ROWS]
            if isinstance(terms, CenteredTables):
                add_tables(terms, total[k, ...], part, n_legs)
            elif isinstance(terms, CenteredProducts):
                add_products(terms, total[k, ...], part, n_legs)
    return total
