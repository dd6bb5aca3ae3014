"""ln Z of restricted machines by products against numpy's logaddexp, in one run; nothing asserted.

python tests/benchmarks/restricted.py
"""

import time

import numpy as np
from ratios import features

import ebm
from ebm._parallel import single_threaded_blas


def fastest(functions, repeats, clock=time.process_time):
    """Least time of each function over interleaved calls, and the values of the last ones."""
    times, values = [np.inf] * len(functions), [None] * len(functions)
    for _ in range(repeats):
        for k, function in enumerate(functions):
            start = clock()
            values[k] = function()
            times[k] = min(times[k], clock() - start)
    return times, values


def machine(n, m, scale=0.3):
    """Random weights of the size of trained ones."""
    rng = np.random.default_rng(0)
    return ebm.RestrictedBoltzmannMachine(
        rng.normal(0, scale, (n, m)), rng.normal(size=n), rng.normal(-1, 1, m)
    )


def by_logaddexp(model):
    """All states at once, as one would write it in numpy."""
    states = model.space.states_at(np.arange(2**model.n))
    inputs = states @ model.weights + model.hidden_biases
    return np.logaddexp.reduce(states @ model.visible_biases + np.logaddexp(0, inputs).sum(axis=1))


def main():
    """One line for each size: CPU time of one thread, and wall time of all cores once."""
    print(features())
    with single_threaded_blas():
        for n, m, repeats in ((9, 4, 200), (12, 100, 50), (16, 500, 9)):
            model = machine(n, m)
            (fast, slow, gradient), (ensemble, log_z, _) = fastest(
                [
                    lambda model=model: ebm.exact(model, n_jobs=1),
                    lambda model=model: by_logaddexp(model),
                    lambda model=model: model.mean_energy_gradient(ebm.exact(model, n_jobs=1)),
                ],
                repeats,
            )
            print(
                f"{n} x {m}: ln Z in {fast * 1e3:.2f} ms, {slow / fast:.1f} times as fast as "
                f"numpy's logaddexp, {per_factor(fast, n, m)}; with its gradient "
                f"{gradient * 1e3:.2f} ms; difference {abs(ensemble.log_partition - log_z):.0e}"
            )
        model = machine(16, 500)
        (fast, slow), _ = fastest(
            [lambda: ebm.exact(model), lambda: by_logaddexp(model)], 9, time.perf_counter
        )
        print(f"16 x 500 on all cores: {fast * 1e3:.2f} ms of wall time, ratio {slow / fast:.1f}")
        for n, m in ((784, 16), (24, 64)):
            model = machine(n, m, 0.1)
            (fast, moments), _ = fastest(
                [
                    lambda model=model: ebm.exact(model, n_jobs=1),
                    lambda model=model: ebm.exact(model, n_jobs=1).moments(),
                ],
                2,
            )
            print(
                f"{n} x {m}: ln Z in {fast * 1e3:.0f} ms, {per_factor(fast, n, m)}; "
                f"with moments {moments * 1e3:.0f} ms"
            )


def per_factor(seconds, n, m):
    """Time for each enumerated state and unit of the other layer."""
    return f"{seconds / 2 ** min(n, m) / max(n, m) * 1e9:.2f} ns per state and unit"


if __name__ == "__main__":
    main()
