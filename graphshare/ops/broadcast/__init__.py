"""Operators of family ``broadcast``."""
