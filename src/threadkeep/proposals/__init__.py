"""Proposals: changes to memory that wait for a decision, and statements that must not be learnt again.

`models` holds the values and their stored form, `repository` reads, creates and decides proposals, `policies` has the
policy of an owner and the tombstones of rejected and forgotten statements, and `service` is ``tk.proposals``.
"""
