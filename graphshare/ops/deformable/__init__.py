"""Family ``deformable``."""
