"""Rewrites: a model in, a model out."""
