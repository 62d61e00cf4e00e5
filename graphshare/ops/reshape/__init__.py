"""Operators of family ``reshape``."""
