"""Family ``quantization``."""
