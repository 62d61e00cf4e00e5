"""Training as in MXNet's Module: the backward pass, updates, and steps over batches."""
