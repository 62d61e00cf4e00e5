"""The graph: frozen nodes with identity, walks and validation. Knows no files and no operators."""
