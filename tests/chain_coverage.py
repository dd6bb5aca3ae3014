"""How often intervals of chains cover the truth, by their estimated effective number of draws.

``python -m tests.chain_coverage`` takes a minute and a half. Each of its cells is the coverage of
1.96 plain errors and that of the intervals of 95 % that are left by the rule of
``ebm.sampling.mean_of_chains``; nearly no set below 100 effective draws has one. It printed:

    effective draws         50 to 100   100 to 200  200 to 400  400 to 800  800 to inf
    autoregression          .928   -    .934 .978   .948 .983   .961 .965   .949 .951
    valley of weight 1/2    .902   -    .920 .970   .951 .988   .943 .944   .955 .956
    valley of weight .1     .795   -    .834 .985   .896 .963   .942 .944   .938 .940
    valley in noise         .864   -    .876 .950   .921 .969   .926 .936   .951 .954
    all four                .870   -    .888 .970   .929 .976   .943 .947   .949 .951
    SK, beta = 0.5              -       .959 .981   .943 .982   .948 .950   .956 .957
    SK, beta = 1.0          .925   -    .918 .972   .925 .964   .931 .937   .956 .958
    SK, beta = 2.0          .872   -    .844 .911   .859 .920   .870 .885   .918 .925
    SK, 2.0, tempered       .904   -    .885 .954   .902 .959   .921 .925   .953 .956
    ±J, beta = 0.5              -       .927 .980   .922 .987   .945 .946   .955 .956
    ±J, beta = 1.0          .907   -    .924 .975   .925 .964   .934 .938   .943 .947
    ±J, beta = 2.0          .885   -    .850 .921   .862 .942   .851 .882   .891 .904
    ±J, 2.0, tempered       .897   -    .911 .966   .923 .975   .944 .954   .948 .951

At half the temperature of the transition valleys are missed by all chains of a set, which no
rule sees; copies at higher temperatures find most of them. Nor does it help to refuse sets whose
first and second two chains differ by more than two (1.5) errors: of the glasses at beta = 2 with
an effective number from 400 on .924 to .926 (.926), SK, and .926 to .927 (.928), ±J, were then
covered, at the price of 5 % (15 %) of all errors, the healthy ones alike.
"""

import itertools

import numpy as np

import ebm
from ebm.sampling import SamplingRun, effective_sample_size, mean_of_chains

#: Bins of the effective number of draws.
EDGES = (0, 50, 100, 200, 400, 800, np.inf)
#: Draws of a chain, in units of its autocorrelation time.
LENGTHS = (3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400, 600)

#: Draws and sweeps between them, of chains of models.
SETTINGS = ((60, 1), (200, 1), (700, 1), (700, 4), (700, 16))


def autoregression(rng, n_draws, n_sets, time):
    """Gaussian chains of mean 0 with this autocorrelation time, (4, n_draws, n_sets)."""
    from scipy.signal import lfilter

    rho = (time - 1) / (time + 1)
    noise = rng.normal(size=(4, n_draws, n_sets)) * np.sqrt(1 - rho**2)
    noise[:, 0] = rng.normal(size=(4, n_sets))
    return lfilter([1], [1, -rho], noise, axis=1)


def valleys(rng, n_draws, n_sets, time, weight=0.5, signal=None):
    """Which of two valleys a chain is in, or seen through noise; of mean ``weight``, or 0."""
    is_new = rng.random((4, n_draws, n_sets)) < 2 / (time + 1)
    is_new[:, 0] = True
    last = np.maximum.accumulate(np.where(is_new, np.arange(n_draws)[:, None], 0), axis=1)
    valley = np.take_along_axis(rng.random(is_new.shape) < weight, last, axis=1) * 1.0
    if signal is None:
        return valley
    scaled = (valley - weight) / np.sqrt(weight * (1 - weight))
    return np.sqrt(signal) * scaled + np.sqrt(1 - signal) * rng.normal(size=is_new.shape)


#: Processes with their means.
PROCESSES = {
    "autoregression": (autoregression, 0.0),
    "valley of weight 1/2": (valleys, 0.5),
    "valley of weight .1": (lambda *given: valleys(*given, 0.1), 0.1),
    "valley in noise": (lambda *given: valleys(*given, 0.5, 0.2), 0.0),
}


