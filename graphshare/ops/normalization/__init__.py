"""Operators of family ``normalization``."""
