"""Operators of family ``detection``."""
