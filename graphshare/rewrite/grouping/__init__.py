"""Several graphs in one: connections and ties, the join, and its proof."""
