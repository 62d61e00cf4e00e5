"""Operators of family ``cast``."""
