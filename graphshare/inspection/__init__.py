"""The contents of graphs and parameter files as plain data."""
