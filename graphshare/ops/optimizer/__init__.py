"""Operators of family ``optimizer``."""
