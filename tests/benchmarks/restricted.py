"""ln Z of restricted machines by products against numpy's logaddexp, in one run; nothing asserted.

python tests/benchmarks/restricted.py
"""

import time

import numpy as np

import ebm
from ebm.parallel import single_threaded_blas


def fastest(function, repeats):
    """Least CPU time of some calls, and the value of the last."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        value = function()
        times.append(time.process_time() - start)
    return min(times), value


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
    """One line for each size."""
    with single_threaded_blas():
        for n, m in ((9, 4), (12, 100), (16, 500)):
            model = machine(n, m)
            fast, ensemble = fastest(lambda model=model: ebm.exact(model, n_jobs=1), 9)
            slow, log_z = fastest(lambda model=model: by_logaddexp(model), 3)
            again, _ = fastest(lambda model=model: ebm.exact(model, n_jobs=1), 9)
            fast = min(fast, again)
            gradient, _ = fastest(lambda e=ensemble: e.model.mean_energy_gradient(e), 3)
            per_factor = fast / 2 ** min(n, m) / max(n, m) * 1e9
            print(
                f"{n} x {m}: {fast * 1e3:.2f} ms, {per_factor:.2f} ns per state and unit, "
                f"{slow / fast:.0f} times numpy's logaddexp; gradient {gradient * 1e3:.1f} ms; "
                f"difference of ln Z {abs(ensemble.log_partition - log_z):.1e}"
            )
        for n, m in ((784, 16), (24, 64)):
            model = machine(n, m, 0.1)
            seconds, ensemble = fastest(lambda model=model: ebm.exact(model, n_jobs=1), 2)
            moments, _ = fastest(ensemble.moments, 1)
            print(
                f"{n} x {m}: ln Z {seconds * 1e3:.0f} ms, moments {moments * 1e3:.0f} ms, "
                f"{seconds / 2 ** min(n, m) / max(n, m) * 1e9:.2f} ns per state and unit"
            )


if __name__ == "__main__":
    main()
