"""Operators of family ``sequence``."""
