"""Graph in, rewrite out. No transform edits its input, and none knows files."""
