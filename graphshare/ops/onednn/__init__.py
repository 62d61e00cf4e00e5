"""Family ``onednn``."""
