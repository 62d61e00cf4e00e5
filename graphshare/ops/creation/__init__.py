"""Operators of family ``creation``."""
