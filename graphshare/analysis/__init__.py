"""Facts about a graph: roles, name lists, implied states, shapes, dtypes, batch axis, cost."""
