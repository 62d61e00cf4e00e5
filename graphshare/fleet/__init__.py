"""A command over many models: list them, run it in worker processes or on a cluster, keep a
manifest.
"""
