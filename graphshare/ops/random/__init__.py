"""Operators of family ``random``."""
