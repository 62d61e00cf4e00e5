"""Names, patterns and suggestions."""
