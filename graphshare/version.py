"""The version of this package, which files that it writes can state."""

__version__ = "0.1.0"
