"""Family ``normalization``."""
