"""Several graphs in one: what is connected and tied, the joining, and its proof."""
