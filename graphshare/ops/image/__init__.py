"""Operators of family ``image``."""
