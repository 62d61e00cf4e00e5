"""What operators compute: shape and type inference and the forward pass, by family, in numpy alone."""
