"""Operators of family ``numpy_concat``."""
