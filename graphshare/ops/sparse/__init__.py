"""Operators of family ``sparse``."""
