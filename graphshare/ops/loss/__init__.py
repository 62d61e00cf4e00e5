"""Operators of family ``loss``."""
