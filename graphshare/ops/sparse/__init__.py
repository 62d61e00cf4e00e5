"""Family ``sparse``."""
