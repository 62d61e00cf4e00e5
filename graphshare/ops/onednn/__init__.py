"""Operators of family ``onednn``."""
