"""Family ``rnn``."""
