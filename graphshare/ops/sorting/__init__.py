"""Family ``sorting``."""
