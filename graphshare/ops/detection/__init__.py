"""Family ``detection``."""
