"""Images as values of inputs: read by Pillow (the extra ``images``) and prepared for a network."""
