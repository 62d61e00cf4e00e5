"""Family ``matmul``."""
