"""Documents: files of eight kinds as texts with headings and pages.

`extraction` is the program of the child process that parses one file; `reader` starts it with bounded memory and time,
and splits what it returns into chunks that are searched and cited.
"""
