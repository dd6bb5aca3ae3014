"""ln Z by Bennett's ratio against annealing alone, and annealing against numpy; nothing asserted.

python tests/benchmarks/partition.py
"""

import functools
import itertools
import time
import warnings

import numpy as np
from ratios import features

import ebm
from ebm._parallel import single_threaded_blas
from ebm.errors import PoorWeightsWarning

N_CHAINS = 64


def machine(n, m, scale):
    """Random weights between units without fields over ±1; of trained ones the scale is .3."""
    weights = np.random.default_rng(0).normal(0, scale, (n, m))
    return ebm.RestrictedBoltzmannMachine(
        weights, -weights.sum(axis=1) / 2, -weights.sum(axis=0) / 2
    )


def learnt():
    """A machine of 12 hidden units learnt from scikit-learn's digits, of 64 two-valued pixels."""
    from sklearn.datasets import load_digits

    rows = load_digits().data > 7
    start = ebm.RestrictedBoltzmannMachine.for_data(rows, 12, rng=0)
    chains = ebm.Likelihood(ebm.PersistentChains(100))
    return ebm.fit(start, rows, loss=chains, solver=ebm.GradientSteps(n_epochs=30), rng=0).model


def errors(model, method, repeats):
    """Root mean square error of ln Z, and the mean of both bounds less ln Z."""
    truth = ebm.exact(model).log_partition
    runs = [ebm.log_partition(model, method, rng=seed) for seed in range(repeats)]
    rms = np.sqrt(np.mean([(run.value - truth) ** 2 for run in runs]))
    lower = np.mean([run.lower.value for run in runs]) - truth
    upper = np.mean([np.nan if run.upper is None else run.upper.value for run in runs]) - truth
    return rms, lower, upper


def plain_annealing(model, n_steps, rng):
    """100 chains from units of the visible biases in single precision, in plain numpy."""
    single, draw = np.float32, functools.partial(rng.random, dtype=np.float32)
    parts = model.weights, model.visible_biases, model.hidden_biases
    w, b, c = (part.astype(single) for part in parts)
    v = (draw((100, len(b))) < 1 / (1 + np.exp(-b))).astype(single)
    log_weights, inputs = np.zeros(100), v @ w + c
    betas = np.linspace(0, 1, n_steps + 1, dtype=single)
    for before, after in itertools.pairwise(betas):
        log_weights += np.logaddexp(0, after * inputs).sum(axis=1)
        log_weights -= np.logaddexp(0, before * inputs).sum(axis=1)
        h = (draw(inputs.shape) < 1 / (1 + np.exp(-after * inputs))).astype(single)
        v = (draw(v.shape) < 1 / (1 + np.exp(-(after * (h @ w.T) + b)))).astype(single)
        inputs = v @ w + c
    return log_weights


def products(model, n_steps):
    """The two products of a step alone, which bound what any code can reach."""
    w = model.weights.astype(np.float32)
    v = (np.random.default_rng(0).random((100, len(w))) < 0.5).astype(np.float32)
    up, down = np.empty((100, w.shape[1]), np.float32), np.empty_like(v)
    for _ in range(n_steps):
        np.matmul(v, w, out=up)
        np.matmul(up, w.T, out=down)


def main(repeats=24):
    """Ratios of errors at equal steps each way, and at equal sweeps in all; then one of times."""
    warnings.simplefilter("ignore", PoorWeightsWarning)
    print(features())
    models = {f"784 x 12, weights {s}": machine(784, 12, s) for s in (0.2, 0.3)}
    for name, model in (models | {"64 x 12, learnt": learnt()}).items():
        for k in (10, 30, 100):
            settings = ebm.Annealing(N_CHAINS, k)
            both, lower, upper = errors(model, ebm.sampling.BennettRatio(settings), repeats)
            same, twice = (
                errors(model, ebm.Annealing(N_CHAINS, steps), repeats)[0] for steps in (k, 2 * k)
            )
            print(
                f"{name}, {k} steps: error of Bennett's ratio {both:.4f}; annealing alone "
                f"{same / both:.1f} times that with {k} steps, {twice / both:.1f} with {2 * k}; "
                f"bounds {lower:+.3f} {upper:+.3f}",
                flush=True,
            )
    model, times = machine(784, 500, 0.05), np.full((3, 2), np.inf)
    with single_threaded_blas():
        for seed in range(5):
            for k, n_steps in enumerate((10, 60)):
                runs = (
                    lambda: ebm.Annealing(100, n_steps).run(model, rng=seed),  # noqa: B023
                    lambda: plain_annealing(model, n_steps, np.random.default_rng(seed)),  # noqa: B023
                    lambda: products(model, n_steps),  # noqa: B023
                )
                for peer, run in enumerate(runs):
                    began = time.process_time()
                    run()
                    times[peer, k] = min(times[peer, k], time.process_time() - began)
    # The difference leaves out the pilot and the starts, which do not grow with the steps.
    each = 1e6 * (times[:, 1] - times[:, 0]) / (100 * 50)
    print(
        f"784 x 500: {each[0]:.0f} us for each chain and step, {each[1] / each[0]:.1f} times as "
        f"fast as numpy, at best {each[1] / each[2]:.1f} by products of {each[2]:.0f} us; "
        f"pilot and starts take {times[0, 0] - each[0] * 1e-3:.2f} s"
    )


if __name__ == "__main__":
    main()
