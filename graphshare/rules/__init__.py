"""Which names and roles a plan speaks of."""
