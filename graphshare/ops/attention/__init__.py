"""Operators of family ``attention``."""
