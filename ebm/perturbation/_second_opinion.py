"""What an approximation asks of a second opinion."""

from __future__ import annotations

from typing import Protocol

from ebm._types import Array, Indices


class SecondOpinion(Protocol):
    """ln Z, means and covariances by another way, and what that says of the errors of given ones.

    Everything is in the coding of the approximation, infinite where there is no opinion.
    """

    @property
    def log_partition(self) -> float:
        """ln Z."""

    @property
    def deviation(self) -> Array:
        """Standard deviations of the features, (d,)."""

    def error_of_log_partition(self, value: float) -> float:
        """In nats."""

    def error_of_mean(self, mean: Array) -> Array:
        """Of each mean, (d,)."""

    def error_of_covariance(self, covariance: Array) -> float:
        """Relative, of different units."""

    def error_of_pairs(self, covariance: Array, pairs: tuple[Indices, Indices]) -> float:
        """Relative, of coupled features."""
