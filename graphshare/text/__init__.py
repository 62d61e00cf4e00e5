"""Text: record keys and suggestions, patterns over names, and formatting of values for messages."""
