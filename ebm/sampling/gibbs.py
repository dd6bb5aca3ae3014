"""Gibbs and Metropolis: how chains move over finite spaces, and the compiled sweeps of forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebm._arrays import is_sparse
from ebm._conditioning import form_in_order
from ebm._types import Array, Indices, Words
from ebm.errors import EbmError, ModelError
from ebm.forms import FactorForm, LayeredForm, QuadraticForm, TermForm, as_terms, energy_form
from ebm.model import EnergyModel, checked_space
from ebm.models._layers import are_two_valued, binary_layers
from ebm.sampling._by_energy import EnergySweeper, MetropolisSweeper
from ebm.sampling._colored_sweeps import ColoredSweeper, classes_pay
from ebm.sampling._count_sweeps import counted_sweeper
from ebm.sampling._form_sweepers import FormSweeper, TwoValued, Work
from ebm.sampling._item_sweeps import item_sweeper
from ebm.sampling._mixed_units import MixedSweeper
from ebm.sampling._precision import require_sums, single_layers, single_precision_suffices
from ebm.sampling._rows import LevelCouplings, level_couplings, quadratic_log_weights, term_rows
from ebm.sampling._streams import portions
from ebm.sampling.sweeper import Ordered, Sampler, Sweeper, uniforms
from ebm.spaces import Binary, FiniteSpace, HomogeneousSpace, Levels, Spins

__all__ = ["Gibbs", "Metropolis", "Sampler", "Sweeper", "uniforms"]

#: Units whose fields one matrix product gives.
SITES = 64
#: Up to so many chains, fields that change only with a flip are faster than matrix products.
FEW_CHAINS = 12
#: With more they are where fewer flips are measured than this share of updates, for many units;
#: a flip takes as long as changing the fields of so many units.
FEW_FLIPS, FLIP_COST = 0.14, 200
#: How often Metropolis offers a unit another value. Offers of equal energy are always taken, so if
#: none were left out, units in a fixed order could visit a part of the states only, or return to
#: each after an even number of sweeps.
OFFERED = 0.75


@dataclass(frozen=True)
class Gibbs:
    """Heat bath: every unit in turn takes a value drawn from its distribution given all others.

    Models with a ``quadratic_form`` (dense or sparse), a ``term_form`` or a ``layered_form`` (layer
    by layer) have compiled or vectorized sweeps, real units in pairs all at once; those of any
    other finite model evaluate its ``energy`` for each update, which is slow. If some states are
    forbidden (E = +∞), changes of one unit must lead from each allowed state to every other.

    Log-odds are summed in single precision where it keeps three decimals, |b_i| + Σ_j |W_ij| below
    about 8000, and in double precision beyond, at several times the cost.

    Examples
    --------
    >>> import ebm
    >>> machine = ebm.BoltzmannMachine([[0, 1], [1, 0]], [0, 0])
    >>> ebm.sample(machine, ebm.Gibbs(), n_draws=5, rng=0).chains.shape
    (4, 5, 2)
    """

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """The fastest sweep for the form of a model."""
        form = energy_form(model)
        if isinstance(form, LayeredForm) and not are_two_valued(form):
            return UnitsSweeper(form)
        if isinstance(form, QuadraticForm) and model.space.is_real.any():
            return MixedSweeper(form, model.space)
        space = _finite_space(model)
        if isinstance(form, LayeredForm) and isinstance(space, HomogeneousSpace):
            return LayerSweeper(binary_layers(form), space)
        compiled = form_sweeper(form, space, n_chains)
        if compiled is None and isinstance(form, QuadraticForm):
            return MixedSweeper(form, space)
        return compiled or EnergySweeper(model, space)

    def partial_sweeper(self, model: EnergyModel, n_chains: int, units: Indices) -> Sweeper:
        """Sweeps of some units in turn; the others keep the values that they have in each chain."""
        form = energy_form(model)
        if isinstance(form, QuadraticForm) and model.space.is_real.any():
            return MixedSweeper(form, model.space, units)
        is_layered = isinstance(form, LayeredForm)
        space: Any = model.space if is_layered else _finite_space(model)
        order, ordered = _first(units, form, space)
        sweeper: FormSweeper | LayerSweeper | UnitsSweeper | None
        if not isinstance(ordered, LayeredForm):
            sweeper = form_sweeper(ordered, space.subspace(order), n_chains)
        elif are_two_valued(ordered) and isinstance(space, HomogeneousSpace):
            sweeper = LayerSweeper(binary_layers(ordered), space)
        else:
            sweeper = UnitsSweeper(ordered)
        if sweeper is None and isinstance(form, QuadraticForm):
            return MixedSweeper(form, space, units)
        if sweeper is None:
            return EnergySweeper(model, space, units)
        sweeper.n_swept = len(units)
        return Ordered(sweeper, order)


@dataclass(frozen=True)
class Metropolis:
    """Another value is proposed for every unit in turn, accepted with min(1, exp(−ΔE)).

    One proposal in four, drawn at random, is left out: with moves of equal energy always accepted
    and units in a fixed order, two free spins would visit only two of their four states. Models
    with a ``quadratic_form`` or a ``term_form`` have compiled sweeps; any other finite model
    evaluates its ``energy``. If some states are forbidden (E = +∞), changes of one unit must lead
    from each allowed state to every other.

    Examples
    --------
    >>> import ebm
    >>> table = ebm.TabularModel([0.0, 1.0, 2.0, 0.5], ebm.Binary(2))
    >>> ebm.sample(table, ebm.Metropolis(), n_draws=5, rng=0).chains.shape
    (4, 5, 2)
    """

    def sweeper(self, model: EnergyModel, n_chains: int) -> Sweeper:
        """Metropolis sweeps of a model."""
        space = _finite_space(model)
        sweeper = form_sweeper(energy_form(model), space, n_chains)
        if sweeper is None:
            return MetropolisSweeper(model, space, OFFERED)
        sweeper.offered = OFFERED
        return sweeper

    def partial_sweeper(self, model: EnergyModel, n_chains: int, units: Indices) -> Sweeper:
        """Sweeps of some units in turn; the others keep the values that they have in each chain."""
        space = _finite_space(model)
        order, form = _first(units, energy_form(model), space)
        sweeper = form_sweeper(form, space.subspace(order), n_chains)
        if sweeper is None:
            return MetropolisSweeper(model, space, OFFERED, units)
        sweeper.offered, sweeper.n_swept = OFFERED, len(units)
        return Ordered(sweeper, order)


def _first(units: Indices, form: Any, space: FiniteSpace) -> tuple[Indices, Any]:
    """An order in which some units are the first ones, and the form in this order."""
    order = np.append(units, np.setdiff1d(np.arange(space.n), units))
    return order, None if form is None else form_in_order(form, order, space)


def _finite_space(model: EnergyModel) -> FiniteSpace:
    space = checked_space(model)
    if not isinstance(space, FiniteSpace):
        raise ModelError(
            f"Gibbs and Metropolis need a finite space, got {space!r}; over ebm.Reals use "
            "ebm.Langevin or ebm.HamiltonianMonteCarlo, and for real units in pairs or layers "
            "ebm.Gibbs()"
        )
    return space


def checked_sampler(sampler: Any, *, carries_copies: bool = True) -> Any:
    """A sampler, or an error that says what one is."""
    if sampler is None:
        return None
    if isinstance(sampler, type):
        raise ModelError(
            f"sampler must be one such as ebm.Gibbs(), got the class: write {sampler.__name__}()"
        )
    if not callable(getattr(sampler, "sweeper", None)):
        # Langevin and Hamiltonian chains follow a gradient, which a finite space has not.
        hint = ": that one is for ebm.Reals" if hasattr(sampler, "n_leapfrog") else ""
        raise ModelError(f"sampler must be one such as ebm.Gibbs(), got {sampler!r}{hint}")
    if not carries_copies and getattr(sampler, "carries_copies", False):
        raise ModelError(
            f"sampler must move one state of each chain, as ebm.Gibbs() does, got {sampler!r}, "
            "which carries copies along"
        )
    return sampler


def require_heat_bath(sampler: Any, device: Any) -> None:
    """Refuse another sampler than Gibbs beside a device, which has no other kernel."""
    if not (sampler is None or type(sampler) is Gibbs):
        raise EbmError(
            f"device={device!r} sweeps by ebm.Gibbs(), got sampler={sampler!r}: leave out one of "
            "them"
        )


def form_sweeper(form: Any, space: FiniteSpace, n_chains: int) -> FormSweeper | None:
    """The fastest sweep by single units of a form, or None."""
    if isinstance(form, QuadraticForm) and isinstance(space, Binary | Spins):
        return pair_sweeper(form, space, n_chains)
    if isinstance(form, QuadraticForm) and isinstance(space, Levels):
        return level_sweeper(form, space, n_chains)
    if isinstance(form, TermForm | FactorForm) and isinstance(space, Binary | Spins):
        terms = as_terms(form, space)
        return counted_sweeper(terms, space) or TermSweeper(terms, space)
    return item_sweeper(form, space) if isinstance(form, QuadraticForm) else None


def pair_sweeper(
    form: QuadraticForm, space: HomogeneousSpace, n_chains: int
) -> PairSweeper | SparseSweeper | ColoredSweeper:
    """The fastest sweep of pairs of two-valued units, in the precision that their weights need."""
    with np.errstate(over="ignore", invalid="ignore"):
        form = form.folded(space).to_binary(space)
        origin = form.at_origin()
        if not single_precision_suffices(origin.matrix, origin.vector):
            require_sums(form.matrix, form.vector, name="the model")
            return PairSweeper(form, space, np.float64)
    if is_sparse(origin.matrix):
        kind = ColoredSweeper if classes_pay(origin.matrix, n_chains) else SparseSweeper
        return kind(origin, space)
    return (FewChainsSweeper if n_chains <= FEW_CHAINS else PairSweeper)(origin, space)


class PairSweeper(TwoValued, FormSweeper):
    """Many chains of units in pairs, log-odds Σ_j W_ij (x_j − c_j) + b_i over {0,1}.

    In single precision dense, at center 0: products for some units at a time. In double precision
    dense or sparse, one unit after the other, its field summed anew each time and b added last:
    couplings that cancel do so before, however large they are.
    """

    def __init__(
        self, form: QuadraticForm, space: HomogeneousSpace, dtype: Any = np.float32
    ) -> None:
        super().__init__(space, dtype)
        self.tracks = self.dtype == np.float32
        self._form, self._weights = form, form.matrix
        self._rows: tuple[list[Indices], list[Array]] | None = None
        if is_sparse(form.matrix):
            cuts = form.matrix.indptr[1:-1]
            self._rows = np.split(form.matrix.indices, cuts), np.split(form.matrix.data, cuts)
        else:
            self._weights = np.ascontiguousarray(form.matrix, dtype=dtype)
        self._biases = form.vector.astype(dtype)
        self._center = np.zeros(space.n) if form.center is None else form.center

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        if self.dtype == np.float64:
            return self._advance_in_double(work, stream, n_sweeps)
        from ebm._kernels.heat_bath import update_sites

        n, chains = self.n_swept or len(work), work.shape[1]
        rule = self._rule(chains)
        fields = np.empty((SITES, chains), dtype=np.float32)
        # What units that stay add to the fields, once for all sweeps.
        swept, resting = work[:n], self._weights[:n, n:] @ work[n:] if n < len(work) else None
        for sweep in range(n_sweeps):
            before = swept.copy() if sweep == 0 and n_sweeps > 1 else None
            for start in range(0, n, SITES):
                sites = slice(start, min(start + SITES, n))
                part = fields[: sites.stop - start]
                np.matmul(self._weights[sites, :n], swept, out=part)
                if resting is not None:
                    part += resting[sites]
                among = self._weights[sites, sites]
                parts = part, self._biases[sites], among
                update_sites(*parts, stream, work[sites], *rule, self.gains)
            # Chains that go on from here take the same way, as it follows from their states.
            if before is not None and flips_are_rare(before, swept):
                turned = np.ascontiguousarray(work.T)
                self._advance_by_flips(turned, stream, n_sweeps - 1)
                work[:] = turned.T
                break
        return None

    def _advance_by_flips(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sweeps of chains (chains, n) with fields that change only when a unit flips."""
        from ebm._kernels.heat_bath import sweep_dense_few

        n = self.n_swept or work.shape[1]
        among, swept = (np.ascontiguousarray(part) for part in (self._weights[:n, :n], work[:, :n]))
        rule = self._rule(len(work))
        # Made anew at each call: rounding errors do not add up, and nothing need be kept.
        fields = work @ self._weights[:, :n] + self._biases[:n]
        for sweeps in portions(n_sweeps, work.size * n):
            sweep_dense_few(swept, fields, among, stream, sweeps, *rule, self.gains)
        work[:, :n] = swept

    def log_weights(self, work: Work) -> Array:
        """½ xWx + b·x."""
        return quadratic_log_weights(self._form, work if self.chains_last else work.T)

    def _advance_in_double(self, work: Work, stream: Words, n_sweeps: int) -> None:
        from ebm._kernels.heat_bath import update_sites

        rule = self._rule(work.shape[1])
        no_bias, no_weight = np.zeros(1, dtype=np.float32), np.zeros((1, 1))
        values = work - self._center[:, None]
        for _ in range(n_sweeps):
            for unit in range(self.n_swept or len(work)):
                site = slice(unit, unit + 1)
                if self._rows is None:
                    field = self._weights[unit] @ values
                else:
                    field = self._rows[1][unit] @ values[self._rows[0][unit]]
                field += self._biases[unit]
                update_sites(field[None], no_bias, no_weight, stream, work[site], *rule)
                values[unit] = work[unit] - self._center[unit]


