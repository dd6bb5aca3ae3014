"""Models as a user would write them, in as few members as each capability takes."""

import numpy as np

import ebm


class TwoMembers(ebm.EnergyModel):
    """Any model with everything but ``space`` and ``energy`` taken away."""

    def __init__(self, model):
        self.space, self._model = model.space, model

    def energy(self, states):
        return self._model.energy(states)


class HardCore(ebm.EnergyModel):
    """Particles on a chain: no two neighbors both present, each other site with its own pull."""

    def __init__(self, pulls):
        self.pulls = np.asarray(pulls, dtype=float)
        self.space = ebm.Binary(len(self.pulls))

    def energy(self, states):
        x = np.asarray(states)
        blocked = (x[..., 1:] * x[..., :-1]).any(axis=-1)
        return np.where(blocked, np.inf, -(x @ self.pulls))


class CoupledLevels(ebm.EnergyModel):
    """Units of q levels, E = −½ fAf − v·f over one-hot features f: three members are enough."""

    def __init__(self, matrix, vector, q, constant=0.0):
        self.matrix = (np.asarray(matrix) + np.transpose(matrix)) / 2
        self.vector, self.constant = np.asarray(vector), constant
        self.space = ebm.Levels(len(self.vector) // q, q)

    def energy(self, states):
        f = self.space.features(states)
        return -0.5 * ((f @ self.matrix) * f).sum(axis=-1) - f @ self.vector + self.constant

    def quadratic_form(self):
        return self.matrix, self.vector, self.constant
