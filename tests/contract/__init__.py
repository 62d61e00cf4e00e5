"""What a model format has to bring: a third one goes through every function and command."""
