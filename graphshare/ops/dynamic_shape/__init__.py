"""Operators of family ``dynamic_shape``."""
