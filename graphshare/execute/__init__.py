"""Running a graph: shapes and types of everything, a plan made once, and an interpreter."""
