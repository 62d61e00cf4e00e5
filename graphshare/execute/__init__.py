"""Running a graph: shapes and types, a plan made once, and an interpreter."""
