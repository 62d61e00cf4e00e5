"""Operators of family ``unary``."""
