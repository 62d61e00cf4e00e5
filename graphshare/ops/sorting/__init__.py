"""Operators of family ``sorting``."""
