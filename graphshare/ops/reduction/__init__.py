"""Operators of family ``reduction``."""
