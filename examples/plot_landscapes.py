"""
Valleys of a court and of a parliament
======================================

Two pairwise models are fitted to votes, from nothing but how often each member (or bill) and each
pair of them has a yes. Their minima are the coalitions that hold together, and the passes between
the minima tell which of them are of one kind.
"""

import matplotlib.pyplot as plt
import numpy as np

import ebm


def moments(names, n_rows, counts, pair_counts):
    """Means and covariances from counts of ones, and of pairs of ones, i < j row by row."""
    second = np.diag(np.array(counts, dtype=float))
    i, j = np.triu_indices(len(names), 1)
    second[i, j] = second[j, i] = pair_counts
    mean = np.array(counts) / n_rows
    space = ebm.Binary(len(names), names=names)
    return ebm.Moments(space, mean, second / n_rows - np.outer(mean, mean), sample_size=n_rows)


# %%
# The Supreme Court of the United States, 1994–2004: 464 cases that were not unanimous, 1 a liberal
# vote. The data are those of the R package MCMCpack, from Spaeth's database.

justices = "Rehnquist Stevens OConnor Scalia Kennedy Souter Thomas Ginsburg Breyer".split()
votes = [107, 385, 177, 93, 173, 338, 78, 340, 305]
pairs = [
    *(74, 78, 41, 86, 87, 35, 86, 77, 143, 51, 140, 299, 45, 303, 274, 44, 108, 155, 37, 144, 148),
    *(55, 64, 54, 58, 44, 143, 46, 139, 129, 55, 296, 263, 45, 31, 270),
]
start = ebm.BoltzmannMachine(np.zeros((9, 9)), np.zeros(9), names=justices)
court = ebm.fit(start, moments(justices, 464, votes, pairs)).model
landscape = ebm.landscape(court)
print(landscape)

# %%
# The deepest valley, with 58 % of the probability, is the vote of five against four: Stevens,
# Souter, Ginsburg and Breyer on the liberal side. All other valleys end in it. That of Stevens
# alone, with 20 %, is the only one behind a pass of more than k_BT. From the valley in which all
# but Scalia and Thomas are liberal .13 k_BT suffice: it is a shoulder of the deepest one rather
# than a coalition of its own.

sides = {
    "four of nine": landscape.states[0],
    "seven of nine": landscape.states[1],
    "Stevens alone": landscape.states[2],
    "all nine": landscape.states[3],
    "Scalia, Thomas": landscape.states[4],
    "the other five": landscape.states[5],
}
ebm.plotting.landscape(landscape, sides)
plt.show()

# %%
# The House of Representatives in 1984: 232 members who voted on all of sixteen bills, 1 a yea (UCI
# Machine Learning Repository). Some pairs of bills have hardly any exceptions, so that the fit has
# a weak penalty.

bills = [
    *("handicapped_infants", "water_project", "budget_resolution", "physician_fee_freeze"),
    *("el_salvador_aid", "religious_groups_in_schools", "anti_satellite_test_ban"),
    *("aid_to_contras", "mx_missile", "immigration", "synfuels_cutback", "education_spending"),
    *("superfund_right_to_sue", "crime", "duty_free_exports", "export_act_south_africa"),
]
votes = [96, 107, 123, 113, 128, 149, 124, 119, 113, 128, 80, 108, 127, 149, 86, 189]
pairs = [
    *(48, 73, 24, 31, 39, 72, 71, 65, 53, 40, 18, 32, 40, 46, 89, 54, 56, 66, 76, 46, 49, 44),
    *(49, 46, 51, 72, 68, 33, 85, 20, 30, 54, 99, 104, 97, 73, 53, 18, 39, 46, 70, 122, 108),
    *(99, 29, 17, 16, 63, 23, 96, 95, 111, 12, 74, 119, 31, 17, 14, 68, 35, 103, 108, 121, 16),
    *(87, 50, 44, 37, 82, 51, 101, 114, 125, 34, 109, 103, 97, 72, 47, 25, 37, 53, 69, 123),
    *(104, 70, 50, 15, 31, 41, 75, 117, 69, 47, 13, 29, 39, 69, 111, 43, 55, 70, 85, 46, 109),
    *(25, 37, 43, 41, 68, 96, 104, 12, 69, 112, 21, 87, 31, 108, 81),
]
start = ebm.BoltzmannMachine(np.zeros((16, 16)), np.zeros(16), names=bills)
penalty = ebm.Penalty(l2=1e-3, l2_biases=1e-3)
house = ebm.fit(start, moments(bills, 232, votes, pairs), penalty=penalty).model
landscape = ebm.landscape(house)
print(landscape)

# %%
# Two groups of two valleys hold 96 % of the probability. In the first the fee of physicians is
# frozen and El Salvador aided, as Republicans voted, in the second the budget passes and tests of
# satellites are banned, as Democrats voted. Within either group .2 and .3 k_BT lead from one valley
# to the other, which differ in the same bills, the water project and immigration, on which there
# was no party line. From group to group the energy rises by 4.6 k_BT. The four others are small
# pockets high on that ridge.

print(f"from party to party: {landscape.heights[0, 2] - landscape.energies[2]:.2f} k_BT")
for k in (1, 3):
    differ = landscape.states[k] != landscape.states[landscape.parents[k]]
    print(k, "differs from", landscape.parents[k], "in", *np.array(bills)[differ])
names = ["Republican", "R, water", "Democratic", "D, water", *"4567"]
ebm.plotting.landscape(landscape, names)
plt.show()

# %%
# Seen from above: distances are numbers of bills, numbers at the lines are barriers.

ebm.plotting.valley_map(landscape, names)
plt.show()
