"""
Questionnaires
==============

Which symptoms go together when all others are held fixed, and are these ties the same in two
groups? A file has a row for each respondent, a column for each item, and one for the group. The
answers here are drawn from a network that is known, so that the result can be judged: eight items,
500 controls and 500 patients with the same ties but more symptoms, and 5 % of the cells empty.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import ebm
from ebm.plotting.style import DATA, INDEPENDENT, MODEL

items = ["sleep", "fatigue", "focus", "appetite", "mood", "guilt", "worry", "panic"]
ties = [(0, 1), (1, 2), (1, 3), (3, 4), (4, 5), (4, 6), (6, 7), (0, 6)]
strengths = [1.4, 1.2, 0.8, 1.0, 1.4, 1.2, 1.4, 0.8]

truth = np.zeros((8, 8))
for (i, j), strength in zip(ties, strengths, strict=True):
    truth[i, j] = truth[j, i] = strength

path = Path(tempfile.mkdtemp()) / "symptoms.csv"
rng = np.random.default_rng(1)
lines = [",".join(["group", *items])]
for group, bias in (("controls", -1.6), ("patients", -0.8)):
    machine = ebm.BoltzmannMachine(truth, np.full(8, bias))
    for row in ebm.exact(machine).sample(500, rng=rng):
        answers = ["" if rng.random() < 0.05 else str(answer) for answer in row]
        lines.append(",".join([group, *answers]))
written = path.write_text("\n".join(lines) + "\n", "utf-8")

# %%
# A third of the rows have an empty cell. They are kept, since the likelihood of a row is that of
# the answers given. The ties of the groups are compared by fits of each group and a fit in which
# all couplings are common, while the biases, which say how frequent a symptom is, are not. In a
# shell, ``ebm compare-groups symptoms.csv --by group --missing-at-random`` says the same.

table, groups = ebm.tables.read_labelled_table(path, "group", drop_missing="never")
comparison = ebm.compare_groups(table, by=groups, missing_at_random=True)
tests = {test.equal: test for test in comparison.equalities}
for name, test in tests.items():
    print(
        f"equal {name:10} chi-square {test.statistic:6.1f}, "
        f"{test.degrees_of_freedom} degrees of freedom, p = {test.p_value:.2g}"
    )

# %%
# The network that both groups share, with couplings beyond what chance brings among 28 of them
# (Bonferroni at 5 %).

shared = tests["couplings"].fits[0]
couplings, errors = shared.model.parameters[8:], shared.standard_errors[8:]
is_tie = np.abs(couplings) > stats.norm.isf(0.025 / 28) * errors
drawn = shared.model.with_parameters(np.append(np.zeros(8), np.where(is_tie, couplings, 0)))

figure, (left, right) = plt.subplots(1, 2, figsize=(9.4, 3.8), layout="constrained")
ebm.plotting.network(drawn, ax=left)
order = np.argsort(couplings)
place, (i, j) = np.arange(28), shared.model.pairs
right.errorbar(place, couplings[order], errors[order], fmt="o", ms=3, color=MODEL, label="estimate")
right.plot(place, truth[i, j][order], "_", ms=8, color=DATA, label="true coupling")
right.axhline(0, color=INDEPENDENT, lw=0.8, zorder=0)
right.set(xlabel="pair of symptoms", ylabel="coupling W")
right.legend(frameon=False)
plt.show()

# %%
# The sentence:

strongest = int(np.argmax(couplings))
first, second = items[i[strongest]], items[j[strongest]]
print(
    f"{is_tie.sum()} of 28 pairs of symptoms are coupled (p < 0.05, Bonferroni), most strongly "
    f"{first} and {second}, W = {ebm.Estimate(couplings[strongest], errors[strongest])}. The "
    f"couplings of the groups are compatible with being equal (χ² = "
    f"{tests['couplings'].statistic:.1f}, 28 degrees of freedom, p = "
    f"{tests['couplings'].p_value:.2f}), the biases are not (p = {tests['biases'].p_value:.1g})."
)
print(f"{(is_tie & (truth[i, j] > 0)).sum()} of the 8 true ties are among them.")
