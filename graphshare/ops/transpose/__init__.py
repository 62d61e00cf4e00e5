"""Operators of family ``transpose``."""
