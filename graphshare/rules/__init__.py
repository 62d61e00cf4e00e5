"""What names, roles and rules mean: MXNet's name lists, variables and their roles, patterns, and every system of sharing."""
