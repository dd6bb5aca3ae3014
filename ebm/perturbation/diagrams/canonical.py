"""One numbering of the vertices for all that describe the same multigraph."""

from __future__ import annotations

__all__ = ["Matrix", "canonical"]

Matrix = tuple[tuple[int, ...], ...]


def canonical(matrix: Matrix) -> tuple[Matrix, int]:
    """The least form over the numberings that refinement leaves open, and the automorphisms.

    Parameters
    ----------
    matrix : tuple of tuple of int
        Number of edges between each two vertices, symmetric.

    Returns
    -------
    tuple of tuple of int
        The same for all numberings of one multigraph.
    int
        How many permutations of the vertices keep the matrix.

    Examples
    --------
    >>> from ebm.perturbation.diagrams.canonical import canonical
    >>> canonical(((0, 1, 1), (1, 0, 0), (1, 0, 0))) == canonical(((0, 1, 0), (1, 0, 1), (0, 1, 0)))
    True
    """
    # Every automorphism maps the search tree onto itself: the least form is met |Aut| times.
    met: dict[Matrix, int] = {}
    waiting = [(tuple(0 for _ in matrix), 1)]
    while waiting:
        colors, weight = waiting.pop()
        colors = _refined(matrix, colors)
        cell = _first_open_cell(colors)
        if not cell:
            order = sorted(range(len(matrix)), key=colors.__getitem__)
            form = tuple(tuple(matrix[a][b] for b in order) for a in order)
            met[form] = met.get(form, 0) + weight
            continue
        for twins in _twin_classes(matrix, cell):
            # Twins change places by an automorphism: one of them speaks for all.
            chosen = twins[0]
            split = tuple(
                2 * color + (color == colors[chosen] and v != chosen)
                for v, color in enumerate(colors)
            )
            waiting.append((split, weight * len(twins)))
    least = min(met)
    return least, met[least]


def _refined(matrix: Matrix, colors: tuple[int, ...]) -> tuple[int, ...]:
    """Colors told apart by the colors around them, until nothing more comes apart."""
    while True:
        around = [
            (colors[v], tuple(sorted((m, colors[u]) for u, m in enumerate(row) if m)))
            for v, row in enumerate(matrix)
        ]
        rank = {signature: k for k, signature in enumerate(sorted(set(around)))}
        if len(rank) == len(set(colors)):
            return tuple(rank[signature] for signature in around)
        colors = tuple(rank[signature] for signature in around)


def _first_open_cell(colors: tuple[int, ...]) -> list[int]:
    """Vertices of the first color that several share; empty if there is none."""
    for color in sorted(set(colors)):
        cell = [v for v, own in enumerate(colors) if own == color]
        if len(cell) > 1:
            return cell
    return []


def _twin_classes(matrix: Matrix, cell: list[int]) -> list[list[int]]:
    """The cell in classes of vertices with the same edges to everybody else."""
    classes: list[list[int]] = []
    for v in cell:
        for twins in classes:
            u = twins[0]
            if all(matrix[u][w] == matrix[v][w] for w in range(len(matrix)) if w not in (u, v)):
                twins.append(v)
                break
        else:
            classes.append([v])
    return classes
