"""Read and write files of any content: paths, URLs, sources of bytes, and atomic outputs."""
