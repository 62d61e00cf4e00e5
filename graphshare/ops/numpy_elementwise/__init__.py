"""Family ``numpy_elementwise``."""
