"""Family ``resize``."""
