"""Differences of two graphs; the entry is ``diff.diff``."""
