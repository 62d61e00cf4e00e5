"""Operators of family ``concat``."""
