"""Every kernel of the library with a model it is chosen for, and weaker copies that are mutants."""

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

import ebm
from ebm.forms import TermForm
from ebm.sampling._colored_sweeps import ColoredSweeper
from ebm.sampling._count_sweeps import CountedSweeper
from ebm.sampling._item_sweeps import ItemSweeper
from ebm.sampling._mixed_units import MixedSweeper
from ebm.sampling._tempered_models import Tempered
from ebm.sampling.cluster_moves import BondSweeper, GrowthSweeper
from ebm.sampling.gibbs import (
    EnergySweeper,
    FewChainsLevelsSweeper,
    FewChainsSweeper,
    LayerSweeper,
    LevelsSweeper,
    MetropolisSweeper,
    PairSweeper,
    SparseLevelsSweeper,
    SparseSweeper,
    TermSweeper,
    UnitsSweeper,
)
from ebm.sampling.tempering import SideBySideSweeper, TemperingSweeper
from ebm.units import Bernoulli, Exponential, Gaussian, ReLU, Spin, Uniform
from tests.user_models import TwoMembers

GIBBS, METROPOLIS = ebm.Gibbs(), ebm.Metropolis()
#: Couplings of the models here times this make the mutants that must be caught.
WEAKER = 0.98


#: Couplings of the pairs of five spins.
RING = (0.5, 0.0, 0.7, 0.4, 0.6, 0.8, 0.0, 0.5, 0.0, 0.6)


def pairs(strength=1.0, n=5):
    """Moderate couplings: at strong ones chains hardly move, whatever the kernel."""
    rng = np.random.default_rng(2)
    weights = np.triu(rng.choice([-1.5, 1.5], size=(n, n)) + rng.normal(0, 0.3, (n, n)), 1)
    return ebm.BoltzmannMachine(
        strength * (weights + weights.T), rng.normal(0, 0.4, n), center=rng.uniform(0.3, 0.7, n)
    )


def spins(strength=1.0):
    return pairs(strength).to_spins()


def sparse_pairs(strength=1.0):
    model = pairs(strength)
    weights = np.where(np.abs(model.weights) > 1.4 * strength, model.weights, 0)
    return ebm.BoltzmannMachine(sparse.csr_array(weights), model.biases, center=model.center)


def magnet(strength=1.0):
    """A ring with one bond across, all of them satisfied together, and fields of one sign."""
    weights = np.zeros((5, 5))
    for (i, j), size in zip([*combinations(range(5), 2)], RING, strict=True):
        weights[i, j] = weights[j, i] = strength * size
    return ebm.IsingModel(weights, [0.1, 0.1, 0.3, 0.2, 0.1])


def layers(strength=1.0):
    rng = np.random.default_rng(3)
    return ebm.RestrictedBoltzmannMachine(
        strength * rng.choice([-1.6, 1.6], size=(5, 4)),
        rng.normal(0, 0.4, 5),
        rng.normal(0, 0.4, 4),
        visible_center=rng.uniform(0.3, 0.7, 5),
        hidden_center=rng.uniform(0.3, 0.7, 4),
    )


def layers_of(hidden, visible, size):
    """Layers of other units, with couplings of about ``size``."""

    def make(strength=1.0):
        rng = np.random.default_rng(3)
        return ebm.RestrictedBoltzmannMachine(
            strength * size * rng.choice([-1, 1], size=(5, 4)),
            rng.normal(0, 0.2, 5),
            rng.normal(0, 0.2, 4),
            visible_center=rng.uniform(-0.2, 0.2, 5),
            hidden_center=rng.uniform(-0.2, 0.2, 4),
            units=(visible, hidden),
        )

    return make


def levels(strength=1.0):
    rng = np.random.default_rng(4)
    couplings = rng.choice([-0.7, 0.7], size=(4, 4, 3, 3))
    couplings[np.arange(4), np.arange(4)] = 0
    couplings = (couplings + couplings.transpose(1, 0, 3, 2)) / 2
    return ebm.PottsModel(strength * couplings, rng.normal(0, 0.4, (4, 3)))


