"""Commands, one module each.

A module has `run(options)`, which returns the exit code, and what no other command needs.
`cli/parser.py` declares its arguments.
"""
