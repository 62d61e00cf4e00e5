"""Training as MXNet's Module does it: the backward pass, updates, and steps over batches."""
