"""Arrays of parameter files measured piece by piece: statistics of one, differences of two. Memory stays flat at any size."""
