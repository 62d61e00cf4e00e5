"""What names and roles mean: MXNet's name lists, which variable is an input, which node a pattern or target speaks of."""
