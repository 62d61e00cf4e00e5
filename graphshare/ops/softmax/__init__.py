"""Operators of family ``softmax``."""
