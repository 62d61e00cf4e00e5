"""Parameter files, one file per format."""
