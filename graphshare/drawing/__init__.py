"""Pictures of graphs as text."""
