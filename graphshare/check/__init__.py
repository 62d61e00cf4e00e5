"""Rules that a graph and its parameter file are held against, one module per rule; each carries its examples."""
