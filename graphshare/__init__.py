"""graphshare: share parameters inside serialized MXNet/NNVM graphs, and prove that the result computes what it should."""

__version__ = "0.1.0"
