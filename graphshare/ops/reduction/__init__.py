"""Family ``reduction``."""
