"""Preparation of a run: the needed part of a graph, its shapes, and a value for each variable."""
