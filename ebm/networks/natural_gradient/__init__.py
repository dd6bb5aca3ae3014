"""Gradient descent by relative Fisher information, layer by layer."""
