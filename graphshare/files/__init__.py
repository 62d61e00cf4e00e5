"""Reading and writing files of any content: paths and URLs, sources of bytes, outputs that appear
whole or not at all.
"""
