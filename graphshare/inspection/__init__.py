"""What a graph or a parameter file contains, as plain data."""
