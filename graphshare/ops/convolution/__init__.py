"""Operators of family ``convolution``."""
