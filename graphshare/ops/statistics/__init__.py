"""Operators of family ``statistics``."""
