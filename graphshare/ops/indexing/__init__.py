"""Operators of family ``indexing``."""
