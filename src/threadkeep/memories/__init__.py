"""Memories: short statements about an owner, each with its source and the time when it is true.

`models` holds the values and the rules by which they change, `codec` their stored form, `reader` and `repository` read
and write them, `audited_writer` commits every change with an audit entry, `maintenance` merges, undoes and explains,
`retention` archives, and `service` is ``tk.memories``.
"""
