"""Family ``binary``."""
