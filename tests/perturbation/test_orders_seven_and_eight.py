"""Orders 7 and 8, whose cores are sums over four and five sites: by enumeration and by einsum."""

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csr_array

import ebm
from ebm.errors import FileFormatError, LimitError
from ebm.perturbation import connected_diagrams, expand
from ebm.perturbation.diagrams import _contraction, _stored
from ebm.perturbation.diagrams._algebra import DenseAlgebra
from ebm.perturbation.diagrams._contraction import compile_program, compiled
from ebm.perturbation.diagrams._sparse import SparseAlgebra
from ebm.perturbation.diagrams._stored import FILE, as_text, of_text, stored_program
from tests.perturbation.taylor import assert_terms_agree, taylor_series

pytestmark = pytest.mark.filterwarnings("ignore::ebm.errors.SeriesWarning")


def machine(n=6, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(size=(n, n)) * (rng.random((n, n)) < density), 1)
    return ebm.BoltzmannMachine(
        upper + upper.T, rng.normal(size=n), center=rng.uniform(-0.5, 1.5, n)
    )


@pytest.fixture(scope="module")
def fresh():
    """The program of order 8, compiled now."""
    return compiled(8)


class TestProgram:
    def test_it_takes_few_products_and_three_paths(self, fresh):
        kinds = Counter(node[0] for node in fresh.nodes)
        counts = [kinds[kind] for kind in ("product", "path", "hub", "four")]
        assert counts == [18, 3, 23, 1]
        hubs = [sum(fresh.nodes[root][0] == "hub" for _, root in group) for group in fresh.terms]
        assert hubs[6:] == [3, 20]

    def test_the_stored_one_is_what_the_compiler_makes(self, fresh):
        assert FILE.read_text("utf-8") == as_text(fresh)
        again = of_text(as_text(fresh), 8)
        assert again.nodes == fresh.nodes
        assert again.terms == fresh.terms
        assert (again.symmetric, again.mirrored) == (fresh.symmetric, fresh.mirrored)

    @pytest.mark.parametrize("damage", ["missing", "cut", "no text", "one factor", "no digest"])
    def test_a_damaged_file_is_refused_whatever_the_damage(self, damage, tmp_path, monkeypatch):
        text = FILE.read_text("utf-8")
        damaged = {
            "cut": text[: len(text) // 2],
            "one factor": text.replace("[[2, 3]]", "[[3, 3]]"),
            "no digest": "{\n" + text.partition("\n")[2],
        }
        assert text not in damaged.values()
        file = tmp_path / FILE.name
        if damage != "missing":
            file.write_bytes(damaged[damage].encode() if damage in damaged else b"\xff\xfe\x00")
        monkeypatch.setattr(_stored, "FILE", file)
        with pytest.raises(FileFormatError, match=f"^{FILE.name}, the diagrams of orders 7 and 8"):
            stored_program(7)

    def test_its_beginning_is_the_program_of_order_seven(self):
        stored, seventh = compile_program(7), compiled(7)
        assert (stored.nodes, stored.terms) == (seventh.nodes, seventh.terms)

    @pytest.mark.parametrize("order", [7, 8])
    def test_every_diagram_with_a_core_is_what_einsum_says(self, order):
        """Any weights, sites summed freely."""
        program, rng = compile_program(8), np.random.default_rng(order)
        upper = np.triu(rng.normal(size=(5, 5)), 1)
        w = upper + upper.T
        weights = {key: rng.normal(size=5) for key in program.weight_keys}
        values = program.evaluate(DenseAlgebra(w), weights).values
        seen = 0
        diagrams = connected_diagrams(order)
        for diagram, (_, root) in zip(diagrams, program.terms[order - 1], strict=True):
            if program.nodes[root][0] != "hub":
                continue
            seen += 1
            operands = []
            for vertex, degree in enumerate(diagram.degrees):
                operands += [weights[degree,], [vertex]]
            for a, b, multiplicity in diagram.edges:
                operands += [w**multiplicity, [a, b]]
            expected = np.einsum(*operands, [], optimize="greedy")
            np.testing.assert_allclose(values[root], expected, rtol=1e-10)
        assert seen == {7: 3, 8: 20}[order]


class TestOrders:
    def test_the_printed_numbers(self):
        """W = sin 1 … sin 6 by rows above the diagonal."""
        weights = np.zeros((4, 4))
        weights[np.triu_indices(4, 1)] = np.sin(np.arange(1, 7))
        biases, center = [0.3, -0.5, 0.8, 0.1], [0.5, 0.4, 0.6, 0.2]
        model = ebm.BoltzmannMachine(weights + weights.T, biases, center=center)
        terms = expand(model, 8).log_partition_terms
        np.testing.assert_allclose(terms[7], 3.769178875007e-5, rtol=1e-9)
        np.testing.assert_allclose(terms[8], 5.48850057667e-6, rtol=1e-9)

    @pytest.mark.parametrize("seed", [0, 1])
    def test_every_order_is_that_of_enumeration(self, seed):
        model = machine(seed=seed)
        exact = taylor_series(model, 8)
        highest = expand(model, 8)
        assert_terms_agree(highest.log_partition_terms, exact.log_partition, exact.radius)
        assert_terms_agree(highest.mean_terms, exact.mean, exact.radius)
        covariances = expand(model, 7).covariance_terms
        assert_terms_agree(covariances, exact.covariance[:8], exact.radius)

    def test_two_loops_that_a_chain_joins_are_joined_by_bridges(self, monkeypatch):
        """A chain summed to one edge hides that it is two bridges, and covariances are wrong."""
        monkeypatch.setattr(_contraction, "_is_bridge", lambda edges, edge: False)
        program, rng = compiled(8), np.random.default_rng(0)
        right = compile_program(8)
        algebra = DenseAlgebra(machine().weights)
        weights = {key: rng.normal(size=6) for key in right.weight_keys}
        own, other = (p.evaluate(algebra, weights) for p in (program, right))
        np.testing.assert_allclose(own.terms, other.terms, rtol=1e-9)
        wrong, true = (e.derivatives([8]).couplings[8] for e in (own, other))
        assert np.abs(wrong - true).max() > 1e-3 * np.abs(true).max()

    def test_sparse_weights_give_what_dense_ones_give(self):
        model = machine(n=11, seed=3, density=0.5)
        sparse = ebm.BoltzmannMachine(csr_array(model.weights), model.biases, center=model.center)
        own, other = expand(sparse, 8), expand(model, 8)
        close = {"rtol": 1e-9, "atol": 1e-11}
        np.testing.assert_allclose(own.log_partition_terms, other.log_partition_terms, **close)
        np.testing.assert_allclose(own.mean_terms, other.mean_terms, **close)
        own, (i, j) = expand(sparse, 7), sparse.pairs
        expected = expand(model, 7).covariance_terms[:, i, j]
        np.testing.assert_allclose(own.pair_covariance_terms, expected, **close)

    def test_derivatives_of_sparse_programs_are_those_of_dense_ones_diagram_by_diagram(self):
        """Transposed products among them."""
        model = machine(n=8, seed=4, density=0.6)
        program, rng = compile_program(7), np.random.default_rng(1)
        weights = {key: rng.normal(size=8) for key in program.weight_keys}
        algebras = DenseAlgebra(model.weights), SparseAlgebra(csr_array(model.weights))
        dense, sparse = (
            program.evaluate(algebra, weights).derivatives([7]) for algebra in algebras
        )
        for key, parts in dense.weights.items():
            np.testing.assert_allclose(sparse.weights[key][7], parts[7], rtol=1e-9, atol=1e-9)

    def test_the_sums_of_order_eight_are_nearer_than_those_of_six(self):
        rng, ratios = np.random.default_rng(5), []
        for _ in range(8):
            upper = np.triu(rng.normal(0, 2 / np.sqrt(8), (8, 8)), 1)
            model = ebm.BoltzmannMachine(upper + upper.T, rng.normal(size=8), center=0.5)
            exact = ebm.exact(model).log_partition
            sixth, eighth = (abs(expand(model, k).log_partition - exact) for k in (6, 8))
            ratios.append(sixth / eighth)
        assert np.median(ratios) > 3


class TestCosts:
    def test_cores_out_of_reach_are_named_with_their_time(self):
        rng = np.random.default_rng(0)
        upper = np.triu(rng.normal(0, 0.01, (800, 800)), 1)
        dense = ebm.BoltzmannMachine(upper + upper.T, np.zeros(800), center=0.5)
        kept = rng.integers(0, 20000, (2, 200000))
        chosen = kept[:, kept[0] < kept[1]]
        sparse = csr_array((np.full(len(chosen.T), 0.1), tuple(chosen)), shape=(20000, 20000))
        large = ebm.BoltzmannMachine(sparse + sparse.T, np.zeros(20000), center=0.5)
        for model, n in ((dense, 800), (large, 20000)):
            with pytest.raises(
                LimitError, match=f"order 8 of {n} coupled units .* 23 diagrams with cores"
            ):
                expand(model, 8).log_partition_terms  # noqa: B018
