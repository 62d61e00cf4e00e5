"""Operators of family ``activation``."""
