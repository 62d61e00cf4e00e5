"""Family ``spatial_transform``."""
