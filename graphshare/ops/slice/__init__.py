"""Family ``slice``."""
