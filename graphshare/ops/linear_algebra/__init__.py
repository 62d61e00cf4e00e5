"""Operators of family ``linear_algebra``."""
