"""Operators of family ``matmul``."""
