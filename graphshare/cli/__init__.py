"""The command line: parse, call one workflow, report."""
