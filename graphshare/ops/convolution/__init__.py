"""Family ``convolution``."""
