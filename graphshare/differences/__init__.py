"""Differences of two graphs: the counterpart of each node, and what changed; ``diff.diff`` is the entry."""
