"""Family ``optimizer``."""
