"""The functions of the library: every public function is here, in the module named after it or
after its command.

Only ``load``, ``save`` and ``overwriting`` are lower, in ``checkpoint`` and ``files``, because lower
layers use them. Public classes and errors are where they are defined. Import all of them from
:mod:`graphshare` itself.
"""