class FewChainsSweeper(PairSweeper):
    """Few chains of a dense machine: fields kept, and changed only when a unit flips."""

    chains_last = False

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        self._advance_by_flips(work, stream, n_sweeps)


def flips_are_rare(before: Work, after: Work) -> bool:
    """Whether so few units flipped in a sweep that following flips is faster than products."""
    n = len(before)
    return float(np.mean(before != after)) * (n + FLIP_COST) < FEW_FLIPS * n


class SparseSweeper(TwoValued, FormSweeper):
    """Any number of chains of a sparse machine at center 0, in single precision."""

    tracks = True

    def __init__(self, form: QuadraticForm, space: HomogeneousSpace) -> None:
        super().__init__(space)
        self._form = form
        self._biases = form.vector.astype(np.float32)
        self._rows = (
            form.matrix.indptr.astype(np.int64),
            form.matrix.indices.astype(np.int64),
            form.matrix.data.astype(np.float32),
        )

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.heat_bath import sweep_sparse

        rule = self._rule(work.shape[1])
        for sweeps in portions(n_sweeps, work.size):
            biases = self._biases[: self.n_swept]
            sweep_sparse(work, biases, *self._rows, stream, sweeps, *rule, self.gains)

    def log_weights(self, work: Work) -> Array:
        """½ xWx + b·x."""
        return quadratic_log_weights(self._form, work)


