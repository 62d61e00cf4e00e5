"""Two graphs held against each other: which node became which, and what differs."""
