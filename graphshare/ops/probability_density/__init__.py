"""Operators of family ``probability_density``."""
