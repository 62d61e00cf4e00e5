"""Family ``image``."""
