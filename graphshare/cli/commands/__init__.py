"""One file per command: parse the options, call one function of the library, report.

A command is a module of the same name with ``command`` and ``EXAMPLES``, and a line in
:data:`graphshare.cli.main.COMMANDS`.
"""
