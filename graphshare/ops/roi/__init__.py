"""Family ``roi``."""
