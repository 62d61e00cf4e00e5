"""What a graph needs before it computes: the part that is asked for, its shapes, and a value for each variable."""
