"""Operators of family ``slice``."""
