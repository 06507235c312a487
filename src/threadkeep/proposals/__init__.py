"""Proposals: changes to memory that wait for a decision, and statements that must not be learnt again.

`models` holds the values, `policy` decides which statements need an approval, `codec` is their stored form, `reader`
and `repository` read and write them, `tombstones` recognize rejected and forgotten statements, and `service` is
``tk.proposals``.
"""
