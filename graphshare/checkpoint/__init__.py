"""Load and save a model: a graph with its parameters and map file."""
