"""Reports of findings in formats for people and CI systems: plain data in, text out."""
