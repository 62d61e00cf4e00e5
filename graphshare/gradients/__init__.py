"""Gradients of operators, by family, beside the kernels: attributes, arrays and the gradients of outputs in, of inputs out."""
