"""The proof that branches compute the same: structure, parameters, values."""
