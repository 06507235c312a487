"""Collections: documents that a tenant shares, in parts that are found like memories are.

A collection is a partition of its own. Nothing is learnt from its documents, and they never become an owner's memory.
"""