def mixed(strength=1.0):
    rng = np.random.default_rng(5)
    space = ebm.Product(ebm.Levels(1, 3), ebm.Binary(1), ebm.Spins(1), ebm.Levels(1, 4))
    units = np.repeat(np.arange(4), space.widths)
    couplings = rng.choice([-0.7, 0.7], size=(9, 9)) * (units[:, None] != units)
    couplings = (couplings + couplings.T) / 2
    return ebm.PairwiseModel(space, strength * couplings, rng.normal(0, 0.4, 9))


def items(strength=1.0):
    """Ordinal items with different numbers of categories."""
    rng = np.random.default_rng(6)
    weights = strength * rng.choice([-0.35, 0.35], size=(4, 4))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    return ebm.OrdinalModel(weights, [rng.normal(0, 0.4, q) for q in (3, 2, 4, 3)])


def many_body(strength=1.0):
    units = [subset for size in (2, 3) for subset in combinations(range(4), size)]
    values = strength * np.random.default_rng(1).choice([-0.5, 0.5], size=len(units))
    fields = {(0,): 0.3, (3,): -0.2}
    return ebm.InteractionModel(dict(zip(units, values, strict=True)) | fields, ebm.Spins(4))


def many_body_binary(strength=1.0):
    """All four units in one term, too."""
    units = [subset for size in (2, 3, 4) for subset in combinations(range(4), size)]
    values = strength * np.random.default_rng(1).choice([-1.5, 1.5], size=len(units))
    fields = {(0,): 0.3, (3,): 0.9}
    return ebm.InteractionModel(dict(zip(units, values, strict=True)) | fields, ebm.Binary(4))


class Counted(TwoMembers):
    """Terms, and a function of the number of active units."""

    count = np.array([0.0, 0.4, -0.3, 0.2, 0.5])

    def energy(self, states):
        return self._model.energy(states) - self.count[(np.asarray(states) > 0).sum(axis=-1)]

    def term_form(self):
        return TermForm(self._model.terms, self._model.offset, self.count)


def counted(strength=1.0):
    return Counted(many_body(strength))


def population(strength=1.0):
    """Pairs, and a potential of the number of active units."""
    machine = pairs(0.6 * strength)
    potential = np.array([0.0, -0.4, 0.3, 0.9, -0.5, 0.6])
    return ebm.KPairwiseModel(machine.weights, 0.5 * machine.biases, potential)


def equal_levels(strength=1.0):
    """Couplings of equal levels on a ring of five with a chord."""
    couplings = np.zeros((5, 5, 3, 3))
    signs = [1, -1, 1, 1, -1, -1]
    for sign, (i, j) in zip(signs, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)], strict=True):
        couplings[i, j] = couplings[j, i] = 1.2 * sign * strength * np.eye(3)
    fields = np.random.default_rng(5).normal(0, 0.4, (5, 3))
    return ebm.PottsModel(couplings, fields)


class SparseForm(TwoMembers):
    """A model over levels that offers its couplings as a sparse matrix, with own ones."""

    def quadratic_form(self):
        form = self._model.quadratic_form()
        own = np.kron(np.eye(self.space.n), np.diag([0.6, 0.0, 0.0]) + 0.3)
        vector = form.vector - 0.5 * np.diagonal(own)
        return sparse.csr_array(form.matrix + own), vector, form.constant


def users_own(strength=1.0):
    return TwoMembers(levels(strength))


def weakened(model):
    """The same model with couplings ``WEAKER`` times as large, its fields as they are."""
    if isinstance(model, TwoMembers):
        return type(model)(weakened(model._model))
    if isinstance(model, Tempered):
        return Tempered(weakened(model._model), model._beta)
    if isinstance(model, ebm.PottsModel | ebm.PairwiseModel):
        return replace(model, couplings=WEAKER * model.couplings)
    if isinstance(model, ebm.InteractionModel):
        terms = {k: v * (WEAKER if len(k) > 1 else 1) for k, v in model.terms.items()}
        return replace(model, terms=terms)
    return model.with_parameters(model.parameters * np.where(model.is_coupling, WEAKER, 1))