class TermSweeper(FormSweeper):
    """Terms of any number of units; layout (units, chains) in the coding of the model."""

    def __init__(self, form: TermForm, space: HomogeneousSpace) -> None:
        self._low, self._parts = float(space.values[0]), term_rows(form, space)
        with np.errstate(over="ignore", invalid="ignore"):
            biases, sizes = self._parts.biases, self._parts.sizes()
            require_sums(sizes, biases, name="the model")
            single = single_precision_suffices(sizes, biases)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        places, weights = self._parts.places, self._parts.weights.astype(self.dtype)
        self._rows = (places.starts, weights, places.first, places.others)
        self._biases, self._gains = (x.astype(self.dtype) for x in (biases, self._parts.gains))

    def load(self, states: Array) -> Work:
        """States (chains, n), units first."""
        return np.ascontiguousarray(states.T, dtype=self.dtype)

    def read(self, work: Work) -> NDArray[np.int8]:
        """The inverse of :meth:`load`."""
        return work.astype(np.int8).T

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.terms import sweep_terms

        rule, biases = self._rule(work.shape[1]), self._biases[: self.n_swept]
        parts = biases, self._rows, self._gains
        for sweeps in portions(n_sweeps, work.size):
            sweep_terms(work, self._low, *parts, stream, sweeps, *rule)

    def log_weights(self, work: Work) -> Array:
        """Σ_A J_A Π x + ν(K)."""
        from ebm._kernels.terms import sum_terms

        sums = self._parts.log_weights_of_units(work)
        places = self._parts.places
        sum_terms(work, self._parts.coefficients[places.many], *places.members, sums)
        return sums


