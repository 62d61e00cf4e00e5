"""Family ``foreign``."""
