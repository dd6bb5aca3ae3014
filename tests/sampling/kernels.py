"""Every kernel of the library with a model it is chosen for, and weaker copies that are mutants."""

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

import ebm
from ebm.sampling.annealing import Tempered
from ebm.sampling.gibbs import (
    EnergySweeper,
    FewChainsSweeper,
    LayerSweeper,
    LevelsSweeper,
    MetropolisSweeper,
    PairSweeper,
    SparseSweeper,
)
from ebm.sampling.tempering import TemperingSweeper
from tests.user_models import TwoMembers

GIBBS, METROPOLIS = ebm.Gibbs(), ebm.Metropolis()
#: Couplings of the models here times this make the mutants that must be caught.
WEAKER = 0.98


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


def layers(strength=1.0):
    rng = np.random.default_rng(3)
    return ebm.RestrictedBoltzmannMachine(
        strength * rng.choice([-1.6, 1.6], size=(5, 4)),
        rng.normal(0, 0.4, 5),
        rng.normal(0, 0.4, 4),
        visible_center=rng.uniform(0.3, 0.7, 5),
        hidden_center=rng.uniform(0.3, 0.7, 4),
    )


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


def many_body(strength=1.0):
    units = [subset for size in (2, 3) for subset in combinations(range(4), size)]
    values = strength * np.random.default_rng(1).choice([-0.5, 0.5], size=len(units))
    fields = {(0,): 0.3, (3,): -0.2}
    return ebm.InteractionModel(dict(zip(units, values, strict=True)) | fields, ebm.Spins(4))


def users_own(strength=1.0):
    return TwoMembers(levels(strength))


def weakened(model):
    """The same model with couplings ``WEAKER`` times as large, its fields as they are."""
    if isinstance(model, TwoMembers):
        return TwoMembers(weakened(model._model))
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


ALWAYS_DOUBLE = {"ebm.sampling.gibbs.LARGEST_SUM": 0.0}
FEW = {"ebm.sampling.gibbs.FEW_CHAINS": 10**9}
BETAS = (0.6, 0.2)

KERNELS = {
    "dense": Kernel(PairSweeper, pairs),
    "dense, spins": Kernel(PairSweeper, spins),
    "dense, few chains": Kernel(FewChainsSweeper, pairs, settings=FEW),
    "dense, double": Kernel(PairSweeper, pairs, settings=ALWAYS_DOUBLE),
    "sparse": Kernel(SparseSweeper, sparse_pairs),
    "sparse, double": Kernel(PairSweeper, sparse_pairs, settings=ALWAYS_DOUBLE),
    "layers": Kernel(LayerSweeper, layers),
    "layers, double": Kernel(LayerSweeper, layers, settings=ALWAYS_DOUBLE),
    "levels": Kernel(LevelsSweeper, levels),
    "mixed": Kernel(LevelsSweeper, mixed),
    "many-body": Kernel(EnergySweeper, many_body),
    "user's own": Kernel(EnergySweeper, users_own),
    "Metropolis, pairs": Kernel(MetropolisSweeper, spins, METROPOLIS),
    "Metropolis, layers": Kernel(MetropolisSweeper, layers, METROPOLIS),
    "Metropolis, levels": Kernel(MetropolisSweeper, levels, METROPOLIS),
    "Metropolis, mixed": Kernel(MetropolisSweeper, mixed, METROPOLIS),
    "Metropolis, many-body": Kernel(MetropolisSweeper, many_body, METROPOLIS),
    "Metropolis, user's own": Kernel(MetropolisSweeper, users_own, METROPOLIS),
    "tempering": Kernel(TemperingSweeper, pairs, ebm.ParallelTempering(BETAS)),
    "tempering, layers": Kernel(TemperingSweeper, layers, ebm.ParallelTempering(BETAS)),
    "tempering, Metropolis": Kernel(
        TemperingSweeper, levels, ebm.ParallelTempering(BETAS, METROPOLIS)
    ),
}
