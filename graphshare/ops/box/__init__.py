"""Operators of family ``box``."""
