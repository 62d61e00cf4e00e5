"""Proofs that branches or models compute the same."""