class LayerSweeper(TwoValued):
    """A machine with a hidden layer: all hidden units given the visible ones, then back.

    In double precision about the centers of the form, so that biases, which are added last, hold
    no sums of weights.
    """

    chains_last = False
    #: How many visible units are swept, the first ones; the others stay. All where it is None.
    n_swept: int | None = None

    def __init__(self, form: LayeredForm, space: HomogeneousSpace) -> None:
        self._up: Any = single_layers(form)
        if self._up is None:
            require_sums(form.weights, form.visible, form.hidden, name="the machine")
            self._up = np.ascontiguousarray(form.weights)
        else:
            form = form.at_origin()
        dtype = self._up.dtype
        super().__init__(space, dtype)
        self._visible, self._hidden = form.visible.astype(dtype), form.hidden.astype(dtype)
        self._centers = form.visible_center, form.hidden_center

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sweeps v → h → v."""
        from ebm._kernels.heat_bath import update_layer

        visible_center, hidden_center = self._centers
        hidden = np.empty((len(work), self._up.shape[1]), dtype=self.dtype)
        n = self.n_swept or work.shape[1]
        swept = work if n == work.shape[1] else np.ascontiguousarray(work[:, :n])
        up, down, one = np.empty_like(hidden), np.empty_like(swept), np.float32(1)
        for _ in range(n_sweeps):
            visible = work if visible_center is None else work - visible_center
            np.matmul(visible, self._up, out=up)
            update_layer(up, self._hidden, stream, hidden, one)
            moved = hidden if hidden_center is None else hidden - hidden_center
            np.matmul(moved, self._up[:n].T, out=down)
            update_layer(down, self._visible[:n], stream, swept, one)
            if swept is not work:
                work[:, :n] = swept


class UnitsSweeper(Sweeper):
    """Two layers of any units, each drawn from its inputs: hidden given visible, then back.

    In double precision about the centers of the form.
    """

    #: How many visible units are swept, the first ones; the others stay. All where it is None.
    n_swept: int | None = None

    def __init__(self, form: LayeredForm) -> None:
        self._form = form
        self._visible_center: Any = 0.0 if form.visible_center is None else form.visible_center
        self._hidden_center: Any = 0.0 if form.hidden_center is None else form.hidden_center

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sweeps v → h → v."""
        form, shape = self._form, (len(work), len(self._form.hidden))
        n = self.n_swept or work.shape[1]
        visible_units = form.visible_units.at(np.arange(n))
        for _ in range(n_sweeps):
            inputs = (work - self._visible_center) @ form.weights + form.hidden
            hidden = form.hidden_units.quantile(inputs, uniforms(stream, shape))
            inputs = (hidden - self._hidden_center) @ form.weights[:n].T + form.visible[:n]
            work[:, :n] = visible_units.quantile(inputs, uniforms(stream, (len(work), n)))


