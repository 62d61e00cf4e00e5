"""The functions of the library, one file per command or family of commands.

Import them from :mod:`graphshare` itself.
"""
