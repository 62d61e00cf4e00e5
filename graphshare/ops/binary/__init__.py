"""Operators of family ``binary``."""
