"""Family ``activation``."""
