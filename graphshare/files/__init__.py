"""Reading and writing files whatever is in them: paths and URLs, sources of bytes, outputs that appear whole or not at all."""
