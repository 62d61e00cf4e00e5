"""Formats of models, parameters and images."""
