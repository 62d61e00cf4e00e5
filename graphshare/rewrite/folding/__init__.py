"""BatchNorm folded into the weights of the layer before it, in a graph with its parameters."""
