"""Operators of family ``spatial_transform``."""
