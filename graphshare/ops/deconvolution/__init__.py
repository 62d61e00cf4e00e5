"""Operators of family ``deconvolution``."""