@dataclass(frozen=True)
class Weakened:
    """A sampler that moves the chains of a model as if they were those of its weaker copy."""

    sampler: Any

    def sweeper(self, model, n_chains):
        return self.sampler.sweeper(weakened(model), n_chains)

    def partial_sweeper(self, model, n_chains, units):
        return self.sampler.partial_sweeper(weakened(model), n_chains, units)


class Still:
    """Chains that do not move: what is left are the swaps."""

    def sweeper(self, model, n_chains):
        sweeper = ebm.Gibbs().sweeper(model, n_chains)
        sweeper.advance = lambda work, stream, n_sweeps: None
        return sweeper


@dataclass(frozen=True)
class Kernel:
    """A sampler, a model of moderate couplings, and what makes the library choose the kernel."""

    sweeper: type
    make: Any
    sampler: Any = GIBBS
    settings: dict = field(default_factory=dict)

    @property
    def mutant(self):
        """The same sampler with weaker couplings."""
        if isinstance(self.sampler, ebm.ParallelTempering):
            return replace(self.sampler, sampler=Weakened(self.sampler.sampler or GIBBS))
        return Weakened(self.sampler)


ALWAYS_DOUBLE = {"ebm.sampling._precision.LARGEST_SUM": 0.0}
ALWAYS_SPARSE = {"ebm.sampling._rows.SPARSE": 1.0}
FEW = {"ebm.sampling.gibbs.FEW_CHAINS": 10**9}
COLORED = {
    "ebm.sampling._colored_sweeps.UPDATE_COST": 10**9,
    "ebm.sampling._colored_sweeps.FEWEST_UNITS": 0,
}
BETAS = (0.6, 0.2)
TEMPERING = ebm.ParallelTempering(BETAS)