def glass(kind, seed, n=12):
    """An SK or ±J model with the transition of the first at 1, and weak fields."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=(n, n)) if kind == "SK" else rng.choice([-1.0, 1.0], (n, n))
    couplings = np.triu(size, 1) / np.sqrt(n)
    return ebm.IsingModel(couplings + couplings.T, rng.normal(0, 0.1, n))


def sets_of_chains(model, sampler, n_draws, n_sets, thin, seed):
    """Energy, a pair and a unit along sets of four chains, (4, n_draws, n_sets, 3); exact means."""
    run = SamplingRun(thin=thin)
    settings = {"n_draws": n_draws, "n_chains": 4 * n_sets, "rng": seed, "run": run}
    x = ebm.sample(model, sampler, **settings).chains.astype(float)

    def observables(states):
        return np.stack([model.energy(states), states[..., 0] * states[..., 1], states[..., 2]], -1)

    values = observables(x).reshape(n_sets, 4, n_draws, 3)
    return values.transpose(1, 2, 0, 3), ebm.exact(model).expectation(observables)


def covered(series, truth):
    """Of each set: effective number, whether 1.96 plain errors cover, whether the interval does.

    The last is NaN where the error is refused.
    """
    estimate = mean_of_chains(series)
    plain = 1.96 * series.std(axis=(0, 1)) / np.sqrt(effective_sample_size(series))
    low, high = estimate.interval(0.95)
    inside = np.where(np.isnan(low), np.nan, (low <= truth) & (truth <= high))
    return np.stack(
        [np.nan_to_num(estimate.effective_size), abs(estimate.value - truth) <= plain, inside]
    ).reshape(3, -1)


def of_process(name, lengths, n_sets, seed, time=5):
    """Sets of chains of a process at each length, (3, set)."""
    make, mean = PROCESSES[name]
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [covered(make(rng, length * time, n_sets, time), mean) for length in lengths], axis=1
    )


def of_glasses(kind, beta, n_models, n_sets, seed, lengths=SETTINGS, sampler=None):
    """Sets of chains of models at an inverse temperature, (3, set)."""
    parts = []
    for number in range(n_models):
        model = glass(kind, seed + number).scaled(beta)
        for n_draws, thin in lengths:
            series, means = sets_of_chains(model, sampler, n_draws, n_sets, thin, seed + number)
            parts.append(covered(series, means))
    return np.concatenate(parts, axis=1)


def table(rows):
    """Coverage by bins: without the rule, by the intervals, and the share of sets that have one."""
    head = [f"{low} to {high}" for low, high in itertools.pairwise(EDGES)]
    yield f"{'effective draws':22}" + "".join(f"{text:>17}" for text in head)
    for name, (size, plain, inside) in rows.items():
        cells = []
        for low, high in itertools.pairwise(EDGES):
            here = (size >= low) & (size < high)
            has_one = here & ~np.isnan(inside)
            share = has_one.sum() / max(1, here.sum())
            by_rule = f"{inside[has_one].mean():.3f}" if has_one.sum() > 50 else "   - "
            text = f"{plain[here].mean():.3f} {by_rule} {share:4.2f}" if here.sum() > 50 else "-"
            cells.append(f"{text:>17}")
        yield f"{name:22}" + "".join(cells)


def main():
    rows = {name: of_process(name, LENGTHS, 600, seed) for seed, name in enumerate(PROCESSES)}
    rows["all four"] = np.concatenate(list(rows.values()), axis=1)
    for kind in ("SK", "±J"):
        for beta in (0.5, 1.0, 2.0):
            rows[f"{kind}, beta = {beta}"] = of_glasses(kind, beta, 8, 30, seed=100)
        tempered = of_glasses(kind, 2.0, 8, 30, seed=100, sampler=ebm.ParallelTempering())
        rows[f"{kind}, 2.0, tempered"] = tempered
    print(f"{sum(rows[name].shape[1] for name in rows if name != 'all four')} sets of four chains")
    print("each cell: coverage of 1.96 plain errors, of the interval, share of sets that have one")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
