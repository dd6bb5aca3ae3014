"""How often the entropy of words is within the deviation that NSB states, and how low others are.

``python -m tests.entropy_coverage`` takes half a minute. It printed (share within one and within
two stated deviations, mean of the deviation in stated ones):

    p ∝ 1/k, 200 words, 100 rows             0.49  0.83  -0.87
    p ∝ 1/k, 200 words, 400 rows             0.59  0.89  +0.07
    Dirichlet(½), 100 words, 100 rows        0.68  0.94  -0.02
    the prior of NSB, 100 words, 100 rows    0.68  0.95  -0.08
    uniform, 100 words, 100 rows             0.00  0.98  -1.32
    p ∝ 0.3^k, 30 words, 50 rows             0.69  0.93  -0.02
"""

import numpy as np

from ebm.observables import word_entropy


def covered(draw, n_rows, n_samples):
    """Shares within one and two stated deviations, and the mean in units of these."""
    rng = np.random.default_rng(5)
    scores = []
    for _ in range(n_samples):
        p = draw(rng)
        entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
        estimate = word_entropy(rng.multinomial(n_rows, p), n_words=len(p))
        scores.append((estimate.value - entropy) / estimate.standard_error)
    scores = np.array(scores)
    return (np.abs(scores) < 1).mean(), (np.abs(scores) < 2).mean(), scores.mean()


def of_its_prior(rng, n_words=100):
    """Words of a Dirichlet prior whose mean entropy is uniform from 0 to ln K."""
    from scipy.optimize import brentq
    from scipy.special import digamma

    def excess(u):
        return digamma(n_words * np.exp(u) + 1) - digamma(np.exp(u) + 1) - entropy

    entropy = rng.random() * np.log(n_words)
    beta = np.exp(brentq(excess, -40, 40))
    # Draws of a smaller β than this are one word.
    return rng.dirichlet(np.full(n_words, beta)) if beta > 1e-3 else np.eye(n_words)[0]


def main():
    zipf = 1 / np.arange(1, 201)
    zipf, steep = zipf / zipf.sum(), 0.3 ** np.arange(30.0)
    cases = {
        "p ∝ 1/k, 200 words, 100 rows": (lambda rng: zipf, 100, 1000),
        "p ∝ 1/k, 200 words, 400 rows": (lambda rng: zipf, 400, 500),
        "Dirichlet(½), 100 words, 100 rows": (
            lambda rng: rng.dirichlet(np.full(100, 0.5)),
            100,
            1000,
        ),
        "the prior of NSB, 100 words, 100 rows": (of_its_prior, 100, 600),
        "uniform, 100 words, 100 rows": (lambda rng: np.full(100, 0.01), 100, 500),
        "p ∝ 0.3^k, 30 words, 50 rows": (lambda rng: steep / steep.sum(), 50, 500),
    }
    for name, case in cases.items():
        one, two, mean = covered(*case)
        print(f"{name:40} {one:.2f}  {two:.2f}  {mean:+.2f}")


if __name__ == "__main__":
    main()
