"""Markov chains that leave a model's distribution unchanged, and their diagnostics."""

from ebm.sampling.annealing import AnnealedSamples, Annealing
from ebm.sampling.bennett import BennettRatio, ThermodynamicIntegration
from ebm.sampling.chain_estimate import ChainEstimate
from ebm.sampling.cluster_moves import SwendsenWang, Wolff
from ebm.sampling.diagnostics import (
    autocorrelation_time,
    drift,
    effective_sample_size,
    mean_of_chains,
    split_r_hat,
)
from ebm.sampling.gibbs import Gibbs, Metropolis
from ebm.sampling.hamiltonian import HamiltonianMonteCarlo, Langevin
from ebm.sampling.log_partition import log_partition
from ebm.sampling.partition_estimate import LogPartition
from ebm.sampling.populations import PopulationAnnealing, PopulationSamples
from ebm.sampling.sample import sample
from ebm.sampling.samples import (
    ChainState,
    ContinuousChains,
    ContinuousSamples,
    Samples,
    SamplingRun,
)
from ebm.sampling.sweeper import Sweeper, uniforms
from ebm.sampling.tempered_samples import ReweightedSamples, TemperedSamples
from ebm.sampling.tempering import ParallelTempering

__all__ = [
    "AnnealedSamples",
    "Annealing",
    "BennettRatio",
    "ChainEstimate",
    "ChainState",
    "ContinuousChains",
    "ContinuousSamples",
    "Gibbs",
    "HamiltonianMonteCarlo",
    "Langevin",
    "LogPartition",
    "Metropolis",
    "ParallelTempering",
    "PopulationAnnealing",
    "PopulationSamples",
    "ReweightedSamples",
    "Samples",
    "SamplingRun",
    "Sweeper",
    "SwendsenWang",
    "TemperedSamples",
    "ThermodynamicIntegration",
    "Wolff",
    "autocorrelation_time",
    "drift",
    "effective_sample_size",
    "log_partition",
    "mean_of_chains",
    "sample",
    "split_r_hat",
    "uniforms",
]
