"""The action of a classifier with one hidden layer as an energy over its parameters."""

from __future__ import annotations

from typing import Any

from ebm._arrays import as_integer, as_number
from ebm.errors import ModelError
from ebm.networks._labelled_rows import EQUAL_ROWS, RowSettings, labelled_rows
from ebm.networks.action._energy import MLPEnergy
from ebm.networks.action.action_expansion import ActionExpansion, expanded
from ebm.networks.records import TrainingResult
from ebm.networks.series.activations import Activation, activation_named
from ebm.networks.training import minimize
from ebm.spaces import Reals

__all__ = ["SoftmaxMLPAction"]


class SoftmaxMLPAction(MLPEnergy):
    """An energy over the parameters of a softmax-MLP; [ACT] eq 2, [ACT-R] eq 5.

    E(θ) = κ S(θ) + ½ λ |θ|²,   S(θ) = −Σ p(z, m) ln q_m(z, θ),   q = softmax f,
    f_α(z, θ) = Σ_β U_αβ σ(Σ_γ W_βγ z_γ + b_β) + c_α.

    S is the cross entropy in nats. exp(−E) can be normalized and sampled only for λ > 0, as S is
    constant along U → U + 1vᵀ, along c → c + k1, and along all of W and b at U = 0. Minimization
    and expansion need no λ.

    Parameters
    ----------
    inputs : array_like, Tensor, numpy.memmap or DataLoader, (N, E)
        z, floats, which are copied. Memory maps and loaders are streamed at every call instead; a
        loader must yield (inputs, labels) in the same order at every pass.
    labels : array_like or Tensor of int, (N,)
        m = 0 … M−1, with at least one row in each class; None with a DataLoader.
    n_hidden : int
        H, number of hidden units.
    activation : str or Activation
        σ, by name as for :func:`ebm.networks.activation_named` or a user's own.
    scale : float
        κ = N/T, positive.
    prior_precision : float
        λ ≥ 0, inverse variance of a Gaussian prior.
    settings : RowSettings
        Weights of the rows, number of classes, device and dtype.

    Raises
    ------
    CodingError
        If ``inputs`` are no floats, ``labels`` are not 0 … M−1, or a class is empty.
    ShapeError
        If shapes do not fit, or ``n_hidden`` is no positive integer.
    MissingValueError
        If an input is not finite.
    ModelError
        If ``scale``, ``prior_precision`` or a setting of the rows is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import ebm.networks
    >>> system = ebm.networks.SoftmaxMLPAction([[1.0], [2.0], [4.0]], [0, 1, 1], n_hidden=2)
    >>> system.space
    Reals(n=10, names=None)
    >>> round(float(system.energy(np.zeros(10))), 4)
    0.6931
    """

    def __init__(
        self,
        inputs: Any,
        labels: Any,
        n_hidden: int,
        *,
        activation: str | Activation = "silu",
        scale: float = 1.0,
        prior_precision: float = 0.0,
        settings: RowSettings = EQUAL_ROWS,
    ) -> None:
        h = as_integer(n_hidden, "n_hidden")
        kappa, precision = as_number(scale, "scale"), as_number(prior_precision, "prior_precision")
        if not 0 < kappa < float("inf"):
            raise ModelError(f"scale must be positive and finite, got {scale!r}")
        if not 0 <= precision < float("inf"):
            raise ModelError(
                f"prior_precision must be finite and not negative, got {prior_precision!r}"
            )
        rows = labelled_rows(inputs, labels, settings)
        n = rows.n_classes * (h + 1) + h * (rows.n_inputs + 1)
        for name, value in {
            "n_hidden": h,
            "activation": activation_named(activation),
            "scale": kappa,
            "prior_precision": precision,
            "space": Reals(n),
            "rows": rows,
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        rows, dtype = self.rows, str(self.dtype).removeprefix("torch.")
        return (
            f"SoftmaxMLPAction({rows.n_rows} rows, {rows.n_inputs} inputs, {self.n_hidden} hidden "
            f"units of {self.activation.name}, {rows.n_classes} classes, {dtype} on {self.device})"
        )

    def minimize(self, theta: Any = None, **settings: Any) -> TrainingResult:
        """:func:`ebm.networks.minimize` of this action."""
        return minimize(self, theta, **settings)

    def expand(self, theta: Any, order: int) -> ActionExpansion:
        """S_0 … S_K in S(tθ) = Σ_n S_n t^n, by power-series arithmetic.

        Parameters
        ----------
        theta : array_like or Tensor, (d,)
            Direction of the ray, with θ itself at t = 1.
        order : int
            K, from 0 to 1000.

        Returns
        -------
        ActionExpansion
            Coefficients (differentiable for a tensor θ), radius of convergence, named terms.

        Raises
        ------
        ModelError
            If a coefficient overflows the dtype, or the activation has too few Taylor coefficients.
        LimitError
            If ``order`` is above 1000.

        Warns
        -----
        SeriesWarning
            If t = 1 lies outside the radius of convergence, as estimated from the 16 rows whose
            logits spread most; :func:`ebm.networks.ray_radius` searches more rows.
        """
        return expanded(self, theta, order)
