"""Family ``creation``."""
