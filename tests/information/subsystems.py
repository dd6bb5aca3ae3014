"""Subsystems and their metrics by the definition: every answer y, its probability, its score."""

import itertools
from decimal import Decimal, getcontext

import numpy as np
from hypothesis import strategies as st

from ebm.information import Elu, Layer, Linear, Relu, Sigmoid, SoftmaxLayer, Tanh
from tests import strategies

#: Enough digits for 1 − η where η is within 1e-300 of 1.
getcontext().prec = 700


def exact(number):
    """A float as the decimal number it is."""
    return Decimal(float(number))


def logistic(a):
    """σ(a) in many digits."""
    return 1 / (1 + (-a).exp()) if a >= 0 else a.exp() / (1 + a.exp())


def slope(response, a):
    """f′(a) in many digits, from the value of f by its own formula."""
    if isinstance(response, Tanh):
        return 1 - ((a.exp() - (-a).exp()) / (a.exp() + (-a).exp())) ** 2
    if isinstance(response, Sigmoid):
        return logistic(a) * (1 - logistic(a))
    if isinstance(response, Relu):
        leak, width = exact(response.leak), exact(response.smoothing)
        return leak + (1 - leak) * logistic((1 - leak) * a / width)
    if isinstance(response, Elu):
        return Decimal(1) if a >= 0 else exact(response.alpha) * a.exp()
    return Decimal(1)


def answers(response, a):
    """(probability, ∂ ln p(y | a)/∂a) of every y: all of them, or three Gauss–Hermite nodes."""
    if isinstance(response, Tanh):
        up = logistic(2 * a)
        return [(up, 2 * (1 - up)), (1 - up, -2 * up)]
    if isinstance(response, Sigmoid):
        up = logistic(a)
        return [(up, 1 - up), (1 - up, -up)]
    # (y − f) / s at the nodes; the score is (y − f) f′ / s², a polynomial of degree one in y.
    nodes = [(Decimal(1) / 6, Decimal(3).sqrt()), (Decimal(2) / 3, Decimal(0))]
    nodes.append((nodes[0][0], -nodes[0][1]))
    f = slope(response, a)
    return [(p, node * f / exact(response.deviation)) for p, node in nodes]


def layer_by_answers(layer, x):
    """E[score scoreᵀ] of a layer given one reference, state by state, in many digits."""
    rows = np.asarray(layer.weights)
    inputs = [sum(exact(w) * exact(v) for w, v in zip(row, x, strict=True)) for row in rows]
    m = len(rows)
    matrix = [[Decimal(0)] * m for _ in range(m)]
    if isinstance(layer, SoftmaxLayer):
        top = max(inputs)
        weights = [(a - top).exp() for a in inputs]
        eta = [w / sum(weights) for w in weights]
        drawn = [(eta[c], [int(c == j) - eta[j] for j in range(m)]) for c in range(m)]
    else:
        each = [answers(layer.response, a) for a in inputs]
        drawn = []
        for combination in itertools.product(*each):
            p = Decimal(1)
            for share, _ in combination:
                p *= share
            drawn.append((p, [score for _, score in combination]))
    for p, scores in drawn:
        for i in range(m):
            for j in range(m):
                matrix[i][j] += p * scores[i] * scores[j]
    blocks = [
        [matrix[i][j] * exact(a) * exact(b) for j in range(m) for b in x]
        for i in range(m)
        for a in x
    ]
    return np.array([[float(value) for value in row] for row in blocks])


def check_elementwise(found, wanted):
    """Relative error ≤ 1e-13 where the metric is above 1e-290; finite and small elsewhere."""
    assert np.isfinite(found).all()
    assert (found.diagonal() >= 0).all()
    large = np.abs(wanted) > 1e-290
    error = np.abs(found - wanted)
    assert (error[large] <= 1e-13 * np.abs(wanted[large])).all()
    assert (np.abs(found[~large]) <= 2e-290).all()


def gaussian_responses():
    """Smooth and kinked responses with a normal answer."""
    deviation = st.sampled_from([1.0, 0.3, 5.0])
    return st.one_of(
        st.builds(
            Relu,
            deviation,
            st.floats(1e-3, 10),
            st.sampled_from([0.0, 0.01, 0.5]) | st.floats(0, 0.99),
        ),
        st.builds(Elu, deviation, st.floats(0.1, 3)),
        st.builds(Linear, deviation),
    )


def responses():
    """Every row of the table that has one unit."""
    return st.sampled_from([Tanh(), Sigmoid()]) | gaussian_responses()


@st.composite
def references_and_rows(draw, max_units=3, max_inputs=3):
    """Weights and one reference in eighths, whose products are exact; inputs up to 1e4."""
    rng = draw(strategies.generators())
    m, d = draw(st.integers(1, max_units)), draw(st.integers(1, max_inputs))
    size = draw(st.sampled_from([8, 200, 20_000]))
    rows = rng.integers(-size, size + 1, (m, d)) / 8
    return rows, rng.integers(-8, 9, d) / 8


@st.composite
def layers(draw):
    """A layer of any response, with biases or without, and a few references with weights."""
    rng = draw(strategies.generators())
    m, n, rows = (draw(st.integers(1, 4)) for _ in range(3))
    kind = draw(st.sampled_from([Layer, SoftmaxLayer]))
    settings = {"response": draw(responses())} if kind is Layer else {}
    biases = rng.normal(size=m) if draw(st.booleans()) else None
    layer = kind(rng.normal(0, 1.5, (m, n)), biases, **settings)
    return layer, rng.normal(size=(rows, n)), rng.uniform(0.1, 1, rows)
