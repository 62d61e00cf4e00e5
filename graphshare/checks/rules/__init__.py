"""One file per check code."""
