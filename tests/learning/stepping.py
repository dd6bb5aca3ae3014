"""Fits whose settings of gradient steps, penalty, average and weights are written beside others."""

from dataclasses import fields

import ebm

STEPS = frozenset(field.name for field in fields(ebm.GradientSteps))
PENALTY = frozenset(field.name for field in fields(ebm.Penalty))


def fit(model, data, **settings):
    """``ebm.fit`` by gradient steps where one of their settings is given, or chains."""
    steps = {name: settings.pop(name) for name in STEPS & settings.keys()}
    penalty = {name: settings.pop(name) for name in PENALTY & settings.keys()}
    if "weights" in settings:
        weights = settings.pop("weights")
        data = ebm.Ensemble.from_data(data, space=model.space, sample_weight=weights)
    if "average" in settings:
        settings["loss"] = ebm.Likelihood(settings.pop("average"))
    if steps:
        settings["solver"] = ebm.GradientSteps(**steps)
    if penalty:
        settings["penalty"] = ebm.Penalty(**penalty)
    return ebm.fit(model, data, **settings)
