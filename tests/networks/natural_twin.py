"""Relative natural gradient descent of an MLP in numpy, from its definition: loops, no tricks."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from ebm.information import Elu, Linear, Relu, Sigmoid, Silu, Tanh
from ebm.networks import Damping, LayerMetrics, RelativeNaturalGradient

RESPONSES = {
    "tanh": Tanh(),
    "sigmoid": Sigmoid(),
    "relu": Relu(smoothing=1.0),
    "leaky": Relu(smoothing=1.0, leak=0.1),
    "elu": Elu(alpha=0.7),
    "silu": Silu(),
    "bernoulli": Sigmoid(),
    "gaussian": Linear(),
}
#: The forward pass keeps its kink where the metric is smoothed.
FORWARD = {**RESPONSES, "relu": Relu(smoothing=0), "leaky": Relu(smoothing=0, leak=0.1)}


def softmax(a):
    p = np.exp(a - a.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def network(weights, activations, biased, x):
    """(x̃ of each layer, a of each layer)."""
    references, inputs = [], []
    for k, w in enumerate(weights):
        x = np.hstack([x, np.ones((len(x), 1))]) if biased else x
        references.append(x)
        inputs.append(x @ w.T)
        if k < len(activations):
            x = FORWARD[activations[k]].mean(inputs[-1])
    return references, inputs


def gradients(weights, activations, biased, x, y, output):
    """Of the mean cross entropy, or of half the mean square, by back-propagation."""
    references, inputs = network(weights, activations, biased, x)
    error = inputs[-1] - y
    if output == "softmax":
        error = softmax(inputs[-1]) - y
    elif output == "bernoulli":
        error = 1 / (1 + np.exp(-inputs[-1])) - y
    error = error / len(x)
    found = []
    for k in reversed(range(len(weights))):
        found.insert(0, error.T @ references[k])
        if k:
            inner = weights[k][:, :-1] if biased else weights[k]
            error = error @ inner * FORWARD[activations[k - 1]].slope(inputs[k - 1])
    return found


def batch_metric(kind, response, x, a):
    """mean over rows of what one row gives."""
    m, d = a.shape[1], x.shape[1]
    rows = []
    for r in range(len(x)):
        outer = np.outer(x[r], x[r])
        if kind == "shared":
            rows.append(outer[None])
        elif kind == "softmax" or response == "softmax":
            eta = softmax(a[r : r + 1])[0]
            full = np.kron(np.diag(eta) - np.outer(eta, eta), outer)
            if kind == "softmax":
                rows.append(full[None])
            else:
                blocks = full.reshape(m, d, m, d)
                rows.append(np.stack([blocks[i, :, i] for i in range(m)]))
        else:
            nu = RESPONSES[response].information(a[r])
            rows.append(nu[:, None, None] * outer)
    return sum(rows) / len(rows)


class Twin:
    """The method, one layer a matrix (m, D) whose last column is the bias."""

    def __init__(self, weights, activations, kinds, output, *, biased=True, **settings):
        self.weights = [w.copy() for w in weights]
        self.activations, self.kinds, self.output = activations, kinds, output
        self.biased, self.k = biased, 0
        self.settings = {"period": 100, "decay": 0.005, "damping": 1e-4, "l2": 0.0, **settings}
        sizes = [
            (w.size if k == "softmax" else w.shape[1]) for w, k in zip(weights, kinds, strict=True)
        ]
        count = [len(w) if k == "neuron" else 1 for w, k in zip(weights, kinds, strict=True)]
        self.g = [np.stack([np.eye(d)] * n) for d, n in zip(sizes, count, strict=True)]
        self.inverse = [g.copy() for g in self.g]

    def step(self, x, y):
        s = {name: v(self.k) if callable(v) else v for name, v in self.settings.items()}
        found = gradients(self.weights, self.activations, self.biased, x, y, self.output)
        for k, (w, gradient) in enumerate(zip(self.weights, found, strict=True)):
            if s["l2"]:
                gradient = gradient + s["l2"] * np.hstack([w[:, :-1], np.zeros((len(w), 1))])
            if self.kinds[k] == "softmax":
                move = (self.inverse[k][0] @ gradient.ravel()).reshape(w.shape)
            else:
                blocks = np.broadcast_to(self.inverse[k], (len(w), *self.inverse[k].shape[1:]))
                move = np.stack([block @ row for block, row in zip(blocks, gradient, strict=True)])
            w -= s["lr"] * move
        references, inputs = network(self.weights, self.activations, self.biased, x)
        responses = [*self.activations, self.output]
        for k, kind in enumerate(self.kinds):
            new = batch_metric(kind, responses[k], references[k], inputs[k])
            self.g[k] = (1 - s["decay"]) * self.g[k] + s["decay"] * new
        if self.k % s["period"] == 0:
            for k, g in enumerate(self.g):
                scale = np.trace(g, axis1=1, axis2=2)[:, None, None]
                self.inverse[k] = np.linalg.inv(g + s["damping"] * scale * np.eye(g.shape[1]))
        self.k += 1


MODULES = {
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.1),
    "elu": lambda: nn.ELU(0.7),
    "silu": nn.SiLU,
}


def natural_gradient(model, lr, **settings):
    """An optimizer whose settings of metrics and damping are given among the others."""
    names = {"blocks", "smoothing", "output", "unsupported"} & set(settings)
    metrics = LayerMetrics(**{name: settings.pop(name) for name in names})
    if "damping_kind" in settings:
        kind = settings.pop("damping_kind")
        settings["damping"] = Damping(settings.get("damping", 1e-4), kind)
    return RelativeNaturalGradient(model, lr, metrics=metrics, **settings)


def mlp(sizes=(4, 6, 5, 3), activation="tanh", bias=True, norm=False, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    parts = []
    for k, (n, m) in enumerate(itertools.pairwise(sizes)):
        parts.append(nn.Linear(n, m, bias=bias))
        if k < len(sizes) - 2:
            parts.append(MODULES[activation]())
            parts += [nn.BatchNorm1d(m)] if norm else []
    return nn.Sequential(*parts).to(dtype)


def batches(n, sizes=(4, 3), rows=(7, 9, 2, 12), dtype=torch.float64, seed=1):
    rng = np.random.default_rng(seed)
    for k in range(n):
        x = rng.normal(0.3, 1.0, (rows[k % len(rows)], sizes[0]))
        yield torch.tensor(x, dtype=dtype), torch.tensor(rng.integers(0, sizes[1], len(x)))


def train(model, optimizer, data, loss=F.cross_entropy):
    for x, y in data:
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()


def parameters(model):
    return torch.cat([p.detach().ravel() for p in model.parameters()])


def ready(model, **settings):
    """An optimizer, and a batch whose gradient is there."""
    optimizer = RelativeNaturalGradient(model, 0.05, **settings)
    x, y = next(batches(1, rows=(8,), dtype=next(model.parameters()).dtype))
    F.cross_entropy(model(x), y).backward()
    return optimizer, x, y
