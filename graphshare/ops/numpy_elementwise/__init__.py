"""Operators of family ``numpy_elementwise``."""
