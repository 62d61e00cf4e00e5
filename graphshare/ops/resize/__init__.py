"""Operators of family ``resize``."""
