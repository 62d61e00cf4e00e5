"""Family ``concat``."""
