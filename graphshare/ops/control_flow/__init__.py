"""Family ``control_flow``."""
