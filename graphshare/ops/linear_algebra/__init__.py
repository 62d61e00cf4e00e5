"""Family ``linear_algebra``."""