def level_sweeper(form: QuadraticForm, space: HomogeneousSpace, n_chains: int) -> LevelsSweeper:
    """The fastest sweep of units of q levels in pairs, in the precision that couplings need."""
    couplings = level_couplings(form, space)
    require_sums(couplings.matrix, couplings.vector, name="the model")
    sparse = is_sparse(couplings.matrix)
    with np.errstate(over="ignore", invalid="ignore"):
        lean = couplings if sparse else couplings.without_last()
        if not single_precision_suffices(lean.matrix, lean.vector):
            return LevelsSweeper(couplings, np.float64)
    if sparse:
        return SparseLevelsSweeper(couplings)
    return (FewChainsLevelsSweeper if n_chains <= FEW_CHAINS else LevelsSweeper)(lean)


class LevelsSweeper(FormSweeper):
    """Units of q levels; layout (units, chains), int32.

    In single precision dense: products for some units at a time. In double precision dense or
    sparse, one unit after the other.
    """

    def __init__(self, couplings: LevelCouplings, dtype: Any = np.float32) -> None:
        self.dtype, self._couplings = np.dtype(dtype), couplings
        self._weights, self._biases = couplings.matrix.astype(dtype), couplings.vector.astype(dtype)

    def load(self, states: Array) -> Work:
        """States (chains, n), units first."""
        return np.array(states.T if self.chains_last else states, dtype=np.int32, order="C")

    def read(self, work: Work) -> NDArray[np.int32]:
        """The inverse of :meth:`load`."""
        return work.copy().T if self.chains_last else work.copy()

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.levels import update_levels

        n, q, kept = self.n_swept or len(work), self._couplings.q, self._couplings.kept
        indicators, heat = self._indicators(work), self._heat(work.shape[1])
        units = max(1, SITES // kept) if self.dtype == np.float32 else 1
        for _ in range(n_sweeps):
            for start in range(0, n, units):
                rows = slice(start * kept, min(start + units, n) * kept)
                fields = np.asarray(self._weights[rows] @ indicators)
                own = np.zeros((0, 0), dtype=self.dtype)
                if units > 1:
                    own = np.ascontiguousarray(self._weights[rows, rows])
                parts = q, self._biases, fields, own, indicators
                update_levels(work, start, *parts, stream, self.offered, heat)

    def log_weights(self, work: Work) -> Array:
        """½ fAf + v·f."""
        levels = work if self.chains_last else np.ascontiguousarray(work.T)
        return quadratic_log_weights(self._couplings, self._indicators(levels, np.float64))

    def _indicators(self, levels: Work, dtype: Any = None) -> NDArray[Any]:
        """1 where a unit is at a level, (units · kept, chains)."""
        from ebm._kernels.levels import fill_indicators

        shape = len(levels) * self._couplings.kept, levels.shape[1]
        indicators = np.empty(shape, dtype=dtype or self.dtype)
        fill_indicators(levels, indicators)
        return indicators


class FewChainsLevelsSweeper(LevelsSweeper):
    """Few chains of dense couplings: fields kept, and changed only with a level."""

    chains_last = False

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.levels import sweep_few_chains

        q, heat, n = self._couplings.q, self._heat(len(work)), self.n_swept or work.shape[1]
        d = n * self._couplings.kept
        among, swept = (np.ascontiguousarray(part) for part in (self._weights[:d, :d], work[:, :n]))
        indicators = self._indicators(np.ascontiguousarray(work.T)).T
        fields = indicators @ self._weights[:, :d] + self._biases[:d]
        for sweeps in portions(n_sweeps, work.size * d):
            sweep_few_chains(swept, q, fields, among, stream, sweeps, self.offered, heat)
        work[:, :n] = swept


class SparseLevelsSweeper(LevelsSweeper):
    """Any number of chains of sparse couplings, in single precision."""

    def __init__(self, couplings: LevelCouplings) -> None:
        super().__init__(couplings)
        ends, neighbors, weights = couplings.rows
        self._rows = ends, neighbors, weights.astype(np.float32)

    def advance(self, work: Work, stream: Words, n_sweeps: int) -> None:
        """Sequential sweeps over the units."""
        from ebm._kernels.levels import sweep_levels

        n = self.n_swept or len(work)
        biases = self._biases[: n * self._couplings.kept]
        parts = self._couplings.q, biases, self._rows, self._indicators(work)
        heat = self._heat(work.shape[1])
        for sweeps in portions(n_sweeps, work.size):
            sweep_levels(work, *parts, stream, sweeps, self.offered, heat)
