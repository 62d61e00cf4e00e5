"""MXNet's symbol JSON of every generation."""
