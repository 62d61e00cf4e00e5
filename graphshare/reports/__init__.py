"""Reports of findings for people and CI systems."""
