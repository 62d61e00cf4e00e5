"""The command line: parse options, call one function of the API, report."""
