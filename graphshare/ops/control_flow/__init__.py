"""Operators of family ``control_flow``."""
