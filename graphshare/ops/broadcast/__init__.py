"""Family ``broadcast``."""
