"""Operators of family ``deformable``."""