KERNELS = {
    "dense": Kernel(PairSweeper, pairs),
    "dense, spins": Kernel(PairSweeper, spins),
    "dense, few chains": Kernel(FewChainsSweeper, pairs, settings=FEW),
    "dense, double": Kernel(PairSweeper, pairs, settings=ALWAYS_DOUBLE),
    "sparse": Kernel(SparseSweeper, sparse_pairs),
    "sparse, few chains": Kernel(ColoredSweeper, sparse_pairs, settings=COLORED),
    "sparse, double": Kernel(PairSweeper, sparse_pairs, settings=ALWAYS_DOUBLE),
    "layers": Kernel(LayerSweeper, layers),
    "layers, double": Kernel(LayerSweeper, layers, settings=ALWAYS_DOUBLE),
    "layers, spins": Kernel(LayerSweeper, layers_of(Spin(), Spin(), 0.5)),
    "layers, spins and binary": Kernel(LayerSweeper, layers_of(Bernoulli(), Spin(), 0.9)),
    "layers, Gaussian": Kernel(UnitsSweeper, layers_of(Gaussian(1.3), Spin(), 0.5)),
    "layers, ReLU": Kernel(UnitsSweeper, layers_of(ReLU(1.3), Spin(), 0.7)),
    "layers, exponential": Kernel(UnitsSweeper, layers_of(Exponential(4.0), Spin(), 0.55)),
    "layers, uniform": Kernel(UnitsSweeper, layers_of(Uniform(), Bernoulli(), 3.0)),
    "levels": Kernel(LevelsSweeper, levels),
    "mixed": Kernel(MixedSweeper, mixed),
    "items": Kernel(ItemSweeper, items),
    "items, double": Kernel(MixedSweeper, items, settings=ALWAYS_DOUBLE),
    "levels, few chains": Kernel(FewChainsLevelsSweeper, levels, settings=FEW),
    "levels, sparse": Kernel(SparseLevelsSweeper, equal_levels, settings=ALWAYS_SPARSE),
    "levels, sparse tables": Kernel(SparseLevelsSweeper, levels, settings=ALWAYS_SPARSE),
    "levels, sparse form": Kernel(SparseLevelsSweeper, lambda: SparseForm(levels())),
    "levels, double": Kernel(LevelsSweeper, levels, settings=ALWAYS_DOUBLE),
    "levels, sparse, double": Kernel(
        LevelsSweeper, lambda: SparseForm(levels()), settings=ALWAYS_DOUBLE
    ),
    "population": Kernel(CountedSweeper, population),
    "many-body": Kernel(TermSweeper, many_body),
    "many-body, {0,1}": Kernel(TermSweeper, many_body_binary),
    "many-body, counted": Kernel(TermSweeper, counted),
    "many-body, double": Kernel(TermSweeper, counted, settings=ALWAYS_DOUBLE),
    "user's own": Kernel(EnergySweeper, users_own),
    "Metropolis, pairs": Kernel(PairSweeper, spins, METROPOLIS),
    "Metropolis, few chains": Kernel(FewChainsSweeper, spins, METROPOLIS, FEW),
    "Metropolis, double": Kernel(PairSweeper, spins, METROPOLIS, ALWAYS_DOUBLE),
    "Metropolis, sparse": Kernel(SparseSweeper, sparse_pairs, METROPOLIS),
    "Metropolis, sparse, few chains": Kernel(ColoredSweeper, sparse_pairs, METROPOLIS, COLORED),
    "Metropolis, layers": Kernel(MetropolisSweeper, layers, METROPOLIS),
    "Metropolis, mixed": Kernel(MetropolisSweeper, mixed, METROPOLIS),
    "Metropolis, items": Kernel(ItemSweeper, items, METROPOLIS),
    "Metropolis, levels": Kernel(LevelsSweeper, levels, METROPOLIS),
    "Metropolis, levels, few chains": Kernel(FewChainsLevelsSweeper, levels, METROPOLIS, FEW),
    "Metropolis, levels, sparse": Kernel(
        SparseLevelsSweeper, equal_levels, METROPOLIS, ALWAYS_SPARSE
    ),
    "Metropolis, levels, double": Kernel(LevelsSweeper, levels, METROPOLIS, ALWAYS_DOUBLE),
    "Metropolis, population": Kernel(CountedSweeper, population, METROPOLIS),
    "Metropolis, many-body": Kernel(TermSweeper, many_body, METROPOLIS),
    "Metropolis, many-body, counted": Kernel(TermSweeper, counted, METROPOLIS),
    "Metropolis, user's own": Kernel(MetropolisSweeper, users_own, METROPOLIS),
    "clusters, bonds": Kernel(BondSweeper, magnet, ebm.SwendsenWang()),
    "clusters, grown": Kernel(GrowthSweeper, magnet, ebm.Wolff(n_clusters=3)),
    "clusters, {0,1}": Kernel(GrowthSweeper, lambda: magnet().to_binary(), ebm.Wolff(2)),
    "tempering, clusters": Kernel(
        TemperingSweeper, magnet, ebm.ParallelTempering(BETAS, ebm.SwendsenWang())
    ),
    "tempering": Kernel(SideBySideSweeper, pairs, TEMPERING),
    "tempering, few chains": Kernel(SideBySideSweeper, pairs, TEMPERING, FEW),
    "tempering, double": Kernel(SideBySideSweeper, pairs, TEMPERING, ALWAYS_DOUBLE),
    "tempering, sparse": Kernel(SideBySideSweeper, sparse_pairs, TEMPERING),
    "tempering, sparse, few chains": Kernel(SideBySideSweeper, sparse_pairs, TEMPERING, COLORED),
    "tempering, items": Kernel(SideBySideSweeper, items, TEMPERING),
    "tempering, levels": Kernel(SideBySideSweeper, levels, TEMPERING),
    "tempering, levels, few chains": Kernel(SideBySideSweeper, levels, TEMPERING, FEW),
    "tempering, levels, sparse": Kernel(SideBySideSweeper, equal_levels, TEMPERING, ALWAYS_SPARSE),
    "tempering, many-body": Kernel(SideBySideSweeper, counted, TEMPERING),
    "tempering, user's own": Kernel(TemperingSweeper, users_own, TEMPERING),
    "tempering, layers": Kernel(TemperingSweeper, layers, TEMPERING),
    "tempering, Metropolis": Kernel(
        SideBySideSweeper, levels, ebm.ParallelTempering(BETAS, METROPOLIS)
    ),
    "tempering, Metropolis, pairs": Kernel(
        SideBySideSweeper, pairs, ebm.ParallelTempering(BETAS, METROPOLIS)
    ),
}
