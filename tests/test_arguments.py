"""Arguments of the wrong kind end in an error that names them, wherever they are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ebm
from ebm.errors import CodingError, EbmError, FileFormatError, ModelError, NamesError, ShapeError
from ebm.sampling import ChainState
from ebm.tables import read_table

PAIR = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0.5, -1], names=["a", "b"])
MODELS = {
    "boltzmann": PAIR,
    "ising": PAIR.to_spins(),
    "restricted": ebm.RestrictedBoltzmannMachine(np.ones((2, 2)), [0, 1], [1, 0]),
    "potts": ebm.PottsModel(np.zeros((2, 2, 3, 3)), np.ones((2, 3))),
    "interactions": ebm.InteractionModel({(0, 1): 1.0, (0,): 2.0}, ebm.Spins(2)),
    "marginal": ebm.marginalize(PAIR, ["a"]),
}
NO_NUMBERS = ["a", "2", b"2", None, [1, 2], 1j, np.ones((2, 2)), {}]


@pytest.mark.parametrize("value", [*NO_NUMBERS, np.nan, np.inf], ids=repr)
@pytest.mark.parametrize("kind", MODELS)
def test_factors_of_energies_are_finite_numbers(kind: str, value: Any) -> None:
    with pytest.raises(EbmError, match=r"^beta must"):
        MODELS[kind].scaled(value)


@pytest.mark.parametrize("beta", [2, np.float32(2), np.array(2), True])
def test_numbers_of_any_type_are_factors(beta: Any) -> None:
    for model in MODELS.values():
        scaled, same = model.scaled(beta), model.scaled(float(beta))
        states = model.space.states_at(range(int(model.space.size)))
        np.testing.assert_array_equal(scaled.energy(states), same.energy(states))


@pytest.mark.parametrize("value", [*NO_NUMBERS, np.nan, 0, -1], ids=repr)
@pytest.mark.parametrize("name", ["max_seconds", "max_memory"])
def test_limits_are_positive_numbers(name: str, value: Any) -> None:
    for function in (ebm.exact, ebm.local_minima):
        with pytest.raises(EbmError, match=rf"^{name} must"):
            function(PAIR, **{name: value})
    assert ebm.exact(PAIR, **{name: np.inf}).space == PAIR.space


@pytest.mark.parametrize("value", [*NO_NUMBERS, np.nan, 1], ids=repr)
def test_bases_of_logarithms_are_numbers_above_1(value: Any) -> None:
    if value is not None:
        with pytest.raises(EbmError, match=r"^base must"):
            ebm.exact(PAIR).entropy(base=value)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_numbers_beside_moments_are_numbers(value: Any) -> None:
    with pytest.raises(EbmError, match=r"^sample_size must"):
        ebm.Moments(ebm.Binary(1), [0.5], [[0.25]], sample_size=value)
    if value is not None:
        with pytest.raises(EbmError, match=r"^log_partition must"):
            ebm.Moments(ebm.Binary(1), [0.5], [[0.25]], log_partition=value)


@pytest.mark.parametrize("rng", [-1, np.int64(-3)])
def test_seeds_are_not_negative(rng: Any) -> None:
    for draw in (
        lambda: ebm.sample(PAIR, n_draws=1, rng=rng),
        lambda: ebm.exact(PAIR).sample(1, rng=rng),
        lambda: PAIR.space.random(1, rng=rng),
    ):
        with pytest.raises(EbmError, match=r"rng must not be negative, got -[13]"):
            draw()


# Names


@pytest.mark.parametrize(
    ("names", "match"),
    [
        ([b"a", b"b"], r"must be text, got b'a': decode it"),
        (np.array([b"a", b"b"]), r"must be text, got .*b'a'.*: decode it"),
        (b"ab", "the string b'ab'"),
        ("ab", "the string 'ab'"),
        ([None, "a"], "must be text, got None, a missing value: name every unit"),
        (["a", float("nan")], "must be text, got nan, a missing value: name every unit"),
        (3, "a sequence of .*names, got 3"),
    ],
)
def test_names_are_text(names: Any, match: str) -> None:
    rows = [[0, 1], [1, 0], [1, 1]]
    for make in (
        lambda: ebm.Binary(2, names=names),
        lambda: ebm.BoltzmannMachine(np.zeros((2, 2)), [0, 0], names=names),
        lambda: ebm.Ensemble.from_data(rows, names=names),
        lambda: ebm.Ensemble.from_data(rows, space=ebm.Binary(2, names=["a", "b"]), names=names),
    ):
        with pytest.raises(NamesError, match=match):
            make()


def test_columns_of_frames_are_text() -> None:
    frame = pd.DataFrame([[0, 1], [1, 0], [1, 1]], columns=[b"a", b"b"])
    for read in (ebm.Ensemble.from_data, PAIR.space.check):
        with pytest.raises(NamesError, match="must be text, got b'a'"):
            read(frame)
    numbered = frame.set_axis([0, 1], axis=1)
    assert ebm.Ensemble.from_data(numbered).space.names == ("0", "1")


def test_names_in_archives_are_text(tmp_path: Path) -> None:
    for names in (np.array([b"a", b"b"]), np.array(b"a")):
        np.savez(tmp_path / "x.npz", X=np.eye(2), names=names)
        with pytest.raises(NamesError, match=r"array 'names' in .* holds bytes, wanted text"):
            read_table(tmp_path / "x.npz")


@pytest.mark.parametrize("comments", ["# ", "#", "% ", "## "])
@pytest.mark.parametrize("delimiter", [",", "\t", " ", ";"])
def test_the_names_that_savetxt_writes_are_read(
    tmp_path: Path, comments: str, delimiter: str
) -> None:
    np.savetxt(
        tmp_path / "x.csv", np.eye(2), delimiter=delimiter, comments=comments,
        header=delimiter.join("ab"),
    )  # fmt: skip
    assert read_table(tmp_path / "x.csv").names == ("a", "b")


@pytest.mark.parametrize("mark", ["#", "%"])
def test_names_that_all_begin_like_comments_stay(tmp_path: Path, mark: str) -> None:
    (tmp_path / "x.csv").write_text(f"{mark}1,{mark}2\n0,1\n1,0\n", encoding="utf-8")
    assert read_table(tmp_path / "x.csv").names == (f"{mark}1", f"{mark}2")


@pytest.mark.parametrize("header", ["a,b", "about\na b", "0 1", "a b c"])
def test_other_headers_of_savetxt_are_refused(tmp_path: Path, header: str) -> None:
    np.savetxt(tmp_path / "x.csv", np.eye(2), header=header)
    with pytest.raises(FileFormatError, match="does not hold one name for each column"):
        read_table(tmp_path / "x.csv")


# Samplers and chains


@pytest.mark.parametrize("sampler", ["gibbs", ebm.Gibbs, 3])
def test_a_sampler_is_one(sampler: Any) -> None:
    with pytest.raises(ModelError, match=r"sampler must be one such as ebm\.Gibbs\(\)"):
        ebm.sample(PAIR, sampler, n_draws=1)


def test_chains_of_another_model_are_not_taken_up() -> None:
    samples = ebm.sample(PAIR, n_draws=4, rng=0)
    for model, error, match in (
        (ebm.IsingModel(np.zeros((3, 3)), np.zeros(3)), ShapeError, r"\(\.\.\., 3\), got \(4, 2\)"),
        (PAIR.to_spins(), CodingError, "other"),
        (MODELS["potts"], CodingError, "its states are of Binary"),
        (
            ebm.BoltzmannMachine(np.zeros((2, 2)), [0, 0], names=["b", "a"]),
            NamesError, r"\('a', 'b'\), those of the model \('b', 'a'\)",
        ),
    ):  # fmt: skip
        if match == "other":
            match = "where −1 or 1 is wanted|its states are of Binary"
        with pytest.raises(error, match=rf"^initial holds chains of another model: .*({match})"):
            ebm.sample(model, n_draws=1, initial=samples.final)
    with pytest.raises(ModelError, match=r"got Samples: give samples\.final"):
        ebm.sample(PAIR, n_draws=1, initial=samples)
    # States that are all 1 are of either coding: the chains know which.
    ones = ChainState(np.ones((4, 2)), samples.final.streams, PAIR.space)
    with pytest.raises(CodingError, match="its states are of Binary"):
        ebm.sample(PAIR.to_spins(), n_draws=1, initial=ones)


def test_chains_without_their_streams_are_not_taken_up() -> None:
    final = ebm.sample(PAIR, n_draws=4, rng=0).final
    for states, streams in (
        (np.zeros((300, 2)), final.streams),
        (final.states, final.streams[0]),
        (final.states, final.streams[:, :2]),
    ):
        with pytest.raises(ShapeError, match=r"streams.*: give samples\.final as it is"):
            ebm.sample(PAIR, n_draws=1, initial=ChainState(states, streams))


def test_chains_of_an_earlier_model_of_the_family_go_on() -> None:
    final = ebm.sample(PAIR, n_draws=4, rng=0).final
    assert final.space == PAIR.space
    ebm.sample(PAIR.scaled(0.5), n_draws=1, initial=final)
    unnamed = ebm.BoltzmannMachine(PAIR.weights, PAIR.biases)
    ebm.sample(unnamed, n_draws=1, initial=final)


def test_chains_in_forbidden_states_are_not_taken_up() -> None:
    free, forbidding = (ebm.TabularModel([0.0, energy], ebm.Binary(1)) for energy in (0, np.inf))
    final = ebm.sample(free, n_draws=1, n_chains=20, rng=0).final
    with pytest.raises(ModelError, match="finite energy"):
        ebm.sample(forbidding, n_draws=1, initial=final)


def test_more_levels_than_a_byte_holds_are_drawn() -> None:
    model = ebm.PottsModel(np.zeros((1, 1, 300, 300)), np.zeros((1, 300)))
    samples = ebm.sample(model, n_draws=100, rng=0)
    assert 200 < samples.chains.max() < 300
    assert samples.chains.min() >= 0
    whole = ebm.sample(model, n_draws=120, rng=0)
    rest = ebm.sample(model, n_draws=20, initial=samples.final)
    np.testing.assert_array_equal(rest.chains, whole.chains[:, 100:])
    assert ebm.sample(PAIR, n_draws=1).chains.dtype == np.int8


def test_sparse_arrays_are_named() -> None:
    """Where a dense array is wanted, a sparse one is told how to become one."""
    from scipy.sparse import csr_array

    states = csr_array(np.eye(3))
    with pytest.raises(ModelError, match=r"sparse.*toarray"):
        ebm.fisher_information(ebm.IsingModel(np.zeros((2, 2)), np.zeros(2))).solve(states)


@pytest.mark.parametrize(
    "made",
    [
        lambda value: ebm.Penalty(l2=value),
        lambda value: ebm.Adam(value),
        lambda value: ebm.learning.Decay(0.1, value),
        lambda value: ebm.NaturalGradient(0.1, max_divergence=value),
        lambda value: ebm.Newton(tolerance=value),
    ],
)
def test_numbers_larger_than_any_float_are_refused(made: Any) -> None:
    with pytest.raises(EbmError, match=r"must (be a positive number|hold numbers below 1\.8e308)"):
        made(10**400)
