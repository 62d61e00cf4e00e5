"""Operators of family ``foreign``."""
