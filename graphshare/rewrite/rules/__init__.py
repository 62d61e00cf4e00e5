"""Sharing rules: scopes, aliases, overrides; how they are read, chosen and resolved."""
