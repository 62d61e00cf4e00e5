"""One file per operation: where files, graphs and parameters meet."""
