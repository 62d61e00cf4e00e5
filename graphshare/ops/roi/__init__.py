"""Operators of family ``roi``."""
