"""The version of this package. Files that it writes may record it."""

__version__ = "0.1.0"
