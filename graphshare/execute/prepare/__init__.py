"""Preparation of a run: the part of a graph that is needed, its shapes, and a value for each variable."""
