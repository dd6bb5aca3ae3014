"""Compiled kernels: arrays in, arrays changed in place; no checks and no Python objects.

Imported on first use. Every kernel runs without the GIL, so that threads can share the work.
"""
