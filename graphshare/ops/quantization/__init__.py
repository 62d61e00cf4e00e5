"""Operators of family ``quantization``."""
