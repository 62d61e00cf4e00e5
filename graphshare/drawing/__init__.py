"""Drawings of graphs: Graphviz, Mermaid or SVG text. The entry is ``draw.draw``."""
