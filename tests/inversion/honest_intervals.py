"""How often 95 % intervals hold after couplings were chosen by l1: one Newton step, and refits.

``python -m tests.inversion.honest_intervals [problems]`` draws ±1 problems of six units, two of
whose 15 couplings are strong (J = .4), two weak (.1) and eleven absent, with 400 rows each, chooses
couplings at λ = .06 by the joint pseudo-likelihood, and prints the shares of intervals that hold.
The seed is stated below; 1000 problems take about two minutes.

Of 1000 problems (binomial errors below .006; a refit counts where the coupling was chosen):

=================  ========  ========  ======  ======
loss               coupling  one step  refit   chosen
=================  ========  ========  ======  ======
likelihood         strong    .940      .947    1.00
likelihood         weak      .949      .963    .75
likelihood         absent    .958      .785    .21
pseudo-likelihood  strong    .949      .946    1.00
pseudo-likelihood  weak      .949      .959    .89
pseudo-likelihood  absent    .955      .897    .51
=================  ========  ========  ======  ======
"""

import sys
import warnings

import numpy as np

import ebm
from ebm.inversion import Pseudolikelihood, one_step, refit

SEED, N_ROWS, L1 = 20_261_128, 400, 0.06
STRONG, WEAK = [(0, 1), (2, 3)], [(1, 2), (4, 5)]


def truth():
    couplings = np.zeros((6, 6))
    for size, pairs in ((0.4, STRONG), (0.1, WEAK)):
        for i, j in pairs:
            couplings[i, j] = couplings[j, i] = size
    return ebm.IsingModel(couplings, np.linspace(-0.2, 0.2, 6))


def main(n_problems=1000):
    model = truth()
    exact, i, j = ebm.exact(model), *np.triu_indices(6, 1)
    wanted = model.couplings[i, j]
    flat = ebm.IsingModel(np.zeros((6, 6)), np.zeros(6))
    kinds = {"strong": wanted == 0.4, "weak": wanted == 0.1, "absent": wanted == 0.0}
    print(f"{n_problems} problems, {N_ROWS} rows, l1 = {L1}, seed {SEED}")
    print("share of 95 % intervals that hold (binomial error); of refits, where chosen")
    for name, loss in (("likelihood", ebm.Likelihood()), ("pseudo-likelihood", Pseudolikelihood())):
        honest, given, chosen = [], [], []
        for seed in np.random.SeedSequence(SEED).spawn(n_problems):
            data = ebm.Ensemble.from_data(
                exact.sample(N_ROWS, np.random.default_rng(seed)), space=ebm.Spins
            )
            sparse = ebm.fit(flat, data, loss=loss, penalty=ebm.Penalty(l1=L1)).model
            for results, method in ((honest, one_step), (given, refit)):
                with warnings.catch_warnings():
                    # One step may be said to be too few: its interval counts all the same.
                    warnings.simplefilter("ignore", ebm.EbmWarning)
                    result = method(sparse, data, loss=loss)
                miss = np.abs(result.model.parameters[6:] - wanted)
                results.append(miss < 1.96 * result.standard_errors[6:])
            chosen.append(sparse.couplings[i, j] != 0)
        honest, given, chosen = (np.array(part) for part in (honest, given, chosen))
        for kind, pairs in kinds.items():
            among = chosen[:, pairs]
            refitted = given[:, pairs][among]
            print(
                f"{name:18s} {kind:7s} one step {shown(honest[:, pairs])}  refit {shown(refitted)},"
                f" chosen {among.mean():.2f}"
            )


def shown(holds):
    share = holds.mean()
    return f"{share:.3f} ({np.sqrt(share * (1 - share) / holds.size):.3f})"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
