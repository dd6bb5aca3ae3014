"""Reports as JSON: keys with units at their ends, errors under the key of their value.

An error has the key of its value followed by ``_standard_error``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

__all__ = ["REASONS", "as_json", "json_key"]

#: Keys of the fields that have another in JSON, by the record that holds them.
_KEYS: Mapping[str, Mapping[str, str]] = {
    "FitSummary": {
        "log_likelihood": "log_likelihood_nats_per_row",
        "log_likelihood_bits": "log_likelihood_bits_per_row",
        "log_likelihood_error": "log_likelihood_nats_per_row_standard_error",
    },
    "ItemFit": {
        "log_likelihood": "log_likelihood_nats_per_row",
        "log_pseudolikelihood": "log_pseudolikelihood_nats_per_row",
    },
    "Entropies": {
        "independent": "independent_bits",
        "model": "model_bits",
        "pairwise": "pairwise_bits",
        "plug_in": "plug_in_bits",
        "bias": "bias_bits",
        "corrected": "corrected_bits",
        "model_error": "model_bits_standard_error",
    },
    "ItemReport": {
        "independent_entropy": "independent_entropy_bits",
        "model_entropy": "model_entropy_bits",
        "plug_in_entropy": "plug_in_entropy_bits",
    },
    "Coupling": {"value": "value_kT", "standard_error": "value_kT_standard_error"},
    "Threshold": {"value": "value_kT", "standard_error": "value_kT_standard_error"},
    "InversionComparison": {
        "rms_difference": "rms_difference_kT",
        "worst_exact": "worst_exact_kT",
        "worst_mean_field": "worst_mean_field_kT",
        "log_likelihood": "log_likelihood_nats_per_row",
    },
    "Goodness": {"kl_expected_deviation": "kl_expected_bits_standard_deviation"},
    "Minimum": {"energy": "energy_kT"},
    "Valley": {
        "energy": "energy_kT",
        "basin_weight": "basin_probability",
        "pass_energy": "pass_energy_kT",
    },
    "PopulationShare": {
        f"{name}_error": f"{name}_standard_error" for name in ("data", "pairwise", "k_pairwise")
    },
    "Populations": {
        "log_likelihood": "log_likelihood_nats_per_row",
        "log_likelihood_error": "log_likelihood_nats_per_row_standard_error",
    },
    "WordEntropy": {"value": "value_bits", "error": "value_bits_standard_error"},
    "EdgeProbability": {"error": "probability_standard_error"},
}

_PENALIZED = "there is a penalty, or ln Z is an estimate"
_INCOMPLETE = "rows lack cells"
_NOT_ASKED = "it was not asked for"
#: Why numbers are null, by their keys.
REASONS: Mapping[str, str] = {
    "n_complete": "all rows are complete",
    "fit": "no fit was made",
    "couplings": "there is no model, or it has no couplings",
    "comparison": "there is nothing to compare, or rows lack cells",
    "goodness": "the probabilities of the states are not known, or rows lack cells",
    "minima": "there are too many states to look at, or no fit",
    "valleys": "there are too many states to look at, or no fit",
    "populations": _NOT_ASKED,
    "edges": _NOT_ASKED,
    "aic": _PENALIZED,
    "bic": _PENALIZED,
    "effective_parameters": "the Fisher information is not known",
    "rate_misfit": "every standard error is zero",
    "pair_misfit": "there is no pair, or every standard error is zero",
    "log_likelihood_nats_per_row": "the fit does not know ln Z",
    "log_pseudolikelihood_nats_per_row": "the likelihood was maximized",
    "log_likelihood_nats_per_row_standard_error": "ln Z is exact, or its error is not known",
    "model_bits": "no fit was made",
    "model_entropy_bits": "the fit is by pseudo-likelihood",
    "pairwise_bits": "there is a penalty, or no fit that converged",
    "plug_in_bits": _INCOMPLETE,
    "plug_in_entropy_bits": _INCOMPLETE,
    "bias_bits": _INCOMPLETE,
    "corrected_bits": _INCOMPLETE,
    "captured": "S2 or the entropy of the data is not known well enough",
    "captured_corrected": "S2 or the entropy of the data is not known well enough",
    "model_bits_standard_error": "the entropy is exact, or its error is not known",
    "value_kT_standard_error": "it is not known, or the data do not bound the parameter",
    "rms_difference_kT": "there is no pair to compare",
    "correlation": "there are fewer than three pairs, or their values are equal",
    "gamma": "all couplings of the fit are zero",
    "worst_exact_kT": "there is no pair to compare",
    "worst_mean_field_kT": "there is no pair to compare",
    "rate_error": "the moments of this inversion are not known",
    "covariance_error": "the moments of this inversion are not known",
    "rate_z": "a standard error of the data is zero, or the moments are not known",
    "covariance_z": "a standard error of the data is zero, or the moments are not known",
    "kl_expected_bits": "it is below its resolution, or draws would take too long",
    "kl_expected_bits_standard_deviation": "there are no draws",
    "triple_rms_z": "there are fewer than 3 units or more than 28, or no error",
    "worst_triple_z": "there are fewer than 3 units or more than 28, or no error",
    "joins": "it is the deepest valley",
    "pass_energy_kT": "it is the deepest valley",
    "gain_bits": "one of the two likelihoods is not known",
    "pairwise_standard_error": "too few draws have as many active units",
    "k_pairwise_standard_error": "too few draws have as many active units",
    "value_bits_standard_error": "the rows do not tell it",
}


def json_key(record: type[Any], field: str) -> str:
    """The key of a field of a record."""
    return _KEYS.get(record.__name__, {}).get(field, field)


def as_json(value: Any) -> Any:
    """Records as dictionaries, NaN and infinities as None."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        return {json_key(kind, f.name): as_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
