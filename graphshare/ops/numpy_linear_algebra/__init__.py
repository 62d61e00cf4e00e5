"""Operators of family ``numpy_linear_algebra``."""
