"""Family ``random``."""
