"""Fits whose settings of gradient steps are written beside the others."""

from dataclasses import fields

import ebm

STEPS = frozenset(field.name for field in fields(ebm.GradientSteps))


def fit(model, data, **settings):
    """``ebm.fit`` with those settings of steps gathered; with none of them there are no steps."""
    steps = {name: settings.pop(name) for name in STEPS & settings.keys()}
    if steps:
        settings["steps"] = ebm.GradientSteps(**steps)
    return ebm.fit(model, data, **settings)
