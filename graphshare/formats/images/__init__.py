"""Images as values of inputs: read by Pillow (the extra ``images``) and prepared as a network needs them."""
