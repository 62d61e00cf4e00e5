"""Operators of family ``batch_norm``."""
