"""The proof that branches or files compute the same."""
