"""Family ``indexing``."""
