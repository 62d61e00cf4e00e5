"""Family ``cast``."""
