"""Operators of family ``numpy_shape``."""
