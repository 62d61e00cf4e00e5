"""Family ``statistics``."""
