"""Family ``unary``."""
