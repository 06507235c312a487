"""The command line: an interface of the library, kept quick to start.

Nothing heavy is imported before a command runs: ``threadkeep --help`` answers at once.
"""
