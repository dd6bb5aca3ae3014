"""Fits of real data against an independent program, to the digits it printed."""

import math

import numpy as np
import pytest

import ebm
from tests import reference


def ising(n, **options):
    return ebm.IsingModel(np.zeros((n, n)), np.zeros(n), **options)


def binary(n, **options):
    return ebm.BoltzmannMachine(np.zeros((n, n)), np.zeros(n), **options)


def check_fit(result, data):
    """Couplings, likelihood, entropies and minima of a fit in the ±1 coding."""
    wanted, model = data["fit"], result.model
    n = model.n
    assert result.converged
    assert not result.warnings
    i, j = np.triu_indices(n, 1)
    np.testing.assert_allclose(model.fields, wanted["fields"], atol=1e-5)
    np.testing.assert_allclose(model.couplings[i, j], wanted["couplings"], atol=1e-5)
    assert result.log_likelihood == pytest.approx(wanted["log_likelihood"], abs=1e-9)
    exact = ebm.exact(model)
    assert exact.log_partition == pytest.approx(wanted["log_partition"], abs=1e-8)
    assert exact.entropy(base=2) == pytest.approx(wanted["entropy"], abs=1e-8)
    check_minima(model, wanted["minima"])


def check_minima(model, wanted):
    found = {"".join("01"[int(s > 0)] for s in state) for state in ebm.local_minima(model).states}
    assert found == set(wanted)


def independent_entropy(mean):
    p = np.asarray(mean)
    return -float((p * np.log2(p) + (1 - p) * np.log2(1 - p)).sum())


@pytest.mark.parametrize("name", ["jonas", "rehnquist", "housevotes84"])
def test_statistics_are_those_of_whole_rows(name):
    data = reference.load(name)
    m, n = data["n_samples"], len(data["names"])
    counts, pairs = np.array(data["counts"]), np.array(data["pair_counts"])
    assert counts.shape == (n,)
    assert pairs.shape == (n * (n - 1) // 2,)
    i, j = np.triu_indices(n, 1)
    assert (pairs <= np.minimum(counts[i], counts[j])).all()
    assert (pairs >= counts[i] + counts[j] - m).all()
    moments = reference.moments(data)
    assert moments.sample_size == m
    np.testing.assert_allclose(moments.mean * m, counts, rtol=1e-13)
    np.testing.assert_allclose(moments.second[i, j] * m, pairs, rtol=1e-12)
    entropy = independent_entropy(moments.mean)
    assert entropy == pytest.approx(data["fit"]["entropy_independent"], abs=1e-9)


@pytest.mark.parametrize("name", ["jonas", "rehnquist"])
class TestMaximumLikelihood:
    def test_in_the_coding_of_the_reference(self, name):
        data = reference.load(name)
        family = ising(len(data["names"]), names=data["names"])
        result = ebm.fit(family, reference.moments(data))
        check_fit(result, data)
        assert result.model.names == tuple(data["names"])

    def test_in_the_other_coding(self, name):
        data = reference.load(name)
        result = ebm.fit(binary(len(data["names"]), center=0.5), reference.moments(data))
        spins = result.model.to_spins()
        i, j = np.triu_indices(spins.n, 1)
        np.testing.assert_allclose(spins.couplings[i, j], data["fit"]["couplings"], atol=1e-5)
        np.testing.assert_allclose(spins.fields, data["fit"]["fields"], atol=1e-5)
        assert result.log_likelihood == pytest.approx(data["fit"]["log_likelihood"], abs=1e-9)

    def test_by_l_bfgs(self, name):
        data = reference.load(name)
        family = ising(len(data["names"]))
        result = ebm.fit(
            family,
            reference.moments(data),
            loss=ebm.Likelihood(lambda model: ebm.exact(model).moments()),
        )
        i, j = np.triu_indices(family.n, 1)
        np.testing.assert_allclose(
            result.model.couplings[i, j], data["fit"]["couplings"], atol=1e-5
        )


def test_numbers_of_the_supreme_court():
    data = reference.load("rehnquist")
    result = ebm.fit(ising(9), reference.moments(data))
    assert result.log_likelihood == pytest.approx(-4.187115, abs=5e-7)
    assert ebm.exact(result.model).entropy(base=2) == pytest.approx(6.0407, abs=5e-5)
    assert len(ebm.local_minima(result.model)) == 6


def test_house_votes_with_a_penalty():
    """The penalty is on fields and couplings of the {0,1} coding at center 0."""
    data = reference.load("housevotes84")
    result = ebm.fit(
        binary(16), reference.moments(data), penalty=ebm.Penalty(l2=1e-3, l2_biases=1e-3)
    )
    assert result.converged
    assert np.isfinite(result.standard_errors).all()
    spins = result.model.to_spins()
    wanted = data["fit"]
    i, j = np.triu_indices(16, 1)
    np.testing.assert_allclose(spins.couplings[i, j], wanted["couplings"], atol=1e-5)
    np.testing.assert_allclose(spins.fields, wanted["fields"], atol=1e-5)
    assert result.log_likelihood == pytest.approx(wanted["log_likelihood"], abs=1e-8)
    assert ebm.exact(spins).entropy(base=2) == pytest.approx(wanted["entropy"], abs=1e-7)
    check_minima(spins, wanted["minima"])
    # In another coding or at another center the same l2 is another penalty.
    for family in (ising(16), binary(16, center=0.5)):
        other = ebm.fit(
            family, reference.moments(data), penalty=ebm.Penalty(l2=1e-3, l2_biases=1e-3)
        )
        assert other.log_likelihood != pytest.approx(wanted["log_likelihood"], abs=1e-4)


def test_ten_spiking_cells():
    """spikes50 of the maxent toolbox, first ten cells: the rows are bundled."""
    rows = ebm.datasets.spikes().states
    data = ebm.Ensemble.from_data(rows)
    result = ebm.fit(binary(10), data)
    assert result.converged
    assert not result.warnings
    assert result.log_likelihood == pytest.approx(-3.4536976926478133, abs=1e-10)
    assert independent_entropy(data.moments().mean) == pytest.approx(5.044627169631905, abs=1e-10)
    exact = ebm.exact(result.model)
    assert exact.entropy(base=2) == pytest.approx(4.982632533916675, abs=1e-9)
    assert data.entropy(base=2) == pytest.approx(4.970263722278556, abs=1e-10)
    check_minima(result.model, ["0000000000"])
    # The fit is by moments: its entropy is minus its log-likelihood.
    assert -result.log_likelihood / math.log(2) == pytest.approx(4.982632533916675, abs=1e-9)
    spins = result.model.to_spins()
    np.testing.assert_allclose(spins.fields[:3], [-1.96854, -1.837975, -0.810133], atol=1e-5)
    np.testing.assert_allclose(
        spins.couplings[0, 1:6], [0.209556, -0.068206, 0.068502, 0.031988, 0.06439], atol=1e-5
    )
