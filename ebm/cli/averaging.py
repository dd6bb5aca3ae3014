"""The command ``ebm exact``: ln Z, entropy, means and covariances of a saved model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ebm._text import columns, labelled, short, table
from ebm.cli.options import add_options, check_outputs, positive, say, told
from ebm.cli.results import JSON, by_name, require_text, write_record, write_states
from ebm.ensembles import Moments
from ebm.enumeration import ExactEnsemble, exact
from ebm.errors import ModelError
from ebm.io import load
from ebm.spaces import FiniteSpace, StateSpace

#: Covariances that are printed, and those that are written.
_PRINTED, _WRITTEN = 10, 1000
_OPTIONS = (
    ("-o --out probabilities.csv", Path, "write all states with energies and probabilities (.csv "
     ".tsv)"),
    JSON,
    ("--max-seconds S", positive, "longest time that the sums may take (default 60)"),
    ("--force", None, "overwrite output files"),
)  # fmt: skip
#: Why numbers have no value.
_REASONS = {"correlation": "one of the two units never changes"}


def add_exact(commands: Any) -> None:
    """Add the command ``exact`` to those of a parser."""
    command = commands.add_parser(
        "exact",
        help="exact averages of a saved model",
        description="Sum over all states of a model written by ebm fit --out or ebm.save: ln Z, "
        "free energy, mean energy, entropy, means and the strongest covariances, in the coding of "
        "the model. Sums that would take too long are refused in advance.",
        epilog="Exit codes: 0 success; 2 an error; 130 interrupted by Ctrl-C.",
    )
    command.add_argument("model", type=Path, metavar="MODEL", help="the .npz file of a model")
    add_options(command, _OPTIONS)
    command.set_defaults(run=_exact, max_seconds=60.0)


def _exact(arguments: argparse.Namespace) -> int:
    out = arguments.out
    check_outputs((out, arguments.json), arguments.model, force=arguments.force)
    require_text(out, "--out")
    model = load(arguments.model)
    if out is not None and not isinstance(model.space, FiniteSpace):
        raise ModelError(f"--out lists all states, which {model.space!r} does not have: omit it")
    with told():
        ensemble = exact(model, max_seconds=arguments.max_seconds)
        moments, names = ensemble.moments(), feature_labels(ensemble.space)
        sums = {
            "log_partition_nats": ensemble.log_partition,
            "free_energy_kT": ensemble.free_energy,
            "mean_energy_kT": ensemble.mean_energy(),
            "entropy_nats": ensemble.entropy(),
            "entropy_bits": ensemble.entropy(base=2),
        }
    n_pairs, pairs = _pairs(moments, names)
    if out is not None:
        blocks = ((states, model.energy(states), p) for states, p in ensemble.blocks())
        write_states(out, ensemble.space, blocks, force=arguments.force)
    say(_text(ensemble, sums, by_name(names, moments.mean), pairs, n_pairs))
    record = {
        "n_units": ensemble.space.n,
        "method": ensemble.route,
        **sums,
        "means": by_name(names, moments.mean),
        "n_covariances": n_pairs,
        "strongest_covariances": pairs,
    }
    write_record("exact", record, arguments.json, force=arguments.force, reasons=_REASONS)
    return 0


def feature_labels(space: StateSpace) -> tuple[str, ...]:
    """Names of the features whose moments are taken: the units, or the levels of units."""
    return tuple(
        label if width == 1 else f"{label}={level}"
        for label, width in zip(space.labels, space.widths.tolist(), strict=True)
        for level in range(width)
    )


def _pairs(moments: Moments, names: tuple[str, ...]) -> tuple[int, list[dict[str, Any]]]:
    """Number of covariances between units, and the strongest of them with their correlations."""
    unit = np.repeat(np.arange(moments.space.n), moments.space.widths)
    i, j = np.triu_indices(len(names), 1)
    apart = unit[i] != unit[j]
    i, j = i[apart], j[apart]
    values, variances = moments.covariance[i, j], np.diag(moments.covariance)
    known = (variances[i] > 0) & (variances[j] > 0)
    correlations = np.where(known, moments.correlation[i, j], np.nan)
    order = np.argsort(-np.abs(values), kind="stable")
    return len(order), [
        {
            "units": [names[i[k]], names[j[k]]],
            "covariance": float(values[k]),
            "correlation": float(correlations[k]),
        }
        for k in order[:_WRITTEN].tolist()
    ]


def _text(
    ensemble: ExactEnsemble,
    sums: dict[str, float],
    means: dict[str, float],
    pairs: list[dict[str, Any]],
    n_pairs: int,
) -> str:
    lines = [
        f"Exact averages of {ensemble.space.n} units, by {ensemble.route}",
        labelled("ln Z", f"{sums['log_partition_nats']:.6f}"),
        labelled("free energy", f"{sums['free_energy_kT']:.6f} kT"),
        labelled("mean energy", f"{sums['mean_energy_kT']:.6f} kT"),
        labelled("entropy", f"{sums['entropy_bits']:.6f} bits ({sums['entropy_nats']:.6f} nats)"),
        "",
        "Means",
        *columns([f"{short(name)} {mean:.4f}" for name, mean in means.items()]),
    ]
    if pairs:
        rows = [["", "covariance", "correlation"]]
        for pair in pairs[:_PRINTED]:
            correlation = pair["correlation"]
            known = "-" if np.isnan(correlation) else f"{correlation:.4f}"
            rows.append(
                [" -- ".join(map(short, pair["units"])), f"{pair['covariance']:.4f}", known]
            )
        lines += ["", "Strongest covariances", *table(rows, "<>>")]
        if n_pairs > _PRINTED:
            lines.append(f"  … and {n_pairs - _PRINTED} weaker ones")
    return "\n".join(lines)
