"""Operators of family ``pooling``."""
