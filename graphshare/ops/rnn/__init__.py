"""Operators of family ``rnn``."""
