"""Files at URLs, by fsspec. Nothing here is imported before a URL is given."""
