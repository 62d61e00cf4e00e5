"""Family ``pooling``."""
