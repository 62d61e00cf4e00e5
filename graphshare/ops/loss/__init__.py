"""Family ``loss``."""
