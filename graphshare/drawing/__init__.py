"""Drawings of graphs; the entry is ``draw.draw``."""
