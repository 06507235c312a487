"""Shared scopes: memory of a team or an agent, with members, roles and reviewed contributions.

A scope is an :class:`~threadkeep.identity.Owner` of another kind than ``user``, so it has a partition, proposals and an
audit as any owner. `models` holds the values and what erasing a member removes, `repository` reads and writes scopes
and their members, and `service` is ``tk.scopes``.
"""
