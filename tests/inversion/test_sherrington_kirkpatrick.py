"""Couplings of Sherrington–Kirkpatrick models from samples: how large the errors are."""

import numpy as np
import pytest

import ebm
from ebm.inversion import (
    bethe,
    mean_field,
    naive_mean_field,
    pseudolikelihood,
    sessak_monasson,
    tap,
)

N, N_SAMPLES, N_DRAWS = 16, 15_000, 4


def by_pseudolikelihood(data):
    return pseudolikelihood(data).model


METHODS = {
    "first": mean_field,
    "naive": naive_mean_field,
    "tap": tap,
    "sessak_monasson": sessak_monasson,
    "bethe": bethe,
    "pseudolikelihood": by_pseudolikelihood,
}

#: Smallest and largest γ = √(ΣΔJ²/ΣJ²) over twelve draws of another implementation, fields uniform
#: in ±0.3β, N(0, β²/16) couplings, 15000 exact samples. Medians of four draws must lie between.
RANGES = {
    0.2: {
        "first": (0.217, 0.265),
        "naive": (0.161, 0.197),
        "tap": (0.161, 0.197),
        "sessak_monasson": (0.159, 0.195),
        "bethe": (0.159, 0.195),
    },
    0.6: {
        "first": (0.395, 0.649),
        "naive": (0.077, 0.152),
        "tap": (0.077, 0.148),
        "sessak_monasson": (0.066, 0.079),
        "bethe": (0.072, 0.090),
        "pseudolikelihood": (0.059, 0.075),
    },
    1.0: {
        "first": (0.586, 1.19),
        "naive": (0.119, 0.648),
        "tap": (0.119, 0.462),
        "sessak_monasson": (0.079, 0.378),
        "bethe": (0.088, 0.224),
        "pseudolikelihood": (0.055, 0.110),
    },
}


def errors_of_one_draw(beta, rng, methods):
    couplings = np.triu(rng.normal(0, beta / np.sqrt(N), (N, N)), 1)
    couplings = couplings + couplings.T
    model = ebm.IsingModel(couplings, rng.uniform(-0.3 * beta, 0.3 * beta, N))
    data = ebm.Ensemble.from_data(ebm.exact(model).sample(N_SAMPLES, rng), space=ebm.Spins)
    return [
        np.linalg.norm(METHODS[name](data).couplings - couplings) / np.linalg.norm(couplings)
        for name in methods
    ]


@pytest.mark.parametrize("beta", RANGES)
def test_errors_are_those_of_another_implementation(beta):
    rng = np.random.default_rng(round(100 * beta))
    ranges = RANGES[beta]
    errors = [errors_of_one_draw(beta, rng, ranges) for _ in range(N_DRAWS)]
    medians = dict(zip(ranges, np.median(errors, axis=0), strict=True))
    outside = {
        name: median
        for name, median in medians.items()
        if not ranges[name][0] <= median <= ranges[name][1]
    }
    assert outside == {}
