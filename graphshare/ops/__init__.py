"""MXNet's operators, one folder per family; :mod:`graphshare.ops.registry` finds them by name.

Source of all tables: the registry of MXNet 1.9.1 (CPU build with oneDNN), as its own parser and
loader show it.
"""
